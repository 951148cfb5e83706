//! The XDP program of a port: classify, stamp, and give the frame to the queue's express or bulk socket.
//!
//! Before the frame it writes the 24 octets of [`plimsoll_classify::Class::to_meta`], which AF_XDP delivers right
//! before `desc.addr` (copy mode, native and generic; Linux 5.18 and newer for `bpf_xdp_load_bytes`). A frame that no
//! socket takes is dropped and counted, never passed to the host's stack: the port belongs to the switch.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod object;
mod window;

use aya_ebpf::Global;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_REDIRECT};
use aya_ebpf::btf_maps::{PerCpuArray, XskMap};
use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_xdp_adjust_meta, bpf_xdp_get_buff_len, bpf_xdp_load_bytes};
use aya_ebpf::macros::{btf_map, xdp};
use aya_ebpf::programs::XdpContext;
use plimsoll_classify::{
    Class, Count, EXPRESS_PRIORITY_DEFAULT, MAX_QUEUES, META_LEN, WINDOW as WINDOW_LEN, Window,
    classify_window, socket_slot,
};
use window::{WINDOW, mask};

// The names of the statics are the ABI: plimsoll_classify::{MAP_SOCKETS, MAP_COUNTS, EXPRESS_PRIORITY, PASS_BARE}.

#[btf_map]
static SOCKETS: XskMap<{ 2 * MAX_QUEUES as usize }> = XskMap::new();

#[btf_map]
static COUNTS: PerCpuArray<u64, { Count::ALL.len() }> = PerCpuArray::new();

#[unsafe(no_mangle)]
static EXPRESS_PRIORITY: Global<u32> = Global::new(EXPRESS_PRIORITY_DEFAULT);

#[unsafe(no_mangle)]
static PASS_BARE: Global<u32> = Global::new(0);

/// For frames in one buffer.
#[xdp]
pub fn plimsoll_classify(ctx: XdpContext) -> u32 {
    // SAFETY: the helper has no arguments and cannot fail.
    let arrival = unsafe { bpf_ktime_get_ns() };
    let len = (ctx.data_end() - ctx.data()) as u32;
    receive(&ctx, len, arrival)
}

/// For frames in one or several buffers.
#[xdp(frags)]
pub fn plimsoll_classify_frags(ctx: XdpContext) -> u32 {
    // SAFETY: the helper has no arguments and cannot fail.
    let arrival = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the context is the one the kernel passed in.
    let len = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
    receive(&ctx, len, arrival)
}

#[inline(always)]
fn receive(ctx: &XdpContext, len: u32, arrival: u64) -> u32 {
    let Some(class) = read(ctx, len) else {
        return count(Count::Unreadable, XDP_DROP);
    };
    if !write_metadata(ctx, &class, arrival) && PASS_BARE.load() == 0 {
        return count(Count::NoMetadata, XDP_DROP);
    }
    let queue = ctx.rx_queue_index();
    let express = class.is_express(EXPRESS_PRIORITY.load());
    if express && redirect(queue, true) {
        return count(Count::Express, XDP_REDIRECT);
    }
    if redirect(queue, false) {
        return count(if express { Count::ExpressAsBulk } else { Count::Bulk }, XDP_REDIRECT);
    }
    count(Count::NoSocket, XDP_DROP)
}

/// Copies the frame's first octets and classifies them.
#[inline(always)]
fn read(ctx: &XdpContext, len: u32) -> Option<Class> {
    let window = WINDOW.get_ptr_mut(0)?;
    let octets = object::copy_length::<{ WINDOW_LEN as u32 }>(len)?;
    // SAFETY: `window` points to WINDOW_LEN octets, at least as many as are copied; it is this CPU's alone while an XDP
    // program runs, since none interrupts another on the same CPU.
    if unsafe { bpf_xdp_load_bytes(ctx.ctx, 0, window.cast(), octets) } != 0 {
        return None;
    }
    // SAFETY: valid as above, and nothing writes to it until this program returns.
    let window = unsafe { &*window };
    Some(classify_window(Window::with_mask(window, mask()), len))
}

#[inline(always)]
fn write_metadata(ctx: &XdpContext, class: &Class, arrival: u64) -> bool {
    // SAFETY: the context is the one the kernel passed in.
    if unsafe { bpf_xdp_adjust_meta(ctx.ctx, -(META_LEN as i32)) } != 0 {
        return false;
    }
    let metadata = ctx.metadata();
    if metadata + META_LEN > ctx.data() {
        return false; // Never true: the verifier wants to see it.
    }
    // SAFETY: META_LEN octets of metadata stand between `data_meta` and `data`, as just checked.
    unsafe { (metadata as *mut [u8; META_LEN]).write_unaligned(class.to_meta(arrival)) };
    true
}

#[inline(always)]
fn redirect(queue: u32, express: bool) -> bool {
    SOCKETS.redirect(socket_slot(queue, express), u64::from(XDP_DROP)).is_ok()
}

#[inline(always)]
fn count(what: Count, action: u32) -> u32 {
    if let Some(counter) = COUNTS.get_ptr_mut(what as u32) {
        // SAFETY: a per-CPU slot; none interrupts this program on its CPU.
        unsafe { *counter += 1 };
    }
    action
}
