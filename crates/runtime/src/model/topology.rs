//! Topology: the devices that an Instance may use.

use super::{capability::Capability, error::Error};
use hicr::Topology;

/// Discovers devices (hicr.txt 3.1.2).
pub trait TopologyManager: Send + Sync {
    /// The manager's name in error messages.
    fn name(&self) -> &'static str;
    /// Whether the manager supports this capability.
    fn supports(&self, capability: Capability) -> bool;
    /// The devices that this Instance may use, and no others.
    fn query(&self) -> Result<Topology, Error>;
}
