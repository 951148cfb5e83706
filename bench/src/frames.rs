//! Frames that the benchmark sends, and the count that a marking word holds.

/// Octets without FCS of the frames that 802.3 calls 64, 512 and 1518 octets long.
pub(crate) const SHORTEST: u32 = 60;
pub(crate) const LONGEST: u32 = 1514;

/// PTP over Ethernet (IEEE 1588-2019 Annex F).
pub(crate) const ETHERTYPE_PTP: u16 = 0x88F7;
/// The first local experimental EtherType (IEEE 802 clause 9.2.4): what no host's stack wants.
pub(crate) const ETHERTYPE_BULK: u16 = 0x88B5;

const SYNC_LEN: u16 = 44;
const HEADER: usize = 14;

/// An Ethernet frame of `len` octets without FCS whose payload is a PTP Sync (IEEE 1588-2019 clause 13.6), padded with
/// zeros. With another EtherType than PTP's it is bulk.
pub(crate) fn sync(to: [u8; 6], from: [u8; 6], ethertype: u16, len: u32, sequence: u16) -> Vec<u8> {
    let mut frame = vec![0; len as usize];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let message = &mut frame[HEADER..];
    message[1] = 2; // versionPTP
    message[2..4].copy_from_slice(&SYNC_LEN.to_be_bytes());
    message[6] = 2; // twoStepFlag
    message[20..26].copy_from_slice(&from); // clockIdentity
    message[29] = 1; // portNumber
    message[30..32].copy_from_slice(&sequence.to_be_bytes());
    frame
}

/// The count of an integer word (configuration 01) or of an unmarked one; `None` for any other.
pub(crate) fn count(word: u32) -> Option<u32> {
    match word >> 30 {
        0 if word == 0 => Some(0),
        1 => Some(word & ((1 << 30) - 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_and_counts() {
        let from = [2, 0, 0, 0, 0, 1];
        let frame = sync([2, 0, 0, 0, 0, 2], from, ETHERTYPE_PTP, 60, 0x1234);
        assert_eq!(count(0x4000_0005), Some(5));
        assert_eq!((count(0), count(7), count(0x8000_0000)), (Some(0), None, None));
        let kind = crate::memory::class_of(&frame).kind;
        assert_eq!(kind, plimsoll_classify::Kind::PtpEvent, "the switch's own classifier agrees");
    }
}
