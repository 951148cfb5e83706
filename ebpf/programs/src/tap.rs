//! Measuring taps: when did a frame pass this point? The judges of the switch's accuracy, independent of it.
//!
//! They copy the frame's first octets into a ring buffer and let it go on. On a veth host's end use the tc programs
//! (native XDP costs there, and switches the peer's segmentation off), on a real NIC either.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod object;

use aya_ebpf::bindings::{BPF_RB_NO_WAKEUP, TC_ACT_UNSPEC, xdp_action::XDP_PASS};
use aya_ebpf::btf_maps::{PerCpuArray, RingBuf};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_skb_load_bytes, bpf_xdp_get_buff_len, bpf_xdp_load_bytes};
use aya_ebpf::macros::{btf_map, classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};
use core::ffi::c_void;
use plimsoll_classify::{TAP_HEAD, TapPoint, TapRecord};

// The names of the statics are the ABI: plimsoll_classify::{MAP_TAP_RECORDS, MAP_TAP_LOST}.

/// 64 Mi octets: half a second of 1 Mpps; a loader may set another power of two.
#[btf_map]
static TAP_RECORDS: RingBuf<(), { 64 << 20 }> = RingBuf::new();

#[btf_map]
static TAP_LOST: PerCpuArray<u64, 1> = PerCpuArray::new();

/// XDP, native or generic.
#[xdp(frags)]
pub fn plimsoll_tap(ctx: XdpContext) -> u32 {
    // SAFETY: the helper has no arguments and cannot fail.
    let time = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the context is the one the kernel passed in.
    let (len, ifindex) = unsafe { (bpf_xdp_get_buff_len(ctx.ctx) as u32, (*ctx.ctx).ingress_ifindex) };
    let seen = Seen { time, ifindex, len, queue: ctx.rx_queue_index(), segments: 0, point: TapPoint::Xdp };
    record(seen, |head, octets| {
        // SAFETY: `head` has room for `octets`, see `record`.
        unsafe { bpf_xdp_load_bytes(ctx.ctx, 0, head, octets) == 0 }
    });
    XDP_PASS
}

/// tc ingress.
#[classifier]
pub fn plimsoll_tap_ingress(ctx: TcContext) -> i32 {
    tc(&ctx, TapPoint::Ingress)
}

/// tc egress.
#[classifier]
pub fn plimsoll_tap_egress(ctx: TcContext) -> i32 {
    tc(&ctx, TapPoint::Egress)
}

/// Returns TC_ACT_UNSPEC, which is TCX_NEXT: programs and filters behind this one still run.
#[inline(always)]
fn tc(ctx: &TcContext, point: TapPoint) -> i32 {
    // SAFETY: the helper has no arguments and cannot fail.
    let time = unsafe { bpf_ktime_get_ns() };
    let skb = ctx.skb.skb;
    // SAFETY: the context is the one the kernel passed in.
    let (ifindex, len, queue, segments) =
        unsafe { ((*skb).ifindex, (*skb).len, (*skb).queue_mapping, (*skb).gso_segs) };
    record(Seen { time, ifindex, len, queue, segments, point }, |head, octets| {
        // SAFETY: `head` has room for `octets`, see `record`.
        unsafe { bpf_skb_load_bytes(skb.cast(), 0, head, octets) == 0 }
    });
    TC_ACT_UNSPEC
}

struct Seen {
    time: u64,
    ifindex: u32,
    len: u32,
    queue: u32,
    segments: u32,
    point: TapPoint,
}

/// Writes one record; `load` copies that many octets of the frame to where it is told.
#[inline(always)]
fn record(seen: Seen, load: impl FnOnce(*mut c_void, u32) -> bool) {
    let Some(octets) = object::copy_length::<{ TAP_HEAD as u32 }>(seen.len) else {
        return lost();
    };
    let Some(mut entry) = TAP_RECORDS.reserve_untyped::<TapRecord>(0) else {
        return lost();
    };
    let to: *mut TapRecord = entry.as_mut_ptr();
    // SAFETY: the entry has the size and alignment of a record and is this program's until submitted; every field is
    // written, the head in words, wholly, before `load` writes at most its length. (Volatile: else it is a call of
    // memset, octet by octet.)
    let loaded = unsafe {
        (*to).time = seen.time;
        (*to).ifindex = seen.ifindex;
        (*to).len = seen.len;
        (*to).queue = seen.queue;
        (*to).segments = seen.segments as u16;
        (*to).point = seen.point as u8;
        (*to).captured = octets as u8;
        let head = &raw mut (*to).head;
        for word in 0..TAP_HEAD / 8 {
            head.cast::<u64>().add(word).write_volatile(0);
        }
        load(head.cast(), octets)
    };
    if loaded {
        entry.submit(u64::from(BPF_RB_NO_WAKEUP));
    } else {
        entry.discard(u64::from(BPF_RB_NO_WAKEUP));
        lost();
    }
}

#[inline(always)]
fn lost() {
    if let Some(counter) = TAP_LOST.get_ptr_mut(0) {
        // SAFETY: a per-CPU slot; the worst that an interruption by another tap on this CPU does is a count less.
        unsafe { *counter += 1 };
    }
}
