//! Values that a file may write in more than one way.

use crate::clock::Transport;
use plimsoll_core::{Rate, VidRange, Vlan, wire::ethernet::Mac};
use serde::de::{self, DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// One value for both directions of a link, or one for each: `"100mbit"`, `{ to-client = "100mbit", to-s1 = "1gbit" }`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Each<T> {
    /// For both.
    Both(T),
    /// By the node that it is sent to, without `to-`.
    To(BTreeMap<String, T>),
}

impl<T: Clone> Each<T> {
    /// The value for what is sent to `node`.
    pub(super) fn to(&self, node: &str) -> Option<T> {
        match self {
            Self::Both(value) => Some(value.clone()),
            Self::To(map) => map.get(node).cloned(),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EachVisitor(PhantomData))
    }
}

struct EachVisitor<T>(PhantomData<T>);

impl<T: DeserializeOwned> EachVisitor<T> {
    fn both<'de, E: de::Error>(value: impl IntoDeserializer<'de, E>) -> Result<Each<T>, E> {
        T::deserialize(value.into_deserializer()).map(Each::Both)
    }
}

impl<'de, T: DeserializeOwned> de::Visitor<'de> for EachVisitor<T> {
    type Value = Each<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value, or { to-NODE = value, to-OTHER = value }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Self::both(text)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::both(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Self::both(number)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Self::both(number)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Self::both(value)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::deserialize(de::value::SeqAccessDeserializer::new(list)).map(Each::Both)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(node) = key.strip_prefix("to-") else {
                return Err(de::Error::custom(format!(
                    "{key:?} is no direction; write to-NODE with a node of this link"
                )));
            };
            values.insert(node.to_owned(), map.next_value()?);
        }
        Ok(Each::To(values))
    }
}

/// A link's rate, or `"none"`: as fast as the machine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkRate(pub(super) Option<Rate>);

impl<'de> Deserialize<'de> for LinkRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = LinkRate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate with its unit, as \"100mbit\", or \"none\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<LinkRate, E> {
                if text == "none" {
                    return Ok(LinkRate(None));
                }
                text.parse().map(|rate| LinkRate(Some(rate))).map_err(E::custom)
            }

            // A bare number is refused by the unit's own words.
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<LinkRate, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<LinkRate, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<LinkRate, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Last octet of a reserved group address 01-80-C2-00-00-XX, written as two hexadecimal digits: `"0e"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserved(pub(super) u8);

impl<'de> Deserialize<'de> for Reserved {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match u8::from_str_radix(&text, 16) {
            Ok(octet) if text.len() == 2 && octet < 16 => Ok(Self(octet)),
            _ => Err(de::Error::custom(format!(
                "{text:?} is no last octet of 01-80-C2-00-00-XX; write \"00\" to \"0f\", as \"0e\""
            ))),
        }
    }
}

/// A port's VLANs: `"transparent"`, `{ access = 10 }` or `{ trunk = [10, "20-29"], native = 1 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VlanText(pub(super) Vlan);

/// Its table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VlanTable {
    access: Option<u16>,
    trunk: Option<Vec<VidText>>,
    native: Option<u16>,
}

impl VlanTable {
    fn vlan<E: de::Error>(self) -> Result<Vlan, E> {
        match (self.access, self.trunk, self.native) {
            (Some(pvid), None, None) => Ok(Vlan::Access { pvid }),
            (None, Some(trunk), native) => {
                Ok(Vlan::Trunk { allowed: trunk.into_iter().map(|range| range.0).collect(), native })
            }
            (Some(_), _, Some(_)) => {
                Err(E::custom("native is a trunk's key; an access port's VLAN is untagged, leave native out"))
            }
            (Some(_), Some(_), _) => Err(E::custom("has both access and trunk; write one of them")),
            (None, None, _) => Err(E::custom("has neither access nor trunk; write trunk = [10, \"20-29\"]")),
        }
    }
}

impl<'de> Deserialize<'de> for VlanText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> de::Visitor<'de> for Text {
            type Value = VlanText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"transparent\", { access = 10 } or { trunk = [10, \"20-29\"], native = 1 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<VlanText, E> {
                if text == "transparent" {
                    return Ok(VlanText(Vlan::Transparent));
                }
                let remedy =
                    "write \"transparent\", { access = 10 } or { trunk = [10, \"20-29\"], native = 1 }";
                Err(E::custom(format!("{text:?} is no kind of port; {remedy}")))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<VlanText, A::Error> {
                VlanTable::deserialize(de::value::MapAccessDeserializer::new(map))?.vlan().map(VlanText)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// VLAN identifiers: `10`, `"20-29"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VidText(VidRange);

impl<'de> Deserialize<'de> for VidText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = VidText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a VLAN identifier as 10, or several as \"20-29\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<VidText, E> {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                match (first.trim().parse(), last.trim().parse()) {
                    (Ok(first), Ok(last)) => Ok(VidText(VidRange { first, last })),
                    _ => Err(E::custom(format!(
                        "{text:?} is no VLAN; write 1 to 4094, or several as \"20-29\""
                    ))),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<VidText, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<VidText, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// A MAC address, `"02:00:00:00:00:01"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MacText(pub(super) Mac);

impl<'de> Deserialize<'de> for MacText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

/// What carries the exchange: PTP over `l2`, `udp4`, `udp6` (or as linuxptp writes them), or NTP over `ntp4`, `ntp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransportName(pub(super) Transport);

impl<'de> Deserialize<'de> for TransportName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}
