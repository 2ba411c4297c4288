//! Errors of hwloc.

use std::path::PathBuf;

/// Why hwloc fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text does not describe a machine.
    #[error(
        "hwloc cannot parse the description{0}; supported are XML of hwloc 1 and 2, as `lstopo FILE.xml` writes it, and \
         one line such as `package:2 core:16 pu:2`"
    )]
    Refused(String),
    /// hwloc reports only an error number.
    #[error("hwloc failed: {0}")]
    Failed(String),
    /// The folder of another machine's files has none; hwloc would describe this machine.
    #[error(
        "HWLOC_FSROOT={} has no sys/devices/system/cpu: it must contain the machine's /sys and /proc", .0.display()
    )]
    Root(PathBuf),
    /// More memory than a machine can have.
    #[error("NUMA node {node} has {bytes} bytes of memory, which is impossible: correct its size")]
    Memory {
        /// The number of the node.
        node: usize,
        /// Its memory.
        bytes: u64,
    },
    /// Two devices have one address.
    #[error("two PCI devices have the address {0}: each needs its own")]
    Address(String),
}
