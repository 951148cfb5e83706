//! Memory that a ring lives in: pages shared with the kernel, or, in tests, the heap.

use rustix::{io, mm};
use std::{os::fd::BorrowedFd, ptr::NonNull};

/// Memory shared with whoever works at the ring's other end.
///
/// # Safety
/// `base()` .. `base() + len()` is readable and writable, at the same address, as long as the value lives, and aligned
/// to 64 octets. Whoever else writes there keeps to the ring's protocol: it changes an entry only while the index that
/// was last published says that the entry is its own.
pub(crate) unsafe trait RingMemory {
    /// First octet.
    fn base(&self) -> NonNull<u8>;
    /// Octets.
    fn len(&self) -> usize;
}

/// Pages of an AF_XDP socket, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` octets of the socket at `offset` (one of the `XDP_*PGOFF_*` constants).
    pub(crate) fn new(socket: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                len,
                mm::ProtFlags::READ | mm::ProtFlags::WRITE,
                mm::MapFlags::SHARED | mm::MapFlags::POPULATE,
                socket,
                offset,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::Errno::FAULT)?;
        Ok(Self { base, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this length; nothing that was lent out outlives `self`.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: mapped readable and writable until drop, page-aligned; the kernel keeps to the protocol of its own rings.
unsafe impl RingMemory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
pub(crate) mod heap {
    //! Rings on the heap, so that both ends can be driven by a test, also under Miri and sanitizers.

    use super::RingMemory;
    use std::{cell::UnsafeCell, ptr::NonNull, sync::Arc};

    #[repr(C, align(64))]
    struct Block<const N: usize>(UnsafeCell<[u8; N]>);

    /// Zeroed heap memory; clones share it.
    #[derive(Clone)]
    pub(crate) struct Heap<const N: usize>(Arc<Block<N>>);

    // SAFETY: all access goes through raw pointers of the rings, which keep to the protocol.
    unsafe impl<const N: usize> Sync for Block<N> {}

    impl<const N: usize> Heap<N> {
        pub(crate) fn new() -> Self {
            Self(Arc::new(Block(UnsafeCell::new([0; N]))))
        }

        /// Writes an index before any ring looks at it.
        pub(crate) fn set_u32(&self, offset: usize, value: u32) {
            assert!(offset + 4 <= N && offset.is_multiple_of(4));
            // SAFETY: in bounds and aligned, and no ring is at work yet.
            unsafe { self.base().add(offset).cast::<u32>().write(value) };
        }
    }

    // SAFETY: the block lives as long as any clone, is aligned to 64, and only rings touch it.
    unsafe impl<const N: usize> RingMemory for Heap<N> {
        fn base(&self) -> NonNull<u8> {
            // SAFETY: an UnsafeCell's pointer is never null.
            unsafe { NonNull::new_unchecked(self.0.0.get().cast()) }
        }
        fn len(&self) -> usize {
            N
        }
    }
}
