//! Values that a file may write in more than one way.

use crate::clock::Transport;
use plimsoll_core::{Rate, wire::ethernet::Mac};
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

impl<T: Copy> Each<T> {
    /// The value for what is sent to `node`.
    pub(super) fn to(&self, node: &str) -> Option<T> {
        match self {
            Self::Both(value) => Some(*value),
            Self::To(map) => map.get(node).copied(),
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
