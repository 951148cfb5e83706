//! Paths through a running switch: laws are the histograms of what messages of clocks found at its ports.

use anyhow::Result;
use plimsoll_model::{Bin, Law, Pair, Paths};
use serde_json::Value;

use super::{inputs::Named, usage};
use crate::{
    Usage,
    control::{Request, ask},
    show::list,
};

/// A port of a running switch.
struct Port<'a> {
    switch: &'a str,
    name: &'a str,
    rate_bps: Option<u64>,
    buckets: Vec<[u64; 3]>,
}

impl Port<'_> {
    fn full_name(&self) -> String {
        format!("{}/{}", self.switch, self.name)
    }

    fn messages(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, [_, _, count]| sum.saturating_add(*count))
    }

    /// Octets ahead as time on the link. Depths are rounded up to whole octets, so that a bucket holds those above the
    /// largest octet of the one before.
    ///
    /// `None` of a port without a rate: nothing waits for its link.
    fn law(&self) -> Result<Option<Law>> {
        let place = self.full_name();
        let Some(rate) = self.rate_bps else { return Ok(None) };
        if self.messages() == 0 {
            let message = format!(
                "no message of a clock has left by port {place} yet; start one behind it, and plan when it has run a while"
            );
            return Err(Usage(message).into());
        }
        let ns = |octets: u64| octets as f64 * 8e9 / rate as f64;
        let bin = |&[from, to, count]: &[u64; 3]| Bin {
            from_ns: if from == 0 { 0.0 } else { ns(from - 1) },
            to_ns: ns(to),
            count,
        };
        let bins: Vec<Bin> = self.buckets.iter().map(bin).collect();
        Law::histogram(&bins).map(Some).map_err(usage)
    }
}

/// The pairs of a switch called `name`, or of the only one: by the ports that requests (`forward`) and responses leave
/// by, as `PORT,..` or `SWITCH/PORT,..`; `""` has no queues. Without any: the clocks of a lab, or the two ports that
/// messages leave by.
pub(super) fn running(name: Option<&str>, forward: &[String], reverse: &[String]) -> Result<Vec<Named>> {
    let snapshot = ask(name, Request::Snapshot)?;
    pairs(&snapshot, forward, reverse)
}

fn pairs(snapshot: &Value, forward: &[String], reverse: &[String]) -> Result<Vec<Named>> {
    let ports = ports(snapshot);
    if forward.is_empty() && reverse.is_empty() {
        return by_itself(snapshot, &ports);
    }
    if forward.len() != reverse.len() {
        let message = format!(
            "{} --forward and {} --reverse: name the ports of both directions of each pair (\"\" has no queues)",
            forward.len(),
            reverse.len()
        );
        return Err(Usage(message).into());
    }
    let split = |text: &String| match text.trim() {
        "" => vec![],
        text => text.split(',').map(|port| port.trim().to_owned()).collect::<Vec<_>>(),
    };
    let pair = |(i, (forward, reverse)): (usize, (&String, &String))| {
        pair(&ports, format!("pair {}", i + 1), [&split(forward), &split(reverse)])
    };
    forward.iter().zip(reverse).enumerate().map(pair).collect()
}

/// The pairs that nobody has to name.
fn by_itself(snapshot: &Value, ports: &[Port<'_>]) -> Result<Vec<Named>> {
    let names = |value: &Value| -> Vec<String> {
        list(value).filter_map(|port| port.as_str().map(str::to_owned)).collect()
    };
    let of_clock = |clock: &Value| {
        let name = clock["name"].as_str().unwrap_or_default().to_owned();
        pair(ports, name, [&names(&clock["forward"]), &names(&clock["reverse"])])
    };
    let clocks = list(&snapshot["clocks"]).map(of_clock).collect::<Result<Vec<_>>>()?;
    if !clocks.is_empty() {
        return Ok(clocks);
    }
    let used: Vec<&Port<'_>> = ports.iter().filter(|port| port.messages() > 0).collect();
    match used.as_slice() {
        [] => {
            let message = "no message of a clock has passed this switch yet; start a clock, and plan when it has run a while";
            Err(Usage(message.into()).into())
        }
        [one, other] => {
            let name = format!("{} to {}", one.name, other.name);
            Ok(vec![pair(ports, name, [&[other.full_name()], &[one.full_name()]])?])
        }
        several => {
            let names: Vec<_> = several.iter().map(|port| port.full_name()).collect();
            let message = format!(
                "messages of clocks leave by {}: name the ports of a pair with --forward and --reverse",
                names.join(", ")
            );
            Err(Usage(message).into())
        }
    }
}

fn pair(ports: &[Port<'_>], name: String, ways: [&[String]; 2]) -> Result<Named> {
    let (mut hops, mut laws, mut samples) = ([vec![], vec![]], [vec![], vec![]], u64::MAX);
    for (i, way) in ways.into_iter().enumerate() {
        for wanted in way {
            let port = find(ports, wanted)?;
            if let Some(law) = port.law()? {
                samples = samples.min(port.messages());
                laws[i].push(law);
                hops[i].push(port.full_name());
            }
        }
    }
    if samples == u64::MAX {
        let message =
            format!("{name}: no port on the way has a rate, so that nothing waits; give a link a rate");
        return Err(Usage(message).into());
    }
    let [forward, reverse] = laws;
    let paths = Paths::Laws(Pair { forward, reverse });
    Ok(Named { name, protocol: None, hops, samples: Some(samples), paths })
}

fn find<'a, 'b>(ports: &'a [Port<'b>], wanted: &str) -> Result<&'a Port<'b>> {
    let found: Vec<_> = ports.iter().filter(|p| p.name == wanted || p.full_name() == wanted).collect();
    let listed = |ports: &[&Port<'_>]| ports.iter().map(|p| p.full_name()).collect::<Vec<_>>().join(", ");
    let message = match found.as_slice() {
        [port] => return Ok(port),
        [] => format!("there is no port {wanted:?}; there are {}", listed(&ports.iter().collect::<Vec<_>>())),
        several => format!("several ports are called {wanted:?}; name one of {}", listed(several)),
    };
    Err(Usage(message).into())
}

fn ports(snapshot: &Value) -> Vec<Port<'_>> {
    let mut ports = vec![];
    for switch in list(&snapshot["switches"]) {
        for (machine, core) in list(&switch["ports"]).zip(list(&switch["stats"]["ports"])) {
            let bucket = |bucket: &Value| [0, 1, 2].map(|i| bucket[i].as_u64().unwrap_or(0));
            ports.push(Port {
                switch: switch["name"].as_str().unwrap_or_default(),
                name: machine["name"].as_str().unwrap_or_default(),
                rate_bps: machine["rate_bps"].as_u64(),
                buckets: list(&core["sync_depth_bytes"]).map(bucket).collect(),
            });
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn snapshot(ports: &[(&str, Value, Value)]) -> Value {
        let machine: Vec<_> =
            ports.iter().map(|(name, rate, _)| json!({ "name": name, "rate_bps": rate })).collect();
        let core: Vec<_> =
            ports.iter().map(|(_, _, buckets)| json!({ "sync_depth_bytes": buckets })).collect();
        json!({ "switches": [{ "name": "s1", "ports": machine, "stats": { "ports": core } }] })
    }

    fn two() -> Value {
        let gbit = json!(1_000_000_000);
        snapshot(&[
            ("a", gbit.clone(), json!([[0, 0, 3], [1536, 1567, 1]])),
            ("b", gbit.clone(), json!([[0, 0, 5], [7, 7, 5]])),
            ("c", gbit, json!([])),
            ("d", Value::Null, json!([[0, 0, 5]])),
        ])
    }

    #[test]
    fn octets_become_time_on_the_link() {
        let found = pairs(&two(), &["b".into()], &["s1/a".into()]).unwrap().remove(0);
        assert_eq!((found.hops[0].as_slice(), found.samples), (&["s1/b".to_owned()][..], Some(4)));
        let Paths::Laws(pair) = found.paths else { panic!() };
        let bins = |law: &Law| match law {
            Law::Histogram(histogram) => {
                histogram.bins().iter().map(|b| (b.from_ns, b.to_ns, b.count)).collect::<Vec<_>>()
            }
            _ => panic!(),
        };
        assert_eq!(bins(&pair.reverse[0]), [(0.0, 0.0, 3), (1535.0 * 8.0, 1567.0 * 8.0, 1)]);
        assert_eq!(bins(&pair.forward[0]), [(0.0, 0.0, 5), (48.0, 56.0, 5)]);
    }

    #[test]
    fn a_port_without_a_rate_and_a_way_that_is_left_out_have_no_queues() {
        for way in ["d", "", " "] {
            let found = pairs(&two(), &["a".into()], &[way.into()]).unwrap().remove(0);
            assert_eq!((found.hops[1].as_slice(), found.samples), (&[][..], Some(4)));
            let Paths::Laws(pair) = found.paths else { panic!() };
            assert_eq!((pair.forward.len(), pair.reverse.len()), (1, 0));
        }
        let mut clock = two();
        clock["clocks"] = json!([{ "name": "ptp", "forward": ["s1/a"], "reverse": ["s1/d"] }]);
        assert!(pairs(&clock, &[], &[]).is_ok());
    }

    #[test]
    fn pairs_that_nobody_has_to_name() {
        let mut both = two();
        both["switches"][0]["stats"]["ports"][3]["sync_depth_bytes"] = json!([]);
        let found = pairs(&both, &[], &[]).unwrap().remove(0);
        assert_eq!((found.name.as_str(), found.hops[1].as_slice()), ("a to b", &["s1/a".to_owned()][..]));
        both["clocks"] = json!([{ "name": "ptp", "forward": ["s1/a"], "reverse": ["s1/b"] }]);
        let found = pairs(&both, &[], &[]).unwrap().remove(0);
        assert_eq!((found.name.as_str(), found.hops[0].as_slice()), ("ptp", &["s1/a".to_owned()][..]));
    }

    #[test]
    fn what_cannot_be_planned_for_is_named() {
        let said = |snapshot: &Value, forward: &[&str], reverse: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let error = pairs(snapshot, &owned(forward), &owned(reverse)).err().unwrap();
            assert!(error.is::<Usage>());
            error.to_string()
        };
        for way in ["d", ""] {
            assert!(said(&two(), &["d"], &[way]).contains("pair 1: no port on the way has a rate"));
        }
        assert!(said(&two(), &["a"], &["c"]).contains("no message of a clock has left by port s1/c yet"));
        assert!(said(&two(), &["a"], &["x"]).contains("there are s1/a, s1/b, s1/c, s1/d"));
        assert!(said(&two(), &["a"], &[]).contains("1 --forward and 0 --reverse"));
        assert!(said(&two(), &[], &[]).contains("leave by s1/a, s1/b, s1/d: name the ports"));
        assert!(said(&snapshot(&[]), &[], &[]).contains("no message of a clock has passed"));
    }
}
