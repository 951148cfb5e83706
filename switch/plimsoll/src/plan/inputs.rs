//! Paths to plan for: laws written on the command line, or a recording.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, Result};
use plimsoll_model::{Law, Pair, Recording};

use super::usage;
use crate::Usage;

/// A pair with what it is called.
pub(super) struct Named {
    pub(super) name: String,
    /// Hops forward and back, where they have names.
    pub(super) hops: [Vec<String>; 2],
    pub(super) pair: Pair,
}

/// Laws of one option's value; files are read relative to the working directory.
pub(super) fn laws(text: &str) -> Result<Vec<Law>> {
    let mut read = |name: &str| std::fs::read_to_string(name).map_err(|e| e.to_string());
    Law::parse_list(text, &mut read).map_err(usage)
}

/// The i-th --forward with the i-th --reverse; a path not given has no queues.
pub(super) fn pairs(forward: &[String], reverse: &[String]) -> Result<Vec<Named>> {
    if reverse.len() > forward.len() {
        let message = format!(
            "{} --reverse for {} --forward: give one --forward for each pair (\"\" has no queues)",
            reverse.len(),
            forward.len()
        );
        return Err(Usage(message).into());
    }
    let reverse = reverse.iter().map(String::as_str).chain(std::iter::repeat(""));
    let pair = |(i, (forward, reverse)): (usize, (&String, &str))| {
        let pair = Pair { forward: laws(forward)?, reverse: laws(reverse)? };
        Ok(Named { name: format!("pair {}", i + 1), hops: [vec![], vec![]], pair })
    };
    forward.iter().zip(reverse).enumerate().map(pair).collect()
}

/// All pairs of clocks in a recording.
pub(super) fn recorded(path: &Path) -> Result<Vec<Named>> {
    let place = || format!("recording {}", path.display());
    let open =
        File::open(path).map_err(|e| Usage(format!("{}: {e}; name a file that you may read", place())))?;
    let mut lines = BufReader::new(open).lines();
    let header = lines.next().transpose().with_context(place)?.unwrap_or_default();
    let mut recording = Recording::new(&header).map_err(usage).with_context(place)?;
    for line in lines {
        recording.push(&line.with_context(place)?).map_err(usage).with_context(place)?;
    }
    let pairs = recording.pairs().map_err(usage).with_context(place)?;
    let named = |found: plimsoll_model::RecordedPair| Named {
        name: format!("{} to {}", found.client, found.server),
        hops: found.hops,
        pair: found.pair,
    };
    Ok(pairs.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reverse_path_that_is_not_given_has_no_queues() {
        let texts = |texts: &[&str]| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>();
        let found = pairs(&texts(&["exp(7us),exp(8us)", "exp(1us)"]), &texts(&["exp(9us,p=0.5)"])).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].pair.forward.len(), found[0].pair.reverse.len()), (2, 1));
        assert_eq!((found[1].pair.forward.len(), found[1].pair.reverse.len()), (1, 0));
        let error = pairs(&texts(&["exp(1us)"]), &texts(&["", ""])).err().unwrap();
        assert!(error.is::<Usage>() && error.to_string().contains("2 --reverse for 1 --forward"));
        assert!(laws("exp(1us").unwrap_err().is::<Usage>());
    }
}
