//! Texts that people write or record, read whole: a file or a pipe with an end, not `/dev/zero`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A text that was not read.
#[derive(Debug, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct TextError {
    /// Why.
    pub problem: String,
    /// What to do.
    pub remedy: &'static str,
    /// Whether there is nothing at the path.
    pub absent: bool,
}

impl TextError {
    fn new(problem: String) -> Self {
        Self { problem, remedy: "name a text file", absent: false }
    }
}

impl From<io::Error> for TextError {
    fn from(e: io::Error) -> Self {
        Self {
            problem: format!("cannot be read: {e}"),
            remedy: "name a file that exists and may be read",
            absent: e.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// The text of a file or pipe (`/dev/stdin` too), where it has no more than `most` octets.
///
/// # Errors
/// [`TextError`]: it cannot be read, is longer, or no UTF-8. Nothing longer than `most` is ever held.
pub fn read(path: &Path, most: u64) -> Result<String, TextError> {
    let mut octets = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        return Err(TextError::new(format!("is longer than {} kB", most / 1000)));
    }
    String::from_utf8(octets).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.split(|octet| *octet == b'\n').count();
        TextError::new(format!("is no UTF-8 text in line {line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_no_letters_is_refused() {
        let told = |path: &str, most| read(Path::new(path), most).unwrap_err().to_string();
        assert_eq!(told("/dev/zero", 2000), "is longer than 2 kB; name a text file");
        assert!(told("/no/such", 10).starts_with("cannot be read: No such file"));
        let path = std::env::temp_dir().join(format!("plimsoll-text-{}", std::process::id()));
        std::fs::write(&path, b"one\ntwo\n\xff").unwrap();
        assert_eq!(told(path.to_str().unwrap(), 10), "is no UTF-8 text in line 3; name a text file");
        std::fs::write(&path, "exactly").unwrap();
        assert_eq!(read(&path, 7).unwrap(), "exactly");
        assert!(read(&path, 6).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
