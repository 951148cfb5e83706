//! An obviously right, slow switch. It knows frames by what made them, not by their octets; keeps lists, not tables;
//! and does all arithmetic in 1/rate ns, in which every arrival and every cost at `rate` bit/s is a whole number.

use plimsoll_core::{
    DepthScope, DepthUnit, DropReason, MarkRecord, PortConfig, Rate, Rule, SwitchConfig, Vlan,
};

use crate::marks::{self, Message, Taken};
use std::collections::{HashMap, VecDeque};

/// Where a frame carries its priority.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Priority {
    Tag(u8),
    Dscp(u8),
    Nowhere,
}

/// A frame that somebody sent into the switch.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) port: usize,
    pub(crate) stamp: u64,
    pub(crate) source: [u8; 6],
    pub(crate) destination: [u8; 6],
    /// The VLAN that its outer tag names, 0 for none.
    pub(crate) vid: u16,
    pub(crate) priority: Priority,
    pub(crate) len: usize,
    pub(crate) message: Option<Message>,
    /// The ECN bits of a frame that is IP.
    pub(crate) ecn: Option<u8>,
}

/// A frame that left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) frame: usize,
    pub(crate) port: usize,
    pub(crate) class: u8,
    pub(crate) arrived: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) depth_bytes: u128,
    pub(crate) depth_ps: u128,
    pub(crate) measured: u128,
    pub(crate) transparent: bool,
    pub(crate) mark: MarkRecord,
    pub(crate) correction: i64,
}

/// A frame that was dropped, at a port's queue or before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lost {
    pub(crate) frame: usize,
    pub(crate) egress: Option<usize>,
    pub(crate) reason: DropReason,
}

/// A frame that reached an egress port.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    frame: usize,
    arrived: u64,
    class: u8,
    len: u128,
    wire: u128,
}

/// What a frame finds at its port.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// What is ahead, in 1/rate ns.
    ahead: u128,
    /// What the port's measure says: 1/rate ns, or cells.
    measured: u128,
    rate: u128,
}

/// An octet on the wire in 1/rate ns.
const OCTET: u128 = 8_000_000_000;

/// What becomes of all frames, and what each port's ingress does with messages.
pub(crate) fn run(config: &SwitchConfig, frames: &[Sent]) -> (Vec<Left>, Vec<Lost>, Vec<Vec<Taken>>) {
    let (mut left, mut lost) = (Vec::new(), Vec::new());
    let mut taken = vec![Vec::new(); config.ports.len()];
    let arrivals: Vec<u64> = frames
        .iter()
        .scan(0, |last, frame| {
            *last = frame.stamp.max(*last);
            Some(*last)
        })
        .collect();
    let egress = forward(config, frames, &arrivals, &mut lost, &mut taken);
    for (port, queue) in egress.into_iter().enumerate() {
        serve(config, port, frames, &queue, &mut left, &mut lost);
    }
    (left, lost, taken)
}

/// Which frames reach which port, in order.
fn forward(
    config: &SwitchConfig,
    frames: &[Sent],
    arrivals: &[u64],
    lost: &mut Vec<Lost>,
    taken: &mut [Vec<Taken>],
) -> Vec<Vec<Waiting>> {
    let mut egress = vec![Vec::new(); config.ports.len()];
    // (VLAN, address, port, last seen), as many as were ever seen: the capacity is never reached here.
    let mut stations: Vec<(u16, [u8; 6], usize, u64)> = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let mut lose = |reason| lost.push(Lost { frame: number, egress: None, reason });
        if frame.source[0] % 2 == 1 {
            lose(DropReason::SourceGroup);
            continue;
        }
        let reserved = (frame.destination[..5] == [1, 0x80, 0xC2, 0, 0] && frame.destination[5] < 16)
            .then_some(frame.destination[5]);
        let passes =
            |port: usize| reserved.is_none_or(|last| config.ports[port].pass_reserved.contains(&last));
        if !passes(frame.port) {
            lose(DropReason::Reserved);
            continue;
        }
        let vlan = match received(&config.ports[frame.port].vlan, frame.vid) {
            Ok(vlan) => vlan,
            Err(reason) => {
                lose(reason);
                continue;
            }
        };
        taken[frame.port].extend(frame.message.map(|_| marks::take(config, frame)));
        let now = arrivals[number];
        stations.retain(|s| (s.0, s.1) != (vlan, frame.source));
        stations.push((vlan, frame.source, frame.port, now));
        let known = stations
            .iter()
            .find(|s| (s.0, s.1) == (vlan, frame.destination) && now - s.3 < config.fdb_age.0)
            .map(|s| s.2);
        let targets: Vec<usize> = match known {
            Some(port) if frame.destination[0] % 2 == 0 => vec![port],
            _ => {
                let others = (0..config.ports.len()).filter(|&p| p != frame.port && passes(p));
                others.filter(|&p| vlans(&config.ports[p].vlan).contains(&vlan)).collect()
            }
        };
        if targets == [frame.port] {
            lose(DropReason::SamePort);
            continue;
        }
        if targets.is_empty() {
            lose(DropReason::NoEgress);
        }
        for port in targets {
            let class = class(frame, &config.ports[port]);
            let Some(len) = leaving(&config.ports[port], frame, vlan) else {
                lost.push(Lost { frame: number, egress: Some(port), reason: DropReason::TagTooLong });
                continue;
            };
            let len = len as u128;
            egress[port].push(Waiting { frame: number, arrived: now, class, len, wire: len.max(60) + 24 });
        }
    }
    egress
}

/// The VLANs of a port, 0 for frames of none.
fn vlans(vlan: &Vlan) -> Vec<u16> {
    match vlan {
        Vlan::Transparent => (0..4096).collect(),
        Vlan::Access { pvid } => vec![*pvid],
        Vlan::Trunk { allowed, native } => {
            allowed.iter().flat_map(|range| range.first..=range.last).chain(*native).collect()
        }
    }
}

/// The VLAN of a frame that comes in with this VLAN in its outer tag, 0 for none.
fn received(port: &Vlan, vid: u16) -> Result<u16, DropReason> {
    let vlan = match (vid, port) {
        (1.., _) if vlans(port).contains(&vid) => return Ok(vid),
        (1.., _) => return Err(DropReason::VlanFiltered),
        (0, Vlan::Transparent) => Some(0),
        (0, Vlan::Access { pvid }) => Some(*pvid),
        (0, Vlan::Trunk { native, .. }) => *native,
    };
    vlan.ok_or(DropReason::Untagged)
}

/// Whether frames of a VLAN have a tag on a port's link; `None`: a frame of none is left as it is.
fn has_tag(port: &Vlan, vlan: u16) -> Option<bool> {
    match port {
        _ if vlan == 0 => None,
        Vlan::Transparent => Some(true),
        Vlan::Access { .. } => Some(false),
        Vlan::Trunk { native, .. } => Some(*native != Some(vlan)),
    }
}

/// A frame's length on a port's link; `None` where a tag makes it too long.
fn leaving(port: &PortConfig, frame: &Sent, vlan: u16) -> Option<usize> {
    let tagged = matches!(frame.priority, Priority::Tag(_));
    match has_tag(&port.vlan, vlan) {
        Some(true) if !tagged => {
            (port.mtu.is_none_or(|mtu| frame.len + 4 <= mtu as usize + 18)).then_some(frame.len + 4)
        }
        Some(false) if tagged => Some(frame.len - 4),
        _ => Some(frame.len),
    }
}

/// A frame's octets as they leave by a port, but for what marks and corrections change.
pub(crate) fn reformed(ports: [&PortConfig; 2], frame: &Sent, octets: &[u8]) -> Vec<u8> {
    let [came, leaves] = ports;
    let vlan = received(&came.vlan, frame.vid).unwrap();
    let (addresses, rest) = octets.split_at(12);
    let (tci, inner) = match frame.priority {
        Priority::Tag(_) => (u16::from_be_bytes([rest[2], rest[3]]), &rest[4..]),
        Priority::Dscp(dscp) if dscp >= 16 => (u16::from(dscp / 8) << 13, rest),
        Priority::Dscp(_) => (0, rest),
        Priority::Nowhere => (u16::from(leaves.default_priority) << 13, rest),
    };
    match has_tag(&leaves.vlan, vlan) {
        None => octets.to_vec(),
        Some(false) => [addresses, inner].concat(),
        Some(true) => [addresses, &[0x81, 0], &(tci & 0xF000 | vlan).to_be_bytes(), inner].concat(),
    }
}

/// 802.1Q-2018 Table 8-5 for eight classes: background below best effort, the others by number.
fn class(frame: &Sent, port: &PortConfig) -> u8 {
    const TABLE: [u8; 8] = [1, 0, 2, 3, 4, 5, 6, 7];
    if let (Some(class), Some(_)) = (port.sync_class, frame.message) {
        return class;
    }
    match frame.priority {
        Priority::Tag(pcp) => TABLE[usize::from(pcp)],
        Priority::Dscp(dscp) if dscp / 8 < 2 => 1,
        Priority::Dscp(dscp) => dscp / 8,
        Priority::Nowhere => TABLE[usize::from(port.default_priority)],
    }
}

/// The classes of a port that share its link by deficit round robin, as Shreedhar and Varghese write it.
#[derive(Default)]
struct Round {
    /// The classes that have frames, in the order of their visits.
    active: VecDeque<u8>,
    deficit: HashMap<u8, u128>,
    /// The first of them has got the quantum of this visit.
    visited: bool,
}

impl Round {
    /// A frame comes to a class that has none.
    fn activate(&mut self, class: u8) {
        self.active.push_back(class);
        self.deficit.insert(class, 0);
    }

    /// The class that sends its first frame.
    fn send(&mut self, quanta: &[u64], waiting: &[Waiting]) -> u8 {
        loop {
            let class = self.active[0];
            let mut own = waiting.iter().filter(|w| w.class == class);
            let first = own.next().unwrap();
            let deficit = self.deficit.get_mut(&class).unwrap();
            if !self.visited {
                *deficit += u128::from(quanta[usize::from(class)]);
                self.visited = true;
            }
            if first.wire > *deficit {
                self.active.rotate_left(1);
                self.visited = false;
                continue;
            }
            *deficit -= first.wire;
            if own.next().is_none() {
                *deficit = 0;
                self.active.pop_front();
                self.visited = false;
            }
            return class;
        }
    }
}

/// Whether a frame of `class` leaves before one of `own` that comes later, as far as anybody knows.
fn is_before(port: &PortConfig, class: u8, own: u8) -> bool {
    class == own || class > own && usize::from(class) >= port.quanta.len()
}

/// One port: its queue and its link.
fn serve(
    config: &SwitchConfig,
    port: usize,
    frames: &[Sent],
    arrivals: &[Waiting],
    left: &mut Vec<Left>,
    lost: &mut Vec<Lost>,
) {
    let settings = &config.ports[port];
    let Some(rate) = settings.rate.map(|rate| u128::from(rate.0)) else {
        // The machine takes every frame at once, so that the queue is empty when one comes.
        for arrival in arrivals {
            if arrival.wire > u128::from(settings.queue_limit()) {
                lost.push(Lost { frame: arrival.frame, egress: Some(port), reason: DropReason::QueueBytes });
                continue;
            }
            let found = Found { ahead: 0, measured: 0, rate: 1 };
            let mut gone = treat(config, port, &frames[arrival.frame], found);
            gone.frame = arrival.frame;
            gone.class = arrival.class;
            (gone.arrived, gone.start) = (arrival.arrived, arrival.arrived);
            gone.end = arrival.arrived + settings.delay.0;
            left.push(gone);
        }
        return;
    };
    let cost = |wire: u128| wire * OCTET;
    let at = |ns: u64| u128::from(ns) * rate;
    let mut waiting: Vec<(Waiting, Left)> = Vec::new();
    let mut link_free = 0;
    let mut last: Option<Waiting> = None;
    let mut round = Round::default();
    // One last arrival that never comes lets all others go.
    let ends = arrivals.iter().map(Some).chain([None]);
    for arrival in ends {
        let now = arrival.map_or(u128::MAX, |a| at(a.arrived));
        // The link takes its next frame when it is free and one is there: the oldest of the highest class then there, or
        // of that whose turn it is.
        while let Some(first) = waiting.iter().map(|(w, _)| at(w.arrived)).min() {
            let decision = first.max(link_free);
            if decision >= now {
                break;
            }
            let there = || waiting.iter().filter(|(w, _)| at(w.arrived) <= decision);
            let mut class = there().map(|(w, _)| w.class).max().unwrap();
            if usize::from(class) < settings.quanta.len() {
                let there: Vec<Waiting> = there().map(|(w, _)| *w).collect();
                class = round.send(&settings.quanta, &there);
            }
            let next = there().find(|(w, _)| w.class == class).unwrap().0.frame;
            let place = waiting.iter().position(|(w, _)| w.frame == next).unwrap();
            let (frame, mut gone) = waiting.remove(place);
            link_free = decision + cost(frame.wire);
            gone.start = decision.div_ceil(rate) as u64;
            gone.end = link_free.div_ceil(rate) as u64 + settings.delay.0;
            left.push(gone);
            last = Some(frame);
        }
        let Some(arrival) = arrival else { break };
        let lose = |reason| Lost { frame: arrival.frame, egress: Some(port), reason };
        let before = || waiting.iter().filter(|(w, _)| is_before(settings, w.class, arrival.class));
        let queued: u128 = before().map(|(w, _)| w.wire).sum();
        if queued + arrival.wire > u128::from(settings.queue_limit()) {
            lost.push(lose(DropReason::QueueBytes));
            continue;
        }
        if before().count() >= settings.frames_limit() as usize {
            lost.push(lose(DropReason::QueueFrames));
            continue;
        }
        // What still has to leave: the rest of the frame in service, and all queued that is known to go before it.
        let rest = link_free.saturating_sub(now);
        let ahead: u128 = before().map(|(w, _)| cost(w.wire)).sum();
        let serving = last.filter(|_| rest > 0);
        let queue: Vec<Waiting> = waiting.iter().map(|(w, _)| *w).collect();
        let measured = measure(settings, arrival, &queue, serving, rest);
        let found = Found { ahead: rest + ahead, measured, rate };
        let mut gone = treat(config, port, &frames[arrival.frame], found);
        gone.frame = arrival.frame;
        gone.class = arrival.class;
        gone.arrived = arrival.arrived;
        let shares = usize::from(arrival.class) < settings.quanta.len();
        if shares && waiting.iter().all(|(w, _)| w.class != arrival.class) {
            round.activate(arrival.class);
        }
        waiting.push((*arrival, gone));
    }
}

/// The depth by the port's own measure, in 1/rate ns or cells: of the frames in its queue and, with `rest` still to be
/// sent, in service.
fn measure(
    port: &PortConfig,
    arrival: &Waiting,
    queue: &[Waiting],
    serving: Option<Waiting>,
    rest: u128,
) -> u128 {
    let own = |w: &Waiting| w.class == arrival.class;
    let (queue, serving): (Vec<&Waiting>, _) = match port.depth.scope {
        DepthScope::Ahead => {
            (queue.iter().filter(|w| is_before(port, w.class, arrival.class)).collect(), serving)
        }
        DepthScope::Queue => (queue.iter().filter(|w| own(w)).collect(), serving.filter(own)),
        DepthScope::Port => (queue.iter().collect(), serving),
    };
    let octets: u128 = queue.iter().map(|w| w.wire).sum();
    match port.depth.unit {
        DepthUnit::Exact => octets * OCTET + serving.map_or(0, |_| rest),
        DepthUnit::Frames { in_service: true } => (octets + serving.map_or(0, |w| w.wire)) * OCTET,
        DepthUnit::Frames { in_service: false } => octets * OCTET,
        DepthUnit::Cells { octets } => {
            queue.iter().copied().chain(serving.as_ref()).map(|w| w.len.div_ceil(octets.into())).sum()
        }
    }
}

/// K in octets, to the nearest.
pub(crate) fn k(delta_ps: u64, rate: Rate) -> u128 {
    (u128::from(delta_ps) * u128::from(rate.0) * 2 / 8_000_000_000_000).div_ceil(2)
}

/// What becomes of a frame at a port where it finds this.
fn treat(config: &SwitchConfig, port: usize, frame: &Sent, found: Found) -> Left {
    let Found { ahead, measured, rate } = found;
    let settings = &config.ports[port];
    // Whole cells against K, to the nearest octet; all else exactly, and strictly, against thresholds of whole
    // picoseconds.
    let reaches = |halves: u32, ps: u64| match settings.depth.unit {
        DepthUnit::Cells { octets } => {
            let cells = u128::from(halves / 2) * k(ps, Rate(rate as u64)) / u128::from(octets);
            measured >= cells.max(1)
        }
        _ => measured * 1000 > u128::from(halves) * u128::from(ps) / 2 * rate,
    };
    let thresholds = settings.mark.map_or(0, |mark| mark.thresholds);
    let delta = settings.mark.map_or(0, |mark| mark.delta_ps);
    let lower = settings.mark.map_or(0, |mark| u32::from(mark.rule == Rule::Centred));
    let r = (1..=thresholds).filter(|&i| reaches(2 * i - lower, delta)).count() as u32;
    let over = settings.ecn.is_some_and(|ecn| reaches(2, ecn.threshold_ps));
    let (mark, correction) = marks::treat(config, port, frame, r, over);
    Left {
        frame: 0,
        port,
        class: 0,
        arrived: 0,
        start: 0,
        end: 0,
        depth_bytes: ahead.div_ceil(OCTET),
        depth_ps: (ahead * 1000).div_ceil(rate),
        measured: match settings.depth.unit {
            DepthUnit::Cells { .. } => measured,
            _ => measured.div_ceil(OCTET),
        },
        transparent: settings.transparent_clock && frame.message.is_some(),
        mark,
        correction,
    }
}
