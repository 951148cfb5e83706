//! Whose clock stamps messages.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Who stamps messages on sending and receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamps {
    /// The kernel, by CLOCK_REALTIME.
    #[default]
    Software,
    /// The interface, by its own clock (PHC): the offset that a client finds is that of the two interfaces' clocks.
    /// Untested: this project has no such interface.
    Hardware,
}

impl FromStr for Stamps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "software" => Ok(Self::Software),
            "hardware" => Ok(Self::Hardware),
            _ => Err(format!("{text:?} stamps nothing; write software or hardware")),
        }
    }
}
