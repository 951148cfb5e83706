//! Which VLANs a port is in, and in what form their frames are on its link (802.1Q-2018 clauses 6.9, 8.6.2 and 8.8.9).
//!
//! A VLAN is named by its identifier, 1 to 4094, on the wire by the outer tag's; 0 stands for no VLAN: frames without a
//! tag, or with one for priority alone, at a transparent port.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ConfigError, PortConfig};

/// Largest VLAN identifier; 4095 is reserved (802.1Q-2018 Table 9-2).
pub const MAX_VID: u16 = 4094;

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Vlan {
    /// Tags pass as they are. The port is in every VLAN, whose frames have tags here; what comes without a VLAN goes to
    /// transparent ports alone.
    #[default]
    Transparent,
    /// An access port: in one VLAN, whose frames have no tag here. Frames with another VLAN's tag are dropped.
    Access {
        /// Its VLAN (PVID), 1..=4094.
        pvid: u16,
    },
    /// A trunk port: in several VLANs, whose frames have tags here, but for those of the native one. Frames of other VLANs
    /// are dropped, those without a VLAN too where there is no native one.
    Trunk {
        /// Its VLANs, at least one.
        allowed: Vec<VidRange>,
        /// The VLAN whose frames have no tag here, 1..=4094; it need not be among those allowed.
        native: Option<u16>,
    },
}

/// VLAN identifiers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VidRange {
    /// 1..=4094.
    pub first: u16,
    /// `first` or more, up to 4094.
    pub last: u16,
}

impl VidRange {
    /// One VLAN.
    pub const fn one(vid: u16) -> Self {
        Self { first: vid, last: vid }
    }
}

impl Vlan {
    /// The VLAN of a frame that comes in by the port with this identifier in its outer tag, 0 for none; `None`: the port
    /// drops it.
    pub fn receives(&self, vid: u16) -> Option<u16> {
        let vlan = match self {
            _ if vid != 0 => vid,
            Self::Transparent => 0,
            Self::Access { pvid } => *pvid,
            Self::Trunk { native, .. } => (*native)?,
        };
        self.has(vlan).then_some(vlan)
    }

    /// The identifier in the outer tag of a frame of `vlan` that leaves by the port, 0 for none; `None`: it does not leave
    /// here.
    pub fn sends(&self, vlan: u16) -> Option<u16> {
        let untagged = match self {
            Self::Transparent => false,
            Self::Access { .. } => true,
            Self::Trunk { native, .. } => *native == Some(vlan),
        };
        self.has(vlan).then_some(if untagged { 0 } else { vlan })
    }

    /// Whether the port is in this VLAN.
    pub fn has(&self, vlan: u16) -> bool {
        match self {
            Self::Transparent => true,
            Self::Access { pvid } => *pvid == vlan,
            Self::Trunk { allowed, native } => {
                *native == Some(vlan)
                    || allowed.iter().any(|range| (range.first..=range.last).contains(&vlan))
            }
        }
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transparent => f.pad("transparent"),
            Self::Access { pvid } => write!(f, "access {pvid}"),
            Self::Trunk { allowed, native } => {
                let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
                write!(f, "trunk {}", allowed.join(","))?;
                native.map_or(Ok(()), |native| write!(f, " native {native}"))
            }
        }
    }
}

impl fmt::Display for VidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl PortConfig {
    /// Identifiers are those of VLANs, and a trunk has some.
    pub(super) fn check_vlan(&self, switch: &str) -> Result<(), ConfigError> {
        let vid = |key: &'static str, vid: u16| self.range(switch, key, vid.into(), 1, MAX_VID.into());
        match &self.vlan {
            Vlan::Transparent => Ok(()),
            Vlan::Access { pvid } => vid("vlan.access", *pvid),
            Vlan::Trunk { allowed, native } => {
                if allowed.is_empty() {
                    let (problem, remedy) = ("names no VLAN", "write them, as [10, \"20-29\"]");
                    return Err(self.error(switch, "vlan.trunk", problem.into(), remedy.into()));
                }
                for range in allowed {
                    vid("vlan.trunk", range.first)?;
                    vid("vlan.trunk", range.last)?;
                    if range.first > range.last {
                        let problem = format!("names {range}, which is none");
                        let remedy = format!("write {}-{}", range.last, range.first);
                        return Err(self.error(switch, "vlan.trunk", problem, remedy));
                    }
                }
                native.map_or(Ok(()), |native| vid("vlan.native", native))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trunk(native: Option<u16>) -> Vlan {
        Vlan::Trunk { allowed: vec![VidRange::one(10), VidRange { first: 20, last: 29 }], native }
    }

    #[test]
    fn ports_take_and_give_frames_in_the_form_of_their_kind() {
        let access = Vlan::Access { pvid: 10 };
        for (vlan, vid, received) in [
            (&Vlan::Transparent, 0, Some(0)),
            (&Vlan::Transparent, 4095, Some(4095)),
            (&access, 0, Some(10)),
            (&access, 10, Some(10)),
            (&access, 11, None),
            (&trunk(None), 0, None),
            (&trunk(None), 25, Some(25)),
            (&trunk(None), 30, None),
            (&trunk(Some(5)), 0, Some(5)),
            (&trunk(Some(5)), 5, Some(5)),
        ] {
            assert_eq!(vlan.receives(vid), received, "{vlan} {vid}");
        }
        for (vlan, of, sent) in [
            (&Vlan::Transparent, 0, Some(0)),
            (&Vlan::Transparent, 10, Some(10)),
            (&access, 10, Some(0)),
            (&access, 0, None),
            (&trunk(Some(10)), 10, Some(0)),
            (&trunk(Some(10)), 20, Some(20)),
            (&trunk(Some(10)), 0, None),
            (&trunk(None), 0, None),
        ] {
            assert_eq!(vlan.sends(of), sent, "{vlan} {of}");
        }
    }

    #[test]
    fn they_are_shown_as_they_are_written() {
        let shown = [Vlan::Transparent, Vlan::Access { pvid: 10 }, trunk(None), trunk(Some(1))];
        assert_eq!(
            shown.map(|vlan| vlan.to_string()),
            ["transparent", "access 10", "trunk 10,20-29", "trunk 10,20-29 native 1"]
        );
    }
}
