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
    EcnConfig, EcnOutcome, EcnScope, MarkConfig, MarkOutcome, MarkRecord, PortConfig, Span,
    depth::Verdict,
    wire::{
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
}

impl Marker {
    /// The marker of a port in a network whose marks mean `delta`.
    pub(crate) fn new(port: &PortConfig, delta: Option<Span>) -> Self {
        Self { mark: port.mark, ecn: port.ecn, edge: delta.filter(|_| port.edge) }
    }

    /// Whether it has to see a frame of this kind.
    #[inline]
    pub(crate) const fn concerns(&self, kind: Kind) -> bool {
        kind.is_sync() || matches!(&self.ecn, Some(EcnConfig { scope: EcnScope::All, .. }))
    }

    /// Whether the frame was a message that the port marked, by 0 or more.
    #[inline]
    pub(crate) fn counted(&self, record: &MarkRecord) -> bool {
        let by_ecn = matches!(record.ecn, EcnOutcome::Below | EcnOutcome::Marked | EcnOutcome::Saturated);
        record.outcome.is_counted() || by_ecn && self.mark.is_some_and(|config| config.carriers.ecn)
    }

    /// Marks a frame by what its depth came to, and converts its marks at an edge.
    pub(crate) fn treat(
        &self,
        frame: &mut [u8],
        info: &Class,
        brought: &Brought,
        depth: Verdict,
    ) -> MarkRecord {
        let mut record = MarkRecord {
            field: brought.field,
            before: brought.word[0],
            after: brought.word[1],
            ecn_before: brought.ecn[0],
            ecn_after: brought.ecn[1],
            ..MarkRecord::default()
        };
        if info.kind.is_sync() {
            record.r = depth.r;
            self.treat_word(frame, info, &mut record);
            if let Some(config) = &self.mark
                && config.carriers.ecn
                && let Some(direction) = message::direction(frame, info)
            {
                treat_ecn(frame, info, &mut record, |bits| ecn::modified(bits, direction, depth.r, config));
            }
        }
        if let Some(config) = &self.ecn
            && (config.scope == EcnScope::All || info.kind.is_sync())
        {
            treat_ecn(frame, info, &mut record, |bits| ecn::classical(bits, depth.over));
        }
        record
    }

    /// The marking word: counted in where the port marks its carrier, converted where it is PTP's.
    fn treat_word(&self, frame: &mut [u8], info: &Class, record: &mut MarkRecord) {
        let is_ptp = info.kind == Kind::PtpEvent;
        let carried = |c: &&MarkConfig| if is_ptp { c.carriers.ptp } else { c.carriers.ntp };
        let marks = self.mark.as_ref().filter(carried);
        record.outcome = match (&self.mark, marks) {
            (Some(_), None) => MarkOutcome::Carrier,
            _ => MarkOutcome::Off,
        };
        if marks.is_none() && (self.edge.is_none() || !is_ptp) {
            return;
        }
        match Message::new_checked(frame, info) {
            Ok(mut message) => {
                if let Some(config) = marks {
                    record.outcome = count::mark(&mut message, record.r, config);
                }
                if let (Some(delta), Message::Ptp(event)) = (self.edge, &mut message) {
                    (record.edge, record.converted_ns) = edge::convert(event, delta.ps);
                }
                record.after = message.word();
            }
            Err(skip) if marks.is_some() => record.outcome = skip,
            Err(_) => {}
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
