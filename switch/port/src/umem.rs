//! The frame memory: one pool of chunks per worker, every chunk with one owner.
//!
//! A chunk goes free -> posted (with the kernel, to be received into) -> held (the worker's) -> sending -> free. The
//! owner stands beside each chunk and is checked at every step, so that a safe caller can never look into a chunk
//! while the kernel writes to it.
//!
//! **Quotas.** Each port has an account of chunks. What came in by a port stays on its account until it is free
//! again, wherever it waits, so that a slow or flooded port can exhaust its own account only.

use crate::{Port, PortError, PortErrorKind, Tally, UmemOptions, area::Area, ring::Desc};
use plimsoll_classify::{Class, META_LEN, WINDOW, classify};
use plimsoll_core::{FrameId, Pool, wire::ethernet::TAG_LEN};

/// Ports that can be open in one [`Umem`]: their accounts have numbers of eight bits, one of which is its own.
pub const MOST_PORTS: usize = u8::MAX as usize;

/// Octets before a frame in its chunk: `XDP_PACKET_HEADROOM`, where the kernel puts received frames.
const HEADROOM: u32 = 256;
/// Octets of an Ethernet header: nothing shorter is a frame.
const FRAME_MIN: u32 = 14;
/// Octets of `struct xsk_tx_metadata` that the memory is registered with.
pub(crate) const TX_METADATA_LEN: u32 = 24;

/// Who may touch a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Owner {
    /// Nobody: it is in the free list.
    Free,
    /// The kernel, in or behind a fill ring, or in an RX ring.
    Posted,
    /// Whoever has its [`FrameId`].
    Held,
    /// The kernel, in a TX ring or on its way.
    Sending,
    /// Perhaps a device whose port is closed.
    Withdrawn,
}

/// An account's index; 0 is the switch's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountId(u8);

const OWN: AccountId = AccountId(0);

#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Octets before the frame.
    offset: u16,
    /// Octets of the frame.
    len: u16,
    owner: Owner,
    /// Whose quota it counts on.
    account: AccountId,
    /// The port that sends it.
    sender: AccountId,
    /// Whether the frame, or the one it is a copy of, came by an express ring.
    express: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Vacant,
    Open,
    /// The port is closed; some of its frames are still in the switch.
    Closing,
}

/// What one port has of the memory.
#[derive(Clone, Copy, Debug)]
struct Account {
    standing: Standing,
    /// Chunks set aside for it; withdrawn ones no more.
    reserved: u32,
    /// Chunks of it that are not free: never more than `reserved` (but on account 0, which has none).
    out: u32,
    /// Those of them that are posted.
    posted: u32,
    /// Bulk frames and copies it may have out beside the posted.
    held_max: u32,
    /// Express frames and their copies that it may have out beyond that.
    express_max: u32,
}

/// A frame in an RX ring, looked at and not taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    index: u32,
    offset: u16,
    len: u16,
    /// What the classifier found.
    pub(crate) class: Class,
    /// XDP's stamp in ns; `None` where there is no valid metadata (the class is then our own).
    pub(crate) stamp: Option<u64>,
}

impl Arrival {
    pub(crate) fn len(&self) -> u32 {
        u32::from(self.len)
    }
}

/// Where the frame memory is and what fits: enough for [`crate::Prepared`], which touches no chunk.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Address and octets of the memory, and octets of a chunk, for registering it.
    pub(crate) region: (u64, u64, u32),
    /// Longest frame that fits.
    pub(crate) frame_max: u32,
}

/// The frame memory of one worker. A frame's handle is the index of its chunk.
///
/// # Panics
/// The methods of [`Pool`] panic when the frame is not the caller's (freed, or given to a port).
#[derive(Debug)]
pub struct Umem {
    area: Area,
    chunk_size: u32,
    chunk_shift: u32,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    held: u32,
    withdrawn: u32,
    accounts: Vec<Account>,
    /// Chunks set aside for no port.
    unreserved: u32,
}

impl Umem {
    /// Maps the memory.
    ///
    /// # Errors
    /// [`PortError`] of kind `Option` for a chunk size that is neither 2048 nor 4096 or for no chunks at all, of kind
    /// `Memory` where the machine has too little.
    pub fn new(options: UmemOptions) -> Result<Self, PortError> {
        let error = |kind, problem: String, remedy: &str| PortError {
            kind,
            interface: String::new(),
            queue: None,
            call: "frame memory",
            problem,
            remedy: remedy.into(),
            source: None,
        };
        let UmemOptions { chunks, chunk_size } = options;
        if chunk_size != 2048 && chunk_size != 4096 {
            let problem = format!("a chunk of {chunk_size} octets");
            return Err(error(PortErrorKind::Option, problem, "use 2048 or 4096"));
        }
        if chunks == 0 {
            return Err(error(
                PortErrorKind::Option,
                "no chunks".into(),
                "use at least PortOptions::chunks a port",
            ));
        }
        let len = chunks as usize * chunk_size as usize;
        let area = Area::new(len).map_err(|e| PortError {
            source: Some(e.into()),
            ..error(
                PortErrorKind::Memory,
                format!("mmap of {} MiB: {e}", len >> 20),
                "use fewer chunks, or free memory",
            )
        })?;
        Ok(Self::over(area, options))
    }

    fn over(area: Area, UmemOptions { chunks, chunk_size }: UmemOptions) -> Self {
        let chunk =
            Chunk { offset: 0, len: 0, owner: Owner::Free, account: OWN, sender: OWN, express: false };
        let own =
            Account { standing: Standing::Open, reserved: 0, out: 0, posted: 0, held_max: 0, express_max: 0 };
        Self {
            area,
            chunk_size,
            chunk_shift: chunk_size.trailing_zeros(),
            chunks: vec![chunk; chunks as usize],
            // The lowest chunks first: the working set stays small.
            free: (0..chunks).rev().collect(),
            held: 0,
            withdrawn: 0,
            accounts: vec![own],
            unreserved: chunks,
        }
    }

    /// The same without a kernel, for tests.
    #[cfg(test)]
    pub(crate) fn heap(options: UmemOptions) -> Self {
        Self::over(Area::heap(options.chunks as usize * options.chunk_size as usize), options)
    }

    /// Octets of the memory as a test that plays the kernel sees them.
    ///
    /// # Safety
    /// As [`Area::slice`].
    #[cfg(test)]
    pub(crate) unsafe fn octets(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: the caller's word.
        unsafe { self.area.slice(at, len) }
    }

    /// Longest frame that fits, in octets without FCS: 1792 or 3840.
    pub fn frame_max(&self) -> u32 {
        self.chunk_size - HEADROOM
    }

    /// All chunks.
    pub fn chunks(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Puts a frame that the switch itself makes into a free chunk. `None` where no chunk is left beside those set
    /// aside for ports, or the frame is shorter than an Ethernet header or longer than [`Umem::frame_max`].
    pub fn insert(&mut self, bytes: &[u8]) -> Option<FrameId> {
        let len = u32::try_from(bytes.len()).ok()?;
        if !(FRAME_MIN..=self.frame_max()).contains(&len) || self.accounts[0].out >= self.unreserved {
            return None;
        }
        let index = self.hold_free(OWN, len as u16, false)?;
        self.bytes_mut(FrameId(index)).copy_from_slice(bytes);
        Some(FrameId(index))
    }

    /// Where all chunks are; `ports` are all open ports of this memory.
    pub fn tally<'a>(&self, ports: impl IntoIterator<Item = &'a Port>) -> Tally {
        let mut tally = Tally {
            held: u64::from(self.held),
            free: self.free.len() as u64,
            withdrawn: u64::from(self.withdrawn),
            total: self.chunks.len() as u64,
            ..Tally::default()
        };
        for port in ports {
            let places = port.places();
            tally.fill += places.fill;
            tally.kernel += places.kernel;
            tally.rx += places.rx;
            tally.tx += places.tx;
            tally.completion += places.completion;
        }
        debug_assert_eq!(self.audit(), Ok(()));
        tally
    }

    /// Counts the chunks one by one and compares with the running counts.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let count = |owner| self.chunks.iter().filter(|chunk| chunk.owner == owner).count();
        let found = [count(Owner::Free), count(Owner::Held), count(Owner::Withdrawn), count(Owner::Posted)];
        let posted: u32 = self.accounts.iter().map(|account| account.posted).sum();
        let known = [self.free.len(), self.held as usize, self.withdrawn as usize, posted as usize];
        if found != known {
            return Err(format!("free, held, withdrawn, posted: counted {found:?}, known {known:?}"));
        }
        for (index, account) in self.accounts.iter().enumerate() {
            let out = self
                .chunks
                .iter()
                .filter(|chunk| {
                    !matches!(chunk.owner, Owner::Free | Owner::Withdrawn)
                        && usize::from(chunk.account.0) == index
                })
                .count();
            if out != account.out as usize {
                return Err(format!("account {index}: counted {out}, known {}", account.out));
            }
        }
        Ok(())
    }

    /// What a port that is being prepared needs to know of it.
    pub fn memory(&self) -> Memory {
        let region = (self.area.address(), self.area.len() as u64, self.chunk_size);
        Memory { region, frame_max: self.frame_max() }
    }

    /// Asks the CPU for the metadata and the headers of the frame at `addr`, which is soon to be read.
    #[inline]
    pub(crate) fn prefetch(&self, addr: u64) {
        self.area.prefetch((addr as usize).wrapping_sub(META_LEN));
        self.area.prefetch(addr as usize);
    }

    #[inline]
    fn start(&self, index: u32) -> usize {
        (index as usize) << self.chunk_shift
    }

    /// The chunk that an address of the kernel's lies in.
    #[inline]
    fn index_of(&self, addr: u64) -> Option<u32> {
        let index = addr >> self.chunk_shift;
        (index < self.chunks.len() as u64).then_some(index as u32)
    }

    /// The caller's own frame.
    #[inline]
    #[track_caller]
    fn own(&self, frame: FrameId) -> Chunk {
        let chunk = self.chunks[frame.0 as usize];
        assert!(chunk.owner == Owner::Held, "{frame:?} is not the caller's: {:?}", chunk.owner);
        chunk
    }

    /// Moves a free chunk to a holder.
    #[inline]
    fn hold_free(&mut self, account: AccountId, len: u16, express: bool) -> Option<u32> {
        let index = self.free.pop()?;
        self.chunks[index as usize] =
            Chunk { offset: HEADROOM as u16, len, owner: Owner::Held, account, sender: OWN, express };
        self.accounts[usize::from(account.0)].out += 1;
        self.held += 1;
        Some(index)
    }

    /// Moves a chunk to the free list; the caller has taken it from whoever had it.
    #[inline]
    fn release(&mut self, index: u32) {
        let chunk = &mut self.chunks[index as usize];
        chunk.owner = Owner::Free;
        let account = &mut self.accounts[usize::from(chunk.account.0)];
        account.out -= 1;
        if account.standing == Standing::Closing {
            self.unreserved += 1;
            account.reserved -= 1;
            if account.out == 0 {
                account.standing = Standing::Vacant;
            }
        }
        self.free.push(index);
    }
}

/// What a port does with its account.
impl Umem {
    /// Sets `reserved` chunks aside. `None` where fewer are left, or [`MOST_PORTS`] are open.
    pub(crate) fn open_account(
        &mut self,
        reserved: u32,
        held_max: u32,
        express_max: u32,
    ) -> Option<AccountId> {
        if self.unreserved.checked_sub(self.accounts[0].out)? < reserved {
            return None;
        }
        let vacant = self.accounts.iter().position(|account| account.standing == Standing::Vacant);
        let index = vacant.unwrap_or(self.accounts.len());
        let id = AccountId(u8::try_from(index).ok()?);
        let account =
            Account { standing: Standing::Open, reserved, out: 0, posted: 0, held_max, express_max };
        match vacant {
            Some(index) => self.accounts[index] = account,
            None => self.accounts.push(account),
        }
        self.unreserved -= reserved;
        Some(id)
    }

    /// Chunks that could still be set aside.
    pub(crate) fn available(&self) -> u32 {
        self.unreserved.saturating_sub(self.accounts[0].out)
    }

    /// Closes an account when the kernel has let go of the port's rings. With `withdraw` a device may still write to
    /// posted chunks; what the kernel took to send and did not complete is withdrawn in any case.
    pub(crate) fn close_account(&mut self, id: AccountId, withdraw: bool) {
        for index in 0..self.chunks.len() as u32 {
            let chunk = self.chunks[index as usize];
            match chunk.owner {
                Owner::Posted if chunk.account == id => {
                    self.accounts[usize::from(id.0)].posted -= 1;
                    if withdraw { self.withdraw(index) } else { self.release(index) }
                }
                Owner::Sending if chunk.sender == id => self.withdraw(index),
                _ => {}
            }
        }
        let account = &mut self.accounts[usize::from(id.0)];
        // What is still held comes back one by one.
        self.unreserved += account.reserved - account.out;
        account.reserved = account.out;
        account.held_max = 0;
        account.express_max = 0;
        account.standing = if account.out == 0 { Standing::Vacant } else { Standing::Closing };
    }

    fn withdraw(&mut self, index: u32) {
        let chunk = &mut self.chunks[index as usize];
        chunk.owner = Owner::Withdrawn;
        self.withdrawn += 1;
        let account = &mut self.accounts[usize::from(chunk.account.0)];
        account.out -= 1;
        // The chunk is lost to the account it came from, or to those set aside for nobody.
        if account.reserved > 0 {
            account.reserved -= 1;
            // Its quota shrinks with it, so that chunks to post are left.
            account.held_max = account.held_max.saturating_sub(1);
        } else {
            self.unreserved -= 1;
        }
        if account.standing == Standing::Closing && account.out == 0 {
            account.standing = Standing::Vacant;
        }
    }

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

// Every frame comes to be at HEADROOM or later in its chunk: room for the RX metadata, and later for tags in front
// (`grow`) and the TX metadata before them.
const _: () = assert!(HEADROOM as usize >= META_LEN && HEADROOM >= TX_METADATA_LEN);

/// The class of a frame that came without metadata.
#[cold]
fn classify_bytes(bytes: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    let len = bytes.len().min(WINDOW);
    window[..len].copy_from_slice(&bytes[..len]);
    classify(&window, bytes.len() as u32)
}

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

#[cfg(test)]
mod tests;
