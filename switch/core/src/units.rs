//! Quantities as `tc` writes them: `100mbit`, `1500B`, `12us`. A bare number or `bps` is refused with the remedy.
//!
//! | quantity | units |
//! |---|---|
//! | [`Rate`] | `bit`, `kbit`, `mbit`, `gbit`, `tbit`: powers of 1000 |
//! | [`ByteCount`] | `B`, `kB`, `MB`, `GB`: powers of 1000; `KiB`, `MiB`, `GiB`: powers of 1024 |
//! | [`Span`] | `ps`, `ns`, `us`, `ms`, `s` |
//!
//! A number is decimal digits with at most one point. `tc` itself reads `kb` as 1024 octets; here `kB` is 1000 and
//! `KiB` says 1024, so that a file means what it shows. Case counts only where it tells bits from octets.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// Bits per second on the wire, 1 or more when it was read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// Octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// A span of time in picoseconds, up to 213 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Picoseconds.
    pub ps: u64,
}

impl Rate {
    /// The time that `octets` take at this rate, in picoseconds rounded down; `None` at rate 0.
    pub const fn ps_for(self, octets: u64) -> Option<u128> {
        (octets as u128 * 8_000_000_000_000).checked_div(self.0 as u128)
    }

    /// The octets that leave at this rate in `span`, rounded down.
    pub const fn octets_in(self, span: Span) -> u128 {
        self.0 as u128 * span.ps as u128 / 8_000_000_000_000
    }
}

impl Span {
    /// A span of whole nanoseconds; `None` beyond 2^64 picoseconds (213 days).
    pub const fn from_nanos(ns: u64) -> Option<Self> {
        match ns.checked_mul(1000) {
            Some(ps) => Some(Self { ps }),
            None => None,
        }
    }

    /// Whole nanoseconds, rounded down.
    pub const fn nanos(self) -> u64 {
        self.ps / 1000
    }

    /// Nanoseconds where the span is a whole number of them: clocks and delays are.
    pub const fn exact_nanos(self) -> Option<u64> {
        if self.ps.is_multiple_of(1000) { Some(self.ps / 1000) } else { None }
    }
}

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}; {remedy}")]
pub struct UnitError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
    /// What to write instead.
    pub remedy: String,
}

/// One unit: its name as written, and what it is in the smallest one.
type Unit = (&'static str, u64);

/// What a kind of quantity is called, how a good one looks, and its units, smallest first.
struct Kind {
    example: &'static str,
    /// The unit of the example.
    usual: &'static str,
    units: &'static [Unit],
    /// Whether a name that differs in case only means the same.
    any_case: bool,
}

const RATE: Kind = Kind {
    example: "100mbit",
    usual: "mbit",
    units: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
        ("tbit", 1_000_000_000_000),
    ],
    any_case: true,
};
const BYTES: Kind = Kind {
    example: "1500B",
    usual: "B",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("kB", 1_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
    ],
    any_case: false,
};
const SPAN: Kind = Kind {
    example: "12us",
    usual: "us",
    units: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    any_case: true,
};

impl Kind {
    fn read(&self, text: &str) -> Result<u64, UnitError> {
        let refuse = |problem, remedy| Err(UnitError { text: text.into(), problem, remedy });
        let example = || format!("write it like {:?}", self.example);
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, unit) = trimmed.split_at(digits);
        let unit = unit.trim_start();
        if number.is_empty() {
            return match unit.as_bytes().first() {
                None => refuse("is empty", example()),
                Some(b'-') => refuse("is negative", example()),
                _ => refuse("does not begin with a number", example()),
            };
        }
        if unit.is_empty() {
            return refuse(
                "has no unit",
                format!("write for example {:?}", format!("{number}{}", self.usual)),
            );
        }
        let Some(&(_, factor)) = self
            .units
            .iter()
            .find(|(name, _)| if self.any_case { name.eq_ignore_ascii_case(unit) } else { *name == unit })
        else {
            return refuse("has an unknown unit", self.units_remedy(unit));
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
            return refuse("is not a decimal number", example());
        }
        match scaled(whole, fraction, factor) {
            Scaled::Exact(value) => Ok(value),
            Scaled::Finer => refuse(
                "is finer than the smallest unit",
                format!("write a whole number of {}", self.units[0].0),
            ),
            Scaled::Beyond => refuse("is too large", format!("write at most {}", self.show(u64::MAX))),
        }
    }

    fn units_remedy(&self, unit: &str) -> String {
        let names: Vec<_> = self.units.iter().map(|u| u.0).collect();
        let lower = unit.to_ascii_lowercase();
        if self.units[0].0 == "bit"
            && (lower.ends_with("bps") || lower.ends_with("b") || lower.ends_with("b/s"))
        {
            return "bps is octets a second to tc and bits a second to others: write bits as \"100mbit\""
                .into();
        }
        format!("use one of {}, as in {:?}", names.join(", "), self.example)
    }

    /// The shortest exact form: the largest unit that divides the value.
    fn show(&self, value: u64) -> String {
        let (name, factor) = self
            .units
            .iter()
            .rev()
            .find(|(_, factor)| value != 0 && value.is_multiple_of(*factor))
            .unwrap_or(&self.units[0]);
        format!("{}{name}", value / factor)
    }
}

enum Scaled {
    Exact(u64),
    Finer,
    Beyond,
}

/// `whole.fraction * factor` in exact arithmetic.
fn scaled(whole: &str, fraction: &str, factor: u64) -> Scaled {
    let fraction = fraction.trim_end_matches('0');
    // 10^18 is beyond what any unit resolves, and keeps the product within 128 bits.
    if fraction.len() > 18 {
        return Scaled::Finer;
    }
    let Ok(whole) = whole.parse::<u64>() else { return Scaled::Beyond };
    let tens = 10u128.pow(fraction.len() as u32);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().unwrap_or(0) };
    let part = part * u128::from(factor);
    if part % tens != 0 {
        return Scaled::Finer;
    }
    match u64::try_from(u128::from(whole) * u128::from(factor) + part / tens) {
        Ok(value) => Scaled::Exact(value),
        Err(_) => Scaled::Beyond,
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// # Errors
    /// [`UnitError`] on text without unit, `bps`, zero, or more than 2^64 bit/s.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match RATE.read(text)? {
            0 => Err(UnitError {
                text: text.into(),
                problem: "is no rate to send at",
                remedy: "write a rate above 0, as \"100mbit\", or leave it out for no limit".into(),
            }),
            rate => Ok(Self(rate)),
        }
    }
}

impl FromStr for ByteCount {
    type Err = UnitError;

    /// # Errors
    /// [`UnitError`] on text without unit, a fraction of an octet, or more than 2^64 octets.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        BYTES.read(text).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    /// # Errors
    /// [`UnitError`] on text without unit, a fraction of a picosecond, or more than 2^64 picoseconds.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SPAN.read(text).map(|ps| Self { ps })
    }
}

macro_rules! as_text {
    ($name:ident, $kind:ident, $value:expr, $expecting:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value: fn(&Self) -> u64 = $value;
                f.pad(&$kind.show(value(self)))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }

                    // A file's bare number gets the same answer as the text of one.
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

as_text!(Rate, RATE, |r| r.0, "a rate with its unit, as \"100mbit\"");
as_text!(ByteCount, BYTES, |b| b.0, "an amount of octets with its unit, as \"1500B\"");
as_text!(Span, SPAN, |s| s.ps, "a span of time with its unit, as \"12us\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused<T: FromStr<Err = UnitError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn quantities_read_as_tc_writes_them() {
        for (text, bits) in
            [("100mbit", 100_000_000), ("1gbit", 1_000_000_000), ("10kbit", 10_000), ("1.5Mbit", 1_500_000)]
        {
            assert_eq!(text.parse(), Ok(Rate(bits)), "{text}");
        }
        for (text, octets) in [("1500B", 1500), ("64kB", 64_000), ("64KiB", 65_536), ("1MiB", 1 << 20)] {
            assert_eq!(text.parse(), Ok(ByteCount(octets)), "{text}");
        }
        for (text, ps) in [
            ("12us", 12_000_000),
            ("1.5ms", 1_500_000_000),
            ("500ns", 500_000),
            ("2s", 2_000_000_000_000),
            ("100ps", 100),
            ("0s", 0),
            ("0.080us", 80_000),
        ] {
            assert_eq!(text.parse(), Ok(Span { ps }), "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_remedy() {
        assert_eq!(refused::<Rate>("100"), "\"100\" has no unit; write for example \"100mbit\"");
        for text in ["100bps", "100Mbps", "100MB", "10Gb/s"] {
            assert!(refused::<Rate>(text).contains("write bits as \"100mbit\""), "{text}");
        }
        assert!(refused::<Rate>("0mbit").contains("above 0"));
        assert!(refused::<Rate>("-1mbit").contains("is negative"));
        assert!(refused::<Rate>("NaN").contains("does not begin with a number"));
        assert!(refused::<Rate>("").contains("is empty"));
        assert!(refused::<Rate>("18446745tbit").contains("is too large"));
        assert!(refused::<Rate>("99999999999999999999999bit").contains("is too large"));
        assert!(refused::<Rate>("1.5bit").contains("is finer"));
        assert!(refused::<ByteCount>("1500b").contains("use one of B, KiB, kB"));
        assert!(refused::<ByteCount>("1500").contains("\"1500B\""));
        assert!(refused::<Span>("1.2.3us").contains("not a decimal number"));
        assert!(refused::<Span>("1.us").contains("not a decimal number"));
        assert!(refused::<Span>(".5us").contains("not a decimal number"));
        assert!(refused::<Span>("0.0001ns").contains("is finer"));
        assert!(refused::<Span>("12").contains("\"12us\""));
        assert!(refused::<Span>("1e6us").contains("unknown unit"));
    }

    #[test]
    fn a_number_in_a_file_is_refused_like_its_text() {
        let de = de::value::U64Deserializer::<de::value::Error>::new(100);
        assert_eq!(Rate::deserialize(de).unwrap_err().to_string(), refused::<Rate>("100"));
        let de = de::value::F64Deserializer::<de::value::Error>::new(f64::NAN);
        assert_eq!(Span::deserialize(de).unwrap_err().to_string(), refused::<Span>("NaN"));
    }

    #[test]
    fn rates_turn_octets_into_time_and_back() {
        assert_eq!(Rate(100_000_000).ps_for(1538), Some(123_040_000));
        assert_eq!(Rate(100_000_000).octets_in(Span { ps: 120_000_000 }), 1500);
        assert_eq!(Rate(0).ps_for(1), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in prop_oneof![any::<u64>(), 1u64..5000, (1u64..2000).prop_map(|n| n * 1_000_000)]) {
            prop_assert_eq!(Rate(value.max(1)).to_string().parse(), Ok(Rate(value.max(1))));
            prop_assert_eq!(ByteCount(value).to_string().parse(), Ok(ByteCount(value)));
            prop_assert_eq!(Span { ps: value }.to_string().parse(), Ok(Span { ps: value }));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = (text.parse::<Rate>(), text.parse::<ByteCount>(), text.parse::<Span>());
        }
    }
}
