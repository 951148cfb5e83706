//! One classifier for kernel and user space, and what else the two sides share: the marking word, checksums, ABIs.
//!
//! The XDP program in `ebpf/programs` and the switch run the same [`classify`], so that a frame is the same thing
//! to both, whether or not its driver can carry metadata. Everything here is plain data and arithmetic on a window
//! of [`WINDOW`] octets: no loop without a bound, no offset that is not masked, no panic; the kernel's verifier
//! proves it at every load.
//!
//! | file | what |
//! |---|---|
//! | `meta` | [`Class`] and the metadata ABI |
//! | `programs` | names of programs, maps, globals and counters in the BPF objects |
//! | `tap` | the record of the measuring taps |
//! | `ethernet`, `ipv4`, `ipv6`, `transport`, `ptp`, `ntp` | one layer each |
//! | `word` | the marking word |
//! | `checksum` | sums, mended |
//! | `ecn` | code points |
//! | `window` | reads at masked offsets |
#![no_std]
#![forbid(unsafe_code)]

pub mod checksum;
pub mod ecn;
mod ethernet;
mod ipv4;
mod ipv6;
mod meta;
pub mod ntp;
mod programs;
pub mod ptp;
mod tap;
mod transport;
mod window;
pub mod word;

#[cfg(test)]
extern crate std;

pub use ipv6::MAX_EXTENSIONS;
pub use meta::{Class, Flags, Kind, META_LEN, META_VERSION, NO_PRIORITY, WINDOW};
pub use programs::{
    Count, EXPRESS_PRIORITY, EXPRESS_PRIORITY_DEFAULT, MAP_COUNTS, MAP_SOCKETS, MAX_QUEUES, PASS_BARE,
    PROGRAM_CLASSIFY, PROGRAM_CLASSIFY_FRAGS, socket_slot,
};
pub use tap::{
    MAP_TAP_LOST, MAP_TAP_RECORDS, PROGRAM_TAP, PROGRAM_TAP_EGRESS, PROGRAM_TAP_INGRESS, TAP_HEAD,
    TAP_RECORD_LEN, TapPoint, TapRecord,
};
pub use window::Window;

use ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_PTP};

/// Classifies a frame from its first [`WINDOW`] octets; `len` is the whole frame's length in octets, without FCS.
///
/// Octets of `octets` past `len` are ignored. What a kind asks of a frame: [`Kind`].
#[inline]
pub fn classify(octets: &[u8; WINDOW], len: u32) -> Class {
    classify_window(Window::new(octets), len)
}

/// [`classify`] as the BPF program calls it.
#[inline(always)]
pub fn classify_window(window: Window<'_>, len: u32) -> Class {
    let mut class = Class::OTHER;
    if !ethernet::read(window, len, &mut class) {
        return class;
    }
    let upper = match class.ethertype {
        ETHERTYPE_PTP => {
            class.payload = class.l3;
            ptp::over_ethernet(window, len, &mut class);
            return class;
        }
        ETHERTYPE_IPV4 => ipv4::read(window, len, &mut class),
        ETHERTYPE_IPV6 => ipv6::read(window, len, &mut class),
        _ => return class,
    };
    if let Some(upper) = upper {
        transport::read(window, len, upper, &mut class);
    }
    class
}
