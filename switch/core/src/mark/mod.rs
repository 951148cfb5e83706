//! The marker: what a frame's depth makes of its marking word and its ECN bits.
//!
//! | file | idea |
//! |---|---|
//! | `ingress.rs` | what a message brings, trust, remarking |
//! | `count.rs` | the counter in a marking word |
//! | `ecn.rs` | the two ECN bits, classical or as a counter |
//! | `edge.rs` | marks become a correction |

mod count;
mod ecn;
mod edge;
mod ingress;

use plimsoll_classify::{Class, Kind};

use crate::{
    Carriers, EcnOutcome, EcnScope, Field, MarkOutcome, MarkRecord, PortConfig, Span,
    depth::Verdict,
    wire::{
        event::Event,
        growth::Growth,
        ip::Ecn,
        message::{self, Message},
    },
};

use ecn::Counted;
pub(crate) use ecn::capacity as ecn_capacity;
pub(crate) use ingress::{Brought, Ingress};

/// What a port writes into the frames that leave by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    words: Option<Words>,
    bits: Bits,
    /// delta of the marks that are converted.
    edge: Option<Span>,
}

/// The words that a port counts in.
#[derive(Clone, Copy, Debug)]
struct Words {
    carriers: Carriers,
    growth: Growth,
}

/// What the two ECN bits are to a port.
#[derive(Clone, Copy, Debug)]
enum Bits {
    /// Nothing.
    Off,
    /// RFC 3168's.
    Classical(EcnScope),
    /// A counter.
    Counted(Counted),
}

impl Marker {
    /// The marker of a port in a network whose marks mean `delta`.
    pub(crate) fn new(port: &PortConfig, delta: Option<Span>) -> Self {
        let counted = port.mark.as_ref().filter(|mark| mark.carriers.ecn);
        let bits = match (port.ecn, counted) {
            (Some(ecn), _) => Bits::Classical(ecn.scope),
            (None, Some(mark)) => Bits::Counted(Counted::new(mark)),
            (None, None) => Bits::Off,
        };
        let words = port.mark.map(|mark| Words {
            carriers: mark.carriers,
            growth: Growth::new(mark.counter, mark.counter_max),
        });
        Self { words, bits, edge: delta.filter(|_| port.edge) }
    }

    /// Whether it has to see a frame of this kind.
    #[inline]
    pub(crate) const fn concerns(&self, kind: Kind) -> bool {
        kind.is_sync() || matches!(self.bits, Bits::Classical(EcnScope::All))
    }

    /// Marks a frame that concerns it by what its depth came to, and converts its marks at an edge; `record`, of nothing
    /// so far, tells it. Not inlined, for most frames concern no port.
    #[inline(never)]
    pub(crate) fn treat(
        &self,
        frame: &mut [u8],
        info: &Class,
        brought: &Brought,
        depth: Verdict,
        record: &mut MarkRecord,
    ) {
        let is_sync = info.kind.is_sync();
        let (outcome, after) = if is_sync {
            self.treat_word(frame, info.kind, brought, depth.r)
        } else {
            (MarkOutcome::NotSync, 0)
        };
        record.outcome = outcome;
        record.r = if is_sync { depth.r } else { 0 };
        record.counted = outcome.is_counted();
        record.field = brought.place.map_or(Field::None, |place| place.field());
        [record.before, record.after] = [brought.word[0], after];
        [record.ecn_before, record.ecn_after] = brought.ecn.unwrap_or_default();
        if let Some(delta) = self.edge {
            convert(delta, frame, brought, record);
        }
        match &self.bits {
            Bits::Off => {}
            Bits::Classical(_) => treat_classical(frame, info, brought, depth.over, record),
            Bits::Counted(counted) => counted.treat(frame, info, brought, depth.r, record),
        }
    }

    /// The marking word: counted in where the port marks its carrier. What became of it, and the word.
    #[inline]
    fn treat_word(&self, frame: &mut [u8], kind: Kind, brought: &Brought, r: u32) -> (MarkOutcome, u32) {
        let before = brought.word[1];
        let Some(Words { carriers, growth }) = &self.words else { return (MarkOutcome::Off, before) };
        let carried = if kind == Kind::PtpEvent { carriers.ptp } else { carriers.ntp };
        match brought.place {
            _ if !carried => (MarkOutcome::Carrier, before),
            Err(skip) => (skip, before),
            Ok(place) => count::mark(&mut Message::at(frame, place), before, r, growth),
        }
    }
}

// What few ports do is not inlined: it would cost all of them registers.

/// Edge conversion of a PTP word.
#[inline(never)]
fn convert(delta: Span, frame: &mut [u8], brought: &Brought, record: &mut MarkRecord) {
    if let Ok(place) = brought.place
        && let Some(mut event) = Event::of(Message::at(frame, place))
    {
        (record.edge, record.converted_ns) = edge::convert(&mut event, delta.ps);
        record.after = event.message().word();
    }
}

/// ECN as RFC 3168 has it.
#[inline(never)]
fn treat_classical(
    frame: &mut [u8],
    info: &Class,
    brought: &Brought,
    exceeded: bool,
    record: &mut MarkRecord,
) {
    let bits = if info.kind.is_sync() {
        brought.ecn.map(|[_, bits]| bits)
    } else {
        // Nobody looked at this frame's bits before.
        let bits = Ecn::new_checked(frame, info).map(|ecn| ecn.bits());
        record.ecn_before = bits.unwrap_or_default();
        bits
    };
    (record.ecn, record.ecn_after) = match bits {
        Some(bits) => rewritten(frame, info, bits, ecn::classical(bits, exceeded)),
        None => (EcnOutcome::NotIp, 0),
    };
}

impl Counted {
    /// ECN bits that are a counter, of a time message.
    #[inline(never)]
    fn treat(&self, frame: &mut [u8], info: &Class, brought: &Brought, r: u32, record: &mut MarkRecord) {
        let direction =
            brought.place.map_or_else(|_| message::direction(frame, info), |place| Some(place.direction()));
        let Some(direction) = direction else { return };
        (record.ecn, record.ecn_after) = match brought.ecn {
            Some([_, bits]) => rewritten(frame, info, bits, self.mark(bits, direction, r)),
            None => (EcnOutcome::NotIp, 0),
        };
        record.counted |=
            matches!(record.ecn, EcnOutcome::Below | EcnOutcome::Marked | EcnOutcome::Saturated);
    }
}

/// Writes what was decided on a frame with these bits, where it changes them.
#[inline]
fn rewritten(frame: &mut [u8], info: &Class, bits: u8, decided: (EcnOutcome, u8)) -> (EcnOutcome, u8) {
    if decided.1 != bits
        && let Some(mut ecn) = Ecn::new_checked(frame, info)
    {
        ecn.set_bits(decided.1);
    }
    decided
}
