//! A chunk's way through a port: posted, taken with a frame in it or given back, sent, completed.

use super::{AccountId, Arrival, Chunk, FRAME_MIN, HEADROOM, OWN, Owner, TX_METADATA_LEN, Umem};
use crate::ring::Desc;
use plimsoll_classify::{Class, META_LEN, WINDOW, classify};
use plimsoll_core::FrameId;

impl Umem {
    /// Whether the account has so many frames out that the next one must be dropped.
    #[inline]
    pub(crate) fn over_quota(&self, id: AccountId, express: bool) -> bool {
        let account = &self.accounts[usize::from(id.0)];
        account.out - account.posted >= account.held_max + if express { account.express_max } else { 0 }
    }

    /// Takes a free chunk to be posted; its address for the fill ring. `None` where the account has all it may.
    #[inline]
    pub(crate) fn post(&mut self, id: AccountId) -> Option<u64> {
        let account = &self.accounts[usize::from(id.0)];
        if account.out >= account.reserved {
            return None;
        }
        let index = self.free.pop()?;
        // No metadata of an older frame may be taken for that of a driver that writes none.
        let magic = self.start(index) + HEADROOM as usize - META_LEN;
        // SAFETY: the chunk is free.
        unsafe { self.area.slice_mut(magic, 4) }.fill(0);
        self.chunks[index as usize] =
            Chunk { offset: 0, len: 0, owner: Owner::Posted, account: id, sender: OWN, express: false };
        let account = &mut self.accounts[usize::from(id.0)];
        account.out += 1;
        account.posted += 1;
        Some(self.start(index) as u64)
    }

    /// Looks at a received frame. `None` where the descriptor is none of this account's posted chunks, or no frame.
    ///
    /// # Safety
    /// The descriptor comes from an RX ring of the account's port, and its entry is not released: the kernel has
    /// finished writing to the chunk.
    #[inline]
    pub(crate) unsafe fn arrival(&self, id: AccountId, desc: Desc) -> Option<Arrival> {
        let index = self.index_of(desc.addr)?;
        let chunk = &self.chunks[index as usize];
        let offset = desc.addr as usize - self.start(index);
        if chunk.owner != Owner::Posted
            || chunk.account != id
            || offset < HEADROOM as usize
            || desc.len < FRAME_MIN
            || offset + desc.len as usize > self.chunk_size as usize
        {
            return None;
        }
        // SAFETY: inside a chunk that the kernel has finished with, as the caller says.
        let meta = unsafe { self.area.slice(desc.addr as usize - META_LEN, META_LEN) };
        // Elsewhere an older frame's octets could look like metadata.
        let meta = if offset == HEADROOM as usize { meta.first_chunk() } else { None };
        let (class, stamp) = match meta.and_then(Class::from_meta) {
            Some((class, stamp)) => (class, Some(stamp)),
            None => {
                // SAFETY: as above.
                let bytes = unsafe { self.area.slice(desc.addr as usize, desc.len as usize) };
                (classify_bytes(bytes), None)
            }
        };
        Some(Arrival { index, offset: offset as u16, len: desc.len as u16, class, stamp })
    }

    /// Gives a received frame to a holder; `express` says by which ring it came.
    #[inline]
    pub(crate) fn accept(&mut self, arrival: &Arrival, express: bool) -> FrameId {
        let chunk = &mut self.chunks[arrival.index as usize];
        assert!(chunk.owner == Owner::Posted, "chunk {} taken twice", arrival.index);
        chunk.offset = arrival.offset;
        chunk.len = arrival.len;
        chunk.owner = Owner::Held;
        chunk.express = express;
        self.accounts[usize::from(chunk.account.0)].posted -= 1;
        self.held += 1;
        FrameId(arrival.index)
    }

    /// Frees the chunk of a received frame that nobody gets; `false` where the address is none of this account's.
    pub(crate) fn reject(&mut self, id: AccountId, addr: u64) -> bool {
        let Some(index) = self.index_of(addr) else { return false };
        let chunk = &self.chunks[index as usize];
        if chunk.owner != Owner::Posted || chunk.account != id {
            return false;
        }
        self.accounts[usize::from(id.0)].posted -= 1;
        self.release(index);
        true
    }

    /// Gives a frame to a port that sends it; address and length for the TX ring.
    #[inline]
    pub(crate) fn send(&mut self, id: AccountId, frame: FrameId) -> (u64, u32) {
        let chunk = self.own(frame);
        let slot = &mut self.chunks[frame.0 as usize];
        slot.owner = Owner::Sending;
        slot.sender = id;
        self.held -= 1;
        (self.start(frame.0) as u64 + u64::from(chunk.offset), u32::from(chunk.len))
    }

    /// Writes TX metadata before a frame.
    #[inline]
    pub(crate) fn write_tx_metadata(&mut self, frame: FrameId, metadata: &[u8; TX_METADATA_LEN as usize]) {
        let chunk = self.own(frame);
        let at = self.start(frame.0) + usize::from(chunk.offset) - metadata.len();
        // SAFETY: before the frame in the same chunk (every offset is at least TX_METADATA_LEN), and the chunk is held.
        unsafe { self.area.slice_mut(at, metadata.len()) }.copy_from_slice(metadata);
    }

    /// Frees a sent chunk; the frame's octets. `None` where the address is none that this port sends.
    #[inline]
    pub(crate) fn complete(&mut self, id: AccountId, addr: u64) -> Option<u32> {
        let index = self.index_of(addr)?;
        let chunk = &self.chunks[index as usize];
        if chunk.owner != Owner::Sending || chunk.sender != id {
            return None;
        }
        let len = u32::from(chunk.len);
        self.release(index);
        Some(len)
    }
}

/// The class of a frame that came without metadata.
#[cold]
fn classify_bytes(bytes: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    let len = bytes.len().min(WINDOW);
    window[..len].copy_from_slice(&bytes[..len]);
    classify(&window, bytes.len() as u32)
}
