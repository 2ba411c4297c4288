//! Common parts of rings, as in the channels, without what is not tested.

use crate::model::{CommunicationManager, Error, GlobalSlot, LocalSlot, Memcpy};

pub const HEAD: usize = 8;

pub fn record(message: usize) -> usize {
    (HEAD + message).next_multiple_of(8)
}

#[derive(Clone, Copy)]
pub enum Shape {
    Fixed { size: usize },
    Variable { capacity: usize },
}

impl Shape {
    pub fn bytes(self) -> usize {
        match self {
            Self::Fixed { size } => 2 * size,
            Self::Variable { capacity } => capacity,
        }
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "same signature as the original")]
    pub fn fits(self, _message: usize) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
pub enum PushError {
    Full,
    Failed(Error),
}

impl From<Error> for PushError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub communication: &'a dyn CommunicationManager,
}

impl Setup<'_> {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "same signature as the original")]
    pub fn slot(&self, _size: usize) -> Result<LocalSlot, Error> {
        Ok(LocalSlot::new())
    }
}

pub fn ring_bell(
    communication: &dyn CommunicationManager,
    bell: &GlobalSlot,
    from: &LocalSlot,
) -> Result<(), Error> {
    communication.memcpy(bell, 0, from, 0, 0)
}
