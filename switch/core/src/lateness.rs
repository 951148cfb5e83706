//! What the machine itself was late by, told to the clocks: the switch being emulated would not have been late. A
//! transparent clock tells them its residence by the same way.

use plimsoll_classify::Class;

use crate::{
    MarkOutcome,
    wire::event::{Correction, Event},
};

/// Adds `late_ns` nanoseconds to correctionField of the frame's PTP event message and mends its UDP checksum.
///
/// The worker calls this at release with (release - (ideal + L)) + (arrival used - stamp), or at a transparent clock with
/// the residence, which holds that: release - stamp - propagation delay. A field that says "too large
/// to represent" stays; a sum saturates. Messages with an AUTHENTICATION TLV are corrected too: switches must be
/// able to, so implementations (linuxptp) leave correctionField out of what it covers.
///
/// # Errors
/// Why the frame holds nothing to correct: [`MarkOutcome::NotSync`] (NTP included), [`MarkOutcome::Fragment`],
/// [`MarkOutcome::Version`], [`MarkOutcome::Length`], [`MarkOutcome::ZeroChecksum`]. The frame is unchanged then.
pub fn correct(frame: &mut [u8], info: &Class, late_ns: i64) -> Result<Correction, MarkOutcome> {
    let mut event = Event::new_checked(frame, info)?;
    event.add_correction(late_ns.saturating_mul(1 << 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        event::tests::{Carrier, frame, sum_is_right},
        ptp::tests::message,
    };

    #[test]
    fn lateness_goes_into_the_correction_over_every_carrier() {
        for carrier in [Carrier::Ethernet, Carrier::Udp4, Carrier::Udp6] {
            let (mut octets, info) = frame(carrier, &message(1));
            assert_eq!(correct(&mut octets, &info, 1234), Ok(Correction::Added));
            assert_eq!(correct(&mut octets, &info, -34), Ok(Correction::Added));
            let at = usize::from(info.payload) + 8;
            assert_eq!(octets[at..at + 8], (1200i64 << 16).to_be_bytes(), "{carrier:?}");
            assert!(sum_is_right(&octets));
        }
    }

    #[test]
    fn what_is_no_event_message_is_unchanged() {
        let (octets, info) = frame(Carrier::Udp4, &message(0));
        let mut other = octets.clone();
        assert_eq!(correct(&mut other, &Class::OTHER, 5), Err(MarkOutcome::NotSync));
        assert_eq!(other, octets);
        let (mut octets, info) = (octets, info);
        assert_eq!(correct(&mut octets, &info, i64::MAX), Ok(Correction::Saturated));
        assert!(sum_is_right(&octets));
    }
}
