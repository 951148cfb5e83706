//! The record of the measuring taps in `ebpf/prebuilt/tap.o`: when a frame passed a point that is not the switch's.

/// The tap as an XDP program (`xdp.frags`); lets every frame pass.
pub const PROGRAM_TAP: &str = "plimsoll_tap";
/// The tap as a tc program at ingress. Not beside generic XDP on the same interface: the frame then comes there without
/// its Ethernet header (seen on Linux 6.18).
pub const PROGRAM_TAP_INGRESS: &str = "plimsoll_tap_ingress";
/// The tap as a tc program at egress: the last thing a veth host does before the frame is the peer's.
pub const PROGRAM_TAP_EGRESS: &str = "plimsoll_tap_egress";

/// Ring buffer of [`TapRecord`], in the order of time of one CPU. Nobody is woken: poll it.
pub const MAP_TAP_RECORDS: &str = "TAP_RECORDS";
/// Per-CPU array of one u64: frames that found the ring full or could not be read. A measurement with any is void.
pub const MAP_TAP_LOST: &str = "TAP_LOST";

/// Octets of the frame in a record.
pub const TAP_HEAD: usize = 96;
/// Length of a record in octets.
pub const TAP_RECORD_LEN: usize = size_of::<TapRecord>();

/// Where a tap sat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TapPoint {
    /// XDP, native or generic.
    Xdp = 0,
    /// tc ingress.
    Ingress = 1,
    /// tc egress.
    Egress = 2,
}

/// One frame as a tap saw it, in native byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TapRecord {
    /// CLOCK_MONOTONIC, nanoseconds (`bpf_ktime_get_ns`), read first.
    pub time: u64,
    /// Interface that the tap is attached to.
    pub ifindex: u32,
    /// The frame's length in octets, without FCS. Of a super-frame (GSO) it is the sum before segmentation.
    pub len: u32,
    /// RX queue (XDP) or the queue mapping of the socket buffer (tc).
    pub queue: u32,
    /// Frames that segmentation will make of it; 0 or 1 where it is one. XDP cannot tell and says 0.
    pub segments: u16,
    /// [`TapPoint`] as a number.
    pub point: u8,
    /// Octets in `head`.
    pub captured: u8,
    /// The frame's first octets, zeros after them.
    pub head: [u8; TAP_HEAD],
}

impl TapRecord {
    /// Reads a record out of the ring; `None` where the length is not [`TAP_RECORD_LEN`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TAP_RECORD_LEN] = bytes.try_into().ok()?;
        let (time, rest) = bytes.split_first_chunk()?;
        let (ifindex, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (queue, rest) = rest.split_first_chunk()?;
        let (segments, rest) = rest.split_first_chunk()?;
        let ([point, captured], rest) = rest.split_first_chunk()?;
        Some(Self {
            time: u64::from_ne_bytes(*time),
            ifindex: u32::from_ne_bytes(*ifindex),
            len: u32::from_ne_bytes(*len),
            queue: u32::from_ne_bytes(*queue),
            segments: u16::from_ne_bytes(*segments),
            point: *point,
            captured: *captured,
            head: rest.try_into().ok()?,
        })
    }

    /// The frame's octets in the record.
    pub fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.captured)).unwrap_or(&self.head)
    }
}
