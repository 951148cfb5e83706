//! tc egress: what neither ptp4l nor chronyd can be told to do.
//!
//! Messages that are Not-ECT become ECN-capable, so that switches can mark them CE. NTP messages with nothing behind
//! their header get the extension field in which switches count. What is authenticated has something behind it, and
//! stays bit for bit but for its ECN bits, which nothing covers.

use plimsoll_classify::ecn::NOT_ECT;
use plimsoll_classify::{Class, Flags, Kind, ntp, ptp};

use crate::message::{Sum, end};
use crate::{Buffer, Count, Settings, ecn};

const UDP_LENGTH: u32 = 4;
const IPV4_LENGTH: u32 = 2;
const IPV4_CHECKSUM: u32 = 10;
const IPV6_LENGTH: u32 = 4;
const FIELD_LEN: u16 = ntp::FIELD_LEN as u16;

/// What became of a frame that leaves: two outcomes of an NTP message where both are asked for, so that the counts are two
/// sums, of ECN bits and of fields. A frame that nothing is asked for counts once, as [`Count::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its ECN bits: [`Count::EctSet`], [`Count::EctThere`], [`Count::Failed`]; [`Count::Other`] where there is nothing to do.
    pub ect: Option<Count>,
    /// Its NTP field: [`Count::FieldAdded`], [`Count::FieldLeft`], [`Count::Failed`].
    pub field: Option<Count>,
}

/// Treats a frame of `len` octets that leaves.
#[inline(always)]
pub fn egress<P: Buffer>(packet: &mut P, class: &Class, len: u32, settings: &Settings) -> Sent {
    if !is_message(packet, class) {
        return Sent { ect: Some(Count::Other), field: None };
    }
    let is_ntp = matches!(class.kind, Kind::NtpRequest | Kind::NtpResponse);
    let gets_field = settings.ntp_field && is_ntp;
    let ect = if settings.ect == 0 {
        if gets_field { None } else { Some(Count::Other) }
    } else {
        Some(match ecn::bits(packet, class) {
            NOT_ECT if ecn::set_bits(packet, class, settings.ect) => Count::EctSet,
            NOT_ECT => Count::Failed,
            _ => Count::EctThere,
        })
    };
    let field = if gets_field {
        Some(match append(packet, class, len) {
            Ok(()) => Count::FieldAdded,
            Err(count) => count,
        })
    } else {
        None
    };
    Sent { ect, field }
}

/// Whether it carries time over UDP: PTP version 2 event messages, NTP but for its control modes.
#[inline(always)]
fn is_message<P: Buffer>(packet: &P, class: &Class) -> bool {
    if !class.flags.has(Flags::UDP) {
        return false;
    }
    let Some([first, second]) = packet.load(u32::from(class.payload)) else { return false };
    match class.kind {
        Kind::PtpEvent => second & 0x0F == 2 && ptp::direction(first & 0x0F).is_some(),
        Kind::NtpRequest | Kind::NtpResponse => ntp::direction(first).is_some(),
        Kind::PtpGeneral | Kind::Other => false,
    }
}

/// Gives an NTP message without anything behind its header the field with an empty word.
#[inline(always)]
fn append<P: Buffer>(packet: &mut P, class: &Class, len: u32) -> Result<(), Count> {
    let [first] = packet.load(u32::from(class.payload)).ok_or(Count::Failed)?;
    let bare = end(packet, class, len)? == len
        && u32::from(class.payload) + ntp::HEADER_LEN as u32 == len
        && first >> 3 & 7 == ntp::VERSION;
    if !bare {
        return Err(Count::FieldLeft);
    }
    let (l3, l4) = (u32::from(class.l3), u32::from(class.l4));
    let is_v6 = class.flags.has(Flags::IPV6);
    let announced = l3 + if is_v6 { IPV6_LENGTH } else { IPV4_LENGTH };
    let old_ip = u16::from_be_bytes(packet.load(announced).ok_or(Count::Failed)?);
    let old_udp = u16::from_be_bytes(packet.load(l4 + UDP_LENGTH).ok_or(Count::Failed)?);
    let sum = Sum::of(packet, class)?;
    if !packet.grow(len + ntp::FIELD_LEN as u32) {
        return Err(Count::Failed);
    }
    let (new_ip, new_udp) = (old_ip + FIELD_LEN, old_udp + FIELD_LEN);
    let written = packet.store(len, ntp::field(0))
        && packet.store(announced, new_ip.to_be_bytes())
        && packet.store(l4 + UDP_LENGTH, new_udp.to_be_bytes());
    if !written {
        return Err(Count::Failed);
    }
    if !is_v6 {
        packet.mend_ipv4(l3 + IPV4_CHECKSUM, old_ip, new_ip);
    }
    // The field's octets but its first eight are zeros.
    let [a, b, c, d, e, f, g, h, ..] = ntp::field(0);
    sum.mend(packet, 0, u32::from_be_bytes([a, b, c, d]));
    sum.mend(packet, 0, u32::from_be_bytes([e, f, g, h]));
    if let Sum::At(at) = sum {
        packet.mend_udp_length(at, old_udp, new_udp);
    }
    Ok(())
}
