//! What a port did to a message, looked up by the message and by when it passed: sequenceId comes round.

use crate::topology::Hop;
use plimsoll_core::wire::ptp::MessageId;
use std::collections::HashMap;

/// A message is seen at its ends within this of its release at a port: far longer than it may take, and far shorter than
/// 65,536 messages at their shortest interval, 65 s.
const NEAR_NS: u64 = 10_000_000_000;

/// Values by port, message and the instant of its release, in nanoseconds of whoever releases.
#[derive(Debug)]
pub(super) struct Told<T>(HashMap<(Hop, MessageId), Vec<(u64, T)>>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Copy> Told<T> {
    pub(super) fn put(&mut self, hop: Hop, message: MessageId, released: u64, value: T) {
        self.0.entry((hop, message)).or_default().push((released, value));
    }

    /// The value of the release that is nearest to `at`, and near.
    pub(super) fn find(&self, hop: Hop, message: &MessageId, at: u64) -> Option<T> {
        let all = self.0.get(&(hop, *message))?;
        let (released, value) = all.iter().min_by_key(|(released, _)| released.abs_diff(at))?;
        (released.abs_diff(at) <= NEAR_NS).then_some(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_round_means_the_message_of_its_time() {
        let hop = Hop { switch: 0, port: 1 };
        let message = MessageId { domain: 0, message_type: 0, sequence_id: 7, source_port_identity: [1; 10] };
        let mut told = Told::default();
        // 65,536 Syncs at 1 ms apart; the third time it was not marked.
        let round = 65_536_000_000;
        told.put(hop, message, 1_000, 30);
        told.put(hop, message, round, 70);
        assert_eq!(told.find(hop, &message, 900), Some(30));
        assert_eq!(told.find(hop, &message, round + 5_000_000), Some(70));
        assert_eq!(told.find(hop, &message, 2 * round), None);
        assert_eq!(told.find(Hop { port: 2, ..hop }, &message, 1_000), None);
        assert_eq!(told.find(hop, &MessageId { sequence_id: 8, ..message }, 1_000), None);
    }
}
