//! Simulated networks under several seeds: what packets and time messages waited at each hop of the messages' way.
//!
//! Waits do not depend on marks, so one simulation serves every setting; that the switches' own marks are those of the
//! rule is checked on each message.

use super::network::{Network, WARMUP_MS};
use anyhow::{Context, Result, ensure};
use plimsoll_core::{config::WIRE_OVERHEAD, wire::identity::TimeMessage};
use plimsoll_lab::{
    lab::Silent,
    record::Sink,
    sim::{SimOptions, run},
    topology::Topology,
};
use plimsoll_model::{Law, Pair, Rule, Setting, Spread, mse_ns2};
use plimsoll_port::worker::{Fate, Record};
use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// Octets of the gap between frames, which the paper's load does not count.
const GAP: u32 = 12;
/// Packets of a port and seed that are kept: every so many of them.
const KEPT: usize = 75_000;

/// What one direction met.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// Waits of packets in ns, by hop.
    pub(super) packets: Vec<Vec<f64>>,
    /// Share of time that each hop's link sends, gaps not counted.
    pub(super) load: Vec<f64>,
    /// Waits of time messages in ns, hop by hop, in the order of sending.
    pub(super) messages: Vec<Vec<f64>>,
}

/// What a network showed, all seeds one after the other.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Syncs, and Delay_Reqs.
    pub(super) ways: [Way; 2],
    /// Where the messages of each seed begin.
    pub(super) begins: Vec<usize>,
    /// Messages with marks that are not those of the rule.
    pub(super) wrong_marks: usize,
    /// What the simulated clock itself found, by seed.
    pub(super) clock_improvement: Vec<f64>,
    /// Frames that found no room.
    pub(super) dropped: u64,
}

/// Simulates `network` under seeds 1 to `seeds`, on all CPUs.
pub(super) fn simulate(network: &Network, seeds: usize) -> Result<Seen> {
    let topology = network.topology()?;
    let marks = network.marks;
    let setting =
        Setting::new((marks.delta_us * 1e3).round(), marks.thresholds, marks.counter_max, Rule::Edge)?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(seeds);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        break;
                    }
                    let seen = one(&topology.with_seed(number as u64 + 1), &setting);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, seen));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let mut all = Seen::default();
    for (_, seen) in done {
        all.append(seen?, seeds);
    }
    Ok(all)
}

impl Seen {
    fn append(&mut self, other: Self, seeds: usize) {
        self.begins.push(self.ways[0].messages.len());
        for (way, more) in self.ways.iter_mut().zip(other.ways) {
            way.packets.resize_with(more.packets.len(), Vec::new);
            way.load.resize(more.load.len(), 0.0);
            way.packets.iter_mut().zip(more.packets).for_each(|(all, more)| all.extend(more));
            way.load.iter_mut().zip(more.load).for_each(|(all, more)| *all += more / seeds as f64);
            way.messages.extend(more.messages);
        }
        self.wrong_marks += other.wrong_marks;
        self.clock_improvement.extend(other.clock_improvement);
        self.dropped += other.dropped;
    }

    /// The messages of each seed.
    pub(super) fn by_seed(&self) -> impl Iterator<Item = Exchanges<'_>> {
        let ends = self.begins.iter().skip(1).copied().chain([self.ways[0].messages.len()]);
        self.begins
            .iter()
            .zip(ends)
            .map(|(&from, to)| Exchanges(self.ways.each_ref().map(|way| &way.messages[from..to])))
    }

    /// The messages without those of one seed, for each seed: what standard errors of anything come from (jackknife).
    pub(super) fn but_one(&self) -> Vec<[Vec<Vec<f64>>; 2]> {
        let seeds: Vec<_> = self.by_seed().collect();
        let but = |left_out: usize| {
            [0, 1].map(|way| {
                let kept = seeds.iter().enumerate().filter(|(seed, _)| *seed != left_out);
                kept.flat_map(|(_, exchanges)| exchanges.0[way].iter().cloned()).collect()
            })
        };
        (0..seeds.len()).map(but).collect()
    }

    /// The messages of the first half of the seeds, of the second half, or of all.
    pub(super) fn exchanges(&self, half: Option<usize>) -> Exchanges<'_> {
        let middle = self.begins.get(self.begins.len() / 2).copied().unwrap_or(0);
        let all = self.ways.each_ref().map(|way| way.messages.as_slice());
        Exchanges(match half {
            None => all,
            Some(0) => all.map(|messages| &messages[..middle]),
            Some(_) => all.map(|messages| &messages[middle..]),
        })
    }
}

/// Time messages there and back, the n-th with the n-th.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchanges<'s>(pub(super) [&'s [Vec<f64>]; 2]);

impl Exchanges<'_> {
    /// The laws of what these messages met, hop by hop.
    pub(super) fn pair(&self) -> Result<Pair> {
        let laws = |messages: &[Vec<f64>]| {
            let hops = messages.first().map_or(0, Vec::len);
            let hop = |i: usize| Law::samples(messages.iter().map(|waits| waits[i]).collect());
            (0..hops).map(hop).collect::<Result<Vec<_>, _>>()
        };
        Ok(Pair { forward: laws(self.0[0])?, reverse: laws(self.0[1])? })
    }

    /// Offset error of each exchange in ns, where `left` says what of a message's waits is not corrected.
    pub(super) fn errors(&self, left: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let both = self.0[0].iter().zip(self.0[1]);
        both.map(|(there, back)| 0.5 * (left(there) - left(back))).collect()
    }

    /// Mean squared offset error in ns^2.
    pub(super) fn mse_ns2(&self, left: impl Fn(&[f64]) -> f64) -> f64 {
        let errors = self.errors(left);
        errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64
    }

    /// I of `setting`, marked at all hops.
    pub(super) fn improvement(&self, setting: &Setting) -> f64 {
        plimsoll_model::improvement(self.mse_ns2(|waits| left(setting, waits, |_| true)), self.raw_mse_ns2())
    }

    pub(super) fn raw_mse_ns2(&self) -> f64 {
        self.mse_ns2(|waits| waits.iter().sum())
    }
}

/// What `setting` leaves of a message's waits in ns where `marks` says which hops mark.
pub(super) fn left(setting: &Setting, waits: &[f64], marks: impl Fn(usize) -> bool) -> f64 {
    let hops = waits.iter().enumerate().filter(|(hop, _)| marks(*hop));
    let sum: u64 = hops.map(|(_, &wait)| u64::from(setting.marks(wait))).sum();
    waits.iter().sum::<f64>() - sum.min(u64::from(setting.counter_max())) as f64 * setting.delta_ns()
}

/// Standard error of the mean of these values, one a seed.
pub(super) fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n * (n - 1.0))).sqrt()
}

/// Standard error of a figure that has these values where one seed is left out.
pub(super) fn jackknife(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    // Such values lie (n - 1) times as close together as those of single seeds.
    (n - 1.0) * standard_error(values)
}

/// MSE of paths whose hops leave so much, independently: eq. 13.
pub(super) fn mse_of(forward: &[Spread], reverse: &[Spread]) -> f64 {
    let sum = |spreads: &[Spread]| {
        let mut sum = Spread::default();
        spreads.iter().for_each(|spread| sum += *spread);
        sum
    };
    mse_ns2(sum(forward), sum(reverse))
}

fn one(topology: &Topology, setting: &Setting) -> Result<Seen> {
    let mut listener = Listener::new(topology, setting)?;
    let options = SimOptions { sinks: vec![&mut listener], ..SimOptions::default() };
    let outcome = run(topology, options, &Silent, &AtomicBool::new(false))?.outcome;
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let dropped = outcome.flows.iter().map(|flow| flow.lost_frames).sum();
    let improvement = outcome.clocks.first().map_or(0.0, |clock| clock.report.improvement);
    Ok(listener.finish(outcome.duration_s, dropped, improvement))
}

/// Listens at the ports of the messages' way.
struct Listener<'s> {
    setting: &'s Setting,
    /// Direction and hop of each switch and port.
    ports: HashMap<(u16, u16), (usize, usize)>,
    from_ns: u64,
    hops: usize,
    packets: [Vec<Vec<f32>>; 2],
    octets: [Vec<u64>; 2],
    /// By sequenceId: waits so far, marks so far, and what is on the way.
    flying: [HashMap<u16, Message>; 2],
    arrived: [Vec<(u64, Vec<f64>)>; 2],
    wrong: usize,
}

#[derive(Default)]
struct Message {
    began: u64,
    waits: Vec<f64>,
    wrong: bool,
}

impl<'s> Listener<'s> {
    fn new(topology: &Topology, setting: &'s Setting) -> Result<Self> {
        let clock = topology.clocks.first().context("the network has no clock")?;
        let ways = [&clock.to_client, &clock.to_server];
        let mut ports = HashMap::new();
        for (direction, way) in ways.into_iter().enumerate() {
            for (number, hop) in way.iter().enumerate() {
                ports.insert((hop.switch, hop.port), (direction, number));
            }
        }
        let hops = clock.to_client.len();
        Ok(Self {
            setting,
            ports,
            from_ns: WARMUP_MS * 1_000_000,
            hops,
            packets: [vec![Vec::new(); hops], vec![Vec::new(); hops]],
            octets: [vec![0; hops], vec![0; hops]],
            flying: Default::default(),
            arrived: Default::default(),
            wrong: 0,
        })
    }

    fn finish(self, seconds: f64, dropped: u64, improvement: f64) -> Seen {
        let [there, back] = self.arrived.map(|mut messages| {
            messages.sort_by_key(|(began, _)| *began);
            messages.into_iter().map(|(_, waits)| waits).collect::<Vec<_>>()
        });
        // The n-th there with the n-th back.
        let pairs = there.len().min(back.len());
        let mut messages = [there, back];
        messages.iter_mut().for_each(|messages| messages.truncate(pairs));
        let thin = |waits: Vec<f32>| -> Vec<f64> {
            waits.iter().step_by(waits.len().div_ceil(KEPT).max(1)).map(|&wait| f64::from(wait)).collect()
        };
        let [there, back] = messages;
        let mut packets = self.packets.map(|hops| hops.into_iter().map(thin).collect::<Vec<_>>());
        let load = self.octets.map(|hops| {
            hops.into_iter().map(|octets| octets as f64 * 8.0 / 1e9 / seconds).collect::<Vec<_>>()
        });
        let [load_there, load_back] = load;
        let ways = [
            Way { packets: std::mem::take(&mut packets[0]), load: load_there, messages: there },
            Way { packets: std::mem::take(&mut packets[1]), load: load_back, messages: back },
        ];
        Seen {
            ways,
            begins: Vec::new(),
            wrong_marks: self.wrong,
            clock_improvement: vec![improvement],
            dropped,
        }
    }
}

impl Sink for Listener<'_> {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        let (Fate::Sent(sent), Some(egress)) = (&record.fate, record.egress) else { return Ok(()) };
        let Some(&(direction, hop)) = self.ports.get(&(record.switch, egress.0)) else { return Ok(()) };
        let wait_ns = sent.depth_ps as f64 / 1e3;
        let Some(message) = record.message.as_ref().and_then(TimeMessage::ptp) else {
            if record.arrived.0 >= self.from_ns {
                self.packets[direction][hop].push(wait_ns as f32);
                self.octets[direction][hop] += u64::from(record.len + WIRE_OVERHEAD - GAP);
            }
            return Ok(());
        };
        if usize::from(message.message_type) != direction {
            return Ok(());
        }
        let flying = &mut self.flying[direction];
        if hop == 0 {
            flying.insert(message.sequence_id, Message { began: record.arrived.0, ..Message::default() });
        }
        let Some(seen) = flying.get_mut(&message.sequence_id) else { return Ok(()) };
        seen.waits.push(wait_ns);
        seen.wrong |= sent.mark.r != self.setting.marks(wait_ns);
        if seen.waits.len() == self.hops
            && let Some(seen) = flying.remove(&message.sequence_id)
            && seen.began >= self.from_ns
        {
            self.wrong += usize::from(seen.wrong);
            self.arrived[direction].push((seen.began, seen.waits));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_same_standard_error_either_way() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0];
        let sum: f64 = values.iter().sum();
        let but_one: Vec<f64> = values.iter().map(|value| (sum - value) / 4.0).collect();
        assert!((jackknife(&but_one) - standard_error(&values)).abs() < 1e-12);
    }

    #[test]
    fn marks_of_hops_add_up_to_n_and_unmarked_hops_count_in_full() {
        let setting = Setting::new(10.0, 2, 3, Rule::Edge).unwrap();
        let waits = [25.0, 11.0, 40.0];
        assert_eq!(left(&setting, &waits, |_| true), 76.0 - 30.0);
        assert_eq!(left(&setting, &waits, |hop| hop < 2), 76.0 - 30.0);
        assert_eq!(left(&setting, &waits, |hop| hop == 1), 76.0 - 10.0);
    }

    #[test]
    fn seeds_are_kept_apart() {
        let message = |wait: f64| vec![vec![wait]];
        let way = |waits: &[f64]| Way {
            messages: waits.iter().flat_map(|w| message(*w)).collect(),
            ..Way::default()
        };
        let mut all = Seen::default();
        for waits in [[1.0, 2.0], [3.0, 4.0]] {
            all.append(Seen { ways: [way(&waits), way(&waits)], ..Seen::default() }, 2);
        }
        assert_eq!(all.exchanges(Some(1)).0[0], [[3.0], [4.0]]);
        assert_eq!(all.by_seed().map(|seed| seed.0[1].len()).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(all.but_one()[0][0], [[3.0], [4.0]]);
        assert_eq!(all.exchanges(None).raw_mse_ns2(), 0.0);
    }
}
