//! AF_XDP's rings: one producer, one consumer, two indices that only grow (modulo 2^32).
//!
//! Of each ring one end is the kernel's. [`Producer`] is our end of fill and TX rings, [`Consumer`] our end of RX and
//! completion rings. Both work on any [`RingMemory`], so that tests can hold both ends.
//! Layout: Linux Documentation/networking/af_xdp.rst, include/uapi/linux/if_xdp.h.

mod memory;

#[cfg(test)]
pub(crate) use memory::heap::Heap;
pub(crate) use memory::{Mapping, RingMemory};

use std::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// Entry of an RX or TX ring, `struct xdp_desc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Desc {
    /// Octet in the frame memory.
    pub(crate) addr: u64,
    /// Octets of the frame (or of this piece of it).
    pub(crate) len: u32,
    /// `XDP_PKT_CONTD`, `XDP_TX_METADATA`.
    pub(crate) options: u32,
}

// The fill and completion rings hold u64, the RX and TX rings descriptors: mixing them up reads the wrong entries.
const _: () = assert!(size_of::<Desc>() == 16 && align_of::<Desc>() == 8);
const _: () = assert!(size_of::<Desc>() == size_of::<libc::xdp_desc>());
const _: () = assert!(size_of::<u64>() == 8);

/// A type that entries can have.
///
/// # Safety
/// Every pattern of bits is a value.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: integers.
unsafe impl Entry for u64 {}
// SAFETY: integers without padding.
unsafe impl Entry for Desc {}

/// Where in its memory a ring keeps what, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Index of the next entry the producer writes.
    pub(crate) producer: usize,
    /// Index of the next entry the consumer reads.
    pub(crate) consumer: usize,
    /// `XDP_RING_NEED_WAKEUP`.
    pub(crate) flags: usize,
    /// First entry.
    pub(crate) entries: usize,
}

impl Layout {
    /// Octets of memory that `size` entries of `T` need.
    pub(crate) const fn len<T>(&self, size: u32) -> usize {
        self.entries + size as usize * size_of::<T>()
    }
}

/// A ring that does not fit its memory: size no power of two, or a part out of bounds or misaligned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring does not fit its memory")]
pub(crate) struct Misfit;

/// What both ends have in common.
#[derive(Debug)]
struct Ring<T, M> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Keeps the pointers valid.
    _memory: M,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers point into the memory, which goes along; nothing else of this process uses them.
unsafe impl<T: Entry, M: Send> Send for Ring<T, M> {}

impl<T: Entry, M: RingMemory> Ring<T, M> {
    fn new(memory: M, layout: Layout, size: u32) -> Result<Self, Misfit> {
        let base = memory.base();
        let fits = |offset: usize, len: usize, align: usize| {
            offset.is_multiple_of(align) && offset.checked_add(len).is_some_and(|end| end <= memory.len())
        };
        let words = [layout.producer, layout.consumer, layout.flags];
        if !size.is_power_of_two()
            || !words.iter().all(|&offset| fits(offset, 4, 4))
            || !fits(layout.entries, size as usize * size_of::<T>(), align_of::<T>())
        {
            return Err(Misfit);
        }
        // SAFETY: all parts were just checked to be inside the memory and aligned (the base is, to 64).
        unsafe {
            Ok(Self {
                producer: base.add(layout.producer).cast(),
                consumer: base.add(layout.consumer).cast(),
                flags: base.add(layout.flags).cast(),
                entries: base.add(layout.entries).cast(),
                size,
                _memory: memory,
                _entries: PhantomData,
            })
        }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the memory and aligned (`new`); the other end uses it atomically too.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// The entry of an index, any index.
    #[inline]
    fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked to the ring's size, a power of two, and so inside the memory.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a fill or TX ring.
#[derive(Debug)]
pub(crate) struct Producer<T, M = Mapping> {
    ring: Ring<T, M>,
    /// Next index to write; beyond what is published.
    next: u32,
    /// First index that is not ours, as far as we know.
    limit: u32,
    /// First index that the other end has certainly not looked at.
    offered: u32,
}

impl<T: Entry, M: RingMemory> Producer<T, M> {
    pub(crate) fn new(memory: M, layout: Layout, size: u32) -> Result<Self, Misfit> {
        let ring = Ring::new(memory, layout, size)?;
        let next = ring.producer().load(Ordering::Relaxed);
        let limit = ring.consumer().load(Ordering::Acquire).wrapping_add(size);
        Ok(Self { ring, next, limit, offered: next })
    }

    /// Whether an entry is free; looks at the other end only when it must.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        if self.next == self.limit {
            // Acquire: the consumer has read the entries before it gave them back.
            self.limit = self.ring.consumer().load(Ordering::Acquire).wrapping_add(self.ring.size);
        }
        self.next != self.limit
    }

    /// Writes the next entry; `false` when the ring is full. The other end sees it after [`Producer::publish`].
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the entry is ours: the consumer is past it, and sees it only when it is published.
        unsafe { self.ring.slot(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the other end what was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // Release: the entries are written before the index.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Entries the other end has not consumed.
    #[inline]
    pub(crate) fn unconsumed(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// The other end may have looked at everything that is published.
    #[inline]
    pub(crate) fn offer(&mut self) {
        self.offered = self.next;
    }

    /// Whether there are entries that the other end has certainly not looked at.
    pub(crate) fn has_unseen(&self) -> bool {
        self.next != self.offered
    }

    /// Puts `void` in the place of the first unconsumed entry that is not one already, and gives what stood there. The
    /// index cannot be taken back there: the other end remembers how far the ring was filled when it last looked.
    ///
    /// # Safety
    /// As for [`Producer::take_back`].
    pub(crate) unsafe fn void_first(&mut self, void: T) -> Option<T>
    where
        T: PartialEq,
    {
        let count = self.unconsumed();
        let first = self.next.wrapping_sub(count);
        (0..count).map(|n| self.ring.slot(first.wrapping_add(n))).find_map(|slot| {
            // SAFETY: published and not consumed, and the other end keeps still, as the caller says.
            unsafe {
                let entry = slot.read();
                if entry == void {
                    return None;
                }
                slot.write(void);
                Some(entry)
            }
        })
    }

    /// Takes back the last entry that the other end has not consumed, published or not.
    ///
    /// # Safety
    /// The other end does not consume meanwhile. (AF_XDP in copy mode consumes a TX ring only inside `sendto`.)
    pub(crate) unsafe fn take_back(&mut self) -> Option<T> {
        if self.unconsumed() == 0 {
            return None;
        }
        self.next = self.next.wrapping_sub(1);
        self.publish();
        // SAFETY: written before and not consumed, and the other end keeps still, as the caller says.
        Some(unsafe { self.ring.slot(self.next).read() })
    }

    /// Whether the kernel sleeps and wants a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        // The index must be visible before the flag is read, or kernel and we could both wait.
        std::sync::atomic::fence(Ordering::SeqCst);
        self.ring.needs_wakeup()
    }
}

/// Our end of an RX or completion ring.
#[derive(Debug)]
pub(crate) struct Consumer<T, M = Mapping> {
    ring: Ring<T, M>,
    /// Next index to read.
    next: u32,
    /// First index that was not given back.
    released: u32,
    /// First index that is not ours, as of the last refresh.
    limit: u32,
}

impl<T: Entry, M: RingMemory> Consumer<T, M> {
    pub(crate) fn new(memory: M, layout: Layout, size: u32) -> Result<Self, Misfit> {
        let ring = Ring::new(memory, layout, size)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, next, released: next, limit: next })
    }

    /// Looks how far the other end has come.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        // Acquire: the entries were written before the index.
        self.limit = self.ring.producer().load(Ordering::Acquire);
    }

    /// The first entry as of the last refresh.
    #[inline]
    pub(crate) fn peek(&self) -> Option<T> {
        // SAFETY: the producer has published the entry and writes it again only when it is released.
        (self.next != self.limit).then(|| unsafe { self.ring.slot(self.next).read() })
    }

    /// The entry `ahead` places behind the first, as of the last refresh.
    #[inline]
    pub(crate) fn peek_ahead(&self, ahead: u32) -> Option<T> {
        // SAFETY: as in `peek`.
        (self.limit.wrapping_sub(self.next) > ahead)
            .then(|| unsafe { self.ring.slot(self.next.wrapping_add(ahead)).read() })
    }

    /// Goes past the first entry; nothing when there is none.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if self.next != self.limit {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Takes the first entry.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let entry = self.peek();
        self.advance();
        entry
    }

    /// Gives the other end back what was taken; where that is nothing, its cache line is left alone.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released == self.next {
            return;
        }
        self.released = self.next;
        // Release: the entries are read before the other end may write them again.
        self.ring.consumer().store(self.next, Ordering::Release);
    }

    /// Entries the other end has published and we have not taken, now.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 8;
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    type Memory = Heap<{ LAYOUT.len::<Desc>(SIZE) }>;

    /// Both ends of a ring whose indices start at `start`.
    fn pair<T: Entry>(start: u32) -> (Producer<T, Memory>, Consumer<T, Memory>) {
        let memory = Memory::new();
        memory.set_u32(LAYOUT.producer, start);
        memory.set_u32(LAYOUT.consumer, start);
        (Producer::new(memory.clone(), LAYOUT, SIZE).unwrap(), Consumer::new(memory, LAYOUT, SIZE).unwrap())
    }

    #[test]
    fn ring_fills_to_its_last_entry_and_keeps_order_across_the_wrap_of_the_index() {
        for start in [0, 5, u32::MAX - 3, u32::MAX] {
            let (mut producer, mut consumer) = pair::<u64>(start);
            let (mut sent, mut got) = (0, 0);
            for round in 0..40 {
                let want = round % 9;
                for _ in 0..want {
                    if producer.push(sent) {
                        sent += 1;
                    }
                }
                producer.publish();
                consumer.refresh();
                while let Some(entry) = consumer.pop() {
                    assert_eq!(entry, got);
                    got += 1;
                }
                consumer.release();
                assert_eq!((producer.unconsumed(), consumer.waiting()), (0, 0));
                assert_eq!(sent, got);
            }
            for _ in 0..SIZE {
                assert!(producer.push(7));
            }
            assert!(!producer.push(8) && !producer.has_room());
            assert_eq!(producer.unconsumed(), SIZE);
        }
    }

    #[test]
    fn ring_gives_back_only_what_was_taken() {
        let memory = Memory::new();
        let mut producer = Producer::<u64, _>::new(memory.clone(), LAYOUT, SIZE).unwrap();
        let mut consumer = Consumer::<u64, _>::new(memory.clone(), LAYOUT, SIZE).unwrap();
        // A mark in the index that a store would wipe out.
        memory.set_u32(LAYOUT.consumer, 77);
        consumer.release();
        assert_eq!(producer.unconsumed(), 0_u32.wrapping_sub(77), "stored though nothing was taken");
        memory.set_u32(LAYOUT.consumer, 0);
        assert!(producer.push(1));
        producer.publish();
        consumer.refresh();
        assert_eq!(consumer.pop(), Some(1));
        assert_eq!(producer.unconsumed(), 1);
        consumer.release();
        assert_eq!(producer.unconsumed(), 0);
    }

    #[test]
    fn ring_shows_nothing_before_it_is_published_and_frees_nothing_before_it_is_released() {
        let (mut producer, mut consumer) = pair::<Desc>(u32::MAX - 2);
        let desc = Desc { addr: 4352, len: 60, options: 1 };
        for _ in 0..SIZE {
            assert!(producer.push(desc));
        }
        consumer.refresh();
        assert_eq!((consumer.peek(), consumer.waiting()), (None, 0));
        producer.publish();
        assert_eq!((consumer.peek(), consumer.waiting()), (None, SIZE), "the last refresh counts");
        consumer.refresh();
        assert_eq!(consumer.pop(), Some(desc));
        assert!(!producer.has_room(), "taken is not released");
        consumer.release();
        assert!(producer.push(desc) && !producer.push(desc));
    }

    #[test]
    fn ring_entries_that_were_not_consumed_can_be_taken_back() {
        let (mut producer, mut consumer) = pair::<u64>(u32::MAX - 1);
        for entry in 0..4 {
            assert!(producer.push(entry));
        }
        producer.publish();
        consumer.refresh();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(0), Some(1)));
        consumer.release();
        // SAFETY: this thread is the other end too.
        let back: Vec<u64> = std::iter::from_fn(|| unsafe { producer.take_back() }).collect();
        assert_eq!(back, [3, 2]);
        consumer.refresh();
        assert_eq!((consumer.peek(), producer.unconsumed()), (None, 0));
        for _ in 0..SIZE {
            assert!(producer.push(9));
        }
        assert!(!producer.push(9));
    }

    #[test]
    fn ring_consumer_does_not_run_past_the_producer() {
        let (mut producer, mut consumer) = pair::<u64>(0);
        assert!(producer.push(1));
        producer.publish();
        consumer.refresh();
        for _ in 0..3 {
            consumer.advance();
        }
        consumer.release();
        assert_eq!((consumer.waiting(), producer.unconsumed()), (0, 0));
    }

    #[test]
    fn ring_passes_entries_between_threads() {
        let (mut producer, mut consumer) = pair::<Desc>(u32::MAX - 50);
        let count: u32 = if cfg!(miri) { 300 } else { 200_000 };
        let other = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < count {
                let entry = Desc { addr: u64::from(sent) << 20, len: sent, options: !sent };
                if producer.push(entry) {
                    sent += 1;
                    producer.publish();
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut got = 0;
        while got < count {
            consumer.refresh();
            while let Some(entry) = consumer.pop() {
                assert_eq!(entry, Desc { addr: u64::from(got) << 20, len: got, options: !got });
                got += 1;
            }
            consumer.release();
            std::thread::yield_now();
        }
        other.join().unwrap();
    }

    #[test]
    fn ring_asks_for_a_wakeup_when_the_flag_is_set() {
        let memory = Memory::new();
        let producer = Producer::<u64, _>::new(memory.clone(), LAYOUT, SIZE).unwrap();
        assert!(!producer.needs_wakeup());
        memory.set_u32(LAYOUT.flags, libc::XDP_RING_NEED_WAKEUP);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn ring_that_does_not_fit_its_memory_is_refused() {
        let misfit = |layout, size| Producer::<Desc, _>::new(Memory::new(), layout, size).is_err();
        assert!(!misfit(LAYOUT, SIZE));
        assert!(misfit(LAYOUT, SIZE - 1), "no power of two");
        assert!(misfit(LAYOUT, SIZE * 2), "too large");
        assert!(misfit(LAYOUT, 0));
        assert!(misfit(Layout { entries: 196, ..LAYOUT }, SIZE / 2), "misaligned");
        assert!(misfit(Layout { producer: 4096, ..LAYOUT }, SIZE), "out of bounds");
        assert!(misfit(Layout { flags: usize::MAX - 3, ..LAYOUT }, SIZE), "overflow");
    }
}
