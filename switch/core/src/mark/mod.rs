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
    EcnConfig, EcnOutcome, EcnScope, EdgeOutcome, Field, MarkConfig, MarkOutcome, MarkRecord, PortConfig,
    Span,
    depth::Verdict,
    wire::{
        event::Event,
        ip::Ecn,
        message::{self, Message},
    },
};

pub(crate) use ecn::capacity as ecn_capacity;
pub(crate) use ingress::{Brought, Ingress};

/// What a port writes into the frames that leave by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    mark: Option<MarkConfig>,
    ecn: Option<EcnConfig>,
    /// delta of the marks that are converted.
    edge: Option<Span>,
    /// Whether there is more to do than to count in words.
    more: bool,
}

impl Marker {
    /// The marker of a port in a network whose marks mean `delta`.
    pub(crate) fn new(port: &PortConfig, delta: Option<Span>) -> Self {
        let edge = delta.filter(|_| port.edge);
        let more = port.ecn.is_some() || edge.is_some() || port.mark.is_some_and(|mark| mark.carriers.ecn);
        Self { mark: port.mark, ecn: port.ecn, edge, more }
    }

    /// Whether it has to see a frame of this kind.
    #[inline]
    pub(crate) const fn concerns(&self, kind: Kind) -> bool {
        kind.is_sync() || matches!(&self.ecn, Some(EcnConfig { scope: EcnScope::All, .. }))
    }

    /// Marks a frame that concerns it by what its depth came to, and converts its marks at an edge.
    #[inline]
    pub(crate) fn treat(
        &self,
        frame: &mut [u8],
        info: &Class,
        brought: &Brought,
        depth: Verdict,
    ) -> MarkRecord {
        let is_sync = info.kind.is_sync();
        let (outcome, after) = if is_sync {
            self.treat_word(frame, info.kind, brought, depth.r)
        } else {
            (MarkOutcome::NotSync, 0)
        };
        let mut record = MarkRecord {
            outcome,
            r: if is_sync { depth.r } else { 0 },
            counted: outcome.is_counted(),
            field: brought.place.map_or(Field::None, |place| place.field()),
            before: brought.word[0],
            after,
            ecn: EcnOutcome::Off,
            ecn_before: brought.ecn[0],
            ecn_after: brought.ecn[1],
            edge: EdgeOutcome::Off,
            converted_ns: 0,
        };
        if self.more {
            self.treat_more(frame, info, brought, depth, &mut record);
        }
        record
    }

    /// The marking word: counted in where the port marks its carrier. What became of it, and the word.
    #[inline]
    fn treat_word(&self, frame: &mut [u8], kind: Kind, brought: &Brought, r: u32) -> (MarkOutcome, u32) {
        let before = brought.word[1];
        let Some(config) = &self.mark else { return (MarkOutcome::Off, before) };
        let carried = if kind == Kind::PtpEvent { config.carriers.ptp } else { config.carriers.ntp };
        match brought.place {
            _ if !carried => (MarkOutcome::Carrier, before),
            Err(skip) => (skip, before),
            Ok(place) => count::mark(&mut Message::at(frame, place), before, r, config),
        }
    }

    /// Edge conversion of a PTP word, and the ECN bits. Not inlined: what few ports do would cost all of them
    /// registers.
    #[inline(never)]
    fn treat_more(
        &self,
        frame: &mut [u8],
        info: &Class,
        brought: &Brought,
        depth: Verdict,
        record: &mut MarkRecord,
    ) {
        if let Some(delta) = self.edge
            && let Ok(place) = brought.place
            && let Some(mut event) = Event::of(Message::at(frame, place))
        {
            (record.edge, record.converted_ns) = edge::convert(&mut event, delta.ps);
            record.after = event.message().word();
        }
        if let Some(config) = self.mark.as_ref().filter(|config| config.carriers.ecn)
            && let Some(direction) = brought
                .place
                .map_or_else(|_| message::direction(frame, info), |place| Some(place.direction()))
        {
            treat_ecn(frame, info, record, |bits| ecn::modified(bits, direction, depth.r, config));
            record.counted |=
                matches!(record.ecn, EcnOutcome::Below | EcnOutcome::Marked | EcnOutcome::Saturated);
        }
        // What is no message is here for this alone.
        if self.ecn.is_some() {
            treat_ecn(frame, info, record, |bits| ecn::classical(bits, depth.over));
        }
    }
}

/// The ECN bits.
#[inline]
fn treat_ecn(
    frame: &mut [u8],
    info: &Class,
    record: &mut MarkRecord,
    decide: impl FnOnce(u8) -> (EcnOutcome, u8),
) {
    let Some(mut ecn) = Ecn::new_checked(frame, info) else {
        record.ecn = EcnOutcome::NotIp;
        return;
    };
    let before = ecn.bits();
    if !info.kind.is_sync() {
        // Nobody looked at this frame's bits before.
        record.ecn_before = before;
    }
    (record.ecn, record.ecn_after) = decide(before);
    if record.ecn_after != before {
        ecn.set_bits(record.ecn_after);
    }
}
