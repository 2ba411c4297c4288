//! Host memory by NUMA domain.

use std::sync::Arc;

use raw::Memory;

use super::topology::RAM;
use crate::{
    hicr::{MemorySpace, Topology},
    model::{Bytes, Capability, Error, Ledger, LocalSlot, MemoryManager, Rejected},
};

/// The memory spaces on the host.
pub(crate) fn spaces(topology: &Topology) -> Vec<MemorySpace> {
    let spaces = topology.devices.iter().flat_map(|device| &device.memory_spaces);
    spaces.filter(|space| space.type_ == RAM).cloned().collect()
}

/// Allocates and registers memory in the host spaces of a topology.
pub struct Memories {
    ledger: Arc<Ledger>,
    /// Whether there are several domains to bind to.
    bind: bool,
    /// The name by which communication managers recognize its slots.
    name: &'static str,
}

const NAME: &str = "host";

impl Memories {
    /// A manager for the host memory spaces of this topology.
    pub fn new(topology: &Topology) -> Self {
        Self::named(NAME, topology)
    }

    pub(crate) fn named(name: &'static str, topology: &Topology) -> Self {
        let spaces = spaces(topology);
        Self { name, bind: spaces.len() > 1, ledger: Ledger::new(spaces) }
    }
}

/// The NUMA domain of a space.
fn domain(space: &MemorySpace) -> Option<u32> {
    space.more.get("NUMA Domain Id")?.as_u64()?.try_into().ok()
}

impl MemoryManager for Memories {
    fn name(&self) -> &'static str {
        self.name
    }

    fn supports(&self, capability: Capability) -> bool {
        matches!(capability, Capability::Register | Capability::BindMemory)
    }

    fn claims(&self, space: &MemorySpace) -> bool {
        self.ledger.holds(space)
    }

    fn allocate(&self, space: &MemorySpace, size: usize) -> Result<LocalSlot, Error> {
        let room = self.ledger.take(self.name, space, size)?;
        let memory = Memory::zeroed(size).map_err(|error| Error::system("allocate memory", error))?;
        if let (true, Some(domain)) = (self.bind, domain(space)) {
            let what = format!("bind memory to NUMA domain {domain}");
            raw::bind(&memory, domain).map_err(|error| Error::system(&what, error))?;
        }
        Ok(LocalSlot::new(self.name, space.clone(), Bytes::Host(memory), Some(room), size))
    }

    fn register_memory(&self, space: &MemorySpace, memory: Memory) -> Result<LocalSlot, Rejected<Memory>> {
        if !self.claims(space) {
            let why = format!(
                "{} does not manage this {} space; use one from its topology",
                self.name, space.type_
            );
            return Err(Rejected { error: Error::misuse("register a buffer", why), value: memory });
        }
        let size = memory.size();
        // The program has allocated this memory, so it takes nothing from the space.
        Ok(LocalSlot::new(self.name, space.clone(), Bytes::Host(memory), None, size))
    }
}
