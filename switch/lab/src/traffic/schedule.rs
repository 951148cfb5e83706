//! When each frame of a flow is due and how long it is: an endless sequence that its seed repeats exactly.

use super::{Cycle, FlowKind, FlowSpec, SizeBounds, SizeDistribution, law::exponential};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds since the flow began.
    pub at_ns: u64,
    /// Octets on the wire.
    pub wire: u32,
}

/// The frames of a flow in order. The simulator and the sender follow the same one.
#[derive(Clone, Debug)]
pub struct Schedule {
    kind: FlowKind,
    cycle: Option<Cycle>,
    size: SizeDistribution,
    bounds: SizeBounds,
    /// Mean gap in picoseconds; for on-off flows the gap within a burst.
    gap_ps: f64,
    /// The gap before the next frame of a flow of equal gaps: at first a phase, so that two flows of one rate do not
    /// run in step.
    next_gap_ps: f64,
    /// What is left of the burst, in picoseconds.
    burst_ps: f64,
    /// When the last frame was due: whole nanoseconds, and picoseconds beyond them.
    now: (u64, u64),
    /// Times and sizes come from streams of their own, so that changing one law leaves the other as it was.
    times: ChaCha8Rng,
    sizes: ChaCha8Rng,
}

impl Schedule {
    /// The schedule of `spec` for frames within `bounds`, as [`FlowSpec::bounds`] gives them.
    pub fn new(spec: &FlowSpec, bounds: SizeBounds) -> Self {
        let mean_ps = spec.size.mean(bounds) * 8e12 / spec.rate.0 as f64;
        let mut times = ChaCha8Rng::seed_from_u64(spec.seed);
        let mut sizes = times.clone();
        sizes.set_stream(1);
        let (gap_ps, burst_ps) = match spec.kind {
            FlowKind::OnOff { on_ns, off_ns } => {
                (mean_ps * on_ns as f64 / (on_ns as f64 + off_ns as f64), period(on_ns, &mut times))
            }
            FlowKind::Poisson | FlowKind::Constant => (mean_ps, 0.0),
        };
        let next_gap_ps = gap_ps * times.random::<f64>();
        Self {
            kind: spec.kind,
            cycle: spec.cycle,
            size: spec.size,
            bounds,
            gap_ps,
            next_gap_ps,
            burst_ps,
            now: (0, 0),
            times,
            sizes,
        }
    }

    /// The next frame.
    pub fn next_due(&mut self) -> Due {
        let gap_ps = match self.kind {
            FlowKind::Poisson => exponential(self.gap_ps, &mut self.times),
            FlowKind::Constant => std::mem::replace(&mut self.next_gap_ps, self.gap_ps),
            FlowKind::OnOff { on_ns, off_ns } => {
                // A gap that the burst's end cuts goes on in the next burst, so that the mean rate is kept.
                let mut gap = std::mem::replace(&mut self.next_gap_ps, self.gap_ps);
                let mut pauses = 0.0;
                while gap > self.burst_ps {
                    gap -= self.burst_ps;
                    pauses += self.burst_ps + period(off_ns, &mut self.times);
                    self.burst_ps = period(on_ns, &mut self.times);
                }
                self.burst_ps -= gap;
                pauses + gap
            }
        };
        let ps = self.now.1 + gap_ps.round() as u64;
        self.now = (self.now.0 + ps / 1000, ps % 1000);
        let mut drawn = |mean: f64, around: u32| {
            let octets = exponential(mean, &mut self.sizes).round() as u32;
            octets.saturating_add(around).clamp(self.bounds.min, self.bounds.max)
        };
        let wire = match self.size {
            SizeDistribution::Fixed { wire } => wire,
            SizeDistribution::Exponential { mean_wire } => drawn(mean_wire, 0),
            SizeDistribution::ExponentialPayload { mean } => drawn(mean, self.bounds.around()),
        };
        let ran_ns = self.now.0;
        Due { at_ns: self.cycle.map_or(ran_ns, |cycle| cycle.at(ran_ns)), wire }
    }
}

/// The length of a burst or pause, in picoseconds.
fn period(mean_ns: u64, rng: &mut ChaCha8Rng) -> f64 {
    exponential(mean_ns as f64 * 1e3, rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::PaperFlow;
    use plimsoll_core::Rate;

    const FRAMES: usize = 200_000;

    fn frames(spec: &FlowSpec) -> Vec<Due> {
        let target = "10.0.0.1:9".parse().unwrap();
        let mut schedule = Schedule::new(spec, spec.bounds(target).unwrap());
        (0..FRAMES).map(|_| schedule.next_due()).collect()
    }

    fn rate(frames: &[Due]) -> f64 {
        let octets: f64 = frames.iter().map(|due| f64::from(due.wire)).sum();
        octets * 8e9 / frames[FRAMES - 1].at_ns as f64
    }

    fn spec(kind: FlowKind, size: SizeDistribution) -> FlowSpec {
        FlowSpec {
            name: "f".into(),
            kind,
            rate: Rate(70_000_000),
            size,
            seed: 7,
            mtu: 1500,
            dscp: 0,
            cycle: None,
        }
    }

    #[test]
    fn a_seed_repeats_its_frames_and_another_gives_others() {
        let mut spec = FlowSpec::paper("f", PaperFlow::Sf, Rate(100_000_000), 42);
        let first = frames(&spec);
        assert_eq!(frames(&spec), first);
        spec.seed = 43;
        assert_ne!(frames(&spec), first);
        // Pinned, so that a file's seed means the same traffic in every release.
        spec.seed = 42;
        assert_eq!(&frames(&spec)[..3], PINNED);
    }

    const PINNED: &[Due] = &[
        Due { at_ns: 201_918, wire: 1072 },
        Due { at_ns: 239_444, wire: 155 },
        Due { at_ns: 305_857, wire: 560 },
    ];

    #[test]
    fn poisson_gaps_have_the_mean_variance_and_tail_of_the_exponential_law() {
        let frames = frames(&spec(FlowKind::Poisson, SizeDistribution::Fixed { wire: 875 }));
        let mean = 875.0 * 8e9 / 70e6;
        let gaps: Vec<f64> = frames.windows(2).map(|w| (w[1].at_ns - w[0].at_ns) as f64).collect();
        let n = gaps.len() as f64;
        let found = gaps.iter().sum::<f64>() / n;
        // Standard error of the mean is mean/sqrt(n): five of them.
        assert!((found / mean - 1.0).abs() < 5.0 / n.sqrt(), "mean {found} of {mean}");
        let variance = gaps.iter().map(|g| (g - found).powi(2)).sum::<f64>() / n;
        // The exponential's fourth central moment is 9 m^4, so that of its sample variance is 8 m^4/n.
        assert!((variance / (mean * mean) - 1.0).abs() < 5.0 * (8.0 / n).sqrt());
        // Kolmogorov-Smirnov, 0.1 % level.
        let mut sorted = gaps;
        sorted.sort_by(f64::total_cmp);
        let distance = sorted.iter().enumerate().fold(0.0f64, |d, (i, g)| {
            let law = 1.0 - (-g / mean).exp();
            d.max((law - i as f64 / n).abs()).max((law - (i + 1) as f64 / n).abs())
        });
        assert!(distance < 1.95 / n.sqrt(), "distance {distance}");
    }

    #[test]
    fn every_kind_and_size_keeps_the_rate_it_was_asked_for() {
        let on_off = FlowKind::OnOff { on_ns: 1_000_000, off_ns: 3_000_000 };
        for kind in [FlowKind::Poisson, FlowKind::Constant, on_off] {
            for size in [
                SizeDistribution::Fixed { wire: 84 },
                SizeDistribution::Exponential { mean_wire: 1000.0 },
                SizeDistribution::ExponentialPayload { mean: 1000.0 },
            ] {
                let found = rate(&frames(&spec(kind, size)));
                // Bursts average over fewer, longer periods.
                let allowed = if kind == on_off { 0.05 } else { 0.02 };
                assert!((found / 70e6 - 1.0).abs() < allowed, "{kind:?} {size:?}: {found}");
            }
        }
    }

    #[test]
    fn constant_frames_do_not_drift() {
        let frames = frames(&spec(FlowKind::Constant, SizeDistribution::Fixed { wire: 875 }));
        let gap = 100_000;
        let phase = frames[0].at_ns;
        assert!(phase < gap);
        for (i, due) in frames.iter().enumerate() {
            let ideal = phase + i as u64 * gap;
            assert!(due.at_ns.abs_diff(ideal) <= 1, "{i}: {} for {ideal}", due.at_ns);
        }
    }

    #[test]
    fn an_on_off_flow_is_silent_between_its_bursts_and_fast_within() {
        let kind = FlowKind::OnOff { on_ns: 10_000_000, off_ns: 10_000_000 };
        let frames = frames(&spec(kind, SizeDistribution::Fixed { wire: 875 }));
        let gaps: Vec<u64> = frames.windows(2).map(|w| w[1].at_ns - w[0].at_ns).collect();
        let within = gaps.iter().filter(|&&g| g.abs_diff(50_000) <= 1).count();
        assert!(gaps.iter().all(|&g| g >= 49_999), "twice the mean rate, never more");
        // About 200 frames a burst: one gap in 200 holds a pause.
        let pauses = gaps.len() - within;
        assert!((800..1_250).contains(&pauses), "{pauses}");
    }

    #[test]
    fn exponential_sizes_stay_within_what_a_frame_can_be_and_follow_the_law_between() {
        let frames = frames(&spec(FlowKind::Poisson, SizeDistribution::Exponential { mean_wire: 600.0 }));
        assert!(frames.iter().all(|due| (84..=1538).contains(&due.wire)));
        let above = frames.iter().filter(|due| due.wire > 600).count() as f64 / FRAMES as f64;
        assert!((above - (-600.5f64 / 600.0).exp()).abs() < 0.006, "{above}");
        let longest = frames.iter().filter(|due| due.wire == 1538).count() as f64 / FRAMES as f64;
        assert!((longest - (-1537.5f64 / 600.0).exp()).abs() < 0.004, "{longest}");
    }

    #[test]
    fn a_cycle_moves_frames_into_the_time_that_the_flow_runs_and_changes_nothing_else() {
        let always = spec(FlowKind::Poisson, SizeDistribution::frame(1514));
        let cycle = Cycle { start_ns: 1_000_000, on_ns: 60_000_000, off_ns: 20_000_000 };
        let cycled = FlowSpec { cycle: Some(cycle), ..always.clone() };
        for (one, other) in frames(&always).iter().zip(frames(&cycled)) {
            assert_eq!((cycle.at(one.at_ns), one.wire), (other.at_ns, other.wire));
            assert!((other.at_ns - 1_000_000) % 80_000_000 < 60_000_000);
        }
    }
}
