//! The host shims: [`plimsoll_shim`] on the kernel's packets. All let every frame go on.
//!
//! Linux 5.18 and newer for XDP (`bpf_xdp_load_bytes`), 6.6 for their way of being attached at tc (TCX).
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod object;
mod window;

use aya_ebpf::bindings::{
    __sk_buff, BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR, BPF_F_RECOMPUTE_CSUM, TC_ACT_UNSPEC,
    xdp_action::XDP_PASS,
};
use aya_ebpf::btf_maps::{Array, LruHashMap, PerCpuArray};
use aya_ebpf::helpers::{
    bpf_ktime_get_ns, bpf_l3_csum_replace, bpf_l4_csum_replace, bpf_skb_change_tail, bpf_skb_load_bytes,
    bpf_skb_load_bytes_relative, bpf_skb_store_bytes, bpf_xdp_get_buff_len, bpf_xdp_load_bytes,
    bpf_xdp_store_bytes,
};
use aya_ebpf::macros::{btf_map, classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use plimsoll_classify::{Class, Flags, Kind, WINDOW as WINDOW_LEN, Window, checksum, classify_window};
use plimsoll_shim::{
    Aside, Buffer, Count, Done, Kept, Key, PENDING, Packet, SETTINGS_WORDS, Settings, correction, egress,
    timestamp,
};
use window::{WINDOW, mask};

// The names of the statics are the ABI: plimsoll_shim::{MAP_SETTINGS, MAP_COUNTS, MAP_PENDING}.

#[btf_map]
static SHIM_SETTINGS: Array<[u64; SETTINGS_WORDS], 1> = Array::new();

#[btf_map]
static SHIM_COUNTS: PerCpuArray<u64, { Count::ALL.len() }> = PerCpuArray::new();

#[btf_map]
static SHIM_CLASS: PerCpuArray<u64, 1> = PerCpuArray::new();

#[btf_map]
static SHIM_PENDING: LruHashMap<Key, Kept, PENDING> = LruHashMap::new();

/// Octets of an Ethernet header without tags.
const ETHERNET: usize = 14;
/// bpf_hdr_start_off of linux/bpf.h.
const BPF_HDR_START_NET: u32 = 1;

/// XDP, native or generic.
#[xdp(frags)]
pub fn plimsoll_corr(ctx: XdpContext) -> u32 {
    // SAFETY: the context is the one the kernel passed in.
    let len = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
    let class = classify(len, |to, octets| {
        // SAFETY: `to` has room for `octets`.
        unsafe { bpf_xdp_load_bytes(ctx.ctx, 0, to, octets) == 0 }
    });
    if let Some(settings) = settings() {
        done(correction(&mut Frame(&ctx), &class, len, &settings, &mut Pending));
    } else {
        count(Count::Failed, 1);
    }
    XDP_PASS
}

/// tc ingress.
#[classifier]
pub fn plimsoll_stamp(ctx: TcContext) -> i32 {
    let skb = ctx.skb.skb;
    let absent = absent(skb);
    let len = ctx.len() + absent;
    let class = classify(len, |to, octets| {
        if absent == 0 {
            // SAFETY: `to` has room for `octets`.
            return unsafe { bpf_skb_load_bytes(skb.cast(), 0, to, octets) == 0 };
        }
        let Some(octets) = object::copy_length::<{ (WINDOW_LEN - ETHERNET) as u32 }>(ctx.len()) else {
            return false;
        };
        // SAFETY: `to` has room for WINDOW_LEN octets: here a header of which only the EtherType matters, and the packet.
        unsafe {
            let ethertype = ((*skb).protocol as u16).to_ne_bytes();
            to.cast::<u8>().add(ETHERNET - 2).write_volatile(ethertype[0]);
            to.cast::<u8>().add(ETHERNET - 1).write_volatile(ethertype[1]);
            bpf_skb_load_bytes(skb.cast(), 0, to.cast::<u8>().add(ETHERNET).cast(), octets) == 0
        }
    });
    if let Some(settings) = settings() {
        done(timestamp(&mut Skb { skb, absent }, &class, len, &settings));
    } else {
        count(Count::Failed, 1);
    }
    // TCX_NEXT: programs and filters behind this one still run.
    TC_ACT_UNSPEC
}

/// tc egress.
#[classifier]
pub fn plimsoll_egress(ctx: TcContext) -> i32 {
    let len = ctx.len();
    let skb = ctx.skb.skb;
    let class = classify(len, |to, octets| {
        // SAFETY: `to` has room for `octets`.
        unsafe { bpf_skb_load_bytes(skb.cast(), 0, to, octets) == 0 }
    });
    if let Some(settings) = settings() {
        let sent = egress(&mut Skb { skb, absent: 0 }, &class, len, &settings);
        for outcome in [sent.ect, sent.field].into_iter().flatten() {
            count(outcome, 1);
        }
    } else {
        count(Count::Failed, 1);
    }
    TC_ACT_UNSPEC
}

/// Classifies a frame of `len` octets; `load` copies so many of its first ones to where it is told. What cannot be read
/// is no message.
///
/// The class comes by way of a map, whose values the verifier does not follow. Else it would prove what comes after for
/// every combination of headers by which a frame can be of a class, and give up. What the shims do not read is lost.
#[inline(always)]
fn classify(len: u32, load: impl FnOnce(*mut c_void, u32) -> bool) -> Class {
    let Some(slot) = SHIM_CLASS.get_ptr_mut(0) else { return Class::OTHER };
    let Some(window) = WINDOW.get_ptr_mut(0) else { return Class::OTHER };
    let Some(octets) = object::copy_length::<{ WINDOW_LEN as u32 }>(len) else { return Class::OTHER };
    if !load(window.cast(), octets) {
        return Class::OTHER;
    }
    // SAFETY: `window` points to WINDOW_LEN octets, which nothing writes to until this program returns.
    let window = unsafe { &*window };
    let class = classify_window(Window::with_mask(window, mask()), len);
    let octets = [class.kind as u8, class.flags.0, class.l3, class.l4, class.payload, 0, 0, 0];
    // SAFETY: a per-CPU slot, as those of `count`. Volatile, for the compiler would keep what it knows.
    let [kind, flags, l3, l4, payload, ..] = unsafe {
        slot.write_volatile(u64::from_ne_bytes(octets));
        slot.read_volatile().to_ne_bytes()
    };
    Class { kind: Kind::from_abi(kind), flags: Flags(flags), l3, l4, payload, ..Class::OTHER }
}

/// How many octets of Ethernet header a frame at tc ingress has not: 0, or all 14 where a generic XDP program ran before on
/// the same interface (seen on Linux 6.18). The frame then begins with its network header.
#[inline(always)]
fn absent(skb: *mut __sk_buff) -> u32 {
    let (mut first, mut network) = ([0_u64; 2], [0_u64; 2]);
    // SAFETY: the helper writes 16 octets, or zeros and fails.
    if unsafe { bpf_skb_load_bytes(skb.cast(), 0, first.as_mut_ptr().cast(), 16) } != 0 {
        return 0;
    }
    // Most addresses of hosts begin otherwise than IP packets.
    let version = first[0].to_ne_bytes()[0] >> 4;
    if version != 4 && version != 6 {
        return 0;
    }
    let to = network.as_mut_ptr().cast();
    // SAFETY: as above.
    if unsafe { bpf_skb_load_bytes_relative(skb.cast(), 0, to, 16, BPF_HDR_START_NET) } != 0 {
        return 0;
    }
    if first[0] == network[0] && first[1] == network[1] { ETHERNET as u32 } else { 0 }
}

#[inline(always)]
fn settings() -> Option<Settings> {
    // SAFETY: the entry is written before the program is attached and never after.
    SHIM_SETTINGS.get(0).and_then(Settings::from_words)
}

#[inline(always)]
fn done(done: Done) {
    count(done.count, 1);
    if done.marks > 0 {
        count(Count::Marks, u64::from(done.marks));
        count(Count::Nanoseconds, done.ns);
    }
}

#[inline(always)]
fn count(what: Count, add: u64) {
    if let Some(counter) = SHIM_COUNTS.get_ptr_mut(what as u32) {
        // SAFETY: a per-CPU slot of one program, which none interrupts on its CPU.
        unsafe { *counter += add };
    }
}

/// A frame at XDP.
struct Frame<'a>(&'a XdpContext);

impl Packet for Frame<'_> {
    const KNOWS_PARTIAL: bool = false;

    #[inline(always)]
    fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut octets = MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the helper writes N octets or fails.
        unsafe {
            let failed = bpf_xdp_load_bytes(self.0.ctx, at, octets.as_mut_ptr().cast(), N as u32) != 0;
            if failed { None } else { Some(octets.assume_init()) }
        }
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: u32, mut octets: [u8; N]) -> bool {
        // SAFETY: the helper reads N octets.
        unsafe { bpf_xdp_store_bytes(self.0.ctx, at, octets.as_mut_ptr().cast(), N as u32) == 0 }
    }

    #[inline(always)]
    fn mend_udp(&mut self, at: u32, old: u32, new: u32) {
        if let Some(sum) = self.load(at) {
            self.store(at, checksum::mended_u32(u16::from_be_bytes(sum), old, new).to_be_bytes());
        }
    }
}

/// A socket buffer at tc.
struct Skb {
    skb: *mut __sk_buff,
    /// See [`absent`]; offsets count from where the Ethernet header would begin.
    absent: u32,
}

impl Skb {
    #[inline(always)]
    fn store_with<const N: usize>(&mut self, at: u32, octets: &[u8; N], flags: u32) -> bool {
        let (at, from) = (at - self.absent, octets.as_ptr().cast());
        // SAFETY: the helper reads N octets.
        unsafe { bpf_skb_store_bytes(self.skb, at, from, N as u32, flags.into()) == 0 }
    }
}

impl Packet for Skb {
    const KNOWS_PARTIAL: bool = true;

    #[inline(always)]
    fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut octets = MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the helper writes N octets, or zeros and fails.
        unsafe {
            let failed =
                bpf_skb_load_bytes(self.skb.cast(), at - self.absent, octets.as_mut_ptr().cast(), N as u32)
                    != 0;
            if failed { None } else { Some(octets.assume_init()) }
        }
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool {
        self.store_with(at, &octets, 0)
    }

    #[inline(always)]
    fn mend_udp(&mut self, at: u32, old: u32, new: u32) {
        let (old, new) = (u64::from(old.to_be()), u64::from(new.to_be()));
        // SAFETY: plain numbers. A partial sum is left alone.
        unsafe {
            bpf_l4_csum_replace(self.skb, at - self.absent, old, new, u64::from(BPF_F_MARK_MANGLED_0) | 4)
        };
    }
}

impl Buffer for Skb {
    #[inline(always)]
    fn store_uncovered<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool {
        self.store_with(at, &octets, BPF_F_RECOMPUTE_CSUM)
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        // SAFETY: a field of the context, which is the one the kernel passed in.
        unsafe { (*self.skb).tstamp }
    }

    #[inline(always)]
    fn set_stamp(&mut self, ns: u64) {
        // SAFETY: a field that tc programs may write.
        unsafe { (*self.skb).tstamp = ns };
    }

    #[inline(always)]
    fn mend_ipv4(&mut self, at: u32, old: u16, new: u16) {
        let (old, new) = (u64::from(old.to_be()), u64::from(new.to_be()));
        // SAFETY: plain numbers.
        unsafe { bpf_l3_csum_replace(self.skb, at - self.absent, old, new, 2) };
    }

    #[inline(always)]
    fn mend_udp_length(&mut self, at: u32, old: u16, new: u16) {
        let (old, new) = (u64::from(old.to_be()), u64::from(new.to_be()));
        let (in_header, in_pseudo) = (BPF_F_MARK_MANGLED_0, BPF_F_MARK_MANGLED_0 | BPF_F_PSEUDO_HDR);
        // SAFETY: plain numbers. A partial sum has the pseudo-header alone.
        unsafe {
            bpf_l4_csum_replace(self.skb, at - self.absent, old, new, u64::from(in_header) | 2);
            bpf_l4_csum_replace(self.skb, at - self.absent, old, new, u64::from(in_pseudo) | 2);
        }
    }

    #[inline(always)]
    fn grow(&mut self, len: u32) -> bool {
        // SAFETY: no pointer into the packet is held.
        unsafe { bpf_skb_change_tail(self.skb, len - self.absent, 0) == 0 }
    }
}

/// The map of delays that wait for a follow-up.
struct Pending;

impl Aside for Pending {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: a plain number.
        unsafe { bpf_ktime_get_ns() }
    }

    #[inline(always)]
    fn put(&mut self, key: &Key, kept: Kept) -> bool {
        SHIM_PENDING.insert(key, kept, 0).is_ok()
    }

    #[inline(always)]
    fn take(&mut self, key: &Key) -> Option<Kept> {
        // SAFETY: the value is copied at once; an entry that another CPU reuses meanwhile gives a wrong delay at most.
        let kept = unsafe { SHIM_PENDING.get(key) }.copied()?;
        // Of two CPUs with the same follow-up one has it.
        SHIM_PENDING.remove(key).is_ok().then_some(kept)
    }
}
