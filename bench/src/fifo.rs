//! A naive FIFO link, computed offline: what a frame waited, from nothing but arrival times and lengths.
//!
//! Deliberately not the core's code: whole picoseconds in 128 bits, one addition a frame, no queue.

use std::collections::VecDeque;

/// One frame on its way to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When it came, ns.
    pub(crate) at_ns: u64,
    /// Octets without FCS.
    pub(crate) len: u32,
}

/// Waiting time of each frame in picoseconds, for frames in order of arrival on a link of `rate` bit/s.
///
/// A frame holds the link for its octets (at least 60) and 24 more: preamble 8, FCS 4, gap 12 (IEEE 802.3).
pub(crate) fn waits_ps(arrivals: &[Arrival], rate: u64) -> Vec<u128> {
    let mut free_at: u128 = 0;
    let mut waits = Vec::with_capacity(arrivals.len());
    for frame in arrivals {
        let at = u128::from(frame.at_ns) * 1000;
        let start = free_at.max(at);
        waits.push(start - at);
        let octets = u128::from(frame.len.max(60) + 24);
        free_at = start + octets * 8 * 1_000_000_000_000 / u128::from(rate);
    }
    waits
}

/// The waits of the `urgent` ones where these have strict priority and nothing is interrupted: a free link takes the
/// oldest of them, else the oldest of the others; at the instant at which it becomes free, what comes then takes part.
pub(crate) fn waits_above_ps(arrivals: &[Arrival], urgent: &[bool], rate: u64) -> Vec<u128> {
    let span = |len: u32| u128::from(len.max(60) + 24) * 8 * 1_000_000_000_000 / u128::from(rate);
    let mut queues = [VecDeque::new(), VecDeque::new()];
    let (mut free_at, mut waits) = (0, Vec::new());
    // One more arrival, at the end of time, lets all others go.
    let last = Arrival { at_ns: u64::MAX, len: 0 };
    for (frame, urgent) in arrivals.iter().zip(urgent.iter().copied()).chain([(&last, false)]) {
        let now = u128::from(frame.at_ns) * 1000;
        while free_at < now {
            let Some((at, len, above)) = queues[1]
                .pop_front()
                .map(|(at, len)| (at, len, true))
                .or_else(|| queues[0].pop_front().map(|(at, len)| (at, len, false)))
            else {
                break;
            };
            let start: u128 = free_at.max(at);
            if above {
                waits.push(start - at);
            }
            free_at = start + span(len);
        }
        if queues.iter().all(VecDeque::is_empty) {
            // An idle link decides when a frame comes.
            free_at = free_at.max(now);
        }
        queues[usize::from(urgent)].push_back((now, frame.len));
    }
    waits
}

/// How many of the thresholds 1..=R times delta a wait exceeds, strictly.
pub(crate) fn exceeded(wait_ps: u128, delta_ps: u64, thresholds: u32) -> u32 {
    (1..=thresholds).take_while(|&i| wait_ps > u128::from(i) * u128::from(delta_ps)).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_frames_wait_for_the_one_in_service_and_their_like() {
        let at = |at_ns, len| Arrival { at_ns, len };
        let arrivals = [at(0, 1514), at(10, 1514), at(20, 60), at(30, 60), at(123_040 + 6_720, 60)];
        let urgent = [false, false, true, true, true];
        // 123.04 us of the first frame; 6.72 us of an urgent one; the last comes as the second of them begins.
        let waits = waits_above_ps(&arrivals, &urgent, 100_000_000);
        assert_eq!(waits, [123_020_000, 129_730_000, 6_720_000]);
        // At the very instant at which the link becomes free.
        assert_eq!(
            waits_above_ps(&[at(0, 1514), at(1, 60), at(123_040, 60)], &[false, false, true], 100_000_000),
            [0]
        );
    }

    #[test]
    fn frames_wait_for_those_before_them() {
        // 1500 octets of IP: 1514 of frame, 1538 on the wire: 123.04 us at 100 Mbit/s.
        let arrivals = [
            Arrival { at_ns: 0, len: 1514 },
            Arrival { at_ns: 0, len: 1514 },
            Arrival { at_ns: 100_000, len: 60 },
            Arrival { at_ns: 1_000_000, len: 60 },
        ];
        let waits = waits_ps(&arrivals, 100_000_000);
        assert_eq!(waits, [0, 123_040_000, 146_080_000, 0]);
        assert_eq!(exceeded(waits[1], 60_000_000, 32), 2);
        assert_eq!(exceeded(120_000_000, 60_000_000, 32), 1, "strictly more than the threshold");
        assert_eq!(exceeded(waits[2], 60_000_000, 1), 1, "R caps");
    }
}
