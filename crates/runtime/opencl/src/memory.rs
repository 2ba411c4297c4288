//! Device memory.

use std::{
    any::Any,
    ptr,
    sync::{Arc, Mutex, MutexGuard},
};

use opencl3::{
    error_codes::ClError,
    memory::{Buffer, CL_MEM_READ_WRITE},
    types::{CL_TRUE, cl_mem},
};
use raw::{Header, Memory};
use runtime::{
    Bytes, Capability, DeviceMemory, Error, Ledger, LocalSlot, MemoryManager, Pending, Rejected,
    hicr::MemorySpace,
};

use crate::device::{NAME, Place, lock, wrong};

/// Allocates device buffers.
pub struct Buffers {
    places: Arc<Vec<Place>>,
    ledger: Arc<Ledger>,
}

/// The buffer of one slot.
pub(crate) struct AllocatedBuffer {
    pub places: Arc<Vec<Place>>,
    pub place: usize,
    buffer: Mutex<Buffer<u8>>,
}

impl DeviceMemory for AllocatedBuffer {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The buffer of a slot, if this back-end allocated it.
pub(crate) fn held(bytes: &Bytes) -> Option<&AllocatedBuffer> {
    match bytes {
        Bytes::Device(memory, _) => memory.as_any().downcast_ref(),
        Bytes::Host(_) => None,
    }
}

impl AllocatedBuffer {
    fn lock(&self) -> MutexGuard<'_, Buffer<u8>> {
        lock(&self.buffer)
    }

    fn at(&self) -> &Place {
        &self.places[self.place]
    }

    /// The OpenCL handle, valid as long as `self`.
    pub fn handle(&self) -> cl_mem {
        use opencl3::memory::ClMem as _;
        self.lock().get()
    }

    /// The caller has checked the bounds.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), ClError> {
        // SAFETY: within the buffer, as checked; the call blocks, so `bytes` outlives it.
        let read = unsafe { self.at().queue.enqueue_read_buffer(&self.lock(), CL_TRUE, offset, bytes, &[]) };
        read.map(drop)
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), ClError> {
        // SAFETY: as above.
        let written =
            unsafe { self.at().queue.enqueue_write_buffer(&mut self.lock(), CL_TRUE, offset, bytes, &[]) };
        written.map(drop)
    }

    fn fill(&self, offset: usize, byte: u8, length: usize) -> Result<(), ClError> {
        if length == 0 {
            return Ok(());
        }
        // SAFETY: within the buffer, as checked; the call copies the pattern.
        let filled =
            unsafe { self.at().queue.enqueue_fill_buffer(&mut self.lock(), &[byte], offset, length, &[]) };
        filled?.wait()
    }
}

impl Buffers {
    pub(crate) fn new(places: Arc<Vec<Place>>) -> Self {
        let spaces = places.iter().flat_map(|place| place.described.memory_spaces.clone());
        let ledger = Ledger::new(spaces);
        Self { places, ledger }
    }
}

impl MemoryManager for Buffers {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, _capability: Capability) -> bool {
        false
    }

    fn claims(&self, space: &MemorySpace) -> bool {
        self.ledger.holds(space)
    }

    fn allocate(&self, space: &MemorySpace, size: usize) -> Result<LocalSlot, Error> {
        let room = self.ledger.take(NAME, space, size)?;
        let here = |place: &Place| place.described.memory_spaces.contains(space);
        let place = self.places.iter().position(here).ok_or_else(|| Error::Gone("the device".into()))?;
        let failed = |error: ClError| wrong("allocate memory of a device", &error);
        let context = &self.places[place].context;
        // SAFETY: no host memory is passed.
        let buffer = unsafe { Buffer::create(context, CL_MEM_READ_WRITE, size, ptr::null_mut()) };
        let buffer = Mutex::new(buffer.map_err(failed)?);
        let held = AllocatedBuffer { places: Arc::clone(&self.places), place, buffer };
        held.fill(0, 0, size).map_err(failed)?;
        let bytes = Bytes::Device(Box::new(held), Box::new(Header::new(size)));
        Ok(LocalSlot::new(NAME, space.clone(), bytes, Some(room), size))
    }

    fn register_memory(&self, _space: &MemorySpace, memory: Memory) -> Result<LocalSlot, Rejected<Memory>> {
        let instead = "a device does not reach it; register it with `host` and copy";
        Err(Rejected { error: Error::unsupported(NAME, "register a buffer", instead), value: memory })
    }

    fn fill(&self, slot: &LocalSlot, offset: usize, byte: u8, length: usize) -> Result<(), Error> {
        let pending = Pending::begin(slot, offset, length)?;
        let held = held(pending.bytes());
        let held = held.ok_or_else(|| Error::misuse("fill", format!("{slot:?} is not a slot of {NAME}")))?;
        held.fill(offset, byte, length).map_err(|error| wrong("fill memory of a device", &error))
    }
}
