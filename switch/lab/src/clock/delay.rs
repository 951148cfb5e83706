//! How the delay of the path is measured.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How the delay of the path is measured (IEEE 1588-2019 clause 11.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelayMechanism {
    /// End to end, by Delay_Req to the server.
    #[default]
    E2e,
    /// Peer to peer, by Pdelay_Req to whoever is at the other end: over Ethernet to 01-80-C2-00-00-0E, which the ports
    /// between must pass, over UDP to 224.0.0.107 or ff02::6b.
    P2p,
}

impl DelayMechanism {
    /// Its name in files, as linuxptp's `delay_mechanism` in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::E2e => "e2e",
            Self::P2p => "p2p",
        }
    }
}

impl fmt::Display for DelayMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DelayMechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::E2e, Self::P2p]
            .into_iter()
            .find(|mechanism| mechanism.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("{text:?} is no delay mechanism; write e2e or p2p"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_reads_its_own_name_and_refuses_others_with_the_remedy() {
        assert_eq!("P2P".parse(), Ok(DelayMechanism::P2p));
        assert_eq!("e2e".parse(), Ok(DelayMechanism::E2e));
        let error = "auto".parse::<DelayMechanism>();
        assert_eq!(error, Err("\"auto\" is no delay mechanism; write e2e or p2p".into()));
    }
}
