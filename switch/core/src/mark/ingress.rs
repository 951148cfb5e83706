//! Ingress: what a message brings, what of it a port to a host clears, and Not-ECT packets made ECN-capable.

use plimsoll_classify::Class;

use super::ecn::cleared;
use crate::{
    Counter, Ect, MarkOutcome, PortConfig,
    wire::{
        ip::{ECT_0, ECT_1, Ecn, NOT_ECT},
        message::{self, Message, Place},
        word::{Direction, Word},
    },
};

/// What a port does with the messages that come in by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ingress {
    /// Whether counts are kept.
    trust: bool,
    /// How the ECN bits of this switch's messages count, where they do (modified ECN) and counts are not kept.
    ecn_counter: Option<Counter>,
    /// What Not-ECT becomes.
    remark: Option<u8>,
}

/// A message's marking word and ECN bits, as they came in and after ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Brought {
    /// Where the word is, or why there is none.
    pub(crate) place: Result<Place, MarkOutcome>,
    /// 0 where the frame has none.
    pub(crate) word: [u32; 2],
    /// `None` where the frame is not IP, or no message.
    pub(crate) ecn: Option<[u8; 2]>,
}

/// What ingress did, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// Counts are gone.
    pub(crate) cleared: bool,
    /// Counts go on, since no octet of the message may be changed.
    pub(crate) untouched: bool,
    /// Not-ECT became ECT.
    pub(crate) remarked: bool,
}

impl Brought {
    /// What a frame brings that is no message.
    pub(crate) const NOTHING: Self = Self { place: Err(MarkOutcome::NotSync), word: [0; 2], ecn: None };
}

impl Ingress {
    pub(crate) fn new(port: &PortConfig, ecn_counter: Option<Counter>) -> Self {
        let remark = port.remark.map(|ect| match ect {
            Ect::Zero => ECT_0,
            Ect::One => ECT_1,
        });
        Self { trust: port.trust, ecn_counter: ecn_counter.filter(|_| !port.trust), remark }
    }

    /// Takes in a frame that is a time message to the classifier. What it brings is written where it stays.
    pub(crate) fn take(&self, frame: &mut [u8], info: &Class, brought: &mut Brought) -> Done {
        let mut done = Done::default();
        brought.place = Place::find(frame, info);
        // A message that cannot be marked is the egress marker's to count.
        if let Ok(place) = brought.place {
            let before = place.word(frame);
            let after = if self.trust { before } else { distrust(frame, info, place, before, &mut done) };
            brought.word = [before, after];
        }
        if let Some(before) = Ecn::new_checked(frame, info).map(|ecn| ecn.bits()) {
            let after = self.treat_ecn(frame, info, before, &mut done);
            if after != before
                && let Some(mut ecn) = Ecn::new_checked(frame, info)
            {
                ecn.set_bits(after);
            }
            brought.ecn = Some([before, after]);
        }
        done
    }

    /// What becomes of a message's ECN bits. Only what modified ECN counts in is cleared.
    #[inline]
    fn treat_ecn(&self, frame: &[u8], info: &Class, bits: u8, done: &mut Done) -> u8 {
        if bits == NOT_ECT {
            done.remarked = self.remark.is_some();
            return self.remark.unwrap_or(NOT_ECT);
        }
        match self.ecn_counter {
            Some(counter) if message::direction(frame, info).is_some() => {
                let after = cleared(bits, message::answers(frame, info), counter);
                done.cleared |= after != bits;
                after
            }
            _ => bits,
        }
    }
}

/// Clears the counts, not the mode, in the word of a message from a port that must not bring any. Only the forward half
/// of an answer stays: the server sends back in it what the request gathered (paper IV-B), and nobody else has it. What
/// asks, and a Sync or a broadcast, which answers nobody, brings no count at all. Returns the word.
#[inline]
fn distrust(frame: &mut [u8], info: &Class, place: Place, before: u32, done: &mut Done) -> u32 {
    let Ok(word) = Word::decode(before) else { return before };
    let cleared = if word.is_both() && message::answers(frame, info) {
        word.with_count(Direction::Reverse, 0).encode()
    } else {
        word.cleared().encode()
    };
    if cleared == before {
        return before;
    }
    let mut message = Message::at(frame, place);
    if message.markable().is_err() {
        done.untouched = true;
        return before;
    }
    message.set_word(cleared);
    done.cleared = true;
    cleared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Field,
        wire::{
            event::tests::{Carrier, frame, sum_is_right},
            ntp, ptp,
        },
    };

    fn ingress(change: impl FnOnce(&mut PortConfig), ecn_counter: Option<Counter>) -> Ingress {
        let mut port = PortConfig::new("a");
        change(&mut port);
        Ingress::new(&port, ecn_counter)
    }

    fn take(ingress: &Ingress, frame: &mut [u8], info: &Class) -> (Brought, Done) {
        let mut brought = Brought::NOTHING;
        let done = ingress.take(frame, info, &mut brought);
        (brought, done)
    }

    fn all_cleared() -> Done {
        Done { cleared: true, ..Done::default() }
    }

    fn request(word: u32) -> Vec<u8> {
        let mut m = ptp::tests::message(1);
        m[16..20].copy_from_slice(&word.to_be_bytes());
        m
    }

    #[test]
    fn hosts_lose_their_counts_but_not_their_mode() {
        let host = ingress(|_| (), None);
        for (word, after) in [
            (0x4000_0007, 0x4000_0000),
            (0x8001_0003, 0x8000_0000),
            (0xC000_0001, 0xC000_0000),
            (0xE000_4001, 0xE000_0000),
        ] {
            let ntp = [ntp::tests::header(4, 3), ntp::field(word).to_vec()].concat();
            for (field, (mut octets, info)) in [
                (Field::Ptp, frame(Carrier::Ethernet, &request(word))),
                (Field::Ptp, frame(Carrier::Udp6, &request(word))),
                (Field::Ntp, ntp::tests::frame(false, &ntp)),
            ] {
                let (brought, done) = take(&host, &mut octets, &info);
                assert_eq!((brought.word, done), ([word, after], all_cleared()));
                assert_eq!(brought.place.unwrap().field(), field);
                assert!(sum_is_right(&octets));
                let brought = Brought { word: [after, after], ..brought };
                assert_eq!(take(&host, &mut octets, &info), (brought, Done::default()));
            }
        }
        for word in [0, 0x1234_5678, 0x4000_0000, 0xE000_0000, 0xC000_0002] {
            let (mut octets, info) = frame(Carrier::Ethernet, &request(word));
            let (brought, done) = take(&host, &mut octets, &info);
            assert_eq!((brought.word, done), ([word, word], Done::default()));
        }
    }

    /// PTP messages of this type and NTP messages of this mode, with this word.
    fn with(message_type: u8, mode: u8, word: u32) -> [(Vec<u8>, Class); 2] {
        let mut message = ptp::tests::message(message_type);
        message[16..20].copy_from_slice(&word.to_be_bytes());
        let ntp = [ntp::tests::header(4, mode), ntp::field(word).to_vec()].concat();
        [frame(Carrier::Udp4, &message), ntp::tests::frame(true, &ntp)]
    }

    /// Of messages from hosts, only Pdelay_Resp and NTP modes 4 and 2 keep the forward half.
    #[test]
    fn an_answer_keeps_what_the_server_says_of_its_request_and_nothing_else_does() {
        let host = ingress(|_| (), None);
        for (word, answer, other) in [
            (0x8001_0003, 0x8001_0000, 0x8000_0000),
            (0x8001_8000, 0x8001_8000, 0x8000_0000),
            (0xE000_4001, 0xE000_4000, 0xE000_0000),
            (0x4000_0007, 0x4000_0000, 0x4000_0000),
            (0xC000_0007, 0xC000_0000, 0xC000_0000),
        ] {
            // Pdelay_Resp, a server's and a symmetric passive peer's answer.
            let answers = [with(3, 4, word), with(3, 2, word)];
            // Sync and broadcast, Delay_Req and a client's request, Pdelay_Req and a symmetric active peer's.
            let others = [with(0, 5, word), with(1, 3, word), with(2, 1, word)];
            for (frames, after) in [(answers.as_slice(), answer), (others.as_slice(), other)] {
                for (mut octets, info) in frames.iter().flatten().cloned() {
                    let (brought, done) = take(&host, &mut octets, &info);
                    let cleared = Done { cleared: word != after, ..Done::default() };
                    assert_eq!((brought.word, done), ([word, after], cleared), "{:?}", &octets[42..44]);
                    assert!(sum_is_right(&octets));
                    assert_eq!(take(&host, &mut octets, &info).1, Done::default());
                }
            }
        }
    }

    #[test]
    fn counts_that_something_covers_go_on() {
        let host = ingress(|_| (), None);
        let word = 0x4000_0002;
        let mut authenticated = request(word);
        authenticated.extend([0x80, 0x09, 0, 4, 1, 2, 3, 4]);
        authenticated[3] = 52;
        let keyed = [ntp::tests::header(4, 3), ntp::field(word).to_vec(), vec![7; 20]].concat();
        for (mut octets, info) in [frame(Carrier::Udp4, &authenticated), ntp::tests::frame(true, &keyed)] {
            let before = octets.clone();
            let (brought, done) = take(&host, &mut octets, &info);
            assert_eq!(brought.word, [word, word]);
            assert_eq!(done, Done { untouched: true, ..Done::default() });
            assert_eq!(octets, before);
        }
    }

    #[test]
    fn a_trusted_port_clears_nothing() {
        let trusted = ingress(|port| port.trust = true, Some(Counter::Integer));
        let (mut octets, info) = frame(Carrier::Udp6, &request(0x4000_0007));
        Ecn::new_checked(&mut octets, &info).unwrap().set_bits(3);
        let before = octets.clone();
        let (brought, done) = take(&trusted, &mut octets, &info);
        assert_eq!((brought.word, brought.ecn, done), ([0x4000_0007; 2], Some([3, 3]), Done::default()));
        assert_eq!(octets, before);
    }

    #[test]
    fn hosts_lose_their_ecn_bits_where_these_are_a_counter() {
        for bits in 1..4 {
            for (ecn_counter, after) in
                [(None, bits), (Some(Counter::Integer), 0), (Some(Counter::ShiftBoth), 0)]
            {
                let host = ingress(|_| (), ecn_counter);
                let (mut octets, info) = frame(Carrier::Udp4, &request(0));
                Ecn::new_checked(&mut octets, &info).unwrap().set_bits(bits);
                let (brought, done) = take(&host, &mut octets, &info);
                assert_eq!((brought.ecn, done.cleared), (Some([bits, after]), after != bits));
                // In an answer the server says what the request gathered; a broadcast answers nobody.
                let both = ecn_counter == Some(Counter::ShiftBoth);
                let in_answer = if both { bits & 0b10 } else { after };
                for (mode, after) in [(4, in_answer), (2, in_answer), (5, after)] {
                    let (mut octets, info) = ntp::tests::frame(true, &ntp::tests::header(3, mode));
                    Ecn::new_checked(&mut octets, &info).unwrap().set_bits(bits);
                    assert_eq!(take(&host, &mut octets, &info).0.ecn, Some([bits, after]), "mode {mode}");
                }
                // NTP without a field, and control messages, in which nothing is counted.
                for (mode, after) in [(3, after), (6, bits)] {
                    let (mut octets, info) = ntp::tests::frame(true, &ntp::tests::header(3, mode));
                    Ecn::new_checked(&mut octets, &info).unwrap().set_bits(bits);
                    assert_eq!(take(&host, &mut octets, &info).0.ecn, Some([bits, after]), "mode {mode}");
                }
            }
        }
    }

    #[test]
    fn not_ect_is_remarked_and_nothing_else() {
        for (ect, becomes) in [(Ect::Zero, ECT_0), (Ect::One, ECT_1)] {
            let port = ingress(|port| port.remark = Some(ect), None);
            for bits in 0..4 {
                let (mut octets, info) = frame(Carrier::Udp4, &request(0));
                Ecn::new_checked(&mut octets, &info).unwrap().set_bits(bits);
                let (brought, done) = take(&port, &mut octets, &info);
                let after = if bits == NOT_ECT { becomes } else { bits };
                assert_eq!((brought.ecn, done.remarked), (Some([bits, after]), bits == NOT_ECT));
            }
            let (mut octets, info) = frame(Carrier::Ethernet, &request(0));
            assert_eq!(take(&port, &mut octets, &info).1, Done::default());
        }
    }
}
