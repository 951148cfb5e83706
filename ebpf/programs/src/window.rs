//! A frame's first octets, copied to where the classifier reads them.

use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use core::arch::asm;
use plimsoll_classify::WINDOW as WINDOW_LEN;

/// A map's value rather than the stack, which would have to be zeroed for every frame. It is one program's on its CPU,
/// since none interrupts another there and each interface's programs have maps of their own.
#[btf_map]
pub(crate) static WINDOW: PerCpuArray<[u8; WINDOW_LEN], 1> = PerCpuArray::new();

/// WINDOW_LEN - 1, which the verifier knows and the compiler does not: see [`plimsoll_classify::Window::with_mask`].
#[inline(always)]
pub(crate) fn mask() -> usize {
    let mask: u64;
    // SAFETY: writes the one register that it is given.
    unsafe { asm!("{0} = {1}", out(reg) mask, const WINDOW_LEN - 1, options(pure, nomem, nostack)) };
    mask as usize
}
