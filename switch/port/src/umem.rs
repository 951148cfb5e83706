//! The frame memory: one pool of chunks per worker, every chunk with one owner.
//!
//! A chunk goes free -> posted (with the kernel, to be received into) -> held (the worker's) -> sending -> free. The
//! owner stands beside each chunk and is checked at every step, so that a safe caller can never look into a chunk
//! while the kernel writes to it.
//!
//! **Quotas.** Each port has an account of chunks. What came in by a port stays on its account until it is free
//! again, wherever it waits, so that a slow or flooded port can exhaust its own account only.

mod account;
mod handover;
mod pool;

use crate::{Port, PortError, PortErrorKind, Tally, UmemOptions, area::Area};
use plimsoll_classify::{Class, META_LEN};
use plimsoll_core::{FrameId, Pool};

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

// Every frame comes to be at HEADROOM or later in its chunk: room for the RX metadata, and later for tags in front
// (`grow`) and the TX metadata before them.
const _: () = assert!(HEADROOM as usize >= META_LEN && HEADROOM >= TX_METADATA_LEN);

#[cfg(test)]
mod tests;
