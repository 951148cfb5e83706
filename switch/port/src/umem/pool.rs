//! The frame memory as the core's pool.

use super::{Account, Chunk, HEADROOM, OWN, TX_METADATA_LEN, Umem};
use plimsoll_core::{FrameId, Pool, wire::ethernet::TAG_LEN};

impl Pool for Umem {
    #[inline]
    fn bytes(&self, frame: FrameId) -> &[u8] {
        let chunk = self.own(frame);
        // SAFETY: the chunk is held, so the kernel has nothing to do with it, and it stays so while `self` is borrowed.
        unsafe { self.area.slice(self.start(frame.0) + usize::from(chunk.offset), usize::from(chunk.len)) }
    }

    #[inline]
    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        let chunk = self.own(frame);
        let at = self.start(frame.0) + usize::from(chunk.offset);
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { self.area.slice_mut(at, usize::from(chunk.len)) }
    }

    /// The copy counts on the same port's quota as the frame, that of an express frame on the express allowance; `None`
    /// also where that is used up.
    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        let Chunk { offset, len, account, express, .. } = self.own(frame);
        let spent = if account == OWN {
            self.accounts[0].out >= self.unreserved
        } else {
            // Account 0's chunks are the unreserved ones; a port's never exceed those set aside for it.
            let Account { out, reserved, .. } = self.accounts[usize::from(account.0)];
            out >= reserved || self.over_quota(account, express)
        };
        if spent {
            return None;
        }
        let index = self.hold_free(account, len, express)?;
        let (from, to) = (self.start(frame.0) + usize::from(offset), self.start(index) + HEADROOM as usize);
        // SAFETY: both chunks are held, and each frame ends inside its chunk (frames are at most `frame_max` long).
        unsafe { self.area.copy(from, to, usize::from(len)) };
        Some(FrameId(index))
    }

    /// No frame gets longer than [`Umem::frame_max`], so that there can be a copy of it.
    fn grow(&mut self, frame: FrameId) -> bool {
        let Chunk { offset, len, .. } = self.own(frame);
        let room = usize::from(offset) >= TX_METADATA_LEN as usize + TAG_LEN
            && usize::from(len) + TAG_LEN <= self.frame_max() as usize;
        if room {
            let chunk = &mut self.chunks[frame.0 as usize];
            (chunk.offset, chunk.len) = (offset - TAG_LEN as u16, len + TAG_LEN as u16);
        }
        room
    }

    fn shrink(&mut self, frame: FrameId) {
        let Chunk { offset, len, .. } = self.own(frame);
        assert!(usize::from(len) >= TAG_LEN, "{frame:?} is shorter than a tag");
        let chunk = &mut self.chunks[frame.0 as usize];
        (chunk.offset, chunk.len) = (offset + TAG_LEN as u16, len - TAG_LEN as u16);
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        self.own(frame);
        self.held -= 1;
        self.release(frame.0);
    }
}
