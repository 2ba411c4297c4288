//! Local slots, the memory regions between which copies are made, and their managers.

use std::{
    any::Any,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use raw::{Header, Memory, Plain};

use super::{
    capability::Capability,
    error::{Error, Rejected},
    id::InstanceId,
};
use hicr::MemorySpace;

/// Device memory; implemented by back-ends.
pub trait DeviceMemory: Send + Sync {
    /// For downcasting to the back-end's own type.
    fn as_any(&self) -> &dyn Any;
}

/// The storage of a slot.
pub enum Bytes {
    /// Memory that processors read and write directly.
    Host(Memory),
    /// Device memory, with its counters on the host.
    Device(Box<dyn DeviceMemory>, Box<Header>),
}

/// Fence state of a slot: consumed counts, failures and peers.
#[derive(Default)]
pub(crate) struct Tally {
    /// Counts of `sent` and `received` that earlier fences consumed.
    pub consumed: Mutex<(u64, u64)>,
    /// Whether a fence is pending; there is at most one.
    pub waiting: AtomicBool,
    /// Failure of a copy, to be reported by the next fence.
    pub failure: Mutex<Option<Error>>,
    /// The peers that the slot was exchanged with.
    pub peers: Mutex<BTreeSet<InstanceId>>,
    /// The lost peers that a fence has already reported.
    pub reported: Mutex<BTreeSet<InstanceId>>,
}

/// The shared part of a slot, held by its handle, pending copies and global slots.
pub struct SlotCore {
    number: u64,
    origin: &'static str,
    space: MemorySpace,
    size: usize,
    pub(crate) bytes: Bytes,
    pub(crate) tally: Tally,
    /// Number of global slots that refer to it.
    pub(crate) exposed: AtomicUsize,
    /// Whether it was ever global.
    pub(crate) was_exposed: AtomicBool,
    /// Number of copies and kernels in flight.
    pub(crate) pending: AtomicUsize,
    /// Returns the reserved memory to its space on drop.
    room: Option<Room>,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl SlotCore {
    pub(crate) fn new(
        origin: &'static str,
        space: MemorySpace,
        bytes: Bytes,
        room: Option<Room>,
        size: usize,
    ) -> Self {
        Self {
            number: NUMBERS.fetch_add(1, SeqCst),
            origin,
            space,
            size,
            bytes,
            tally: Tally::default(),
            exposed: AtomicUsize::new(0),
            was_exposed: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            room,
        }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        match &self.bytes {
            Bytes::Host(memory) => memory.header(),
            Bytes::Device(_, header) => header,
        }
    }

    #[inline]
    pub(crate) fn host(&self, what: &str) -> Result<&Memory, Error> {
        match &self.bytes {
            Bytes::Host(memory) => Ok(memory),
            Bytes::Device(..) => Err(self.on_device(what)),
        }
    }

    #[cold]
    fn on_device(&self, what: &str) -> Error {
        Error::misuse(what, format!("{self} is on a device; copy it to a host slot"))
    }

    #[inline]
    pub(crate) fn check(&self, offset: usize, length: usize) -> Result<(), Error> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(self.out_of_bounds(offset, length)),
        }
    }

    #[cold]
    fn out_of_bounds(&self, offset: usize, length: usize) -> Error {
        Error::OutOfBounds {
            slot: self.to_string(),
            offset: offset as u64,
            end: offset as u128 + length as u128,
            size: self.size as u64,
        }
    }
}

impl fmt::Display for SlotCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} ({})", self.number, self.origin)
    }
}

/// A memory region of this Instance (hicr.txt 3.1.3).
///
/// Reads and writes copy, as if by relaxed atomics: racing copies may interleave, but 8 aligned bytes never tear.
/// A slot that was never global and has nothing pending can lend its bytes.
///
/// A dropped slot is freed when nothing uses it any more.
pub struct LocalSlot {
    pub(crate) core: Arc<SlotCore>,
}

impl fmt::Debug for LocalSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.core, self.core.size)
    }
}

impl LocalSlot {
    /// For back-ends: a slot of `bytes`, with its reservation `room` if it has one.
    pub fn new(
        origin: &'static str,
        space: MemorySpace,
        bytes: Bytes,
        room: Option<Room>,
        size: usize,
    ) -> Self {
        Self { core: Arc::new(SlotCore::new(origin, space, bytes, room, size)) }
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.core.size
    }

    /// The memory space of the slot.
    pub fn space(&self) -> &MemorySpace {
        &self.core.space
    }

    /// The name of the manager that created it.
    pub fn origin(&self) -> &'static str {
        self.core.origin
    }

    /// The device memory, for the back-end that created it.
    pub fn device(&self) -> Option<&dyn DeviceMemory> {
        match &self.core.bytes {
            Bytes::Host(_) => None,
            Bytes::Device(memory, _) => Some(&**memory),
        }
    }

    /// Copies from the slot to `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.core.check(offset, bytes.len())?;
        self.core.host("read")?.read(offset, bytes).expect("the bounds were checked");
        Ok(())
    }

    /// Copies `bytes` to the slot.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.core.check(offset, bytes.len())?;
        self.core.host("write")?.write(offset, bytes).expect("the bounds were checked");
        Ok(())
    }

    /// Reads up to `count` values of plain data from `offset`, bounded by the slot's end.
    pub fn read_values<T: Plain>(&self, offset: usize, count: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); count];
        self.read(offset, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Borrows the bytes of a slot that was never global and has nothing pending.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        let in_use = |by: &str| Error::InUse { slot: self.core.to_string(), by: by.into() };
        if self.core.was_exposed.load(SeqCst) {
            return Err(in_use(
                "it is or was global, so that a peer may write it; read and write it by copy",
            ));
        }
        let pending = in_use("a copy or a kernel is pending; fence it first");
        let on_device =
            Error::misuse("lend bytes", format!("{} is on a device; copy it to a host slot", self.core));
        // A completed copy releases its reference shortly after counting.
        for _ in 0..10_000 {
            if Arc::get_mut(&mut self.core).is_some() || self.core.pending.load(SeqCst) != 0 {
                break;
            }
            std::thread::yield_now();
        }
        match &mut Arc::get_mut(&mut self.core).ok_or(pending.clone())?.bytes {
            Bytes::Host(memory) => memory.bytes_mut().ok_or(pending),
            Bytes::Device(..) => Err(on_device),
        }
    }

    /// Borrows the bytes as values of plain data, under the conditions of [`Self::bytes_mut`].
    pub fn values_mut<T: Plain>(&mut self) -> Result<&mut [T], Error> {
        bytemuck::try_cast_slice_mut(self.bytes_mut()?).map_err(|error| {
            Error::misuse("lend values", format!("the slot's bytes are not whole values: {error}"))
        })
    }

    /// Why the slot cannot be freed now, if so.
    pub(crate) fn in_use(&self) -> Option<Error> {
        let by = if self.core.exposed.load(SeqCst) != 0 {
            "it is global; destroy its global slots and fence their tag first"
        } else if self.core.pending.load(SeqCst) != 0 {
            "a copy or a kernel is pending; fence it first"
        } else {
            return None;
        };
        Some(Error::InUse { slot: self.core.to_string(), by: by.into() })
    }
}

/// A copy or kernel in flight at a slot; for back-ends. Dropping it ends the operation without counting it.
pub struct Pending {
    core: Arc<SlotCore>,
}

impl Pending {
    /// An operation on a slot from `offset`.
    pub fn begin(slot: &LocalSlot, offset: usize, length: usize) -> Result<Self, Error> {
        slot.core.check(offset, length)?;
        slot.core.pending.fetch_add(1, SeqCst);
        Ok(Self { core: Arc::clone(&slot.core) })
    }

    /// The storage of the slot.
    pub fn bytes(&self) -> &Bytes {
        &self.core.bytes
    }

    /// Counts a copy out of the slot.
    pub fn sent(self) {
        self.core.header().count_sent();
    }

    /// Counts a copy into the slot.
    pub fn received(self) {
        self.core.header().count_received();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.core.pending.fetch_sub(1, SeqCst);
    }
}

/// Allocated bytes of each memory space.
#[derive(Default)]
pub struct Ledger {
    spaces: Vec<(MemorySpace, AtomicU64)>,
}

/// Memory reserved for a slot; dropping it releases the reservation.
pub struct Room {
    ledger: Arc<Ledger>,
    index: usize,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.ledger.spaces[self.index].1.fetch_sub(self.bytes, SeqCst);
    }
}

impl Ledger {
    /// A ledger of these spaces, all free.
    pub fn new(spaces: impl IntoIterator<Item = MemorySpace>) -> Arc<Self> {
        Arc::new(Self { spaces: spaces.into_iter().map(|space| (space, AtomicU64::new(0))).collect() })
    }

    /// Whether it contains this space.
    pub fn holds(&self, space: &MemorySpace) -> bool {
        self.spaces.iter().any(|(known, _)| known == space)
    }

    /// Reserves `size` bytes of `space`; `manager` appears in errors.
    pub fn take(self: &Arc<Self>, manager: &str, space: &MemorySpace, size: usize) -> Result<Room, Error> {
        if size == 0 {
            return Err(Error::misuse("allocate 0 bytes", "a slot has at least 1 byte"));
        }
        let index = self.spaces.iter().position(|(known, _)| known == space).ok_or_else(|| {
            let why =
                format!("{manager} does not manage this {} space; use one from its topology", space.type_);
            Error::misuse("allocate", why)
        })?;
        let (_, used) = &self.spaces[index];
        let asked = size as u64;
        let take = |used: u64| used.checked_add(asked).filter(|used| *used <= space.size);
        match used.fetch_update(SeqCst, SeqCst, take) {
            Ok(_) => Ok(Room { ledger: Arc::clone(self), index, bytes: asked }),
            Err(used) => Err(Error::NoRoom { space: space.type_.clone(), asked, free: space.size - used }),
        }
    }
}

/// Creates slots (hicr.txt 3.1.3).
pub trait MemoryManager: Send + Sync {
    /// The manager's name in errors and slots.
    fn name(&self) -> &'static str;
    /// Whether the manager supports this capability.
    fn supports(&self, capability: Capability) -> bool;
    /// Whether the manager owns this space.
    fn claims(&self, space: &MemorySpace) -> bool;
    /// Allocates `size` zeroed bytes of a space.
    fn allocate(&self, space: &MemorySpace, size: usize) -> Result<LocalSlot, Error>;
    /// Makes a slot of the program's memory; called by [`register`](Register::register).
    fn register_memory(&self, space: &MemorySpace, memory: Memory) -> Result<LocalSlot, Rejected<Memory>>;
    /// Sets `length` bytes from `offset` to `byte`.
    fn fill(&self, slot: &LocalSlot, offset: usize, byte: u8, length: usize) -> Result<(), Error> {
        slot.core.check(offset, length)?;
        slot.core.host("fill")?.fill(offset, byte, length).expect("the bounds were checked");
        Ok(())
    }
    /// Frees a slot; a slot in use is returned with the error.
    fn free(&self, slot: LocalSlot) -> Result<(), Rejected<LocalSlot>> {
        slot.in_use().map_or(Ok(()), |error| Err(Rejected { error, value: slot }))
    }
}

/// Typed forms of a memory manager's registration.
pub trait Register: MemoryManager {
    /// Registers a buffer of plain data as a slot.
    fn register<T: Plain>(&self, space: &MemorySpace, buffer: Vec<T>) -> Result<LocalSlot, Rejected<Vec<T>>> {
        let memory = Memory::of(buffer);
        if memory.size() == 0 {
            let value = memory.into_buffer().unwrap_or_default();
            return Err(Rejected {
                error: Error::misuse("register 0 bytes", "a slot has at least 1 byte"),
                value,
            });
        }
        self.register_memory(space, memory).map_err(|rejected| Rejected {
            error: rejected.error,
            value: rejected.value.into_buffer().unwrap_or_default(),
        })
    }

    /// Deregisters a slot and returns its buffer.
    fn deregister<T: Plain>(&self, slot: LocalSlot) -> Result<Vec<T>, Rejected<LocalSlot>> {
        if let Some(error) = slot.in_use() {
            return Err(Rejected { error, value: slot });
        }
        let pending =
            Error::InUse { slot: slot.core.to_string(), by: "a peer still holds a global slot of it".into() };
        let core = Arc::try_unwrap(slot.core)
            .map_err(|core| Rejected { error: pending, value: LocalSlot { core } })?;
        let SlotCore { origin, space, size, bytes, room, .. } = core;
        let not_it = |bytes| {
            let value = LocalSlot { core: Arc::new(SlotCore::new(origin, space, bytes, room, size)) };
            let why =
                "the slot was not made from a buffer of this type; free it, or name the registered type";
            Rejected { error: Error::misuse("deregister", why), value }
        };
        match bytes {
            Bytes::Host(memory) => memory.into_buffer().map_err(|memory| not_it(Bytes::Host(memory))),
            device @ Bytes::Device(..) => Err(not_it(device)),
        }
    }
}

impl<M: MemoryManager + ?Sized> Register for M {}
