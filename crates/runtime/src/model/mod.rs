//! The model: managers as object-safe traits, and the objects that they create (hicr.txt 3).

mod capability;
pub(crate) mod communication;
pub(crate) mod compute;
mod error;
pub(crate) mod fence;
pub(crate) mod function;
mod id;
mod instance;
pub(crate) mod memory;
mod several;
mod topology;
pub(crate) mod wait;

pub use capability::{Capability, table};
pub use communication::{
    At, CommunicationManager, CopyFrom, Counts, GlobalSlot, Key, LockGuard, Memcpy, Slot, Tag,
};
pub use compute::{
    ComputeManager, Execution, ExecutionState, ProcessingUnit, StateCore, Status, Step, UnitBody, UnitStatus,
};
pub use error::{Error, Rejected};
pub use fence::fence_alone;
pub use function::{Context, ExecutionUnit, Format, Kernel, Registry, Value};
pub use id::InstanceId;
pub use instance::{
    Description, Event, Instance, InstanceManager, InstanceState, InstanceTemplate, Refused, Watch,
};
pub use memory::{Bytes, DeviceMemory, Ledger, LocalSlot, MemoryManager, Pending, Register, Room};
pub use several::{SeveralCommunications, SeveralComputes, SeveralMemories, SeveralTopologies};
pub use topology::TopologyManager;
pub use wait::{Promise, Source, Wait, promise};
