//! The hardware of the node that the agent runs on: who is asked, how, and what becomes of the answers.
//!
//! hwloc says what is there; drivers say more of their devices; [`merge`] makes one topology of it, in which each board
//! is there once; [`steady`] keeps its health from flickering; [`fit`] makes it one that the API server takes. None of it can end the agent: what runs foreign
//! code is asked in a [`child`] process.

pub mod changes;
pub mod child;
pub mod errors;
pub mod fit;
pub mod fpga;
pub mod functions;
pub mod hwloc;
pub mod merge;
pub mod nvml;
pub mod opencl;
pub mod pci_ids;
pub mod reading;
pub mod steady;
pub mod sysfs;
pub mod worker;

/// The hidden subcommand that looks with hwloc.
pub const PROBE_HWLOC: &str = "probe-hwloc";

/// The hidden subcommand that looks with OpenCL.
pub const PROBE_OPENCL: &str = "probe-opencl";

/// The hidden subcommand that tries NVIDIA's library.
pub const PROBE_NVML: &str = "probe-nvml";
