//! What the shims ask of a packet: reads and writes at offsets that are checked where they are made.

/// A received frame, from its Ethernet header on.
pub trait Packet {
    /// Whether [`Packet::mend_udp`] itself tells a complete sum from a partial one. XDP cannot.
    const KNOWS_PARTIAL: bool;

    /// The `N` octets at `at`; `None` where they are not all there.
    fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]>;

    /// Writes `N` octets at `at`; `false` where they are not all there.
    fn store<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool;

    /// Mends the UDP checksum at `at` after a 32-bit word under it changed.
    fn mend_udp(&mut self, at: u32, old: u32, new: u32);
}

/// A socket buffer, as tc programs have it.
pub trait Buffer: Packet {
    /// [`Packet::store`] of octets that no checksum in the packet covers. Others cancel with the change of their checksum in
    /// the sum over the whole packet that an interface may have given with it (CHECKSUM_COMPLETE); these do not.
    fn store_uncovered<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool;

    /// The receive timestamp (CLOCK_REALTIME, ns); 0: none was taken.
    fn stamp(&self) -> u64;

    /// Writes the receive timestamp.
    fn set_stamp(&mut self, ns: u64);

    /// Mends the IPv4 header's checksum at `at` after a 16-bit word under it changed.
    fn mend_ipv4(&mut self, at: u32, old: u16, new: u16);

    /// Mends the UDP checksum at `at` after the datagram's length changed, which it covers in the UDP header and in the
    /// pseudo-header.
    fn mend_udp_length(&mut self, at: u32, old: u16, new: u16);

    /// Makes the frame `len` octets long; what is new is anything. `false`: it is as it was.
    fn grow(&mut self, len: u32) -> bool;
}
