//! Models of slots and copies on loom's atomics: bytes are copied as in ADR 83, by relaxed loads and
//! stores between a release and an acquire fence, and counted in the real header.

pub use crate::{error::Error, id::InstanceId};
use crate::{
    header::Header,
    sync::{Arc, AtomicU64, Ordering, fence},
};

pub(crate) mod wait {
    pub(crate) use crate::wait::lock;
}

/// Size of slots in words of eight bytes, which are copied atomically.
pub const WORDS: usize = 4;

struct Core {
    words: [AtomicU64; WORDS],
    header: Header,
}

#[derive(Clone)]
pub struct LocalSlot(Arc<Core>);

pub struct GlobalSlot(pub LocalSlot);

impl GlobalSlot {
    #[expect(clippy::unused_self, reason = "same signature as the original")]
    pub fn prefetch_counter(&self) {}

    #[expect(clippy::unused_self, reason = "same signature as the original")]
    pub fn prefetch_bytes(&self, _offset: usize) {}
}

pub struct Slot<'a>(&'a LocalSlot);

impl<'a> From<&'a LocalSlot> for Slot<'a> {
    fn from(slot: &'a LocalSlot) -> Self {
        Self(slot)
    }
}

impl LocalSlot {
    pub fn new() -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new(Core { words, header: Header::new(8 * WORDS) }))
    }

    pub fn header(&self) -> &Header {
        &self.0.header
    }

    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Error> {
        fence(Ordering::Release);
        for (index, word) in bytes.chunks(8).enumerate() {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.0.words[at / 8 + index].store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), Error> {
        fence(Ordering::Release);
        for (index, word) in bytes.chunks_mut(8).enumerate() {
            let whole = self.0.words[at / 8 + index].load(Ordering::Relaxed).to_le_bytes();
            word.copy_from_slice(&whole[..word.len()]);
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    pub fn read_values<T: bytemuck::Pod>(&self, at: usize, count: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); count];
        self.read(at, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }
}

#[derive(Default)]
pub struct Counts {
    pub received: u64,
}

/// No peer is lost in this model.
pub struct Never;

impl Never {
    #[expect(clippy::unused_self, reason = "same signature as the original")]
    pub fn try_take(&mut self) -> Option<Result<(), Error>> {
        None
    }
}

pub trait CommunicationManager: Send + Sync {
    fn counts(&self, slot: Slot<'_>) -> Counts {
        Counts { received: slot.0.header().received.load(Ordering::SeqCst) }
    }

    fn signal(&self, to: &GlobalSlot, _from: &LocalSlot) -> Result<(), Error> {
        to.0.header().count_received();
        Ok(())
    }

    fn fence(&self, _slot: Slot<'_>, _sent: u64, _received: u64) -> Result<Never, Error> {
        Ok(Never)
    }
}

pub struct Copies;

impl CommunicationManager for Copies {}

pub trait Memcpy {
    fn memcpy(
        &self,
        to: &GlobalSlot,
        at: usize,
        from: &LocalSlot,
        from_at: usize,
        size: usize,
    ) -> Result<(), Error>;
}

impl Memcpy for dyn CommunicationManager + '_ {
    fn memcpy(
        &self,
        to: &GlobalSlot,
        at: usize,
        from: &LocalSlot,
        from_at: usize,
        size: usize,
    ) -> Result<(), Error> {
        let mut bytes = vec![0; size];
        from.read(from_at, &mut bytes)?;
        to.0.write(at, &bytes)?;
        to.0.header().count_received();
        Ok(())
    }
}
