//! The frame memory: one pool of chunks per worker.

use crate::{Port, PortError, Tally, UmemOptions};
use plimsoll_core::{FrameId, Pool};

/// The frame memory of one worker. A frame's handle is the index of its chunk.
#[derive(Debug)]
pub struct Umem;

impl Umem {
    /// Maps the memory.
    ///
    /// # Errors
    /// [`PortError`] of kind `Option` for a chunk size that is neither 2048 nor 4096, of kind `Memory` where the
    /// machine has too little.
    pub fn new(_options: UmemOptions) -> Result<Self, PortError> {
        unimplemented!()
    }
    /// Longest frame that fits, in octets without FCS.
    pub fn frame_max(&self) -> u32 {
        unimplemented!()
    }
    /// Takes a free chunk and fills it: a frame that the switch itself makes. `None` when there is none.
    pub fn insert(&mut self, _bytes: &[u8]) -> Option<FrameId> {
        unimplemented!()
    }
    /// Where all chunks are; `ports` are all open ports of this memory.
    pub fn tally<'a>(&self, _ports: impl IntoIterator<Item = &'a Port>) -> Tally {
        unimplemented!()
    }
}

impl Pool for Umem {
    fn bytes(&self, _frame: FrameId) -> &[u8] {
        unimplemented!()
    }
    fn bytes_mut(&mut self, _frame: FrameId) -> &mut [u8] {
        unimplemented!()
    }
    fn copy(&mut self, _frame: FrameId) -> Option<FrameId> {
        unimplemented!()
    }
    fn free(&mut self, _frame: FrameId) {
        unimplemented!()
    }
}
