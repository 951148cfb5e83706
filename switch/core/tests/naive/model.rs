//! An obviously right, slow switch. It knows frames by what made them, not by their octets; keeps lists, not tables;
//! and does all arithmetic in 1/rate ns, in which every arrival and every cost at `rate` bit/s is a whole number.

use plimsoll_core::{
    DepthScope, DepthUnit, DropReason, EdgeOutcome, MarkOutcome, PortConfig, Rate, SwitchConfig,
};

/// Where a frame carries its priority.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Priority {
    Tag(u8),
    Dscp(u8),
    Nowhere,
}

/// A PTP event message's part of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    pub(crate) message_type: u8,
    pub(crate) word: u32,
    pub(crate) correction: i64,
}

/// A frame that somebody sent into the switch.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) port: usize,
    pub(crate) stamp: u64,
    pub(crate) source: [u8; 6],
    pub(crate) destination: [u8; 6],
    pub(crate) vlan: u16,
    pub(crate) priority: Priority,
    pub(crate) len: usize,
    pub(crate) sync: Option<Sync>,
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
    pub(crate) r: u32,
    pub(crate) outcome: MarkOutcome,
    pub(crate) edge: EdgeOutcome,
    pub(crate) converted_ns: u64,
    pub(crate) before: u32,
    pub(crate) after: u32,
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

/// What becomes of all frames.
pub(crate) fn run(config: &SwitchConfig, frames: &[Sent]) -> (Vec<Left>, Vec<Lost>) {
    let (mut left, mut lost) = (Vec::new(), Vec::new());
    let arrivals: Vec<u64> = frames
        .iter()
        .scan(0, |last, frame| {
            *last = frame.stamp.max(*last);
            Some(*last)
        })
        .collect();
    let egress = forward(config, frames, &arrivals, &mut lost);
    for (port, queue) in egress.into_iter().enumerate() {
        serve(config, port, frames, &queue, &mut left, &mut lost);
    }
    (left, lost)
}

/// Which frames reach which port, in order.
fn forward(
    config: &SwitchConfig,
    frames: &[Sent],
    arrivals: &[u64],
    lost: &mut Vec<Lost>,
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
        let now = arrivals[number];
        stations.retain(|s| (s.0, s.1) != (frame.vlan, frame.source));
        stations.push((frame.vlan, frame.source, frame.port, now));
        let known = stations
            .iter()
            .find(|s| (s.0, s.1) == (frame.vlan, frame.destination) && now - s.3 < config.fdb_age.0)
            .map(|s| s.2);
        let targets: Vec<usize> = match known {
            Some(port) if frame.destination[0] % 2 == 0 => vec![port],
            _ => (0..config.ports.len()).filter(|&p| p != frame.port && passes(p)).collect(),
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
            let len = frame.len as u128;
            egress[port].push(Waiting { frame: number, arrived: now, class, len, wire: len.max(60) + 24 });
        }
    }
    egress
}

/// 802.1Q-2018 Table 8-5 for eight classes: background below best effort, the others by number.
fn class(frame: &Sent, port: &PortConfig) -> u8 {
    const TABLE: [u8; 8] = [1, 0, 2, 3, 4, 5, 6, 7];
    if let (Some(class), Some(_)) = (port.sync_class, frame.sync) {
        return class;
    }
    match frame.priority {
        Priority::Tag(pcp) => TABLE[usize::from(pcp)],
        Priority::Dscp(dscp) if dscp / 8 < 2 => 1,
        Priority::Dscp(dscp) => dscp / 8,
        Priority::Nowhere => TABLE[usize::from(port.default_priority)],
    }
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
    let trusted = |frame: usize| config.ports[frames[frame].port].trust;
    let Some(rate) = settings.rate.map(|rate| u128::from(rate.0)) else {
        // The machine takes every frame at once, so that the queue is empty when one comes.
        for arrival in arrivals {
            if arrival.wire > u128::from(settings.queue_limit()) {
                lost.push(Lost { frame: arrival.frame, egress: Some(port), reason: DropReason::QueueBytes });
                continue;
            }
            let found = Found { ahead: 0, measured: 0, rate: 1 };
            let mut gone = treat(config, port, &frames[arrival.frame], trusted(arrival.frame), found);
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
    // One last arrival that never comes lets all others go.
    let ends = arrivals.iter().map(Some).chain([None]);
    for arrival in ends {
        let now = arrival.map_or(u128::MAX, |a| at(a.arrived));
        // The link takes its next frame when it is free and one is there: the oldest of the highest class then there.
        while let Some(first) = waiting.iter().map(|(w, _)| at(w.arrived)).min() {
            let decision = first.max(link_free);
            if decision >= now {
                break;
            }
            let there = || waiting.iter().filter(|(w, _)| at(w.arrived) <= decision);
            let highest = there().map(|(w, _)| w.class).max().unwrap();
            let next = there().find(|(w, _)| w.class == highest).unwrap().0.frame;
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
        let before = || waiting.iter().filter(|(w, _)| w.class >= arrival.class);
        let queued: u128 = before().map(|(w, _)| w.wire).sum();
        if queued + arrival.wire > u128::from(settings.queue_limit()) {
            lost.push(lose(DropReason::QueueBytes));
            continue;
        }
        if before().count() >= settings.frames_limit() as usize {
            lost.push(lose(DropReason::QueueFrames));
            continue;
        }
        // What still has to leave: the rest of the frame in service, and all queued that is not of a lower class.
        let rest = link_free.saturating_sub(now);
        let ahead: u128 =
            waiting.iter().filter(|(w, _)| w.class >= arrival.class).map(|(w, _)| cost(w.wire)).sum();
        let serving = last.filter(|_| rest > 0);
        let queue: Vec<Waiting> = waiting.iter().map(|(w, _)| *w).collect();
        let measured = measure(settings, arrival, &queue, serving, rest);
        let found = Found { ahead: rest + ahead, measured, rate };
        let mut gone = treat(config, port, &frames[arrival.frame], trusted(arrival.frame), found);
        gone.frame = arrival.frame;
        gone.class = arrival.class;
        gone.arrived = arrival.arrived;
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
        DepthScope::Ahead => (queue.iter().filter(|w| w.class >= arrival.class).collect(), serving),
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

/// What happens to a frame's message at a port where it finds this.
fn treat(config: &SwitchConfig, port: usize, frame: &Sent, trusted: bool, found: Found) -> Left {
    let Found { ahead, measured, rate } = found;
    let settings = &config.ports[port];
    let mut gone = Left {
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
        transparent: settings.transparent_clock && frame.sync.is_some(),
        r: 0,
        outcome: MarkOutcome::NotSync,
        edge: EdgeOutcome::Off,
        converted_ns: 0,
        before: 0,
        after: 0,
        correction: 0,
    };
    let Some(sync) = frame.sync else { return gone };
    let forward = sync.message_type == 1 || sync.message_type == 2;
    let mut counter = Counter::read(sync.word, forward);
    let mut word = sync.word;
    if !trusted
        && let Some(counter) = &mut counter
        && counter.mode != Mode::None
    {
        *counter = Counter { mode: counter.mode, own: 0, other: 0 };
        word = counter.write(forward);
    }
    gone.outcome = MarkOutcome::Off;
    (gone.before, gone.after, gone.correction) = (sync.word, word, sync.correction);
    if let Some(mark) = settings.mark {
        let exceeds = |i: u32| match settings.depth.unit {
            // Whole cells against i * K, K to the nearest octet.
            DepthUnit::Cells { octets } => {
                measured * u128::from(octets) >= u128::from(i) * k(mark.delta_ps, Rate(rate as u64))
            }
            _ => measured * 1000 > u128::from(i) * u128::from(mark.delta_ps) * rate,
        };
        gone.r = (1..=mark.thresholds).filter(|&i| exceeds(i)).count() as u32;
        gone.outcome = match &mut counter {
            None => MarkOutcome::InvalidWord,
            Some(_) if gone.r == 0 => MarkOutcome::Zero,
            Some(counter) => {
                let most = counter.mode.most().min(mark.counter_max);
                let mut added = 0;
                while added < gone.r && counter.own < most {
                    if counter.mode == Mode::None {
                        counter.mode = Mode::Integer;
                    }
                    counter.own += 1;
                    added += 1;
                }
                if added > 0 {
                    gone.after = counter.write(forward);
                }
                if added < gone.r { MarkOutcome::Saturated } else { MarkOutcome::Marked }
            }
        };
    }
    if settings.edge
        && let (Some(counter), Some(delta)) = (counter, config.delta())
    {
        let ps = u128::from(counter.own) * u128::from(delta.ps);
        let most = 1_000_000_000_000;
        let scaled = (ps.min(most) * 65_536 + 500) / 1000;
        gone.edge = match counter.mode {
            Mode::None => EdgeOutcome::Empty,
            Mode::IntegerBoth | Mode::ShiftBoth => EdgeOutcome::ForwardReverse,
            Mode::Integer | Mode::Shift => {
                gone.after = 0;
                let sum = i128::from(sync.correction) + scaled as i128;
                if ps == 0 {
                    EdgeOutcome::Empty
                } else if sync.correction == i64::MAX {
                    EdgeOutcome::Overflowed
                } else {
                    gone.converted_ns = ((ps.min(most) + 500) / 1000) as u64;
                    gone.correction = sum.min(i128::from(i64::MAX)) as i64;
                    match () {
                        () if sum >= i128::from(i64::MAX) => EdgeOutcome::Saturated,
                        () if ps > most => EdgeOutcome::Capped,
                        () => EdgeOutcome::Converted,
                    }
                }
            }
        };
    }
    gone
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    None,
    Integer,
    IntegerBoth,
    Shift,
    ShiftBoth,
}

impl Mode {
    fn most(self) -> u32 {
        match self {
            Self::None | Self::Integer => (1 << 30) - 1,
            Self::IntegerBoth => 32_767,
            Self::Shift => 29,
            Self::ShiftBoth => 14,
        }
    }
}

/// A marking word, as the text of its bits.
struct Counter {
    mode: Mode,
    /// The count of the message's own direction, or the only one.
    own: u32,
    other: u32,
}

impl Counter {
    fn read(word: u32, forward: bool) -> Option<Self> {
        let bits = format!("{word:032b}");
        let number = |text: &str| u32::from_str_radix(text, 2).unwrap();
        let stack = |text: &str| {
            let count = text.chars().filter(|&c| c == '1').count();
            text.ends_with(&"1".repeat(count)).then_some(count as u32)
        };
        let (mode, first, second) = match (&bits[..2], &bits[2..3]) {
            ("00", _) => (Mode::None, 0, 0),
            ("01", _) => (Mode::Integer, number(&bits[2..]), 0),
            ("10", _) => (Mode::IntegerBoth, number(&bits[2..17]), number(&bits[17..])),
            (_, "0") => (Mode::Shift, stack(&bits[3..])?, 0),
            _ if &bits[3..4] == "1" => return None,
            _ => (Mode::ShiftBoth, stack(&bits[4..18])?, stack(&bits[18..])?),
        };
        let swap = matches!(mode, Mode::IntegerBoth | Mode::ShiftBoth) && !forward;
        Some(if swap {
            Self { mode, own: second, other: first }
        } else {
            Self { mode, own: first, other: second }
        })
    }

    fn write(&self, forward: bool) -> u32 {
        let (first, second) = if forward { (self.own, self.other) } else { (self.other, self.own) };
        let stack = |count: u32, width: usize| format!("{:0>width$}", "1".repeat(count as usize));
        let bits = match self.mode {
            Mode::None => return 0,
            Mode::Integer => format!("01{:030b}", self.own),
            Mode::IntegerBoth => format!("10{first:015b}{second:015b}"),
            Mode::Shift => format!("110{}", stack(self.own, 29)),
            Mode::ShiftBoth => format!("1110{}{}", stack(first, 14), stack(second, 14)),
        };
        u32::from_str_radix(&bits, 2).unwrap()
    }
}
