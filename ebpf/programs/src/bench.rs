//! The benchmark's own ends: a source that sends frames from inside the kernel, and a sink that counts and drops.
//!
//! The source runs by BPF_PROG_RUN with live frames (Linux 5.18): each run gives it the same frame many times, and it
//! sends each out of one interface. The frame is a PTP Sync over Ethernet; all but every n-th get another EtherType,
//! so that bulk and sync frames differ in nothing but what they are.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

#[allow(dead_code)] // Nothing is copied here.
mod object;

use aya_ebpf::Global;
use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_DROP};
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::helpers::bpf_redirect;
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;

// The names of the statics and the slots are the ABI: bench/src/kernel.rs.

/// Frames sent: bulk, sync.
#[btf_map]
static EMITTED: PerCpuArray<u64, 2> = PerCpuArray::new();

/// Frames received: bulk, sync, sync with a marking word that is not 0; octets of all.
#[btf_map]
static SUNK: PerCpuArray<u64, 4> = PerCpuArray::new();

/// Interface to send by.
#[unsafe(no_mangle)]
static EMIT_IFINDEX: Global<u32> = Global::new(0);

/// Every n-th frame is a sync message; 0: none.
#[unsafe(no_mangle)]
static EMIT_SYNC_EVERY: Global<u32> = Global::new(0);

/// PTP over Ethernet, and the first of the two local experimental ones (IEEE 802 clause 9.2.4), big endian.
const PTP: [u8; 2] = [0x88, 0xF7];
const BULK: [u8; 2] = [0x88, 0xB5];

/// Ethernet header and a PTP Sync.
const LEN: usize = 14 + 44;
const ETHERTYPE: usize = 12;
const WORD: usize = 14 + 16;
const SEQUENCE: usize = 14 + 30;

/// Sends the frame, as bulk or as a sync message with its number as sequenceId.
#[xdp]
pub fn plimsoll_emit(ctx: XdpContext) -> u32 {
    let (Some(bulk), Some(sync)) = (EMITTED.get_ptr_mut(0), EMITTED.get_ptr_mut(1)) else {
        return XDP_ABORTED;
    };
    let start = ctx.data();
    if start + LEN > ctx.data_end() {
        return XDP_ABORTED;
    }
    let frame = start as *mut u8;
    let every = u64::from(EMIT_SYNC_EVERY.load());
    // SAFETY: per-CPU slots, which no other program of this CPU touches; `frame` has LEN octets, as just checked.
    unsafe {
        let is_sync = every != 0 && (*bulk + *sync) % every == 0;
        let ethertype = if is_sync { PTP } else { BULK };
        frame.add(ETHERTYPE).cast::<[u8; 2]>().write(ethertype);
        if is_sync {
            frame.add(SEQUENCE).cast::<[u8; 2]>().write((*sync as u16).to_be_bytes());
            *sync += 1;
        } else {
            *bulk += 1;
        }
        bpf_redirect(EMIT_IFINDEX.load(), 0) as u32
    }
}

/// Counts the frame and drops it.
#[xdp]
pub fn plimsoll_sink(ctx: XdpContext) -> u32 {
    let (start, end) = (ctx.data(), ctx.data_end());
    let mut slot = 0;
    if start + LEN <= end {
        let frame = start as *const u8;
        // SAFETY: `frame` has LEN octets, as just checked.
        let (ethertype, word) = unsafe {
            (frame.add(ETHERTYPE).cast::<[u8; 2]>().read(), frame.add(WORD).cast::<[u8; 4]>().read())
        };
        if ethertype == PTP {
            slot = if word == [0; 4] { 1 } else { 2 };
        }
    }
    if let (Some(frames), Some(octets)) = (SUNK.get_ptr_mut(slot), SUNK.get_ptr_mut(3)) {
        // SAFETY: per-CPU slots, which no other program of this CPU touches.
        unsafe {
            *frames += 1;
            *octets += (end - start) as u64;
        }
    }
    XDP_DROP
}
