//! The ownership of chunks without a kernel: these tests play the kernel, and run under Miri and sanitizers.

use super::*;
use crate::ring::{Consumer, Desc, Heap, Layout, Producer};
use plimsoll_classify::{Class, Flags, Kind, META_LEN, WINDOW, classify};
use plimsoll_core::wire::ethernet::TAG_LEN;

fn umem(chunks: u32) -> Umem {
    Umem::heap(UmemOptions { chunks, chunk_size: 2048 })
}

/// Writes a frame into a posted chunk as the kernel does, and gives the descriptor.
fn receive(umem: &mut Umem, addr: u64, bytes: &[u8], meta: Option<(Class, u64)>) -> Desc {
    let start = addr as usize + HEADROOM as usize;
    if let Some((class, stamp)) = meta {
        // SAFETY: the test is the kernel.
        unsafe { umem.area.slice_mut(start - META_LEN, META_LEN) }.copy_from_slice(&class.to_meta(stamp));
    }
    // SAFETY: the test is the kernel.
    unsafe { umem.area.slice_mut(start, bytes.len()) }.copy_from_slice(bytes);
    Desc { addr: start as u64, len: bytes.len() as u32, options: 0 }
}

fn arrival(umem: &Umem, id: AccountId, desc: Desc) -> Option<Arrival> {
    // SAFETY: the test is the kernel, and single-threaded.
    unsafe { umem.arrival(id, desc) }
}

/// Receives one frame on an account, into the worker's hands.
fn take(umem: &mut Umem, id: AccountId, bytes: &[u8]) -> FrameId {
    take_from(umem, id, bytes, false)
}

fn take_from(umem: &mut Umem, id: AccountId, bytes: &[u8], express: bool) -> FrameId {
    let addr = umem.post(id).unwrap();
    let desc = receive(umem, addr, bytes, Some((Class::OTHER, 1)));
    let arrival = arrival(umem, id, desc).unwrap();
    umem.accept(&arrival, express)
}

#[test]
fn ring_a_frame_goes_from_posted_to_sent_and_its_chunk_comes_back() {
    let mut umem = umem(8);
    let (a, b) = (umem.open_account(4, 2, 1).unwrap(), umem.open_account(4, 2, 1).unwrap());
    let addr = umem.post(a).unwrap();
    let class = Class { kind: Kind::PtpEvent, flags: Flags::UDP, ..Class::OTHER };
    let desc = receive(&mut umem, addr, &[7; 60], Some((class, 123)));
    let found = arrival(&umem, a, desc).unwrap();
    assert_eq!((found.class, found.stamp, found.len()), (class, Some(123), 60));
    assert!(arrival(&umem, b, desc).is_none(), "another port's chunk");
    let frame = umem.accept(&found, false);
    assert_eq!(umem.bytes(frame), [7; 60]);
    assert!(arrival(&umem, a, desc).is_none(), "no longer posted");
    umem.bytes_mut(frame)[0] = 9;
    umem.write_tx_metadata(frame, &[0xEE; 24]);
    let (sent, len) = umem.send(b, frame);
    assert_eq!((sent, len), (desc.addr, 60));
    assert_eq!(umem.complete(a, sent), None, "sent by another port");
    assert_eq!(umem.complete(b, sent), Some(60));
    assert_eq!(umem.complete(b, sent), None, "completed twice");
    assert_eq!(umem.audit(), Ok(()));
    assert_eq!(umem.free.len(), 8);
}

#[test]
fn ring_descriptors_that_are_no_frame_are_refused() {
    let mut umem = umem(4);
    let id = umem.open_account(4, 4, 0).unwrap();
    let addr = umem.post(id).unwrap();
    let good = Desc { addr: addr + 256, len: 1792, options: 0 };
    assert!(arrival(&umem, id, good).is_some());
    for (addr, len) in [
        (addr + 256, 13),   // shorter than an Ethernet header
        (addr + 256, 1793), // beyond its chunk
        (addr + 256, u32::MAX),
        (addr + 255, 60),        // where the kernel puts nothing
        (addr + 2048 + 256, 60), // a free chunk
        (4 * 2048 + 256, 60),    // beyond the memory
        (u64::MAX, 60),
    ] {
        assert!(arrival(&umem, id, Desc { addr, len, options: 0 }).is_none(), "{addr} {len}");
    }
    assert!(!umem.reject(id, 4 * 2048) && !umem.reject(id, addr + 2048));
    assert!(umem.reject(id, addr + 256));
    assert!(!umem.reject(id, addr + 256), "rejected twice");
    assert_eq!(umem.audit(), Ok(()));
}

#[test]
fn ring_frames_without_metadata_are_classified_natively() {
    let mut umem = umem(2);
    let id = umem.open_account(2, 2, 0).unwrap();
    let addr = umem.post(id).unwrap();
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    let desc = receive(&mut umem, addr, &frame, None);
    let found = arrival(&umem, id, desc).unwrap();
    assert_eq!(found.stamp, None);
    let mut window = [0; WINDOW];
    window[..60].copy_from_slice(&frame);
    assert_eq!(found.class, classify(&window, 60));
}

#[test]
fn ring_an_older_frames_metadata_is_not_taken_for_a_newer_ones() {
    let mut umem = umem(1);
    let id = umem.open_account(1, 1, 0).unwrap();
    let class = Class { kind: Kind::PtpEvent, ..Class::OTHER };
    let addr = umem.post(id).unwrap();
    let desc = receive(&mut umem, addr, &[0; 60], Some((class, 123)));
    let frame = umem.accept(&arrival(&umem, id, desc).unwrap(), false);
    umem.free(frame);
    // The same chunk again, from a driver that writes no metadata.
    let addr = umem.post(id).unwrap();
    let desc = receive(&mut umem, addr, &[0; 60], None);
    assert_eq!(arrival(&umem, id, desc).unwrap().stamp, None);
    // And one whose frame starts elsewhere, before which anything may stand.
    umem.reject(id, addr);
    let addr = umem.post(id).unwrap();
    receive(&mut umem, addr, &class.to_meta(1), None);
    let later = Desc { addr: addr + 256 + META_LEN as u64, len: 60, options: 0 };
    assert_eq!(arrival(&umem, id, later).unwrap().stamp, None);
}

#[test]
#[should_panic(expected = "is not the caller's")]
fn ring_a_freed_frame_cannot_be_read() {
    let mut umem = umem(2);
    let frame = umem.insert(&[1; 60]).unwrap();
    umem.free(frame);
    let _ = umem.bytes(frame);
}

#[test]
#[should_panic(expected = "is not the caller's")]
fn ring_a_frame_being_sent_cannot_be_freed() {
    let mut umem = umem(4);
    let id = umem.open_account(1, 1, 0).unwrap();
    let frame = umem.insert(&[1; 60]).unwrap();
    umem.send(id, frame);
    umem.free(frame);
}

#[test]
fn ring_a_copy_is_a_frame_of_its_own_on_the_same_quota() {
    let mut umem = umem(16);
    let id = umem.open_account(8, 3, 2).unwrap();
    let frame = take(&mut umem, id, &[5; 100]);
    let copy = umem.copy(frame).unwrap();
    umem.bytes_mut(copy)[0] = 6;
    assert_eq!((umem.bytes(frame)[0], umem.bytes(copy)[0], umem.bytes(copy).len()), (5, 6, 100));
    let third = umem.copy(copy).unwrap();
    assert!(umem.copy(frame).is_none(), "the quota is used up though chunks are free");
    assert!(umem.over_quota(id, false) && !umem.over_quota(id, true));
    umem.free(frame);
    assert!(umem.copy(third).is_some());
    assert_eq!(umem.audit(), Ok(()));
}

#[test]
fn ring_copies_of_an_express_frame_are_made_from_the_express_allowance() {
    let mut umem = umem(16);
    let id = umem.open_account(8, 2, 3).unwrap();
    let bulk = take(&mut umem, id, &[5; 100]);
    let sync = take_from(&mut umem, id, &[6; 100], true);
    assert!(umem.over_quota(id, false), "bulk has all it may");
    assert!(umem.copy(bulk).is_none());
    let copy = umem.copy(sync).unwrap();
    assert!(umem.copy(copy).is_some(), "a copy of an express frame is one");
    assert!(umem.copy(sync).is_some());
    assert!(umem.copy(sync).is_none(), "the express allowance is used up too");
    assert_eq!(umem.audit(), Ok(()));
}

#[test]
fn ring_one_port_cannot_take_another_ports_chunks() {
    let mut umem = umem(10);
    let (a, b) = (umem.open_account(5, 3, 0).unwrap(), umem.open_account(5, 3, 0).unwrap());
    assert!(umem.open_account(1, 1, 0).is_none(), "all chunks are set aside");
    assert!(umem.insert(&[0; 60]).is_none(), "all chunks are set aside");
    for _ in 0..3 {
        take(&mut umem, a, &[0; 60]);
    }
    assert!(umem.over_quota(a, false) && !umem.over_quota(b, false));
    for _ in 0..2 {
        umem.post(a).unwrap();
    }
    for _ in 0..5 {
        assert!(umem.post(b).is_some());
    }
    assert_eq!(umem.audit(), Ok(()));
}

#[test]
fn ring_a_closed_ports_chunks_come_back_with_the_last_of_its_frames() {
    let mut umem = umem(8);
    let (a, b) = (umem.open_account(4, 4, 0).unwrap(), umem.open_account(4, 4, 0).unwrap());
    let held = take(&mut umem, a, &[0; 60]);
    let queued = take(&mut umem, a, &[0; 60]);
    umem.post(a).unwrap();
    let (unsent, _) = umem.send(a, queued);
    umem.complete(a, unsent).unwrap(); // taken back from the TX ring
    umem.close_account(a, false);
    assert_eq!((umem.audit(), umem.available(), umem.withdrawn), (Ok(()), 3, 0));
    assert!(umem.copy(held).is_none(), "a closed port makes no new frames");
    umem.send(b, held);
    umem.complete(b, u64::from(held.0) * 2048 + 256).unwrap();
    assert_eq!((umem.audit(), umem.available()), (Ok(()), 4));
    assert_eq!(umem.open_account(4, 4, 0), Some(a), "its place is free again");
}

#[test]
fn ring_what_a_device_may_still_use_is_withdrawn() {
    let mut umem = umem(8);
    let (a, b) = (umem.open_account(4, 4, 0).unwrap(), umem.open_account(2, 2, 0).unwrap());
    umem.post(a).unwrap();
    let own = umem.insert(&[1; 60]).unwrap();
    umem.send(a, own);
    let other = take(&mut umem, b, &[1; 60]);
    umem.send(a, other);
    umem.close_account(a, true);
    assert_eq!((umem.audit(), umem.withdrawn), (Ok(()), 3));
    assert_eq!(umem.available(), 8 - 2 - 2, "b has one chunk less, two more are gone");
    assert_eq!(umem.tally([]).free, 5);
    assert!(umem.tally([]).is_whole());
}

#[test]
fn ring_an_account_that_lost_chunks_to_another_ports_device_takes_no_more_than_are_left_and_closes() {
    let mut umem = umem(8);
    let (a, b) = (umem.open_account(4, 4, 0).unwrap(), umem.open_account(4, 3, 0).unwrap());
    let frame = take(&mut umem, b, &[1; 60]);
    umem.send(a, frame);
    umem.close_account(a, true);
    assert_eq!((umem.audit(), umem.withdrawn), (Ok(()), 1));
    // B goes on to all that it ever had, and is stopped one before it.
    let held: Vec<_> = (0..2).map(|_| take(&mut umem, b, &[1; 60])).collect();
    assert!(umem.over_quota(b, false), "one of three is lost");
    assert!(umem.post(b).is_some());
    assert!(umem.post(b).is_none(), "the next chunk is another port's");
    umem.close_account(b, false);
    assert_eq!((umem.audit(), umem.available()), (Ok(()), 8 - 1 - 2));
    held.into_iter().for_each(|frame| umem.free(frame));
    assert_eq!((umem.audit(), umem.available(), umem.free.len()), (Ok(()), 7, 7));
}

#[test]
fn ring_inserted_frames_have_a_size() {
    let mut umem = umem(3);
    let _ = umem.open_account(1, 1, 0).unwrap();
    assert!(umem.insert(&[0; 13]).is_none());
    assert!(umem.insert(&[0; 1793]).is_none());
    let frame = umem.insert(&[3; 1792]).unwrap();
    assert_eq!(umem.bytes(frame), [3; 1792]);
    assert!(umem.copy(frame).is_some());
    assert!(umem.copy(frame).is_none(), "the last chunk is set aside for the port");
}

#[test]
fn memory_of_odd_sizes_is_refused_with_the_remedy() {
    for (chunks, chunk_size) in [(8, 1024), (8, 3000), (0, 2048), (8, 8192)] {
        let error = Umem::new(UmemOptions { chunks, chunk_size }).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Option);
        assert!(error.to_string().contains("; use "), "{error}");
    }
}

/// A worker that forwards through rings on the heap and a kernel on the other thread, until nothing is lost.
#[test]
fn ring_every_chunk_survives_a_forwarder_and_a_kernel_on_two_threads() {
    const SIZE: u32 = 16;
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    type Memory = Heap<{ LAYOUT.len::<Desc>(SIZE) }>;
    let (fill, rx, tx, completion) = (Memory::new(), Memory::new(), Memory::new(), Memory::new());
    for memory in [&fill, &rx, &tx, &completion] {
        memory.set_u32(0, u32::MAX - 5);
        memory.set_u32(64, u32::MAX - 5);
    }
    let count: u32 = if cfg!(miri) { 100 } else { 50_000 };
    let mut umem = umem(48);
    let id = umem.open_account(48, 32, 0).unwrap();

    let mut kernel_fill = Consumer::<u64, _>::new(fill.clone(), LAYOUT, SIZE).unwrap();
    let mut kernel_rx = Producer::<Desc, _>::new(rx.clone(), LAYOUT, SIZE).unwrap();
    let mut kernel_tx = Consumer::<Desc, _>::new(tx.clone(), LAYOUT, SIZE).unwrap();
    let mut kernel_completion = Producer::<u64, _>::new(completion.clone(), LAYOUT, SIZE).unwrap();
    let base = umem.area.address() as usize;
    let base = std::sync::atomic::AtomicPtr::new(base as *mut u8);
    let kernel = std::thread::spawn(move || {
        let base = base.into_inner();
        let (mut received, mut sent) = (0u32, 0u32);
        while sent < count {
            kernel_fill.refresh();
            while received < count && kernel_rx.has_room() {
                let Some(addr) = kernel_fill.pop() else { break };
                let at = addr as usize + 256;
                let mut bytes = [0; 60];
                bytes[..4].copy_from_slice(&received.to_ne_bytes());
                let meta = Class::OTHER.to_meta(u64::from(received));
                // SAFETY: a posted chunk, and the test is the kernel.
                unsafe {
                    base.add(at - META_LEN).copy_from(meta.as_ptr(), META_LEN);
                    base.add(at).copy_from(bytes.as_ptr(), 60);
                }
                assert!(kernel_rx.push(Desc { addr: at as u64, len: 60, options: 0 }));
                received += 1;
            }
            kernel_fill.release();
            kernel_rx.publish();
            kernel_tx.refresh();
            while kernel_completion.has_room() {
                let Some(desc) = kernel_tx.pop() else { break };
                let mut number = [0; 4];
                // SAFETY: a chunk that was given to be sent, and the test is the kernel.
                unsafe { base.add(desc.addr as usize).copy_to(number.as_mut_ptr(), 4) };
                assert_eq!(u32::from_ne_bytes(number), sent, "lost, doubled or reordered");
                assert!(kernel_completion.push(desc.addr));
                sent += 1;
            }
            kernel_tx.release();
            kernel_completion.publish();
            std::thread::yield_now();
        }
    });

    let mut fill = Producer::<u64, _>::new(fill, LAYOUT, SIZE).unwrap();
    let mut rx = Consumer::<Desc, _>::new(rx, LAYOUT, SIZE).unwrap();
    let mut tx = Producer::<Desc, _>::new(tx, LAYOUT, SIZE).unwrap();
    let mut completion = Consumer::<u64, _>::new(completion, LAYOUT, SIZE).unwrap();
    let mut queue = std::collections::VecDeque::new();
    let mut completed = 0;
    while completed < count {
        while fill.has_room() {
            let Some(addr) = umem.post(id) else { break };
            assert!(fill.push(addr));
        }
        fill.publish();
        rx.refresh();
        while !umem.over_quota(id, false) {
            let Some(desc) = rx.pop() else { break };
            let found = arrival(&umem, id, desc).unwrap();
            queue.push_back(umem.accept(&found, false));
        }
        rx.release();
        while tx.has_room() {
            let Some(frame) = queue.pop_front() else { break };
            let (addr, len) = umem.send(id, frame);
            assert!(tx.push(Desc { addr, len, options: 0 }));
        }
        tx.publish();
        completion.refresh();
        while let Some(addr) = completion.pop() {
            assert_eq!(umem.complete(id, addr), Some(60));
            completed += 1;
        }
        completion.release();
        assert_eq!(umem.held as usize, queue.len());
        std::thread::yield_now();
    }
    kernel.join().unwrap();
    assert_eq!(umem.audit(), Ok(()));
    umem.close_account(id, false);
    assert_eq!(umem.free.len(), 48);
}

#[test]
fn a_tag_takes_the_headroom_and_no_frame_gets_too_long_for_a_copy() {
    let mut umem = umem(2);
    let frame = umem.insert(&[7; 60]).unwrap();
    assert!(umem.grow(frame));
    umem.bytes_mut(frame)[..TAG_LEN].copy_from_slice(&[1, 2, 3, 4]);
    let grown = [&[1, 2, 3, 4][..], &[7; 60]].concat();
    assert_eq!(umem.bytes(frame), grown);
    let copy = umem.copy(frame).unwrap();
    assert_eq!(umem.bytes(copy), grown);
    umem.free(copy);
    for _ in 0..2 {
        umem.shrink(frame);
    }
    assert_eq!(umem.bytes(frame), [7; 56]);
    let more = std::iter::from_fn(|| umem.grow(frame).then_some(())).count();
    // All of the headroom but what TX metadata needs: 256 octets, and the 4 that were too many.
    assert_eq!(more, (256 + 4 - 24) / 4);
    umem.write_tx_metadata(frame, &[0xEE; 24]);
    assert_eq!(umem.bytes(frame)[umem.bytes(frame).len() - 56..], [7; 56]);
    let longest = umem.insert(&[9; 1792]).unwrap();
    assert!(!umem.grow(longest));
    umem.shrink(longest);
    assert!(umem.grow(longest) && umem.bytes(longest).len() == 1792);
    assert_eq!(umem.audit(), Ok(()));
}
