//! The local machine: processors and memory as reported by the kernel, and Instances within one
//! process.

mod instance;
mod memory;
mod topology;

use std::sync::Arc;

pub use instance::Instances;
pub use memory::Memories;
pub(crate) use memory::spaces;
pub use topology::{HostTopology, NUMA_DOMAIN, RAM};

use super::shared::{Communication, hub::Hub};
use crate::model::{Description, Error, InstanceId, TopologyManager};

/// The managers of an Instance within this process.
pub struct Managers {
    /// This Instance and its peers.
    pub instances: Instances,
    /// Devices available to this process.
    pub topology: HostTopology,
    /// Memory by NUMA domain.
    pub memory: Memories,
    /// Copies within the process.
    pub communication: Communication,
}

/// The managers of a single Instance, which is this process.
pub fn alone() -> Result<Managers, Error> {
    let mut all = inside(1)?;
    all.pop().ok_or_else(|| Error::misuse("make managers", "there is no Instance"))
}

/// The managers of `count` Instances within this process, ordered by id, each to be used by its own threads.
///
/// The Instances share the machine without isolation. This serves to try or test programs of several Instances
/// without a launcher.
pub fn inside(count: usize) -> Result<Vec<Managers>, Error> {
    let hub = Arc::<Hub>::default();
    let topology = HostTopology::new()?;
    let described = topology.query()?;
    let number = u64::from(std::process::id()) << 20;
    let describe = |index: usize| Description {
        id: InstanceId(number + index as u64 + 1),
        boot: 1,
        topology: described.clone(),
        address: "inside this process".into(),
    };
    let descriptions: Vec<_> = (0..count).map(describe).collect();
    let shared = instance::Shared::new(descriptions.clone(), Arc::clone(&hub));
    let managers = descriptions.iter().map(|description| Managers {
        instances: Instances::new(description.id, Arc::clone(&shared)),
        topology: topology.clone(),
        memory: Memories::new(&described),
        communication: Communication::new("host", &["host"], hub.join(description.id)),
    });
    Ok(managers.collect())
}
