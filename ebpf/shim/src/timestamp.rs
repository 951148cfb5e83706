//! tc ingress: the receive timestamp of a message moves earlier by what its marks come to.
//!
//! User space is given this timestamp (SO_TIMESTAMP, SO_TIMESTAMPNS, software SO_TIMESTAMPING). Hardware timestamps and
//! packet sockets, which take PTP over Ethernet before tc, need [`crate::correction`] instead.

use plimsoll_classify::{
    Class, Flags, Kind,
    ecn::{CE, ECT_0},
    ntp,
};

use crate::amount::Amount;
use crate::message::{self, Behind, Counted, Marked};
use crate::{Buffer, Count, Done, Settings, ecn};

/// Treats a received frame of `len` octets.
#[inline(always)]
pub fn timestamp<P: Buffer>(packet: &mut P, class: &Class, len: u32, settings: &Settings) -> Done {
    let done = match class.kind {
        Kind::PtpEvent if !class.flags.has(Flags::UDP) => Err(Count::Layer2),
        Kind::PtpEvent => event(packet, class, len, settings),
        Kind::NtpRequest | Kind::NtpResponse => ntp(packet, class, len, settings),
        Kind::PtpGeneral | Kind::Other => Err(Count::Other),
    };
    done.unwrap_or_else(Done::nothing)
}

/// PTP: its word alone counts. An edge port that converted the word leaves CE.
#[inline(always)]
fn event<P: Buffer>(packet: &mut P, class: &Class, len: u32, settings: &Settings) -> Result<Done, Count> {
    let (marked, _) = message::event(packet, class, len)?;
    match marked.counted()? {
        Counted { count: 0, .. } => Err(Count::Empty),
        counted => by_word(packet, &marked, counted, settings),
    }
}

/// NTP: its field counts or, where that has no count, CE.
#[inline(always)]
fn ntp<P: Buffer>(packet: &mut P, class: &Class, len: u32, settings: &Settings) -> Result<Done, Count> {
    let [first] = packet.load(u32::from(class.payload)).ok_or(Count::Failed)?;
    let direction = ntp::direction(first).ok_or(Count::Other)?;
    let congested = settings.ce_ps > 0 && ecn::bits(packet, class) == CE;
    let nothing = match message::behind(packet, class, len, first >> 3 & 7, direction)? {
        Behind::None => Count::Empty,
        Behind::Covered => Count::Authenticated,
        Behind::Field(marked) => match marked.counted() {
            Ok(Counted { count: 0, .. }) => Count::Empty,
            Err(invalid) => invalid,
            Ok(counted) => {
                let done = by_word(packet, &marked, counted, settings)?;
                if congested {
                    ecn::set_bits(packet, class, ECT_0);
                }
                return Ok(done);
            }
        },
    };
    if !congested {
        return Err(nothing);
    }
    let amount = Amount::of_ce(settings);
    subtract(packet, amount)?;
    ecn::set_bits(packet, class, ECT_0);
    Ok(Done { count: Count::CompensatedCe, marks: 1, ns: amount.ns() })
}

#[inline(always)]
fn by_word<P: Buffer>(
    packet: &mut P,
    marked: &Marked,
    counted: Counted,
    settings: &Settings,
) -> Result<Done, Count> {
    let amount = Amount::of(counted.count, settings);
    if packet.stamp() == 0 {
        return Err(Count::NoTimestamp);
    }
    // First the word: with a count that stays, another shim would subtract again.
    if !marked.write(packet, counted.cleared) {
        return Err(Count::Failed);
    }
    subtract(packet, amount)?;
    let count = if amount.capped { Count::Capped } else { Count::Compensated };
    Ok(Done { count, marks: amount.marks, ns: amount.ns() })
}

#[inline(always)]
fn subtract<P: Buffer>(packet: &mut P, amount: Amount) -> Result<(), Count> {
    match packet.stamp() {
        0 => Err(Count::NoTimestamp),
        stamp => {
            // Never 0, which is no timestamp.
            let earlier = if stamp > amount.ns() { stamp - amount.ns() } else { 1 };
            packet.set_stamp(earlier);
            Ok(())
        }
    }
}
