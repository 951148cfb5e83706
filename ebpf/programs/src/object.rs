//! What every BPF object needs.

use core::arch::asm;

/// The kernel reads it at load; none of the helpers used here asks for the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 18] = *b"MIT OR Apache-2.0\0";

/// The classifier has no panicking path; were one to appear, the verifier would refuse this loop.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The smaller of `len` and `LIMIT`, or `None` for 0, with a check that the compiler cannot drop as already proved: the
/// verifier wants a copying helper's length shown to be in 1..=LIMIT.
#[inline(always)]
pub(crate) fn copy_length<const LIMIT: u32>(len: u32) -> Option<u32> {
    const { assert!(LIMIT <= 255) };
    let mut octets = u64::from(if len < LIMIT { len } else { LIMIT });
    // SAFETY: changes the one register that it is given, and not even its value.
    unsafe { asm!("{0} &= 255", inout(reg) octets, options(pure, nomem, nostack)) };
    if octets == 0 || octets > u64::from(LIMIT) { None } else { Some(octets as u32) }
}
