//! The octets behind the frame memory.

use rustix::{io, mm};
use std::ptr::NonNull;

/// One page-aligned block of anonymous memory; in tests it may be the heap.
#[derive(Debug)]
pub(crate) struct Area {
    base: NonNull<u8>,
    len: usize,
    #[cfg(test)]
    heap: bool,
}

// SAFETY: the block belongs to the process, not to a thread, and `Area` gives access by its own borrow only.
unsafe impl Send for Area {}

impl Area {
    /// Maps `len` octets, populated.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let prot = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), len, prot, mm::MapFlags::PRIVATE) }?;
        // A child must not share the pages (copy-on-write would take them away from the sockets). Huge pages spare a
        // walk of the page tables for almost every frame; they must be asked for before the memory is touched, since
        // pages that sockets have pinned are never joined. Neither is needed.
        for advice in [mm::Advice::LinuxDontFork, mm::Advice::LinuxHugepage] {
            // SAFETY: the range is the mapping just made, and neither advice changes its content.
            let _ = unsafe { mm::madvise(base, len, advice) };
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::Errno::FAULT)?;
        for page in (0..len).step_by(4096) {
            // SAFETY: inside the mapping just made, which nobody else knows.
            unsafe { base.add(page).write_volatile(0) };
        }
        Ok(Self {
            base,
            len,
            #[cfg(test)]
            heap: false,
        })
    }

    /// The same on the heap, for tests that run without a kernel.
    #[cfg(test)]
    pub(crate) fn heap(len: usize) -> Self {
        // SAFETY: the layout is not empty.
        let base = unsafe { std::alloc::alloc_zeroed(Self::layout(len)) };
        Self { base: NonNull::new(base).unwrap(), len, heap: true }
    }

    #[cfg(test)]
    fn layout(len: usize) -> std::alloc::Layout {
        assert!(len > 0);
        std::alloc::Layout::from_size_align(len, 4096).unwrap()
    }

    /// Address of the first octet, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Octets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset);
        // SAFETY: inside the block, as just checked.
        unsafe { self.base.add(offset) }
    }

    /// `len` octets from `offset` on.
    ///
    /// # Safety
    /// The kernel does not write to them as long as the slice lives.
    ///
    /// # Panics
    /// When they are not inside the area.
    #[inline]
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: inside the block and initialised (zeroed at first); not written meanwhile, as the caller says.
        unsafe { std::slice::from_raw_parts(self.at(offset, len).as_ptr(), len) }
    }

    /// The same, to change.
    ///
    /// # Safety
    /// The kernel neither reads nor writes them as long as the slice lives.
    ///
    /// # Panics
    /// When they are not inside the area.
    #[inline]
    pub(crate) unsafe fn slice_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: inside the block and initialised; `self` is borrowed mutably and the kernel is away, as the caller
        // says.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len).as_ptr(), len) }
    }

    /// A hint to the CPU that the cache line at `offset` will be read; nothing where it lies outside.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.len {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: inside the block; a prefetch reads nothing that the program could see.
            unsafe { _mm_prefetch(self.base.as_ptr().add(offset).cast::<i8>(), _MM_HINT_T0) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Copies `len` octets inside the area.
    ///
    /// # Safety
    /// The kernel does not write to the source and does not use the target meanwhile.
    ///
    /// # Panics
    /// When one of them is not inside the area.
    #[inline]
    pub(crate) unsafe fn copy(&mut self, from: usize, to: usize, len: usize) {
        // SAFETY: both inside the block; the kernel is away, as the caller says.
        unsafe { std::ptr::copy(self.at(from, len).as_ptr(), self.at(to, len).as_ptr(), len) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.heap {
            // SAFETY: allocated by `heap` with the same layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), Self::layout(self.len)) };
            return;
        }
        // SAFETY: mapped by `new` with this length, and no slice outlives `self`. Sockets that still use the pages
        // have pinned them.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
