//! What a switch recorded of the time messages that left it: what a clock's own figures are judged against.

use plimsoll_lab::clock::PortIdentity;
use std::collections::HashMap;
use std::path::Path;

/// messageType of a Sync.
pub const SYNC: u8 = 0;
/// messageType of a Delay_Req.
pub const DELAY_REQ: u8 = 1;

/// What one PTP event message met at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// From its arrival to when it was released, in nanoseconds: all of its way but the links.
    pub inside_ns: u64,
    /// Marks that it was given.
    pub marks: u32,
}

/// PTP event messages that left a switch: egress port, messageType, source, sequenceId. Of a number that came twice it
/// has the last one.
#[derive(Debug)]
pub struct Truth(HashMap<(String, u8, [u8; 10], u16), Met>);

impl Truth {
    /// From a switch's `--record` file (CSV).
    ///
    /// # Panics
    /// When it is no such file.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let names: Vec<_> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| names.iter().position(|found| *found == name).unwrap();
        let at = ["egress", "message_type", "source_port", "sequence_id", "stamp_ns", "release_ns", "r"]
            .map(column);
        let mut met = HashMap::new();
        for line in lines {
            let values: Vec<_> = line.split(',').collect();
            let [egress, kind, source, sequence, stamp, released, marks] = at.map(|at| values[at]);
            // NTP messages and the load have no messageType; of what was dropped there is no release.
            let (Ok(kind), Ok(released)) = (kind.parse(), released.parse::<u64>()) else { continue };
            let inside_ns = released - stamp.parse::<u64>().unwrap();
            let key = (egress.to_owned(), kind, octets(source), sequence.parse().unwrap());
            met.insert(key, Met { inside_ns, marks: marks.parse().unwrap() });
        }
        Self(met)
    }

    /// What a message met at the port that it left by.
    pub fn of(&self, egress: &str, kind: u8, source: PortIdentity, sequence: u16) -> Option<Met> {
        self.0.get(&(egress.to_owned(), kind, source.0, sequence)).copied()
    }
}

/// A port identity in hexadecimal.
fn octets(hex: &str) -> [u8; 10] {
    let octet = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(octet)
}
