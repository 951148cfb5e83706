//! The first 16 octets of every packet: flow, sequence number, time of sending; big endian.

/// Octets that every packet carries at least; they fit into the shortest Ethernet frame over IPv4.
pub(super) const LEN: usize = 16;

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The flow, so that strays are told apart.
    pub(super) flow: u32,
    /// Low 32 bits of its number in the flow, from 0.
    pub(super) sequence: u32,
    /// When it was handed to the kernel, CLOCK_REALTIME in nanoseconds.
    pub(super) sent: u64,
}

impl Header {
    pub(super) fn write(&self, packet: &mut [u8]) {
        packet[..4].copy_from_slice(&self.flow.to_be_bytes());
        packet[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        packet[8..LEN].copy_from_slice(&self.sent.to_be_bytes());
    }

    pub(super) fn read(packet: &[u8; LEN]) -> Self {
        let (head, sent) = packet.split_at(8);
        let number = |b: &[u8]| b.iter().fold(0, |n: u64, &octet| n << 8 | u64::from(octet));
        Self { flow: number(&head[..4]) as u32, sequence: number(&head[4..]) as u32, sent: number(sent) }
    }
}

/// The number that stands for a flow's name in its packets (FNV-1a), so that both ends derive it from the name.
pub(super) fn flow_number(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_from_its_octets() {
        let header = Header { flow: 0x0102_0304, sequence: 0x0506_0708, sent: 0x090A_0B0C_0D0E_0F10 };
        let mut packet = [0; LEN];
        header.write(&mut packet);
        assert_eq!(packet, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(Header::read(&packet), header);
    }

    #[test]
    fn flows_of_different_names_have_different_numbers() {
        assert_ne!(flow_number("a"), flow_number("b"));
        assert_eq!(flow_number(""), 0x811C_9DC5);
    }
}
