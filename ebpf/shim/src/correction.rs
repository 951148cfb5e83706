//! XDP: what a PTP event message's marks come to goes into its correctionField.
//!
//! It suits PTP over Ethernet and hardware timestamps. Clocks that take the correction of a two-step Sync from its
//! Follow_Up alone (some 802.1AS stacks) are given it there.

use plimsoll_classify::{Class, Kind, ptp};

use crate::amount::Amount;
use crate::message::{self, Counted, Sum};
use crate::{Count, Done, Packet, Settings};

const CORRECTION: u32 = 8;
/// twoStepFlag (clause 13.3.2.8).
const TWO_STEP: u8 = 0x02;

/// Sync and Pdelay_Resp, which are followed up by a message of their type + 8 or + 7.
const SYNC: u8 = 0x0;
const PDELAY_RESP: u8 = 0x3;
const FOLLOW_UP: u8 = 0x8;
const PDELAY_RESP_FOLLOW_UP: u8 = 0xA;

/// Which event message a delay was met by: majorSdoId and messageType, domain, sourcePortIdentity, sequenceId.
pub type Key = [u8; 16];

/// A delay that waits for a follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Kept {
    /// In 2^-16 ns.
    pub scaled: i64,
    /// When it was set aside, by [`Aside::now`].
    pub at: u64,
    /// Marks that come to it.
    pub marks: u64,
}

/// Longest that a delay waits, in ns. A follow-up comes within milliseconds; what it finds later is of another message
/// of its number.
pub const LONGEST_WAIT: u64 = 2_000_000_000;

/// Delays that wait for a follow-up.
pub trait Aside {
    /// A clock that never goes back, in ns.
    fn now(&self) -> u64;

    /// Keeps a delay.
    fn put(&mut self, key: &Key, kept: Kept) -> bool;

    /// Gives a delay back, once.
    fn take(&mut self, key: &Key) -> Option<Kept>;
}

/// Treats a received frame of `len` octets.
#[inline(always)]
pub fn correction<P: Packet, A: Aside>(
    packet: &mut P,
    class: &Class,
    len: u32,
    settings: &Settings,
    aside: &mut A,
) -> Done {
    let done = match class.kind {
        Kind::PtpEvent => event(packet, class, len, settings, aside),
        Kind::PtpGeneral if settings.follow_up => general(packet, class, len, aside),
        _ => Err(Count::Other),
    };
    done.unwrap_or_else(Done::nothing)
}

#[inline(always)]
fn event<P: Packet, A: Aside>(
    packet: &mut P,
    class: &Class,
    len: u32,
    settings: &Settings,
    aside: &mut A,
) -> Result<Done, Count> {
    let (marked, header) = message::event(packet, class, len)?;
    let kind = header[0] & 0x0F;
    let is_followed =
        settings.follow_up && header[6] & TWO_STEP != 0 && (kind == SYNC || kind == PDELAY_RESP);
    let counted = marked.counted()?;
    if counted.count == 0 {
        if is_followed {
            // Of an earlier message of this number, whose follow-up never came.
            aside.take(&key(&header, kind));
        }
        return Err(Count::Empty);
    }
    let Counted { count, cleared } = counted;
    let amount = Amount::of(count, settings);
    // First the word: with a count that stays, another shim would add again.
    if !marked.write(packet, cleared) {
        return Err(Count::Failed);
    }
    if is_followed {
        let kept = Kept { scaled: amount.scaled(), at: aside.now(), marks: u64::from(amount.marks) };
        // What it comes to is summed once it is added.
        let kept = aside.put(&key(&header, kind), kept);
        return Err(if kept { Count::SetAside } else { Count::Failed });
    }
    match add(packet, class, &header, marked.sum, amount.scaled(), amount.marks)? {
        Done { count: Count::Compensated, marks, ns } if amount.capped => {
            Ok(Done { count: Count::Capped, marks, ns })
        }
        done => Ok(done),
    }
}

#[inline(always)]
fn general<P: Packet, A: Aside>(
    packet: &mut P,
    class: &Class,
    len: u32,
    aside: &mut A,
) -> Result<Done, Count> {
    let (header, _) = message::header(packet, class, len)?;
    let of = match header[0] & 0x0F {
        FOLLOW_UP => SYNC,
        PDELAY_RESP_FOLLOW_UP => PDELAY_RESP,
        _ => return Err(Count::Other),
    };
    let sum = Sum::of(packet, class)?;
    let Some(kept) = aside.take(&key(&header, of)) else { return Err(Count::Empty) };
    if aside.now().wrapping_sub(kept.at) > LONGEST_WAIT {
        return Err(Count::Empty);
    }
    match add(packet, class, &header, sum, kept.scaled, kept.marks as u32)? {
        Done { count: Count::Compensated, marks, ns } => Ok(Done { count: Count::FollowedUp, marks, ns }),
        done => Ok(done),
    }
}

/// Adds 2^-16 ns, more than 0, to correctionField. It saturates; one that says "too large" stays. What was added is what
/// these marks are told to have come to.
#[inline(always)]
fn add<P: Packet>(
    packet: &mut P,
    class: &Class,
    header: &[u8; ptp::HEADER_LEN],
    sum: Sum,
    scaled: i64,
    marks: u32,
) -> Result<Done, Count> {
    let at = u32::from(class.payload) + CORRECTION;
    let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h, ..] = *header;
    let old = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
    if old == ptp::CORRECTION_OVERFLOW {
        return Err(Count::Overflowed);
    }
    let room = ptp::CORRECTION_OVERFLOW.wrapping_sub(old) as u64;
    let whole = (scaled as u64) < room;
    let new = if whole { old.wrapping_add(scaled) } else { ptp::CORRECTION_OVERFLOW };
    if !packet.store(at, new.to_be_bytes()) {
        return Err(Count::Failed);
    }
    sum.mend(packet, (old >> 32) as u32, (new >> 32) as u32);
    sum.mend(packet, old as u32, new as u32);
    let added = if whole { scaled as u64 } else { room };
    Ok(Done {
        count: if whole { Count::Compensated } else { Count::Capped },
        marks,
        ns: (added + 0x8000) >> 16,
    })
}

/// The key of an event message of this type, from its own header or that of its follow-up.
#[inline(always)]
fn key(header: &[u8; ptp::HEADER_LEN], kind: u8) -> Key {
    let mut key = [0; 16];
    key[0] = header[0] & 0xF0 | kind;
    key[1] = header[4];
    // sourcePortIdentity and sequenceId stand one behind the other.
    let mut octet = 0;
    while octet < 12 {
        key[2 + octet] = header[20 + octet];
        octet += 1;
    }
    key
}
