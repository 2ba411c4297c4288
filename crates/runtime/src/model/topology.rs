//! What an Instance may use.

use super::{capability::Capability, error::Error};
use hicr::Topology;

/// Tells what there is (hicr.txt 3.1.2).
pub trait TopologyManager: Send + Sync {
    /// Its name, as errors have it.
    fn name(&self) -> &'static str;
    /// Whether it can do this.
    fn supports(&self, capability: Capability) -> bool;
    /// What this Instance may use, and nothing else.
    fn query(&self) -> Result<Topology, Error>;
}
