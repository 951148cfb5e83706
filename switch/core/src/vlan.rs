//! VLANs of a port at work: which frames it takes and gives, and the tag pushed or popped on a frame that leaves
//! (802.1Q-2018 clauses 6.9 and 8.6).
//!
//! The outer tag is the one that counts, whether of a customer's or a provider's type; what is pushed is a customer's
//! (0x8100). A switch of transparent ports has none of this.

use plimsoll_classify::{Class, Flags, NO_PRIORITY};

use crate::{
    DropReason, Pool, PortConfig,
    port::Arrival,
    wire::{
        ethernet::{self, HEADER_LEN, TAG_LEN, Tci},
        message::Place,
    },
};

/// VLAN identifiers, 0 and 4095 included.
const VIDS: usize = 4096;

/// A port's VLANs.
#[derive(Debug)]
pub(crate) struct Vlans {
    /// Bit v is set where the port is in VLAN v, bit 0 where it takes frames of none.
    members: [u64; VIDS / 64],
    /// The VLAN of frames without one, whose frames leave untagged; 0 for none.
    untagged: u16,
    /// Priority of pushed tags where the frame says nothing.
    priority: u8,
    /// Longest frame that a tag may make, in octets.
    longest: u32,
}

/// What becomes of a frame's outer tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Keep,
    Push,
    Pop,
    /// A tag for priority alone gets its VLAN.
    Name,
}

impl Vlans {
    /// Of a checked configuration.
    pub(crate) fn new(config: &PortConfig) -> Self {
        let mut members = [0; VIDS / 64];
        (0..VIDS as u16)
            .filter(|vid| config.vlan.has(*vid))
            .for_each(|vid| members[usize::from(vid / 64)] |= 1 << (vid % 64));
        Self {
            members,
            untagged: config.vlan.receives(0).unwrap_or(0),
            priority: config.default_priority,
            longest: config.tagged_max(),
        }
    }

    /// The VLAN of a frame that came in with this identifier in its tag, 0 for none.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&self, vid: u16) -> Result<u16, DropReason> {
        let vlan = if vid == 0 { self.untagged } else { vid };
        match (self.has(vlan), vid) {
            (true, _) => Ok(vlan),
            (false, 0) => Err(DropReason::Untagged),
            (false, _) => Err(DropReason::VlanFiltered),
        }
    }

    /// Whether frames of this VLAN leave here.
    #[inline]
    pub(crate) const fn has(&self, vlan: u16) -> bool {
        self.members[vlan as usize / 64 % (VIDS / 64)] >> (vlan % 64) & 1 != 0
    }

    /// Octets of the frame as it leaves.
    #[inline(never)]
    pub(crate) fn len(&self, arrival: &Arrival) -> Result<u32, DropReason> {
        match self.form(arrival) {
            Form::Keep | Form::Name => Ok(arrival.len),
            Form::Pop => Ok(arrival.len - TAG_LEN as u32),
            Form::Push if arrival.len + TAG_LEN as u32 > self.longest => Err(DropReason::TagTooLong),
            Form::Push => Ok(arrival.len + TAG_LEN as u32),
        }
    }

    fn form(&self, arrival: &Arrival) -> Form {
        let Arrival { info, vlan, len, .. } = arrival;
        // Too short to have the tag that it is said to have.
        let tagged = info.flags.has(Flags::TAGGED) && *len as usize >= HEADER_LEN + TAG_LEN;
        match (*vlan == self.untagged, tagged) {
            // Such a frame goes to transparent ports alone.
            _ if *vlan == 0 => Form::Keep,
            (true, true) => Form::Pop,
            (false, false) => Form::Push,
            (false, true) if Tci(info.tci).vid() == 0 => Form::Name,
            _ => Form::Keep,
        }
    }

    /// Gives the frame the form in which it leaves; `None` where its buffer has no room for a tag, and nothing was done.
    #[inline(never)]
    pub(crate) fn reform<P: Pool>(&self, arrival: &Arrival, pool: &mut P) -> Option<Arrival> {
        let mut leaving = *arrival;
        let (frame, info) = (arrival.frame, &mut leaving.info);
        match self.form(arrival) {
            Form::Keep => return Some(leaving),
            Form::Name => {
                info.tci |= arrival.vlan;
                ethernet::set_tag(pool.bytes_mut(frame), Tci(info.tci));
                return Some(leaving);
            }
            Form::Push => {
                if !pool.grow(frame) {
                    return None;
                }
                let tci = Tci::new(self.priority_of(info), arrival.vlan);
                ethernet::push_tag(pool.bytes_mut(frame), tci);
                shift(info, |offset| offset.saturating_add(TAG_LEN as u8));
                (info.priority, info.flags, info.tci) = (tci.pcp(), info.flags.with(Flags::TAGGED), tci.0);
            }
            Form::Pop => {
                ethernet::pop_tag(pool.bytes_mut(frame));
                pool.shrink(frame);
                shift(info, |offset| offset.saturating_sub(TAG_LEN as u8));
                untag(info, pool.bytes(frame));
            }
        }
        let octets = pool.bytes(frame);
        leaving.len = octets.len() as u32;
        if info.kind.is_sync() {
            leaving.brought.place = Place::find(octets, info);
        }
        Some(leaving)
    }

    /// The received priority of a frame without a tag (802.1Q-2018 clause 6.9.3), as its class has it: of its DSCP, where
    /// 0 and 1 both mean best effort, else the port's default.
    const fn priority_of(&self, info: &Class) -> u8 {
        match info.priority {
            NO_PRIORITY => self.priority,
            0 | 1 => 0,
            precedence => precedence & 7,
        }
    }
}

/// Moves what the classifier knows the places of.
fn shift(info: &mut Class, moved: impl Fn(u8) -> u8) {
    for offset in [&mut info.l3, &mut info.l4, &mut info.payload] {
        if *offset != 0 {
            *offset = moved(*offset);
        }
    }
}

/// What the classifier would say of priority and tag, now that the outer one is gone.
fn untag(info: &mut Class, octets: &[u8]) {
    let l3 = usize::from(info.l3);
    if let Some(inner) = ethernet::tag(octets).filter(|_| l3 > HEADER_LEN) {
        (info.tci, info.priority) = (inner.0, inner.pcp());
        return;
    }
    info.tci = 0;
    info.flags = Flags(info.flags.0 & !Flags::TAGGED.0);
    info.priority = match octets.get(l3..) {
        Some([_, tos, ..]) if info.flags.has(Flags::IPV4) => tos >> 5,
        Some([first, ..]) if info.flags.has(Flags::IPV6) => first >> 1 & 7,
        _ => NO_PRIORITY,
    };
}
