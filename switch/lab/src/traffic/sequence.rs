//! What is missing, out of order or twice in a flow, from the numbers that arrive (RFC 4737 section 3, RFC 5560).

/// Numbers that are remembered behind the highest one; a packet later than that counts as reordered, not as double.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// How a packet relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Its number is above all before it.
    Next,
    /// A higher number came before it.
    Reordered,
    /// It came already.
    Duplicate,
}

/// The numbers seen so far. 32 bits on the wire are continued to 64.
#[derive(Debug)]
pub(super) struct Sequence {
    /// One more than the highest number seen.
    next: u64,
    /// A bit for each of the last `WINDOW` numbers.
    seen: Box<[u64; WORDS]>,
}

impl Sequence {
    pub(super) fn new() -> Self {
        Self { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// How many packets were sent at least: one more than the highest number.
    pub(super) const fn sent_at_least(&self) -> u64 {
        self.next
    }

    pub(super) fn take(&mut self, low: u32) -> Arrival {
        // The number nearest to the expected one that has these low 32 bits.
        let ahead = low.wrapping_sub(self.next as u32).cast_signed();
        let number = self.next.saturating_add_signed(i64::from(ahead));
        if number >= self.next {
            // What was skipped has not been seen; more than a window of it clears all.
            for skipped in (self.next..number).take(WINDOW as usize) {
                self.clear(skipped);
            }
            self.next = number + 1;
            self.set(number);
            return Arrival::Next;
        }
        if self.next - number > WINDOW {
            return Arrival::Reordered;
        }
        let arrival = if self.is_set(number) { Arrival::Duplicate } else { Arrival::Reordered };
        self.set(number);
        arrival
    }

    const fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    const fn is_set(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    const fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    const fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Duplicate, Next, Reordered};

    fn take(sequence: &mut Sequence, numbers: &[u32]) -> Vec<Arrival> {
        numbers.iter().map(|&n| sequence.take(n)).collect()
    }

    #[test]
    fn gaps_late_ones_and_doubles_are_told_apart() {
        let mut sequence = Sequence::new();
        assert_eq!(
            take(&mut sequence, &[0, 1, 4, 2, 4, 2, 3, 5]),
            [Next, Next, Next, Reordered, Duplicate, Duplicate, Reordered, Next]
        );
        assert_eq!(sequence.sent_at_least(), 6);
    }

    #[test]
    fn the_wire_s_32_bits_go_on_beyond_their_end() {
        let mut sequence = Sequence::new();
        sequence.next = u64::from(u32::MAX) - 1;
        assert_eq!(
            take(&mut sequence, &[u32::MAX - 1, u32::MAX, 1, 0, 1]),
            [Next, Next, Next, Reordered, Duplicate]
        );
        assert_eq!(sequence.sent_at_least(), (1 << 32) + 2);
    }

    #[test]
    fn a_number_that_comes_round_in_the_window_is_not_a_double() {
        let mut sequence = Sequence::new();
        let window = WINDOW as u32;
        assert_eq!(take(&mut sequence, &[5, window + 6]), [Next, Next]);
        // window + 5 shares its bit with 5.
        assert_eq!(sequence.take(window + 5), Reordered);
        assert_eq!(sequence.take(4), Reordered, "beyond the window: not known to be a double");
        assert_eq!(sequence.take(10 * window), Next);
        assert_eq!(sequence.take(10 * window - 1), Reordered);
    }
}
