//! The naive switch's marks: words as the text of their bits, ECN bits as places in a list.

use plimsoll_core::{
    Counter as Kind, EcnOutcome, EcnScope, Ect, EdgeOutcome, Field, MarkConfig, MarkOutcome, MarkRecord,
    SwitchConfig,
};

use crate::model::Sent;

/// A time message's part of a frame, as its maker knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// NTP, else PTP.
    pub(crate) ntp: bool,
    /// Whether it is a request; `None`: neither that nor a response.
    pub(crate) forward: Option<bool>,
    /// Whether it answers a request.
    pub(crate) answers: bool,
    /// Its marking word.
    pub(crate) word: Option<u32>,
    /// Why the word must not be written, or is not there.
    pub(crate) skip: Option<MarkOutcome>,
    pub(crate) correction: i64,
}

/// What ingress makes of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    word: u32,
    ecn: u8,
    pub(crate) cleared: bool,
    pub(crate) untouched: bool,
    pub(crate) remarked: bool,
}

/// Ingress trust and remarking.
pub(crate) fn take(config: &SwitchConfig, frame: &Sent) -> Taken {
    let Some(message) = frame.message else { return Taken::default() };
    let port = &config.ports[frame.port];
    let mut taken =
        Taken { word: message.word.unwrap_or(0), ecn: frame.ecn.unwrap_or(0), ..Taken::default() };
    if !port.trust {
        // What a request gathered comes back in the other half of its answer: that one stays.
        let answers = message.answers;
        let counter = Counter::read(taken.word, !answers);
        let clears = |c: &Counter| c.own != 0 || (c.other != 0 && !answers);
        if let Some(counter) = counter.filter(|c| c.mode != Mode::None && clears(c)) {
            if message.skip.is_some() {
                taken.untouched = true;
            } else {
                let other = if answers { counter.other } else { 0 };
                taken.word = Counter { own: 0, other, ..counter }.write(!answers);
                taken.cleared = true;
            }
        }
        let mut counters = config.ports.iter().filter_map(|port| port.mark).filter(|mark| mark.carriers.ecn);
        if let (Some(mark), Some(_)) = (counters.next(), message.forward) {
            let both = matches!(mark.counter, Kind::IntegerBoth | Kind::ShiftBoth);
            let after = if both && answers { taken.ecn & 0b10 } else { 0 };
            taken.cleared |= after != taken.ecn;
            taken.ecn = after;
        }
    }
    if let (Some(ect), Some(0)) = (port.remark, frame.ecn) {
        taken.ecn = if ect == Ect::Zero { 2 } else { 1 };
        taken.remarked = true;
    }
    taken
}

/// What a port does to a frame whose depth exceeds `r` thresholds, and ECN's if `over`; and correctionField after it.
pub(crate) fn treat(
    config: &SwitchConfig,
    port: usize,
    frame: &Sent,
    r: u32,
    over: bool,
) -> (MarkRecord, i64) {
    let settings = &config.ports[port];
    let taken = take(config, frame);
    let mut record = MarkRecord {
        ecn_before: frame.ecn.unwrap_or(0),
        ecn_after: taken.ecn,
        before: frame.message.and_then(|message| message.word).unwrap_or(0),
        after: taken.word,
        ..MarkRecord::default()
    };
    let mut correction = 0;
    if let Some(message) = frame.message {
        record.r = r;
        correction = message.correction;
        record.field = match (message.word, message.ntp) {
            (None, _) => Field::None,
            (_, true) => Field::Ntp,
            (_, false) => Field::Ptp,
        };
        treat_word(config, port, &message, &mut record, &mut correction);
    }
    let in_scope = |scope| scope == EcnScope::All || frame.message.is_some();
    if settings.ecn.is_some_and(|ecn| in_scope(ecn.scope)) {
        let bits =
            if frame.message.is_some() { Some(taken.ecn).filter(|_| frame.ecn.is_some()) } else { frame.ecn };
        (record.ecn, record.ecn_after) = match bits {
            None => (EcnOutcome::NotIp, 0),
            Some(bits) if !over => (EcnOutcome::Below, bits),
            Some(0) => (EcnOutcome::NotEct, 0),
            Some(3) => (EcnOutcome::Already, 3),
            Some(_) => (EcnOutcome::Marked, 3),
        };
    } else if let Some(mark) = settings.mark.filter(|mark| mark.carriers.ecn)
        && let Some(Message { forward: Some(forward), .. }) = frame.message
    {
        (record.ecn, record.ecn_after) = match frame.ecn {
            None => (EcnOutcome::NotIp, 0),
            Some(_) => count_ecn(&mark, forward, taken.ecn, r),
        };
    } else if frame.message.is_none() {
        // Nobody looked.
        record.ecn_before = 0;
    }
    let by_ecn = settings.mark.is_some_and(|mark| mark.carriers.ecn);
    let counts = [EcnOutcome::Below, EcnOutcome::Marked, EcnOutcome::Saturated];
    record.counted = record.outcome.is_counted() || by_ecn && counts.contains(&record.ecn);
    (record, correction)
}

/// The bits of each count, in order.
fn states(counter: Kind, forward: bool, bits: u8) -> Vec<u8> {
    match counter {
        Kind::Integer => vec![0b00, 0b01, 0b10, 0b11],
        Kind::Shift => vec![0b00, 0b01, 0b11],
        Kind::IntegerBoth | Kind::ShiftBoth if forward => vec![bits & 0b01, bits & 0b01 | 0b10],
        Kind::IntegerBoth | Kind::ShiftBoth => vec![bits & 0b10, bits & 0b10 | 0b01],
    }
}

fn count_ecn(mark: &MarkConfig, forward: bool, bits: u8, r: u32) -> (EcnOutcome, u8) {
    let states = states(mark.counter, forward, bits);
    let Some(x) = states.iter().position(|&state| state == bits) else { return (EcnOutcome::Invalid, bits) };
    let (mut y, mut added) = (x, 0);
    while added < r && y + 1 < states.len() && y < mark.counter_max as usize {
        y += 1;
        added += 1;
    }
    let outcome = match r {
        0 => EcnOutcome::Below,
        r if added < r => EcnOutcome::Saturated,
        _ => EcnOutcome::Marked,
    };
    (outcome, states[y])
}

fn treat_word(
    config: &SwitchConfig,
    port: usize,
    message: &Message,
    record: &mut MarkRecord,
    correction: &mut i64,
) {
    let settings = &config.ports[port];
    let forward = message.forward.unwrap_or(false);
    let mut counter = Counter::read(record.after, forward);
    record.outcome = MarkOutcome::Off;
    if let Some(mark) = settings.mark {
        let carried = if message.ntp { mark.carriers.ntp } else { mark.carriers.ptp };
        record.outcome = match (&mut counter, message.skip) {
            _ if !carried => MarkOutcome::Carrier,
            (_, Some(skip)) => skip,
            (None, _) => MarkOutcome::InvalidWord,
            (Some(_), _) if record.r == 0 => MarkOutcome::Zero,
            (Some(counter), _) => {
                let mode = if counter.mode == Mode::None { Mode::of(mark.counter) } else { counter.mode };
                let most = mode.most().min(mark.counter_max);
                let mut added = 0;
                while added < record.r && counter.own < most {
                    counter.mode = mode;
                    counter.own += 1;
                    added += 1;
                }
                if added > 0 {
                    record.after = counter.write(forward);
                }
                if added < record.r { MarkOutcome::Saturated } else { MarkOutcome::Marked }
            }
        };
    }
    if settings.edge
        && !message.ntp
        && message.skip.is_none()
        && let (Some(counter), Some(delta)) = (counter, config.delta())
    {
        let ps = u128::from(counter.own) * u128::from(delta.ps);
        let most = 1_000_000_000_000;
        let scaled = (ps.min(most) * 65_536 + 500) / 1000;
        record.edge = match counter.mode {
            Mode::None => EdgeOutcome::Empty,
            Mode::IntegerBoth | Mode::ShiftBoth => EdgeOutcome::ForwardReverse,
            Mode::Integer | Mode::Shift => {
                record.after = 0;
                let sum = i128::from(*correction) + scaled as i128;
                if ps == 0 {
                    EdgeOutcome::Empty
                } else if *correction == i64::MAX {
                    EdgeOutcome::Overflowed
                } else {
                    record.converted_ns = ((ps.min(most) + 500) / 1000) as u64;
                    *correction = sum.min(i128::from(i64::MAX)) as i64;
                    match () {
                        () if sum >= i128::from(i64::MAX) => EdgeOutcome::Saturated,
                        () if ps > most => EdgeOutcome::Capped,
                        () => EdgeOutcome::Converted,
                    }
                }
            }
        };
    }
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
    fn of(counter: Kind) -> Self {
        match counter {
            Kind::Integer => Self::Integer,
            Kind::IntegerBoth => Self::IntegerBoth,
            Kind::Shift => Self::Shift,
            Kind::ShiftBoth => Self::ShiftBoth,
        }
    }

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
