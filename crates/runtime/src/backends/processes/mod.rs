//! Processes of one machine, started by `cairn-run`: Instances, shared segments, and copies between them.

mod hosts;
mod launcher;
mod link;
mod stream;
pub(crate) mod wire;

use std::sync::Arc;

pub use hosts::Hosts;
pub(crate) use launcher::draw;
pub use launcher::{Launch, launch};
pub use link::{Granted, Instances};
pub(crate) use link::{Link, PeerEvent};
use raw::Memory;
pub(crate) use stream::keep_alive;

use super::{host, shared::Communication};
use crate::{
    hicr::{MemorySpace, Topology},
    model::{Bytes, Capability, Error, Ledger, LocalSlot, MemoryManager, Rejected, TopologyManager},
};

/// The managers of an Instance started by `cairn-run`.
pub struct Managers {
    /// This Instance and its peers.
    pub instances: Instances,
    /// The topology granted by the launcher.
    pub topology: Granted,
    /// Shared segments.
    pub memory: Segments,
    /// Copies between processes.
    pub communication: Communication,
}

/// Whether `cairn-run` started this process.
pub fn launched() -> bool {
    std::env::var_os(wire::ADDRESS).is_some()
}

/// Joins the run. Call once per process, at the start of `main`.
pub fn join() -> Result<Managers, Error> {
    let link = Link::join(None)?;
    let topology = link.granted();
    let memory = Segments::new(&topology.query()?);
    let communication = Communication::new("processes", &["processes", "host"], Arc::clone(&link) as _);
    Ok(Managers { instances: Instances::new(link), topology, memory, communication })
}

/// Memory that other processes can map: each slot is a sealed memfd.
pub struct Segments {
    ledger: Arc<Ledger>,
}

const NAME: &str = "processes";

impl Segments {
    /// A manager for the host memory spaces of this topology.
    pub fn new(topology: &Topology) -> Self {
        Self { ledger: Ledger::new(host::spaces(topology)) }
    }
}

impl MemoryManager for Segments {
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
        let memory =
            Memory::segment(size).map_err(|error| Error::system("allocate a shared segment", error))?;
        Ok(LocalSlot::new(NAME, space.clone(), Bytes::Host(memory), Some(room), size))
    }

    fn register_memory(&self, _space: &MemorySpace, memory: Memory) -> Result<LocalSlot, Rejected<Memory>> {
        let instead = "other processes cannot reach it; register it with `host` and copy, or allocate here";
        Err(Rejected { error: Error::unsupported(NAME, "register a buffer", instead), value: memory })
    }
}
