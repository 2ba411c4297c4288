//! The hardware of the node that the agent runs on: collectors, and the merge of their results.
//!
//! [`hwloc`] lists the devices, and drivers add attributes and health. [`merge`] combines them into one topology that
//! contains each board once. [`steady`] debounces health, and [`fit`] enforces the limits of the schema. Foreign code
//! runs in a [`child`] process, or is tried in one first, so that it cannot crash the agent.

pub mod changes;
pub mod child;
pub mod debounce;
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
pub mod sysfs;
pub mod worker;

/// The hidden subcommand that probes with hwloc.
pub const PROBE_HWLOC: &str = "probe-hwloc";

/// The hidden subcommand that probes with OpenCL.
pub const PROBE_OPENCL: &str = "probe-opencl";

/// The hidden subcommand that tries NVML.
pub const PROBE_NVML: &str = "probe-nvml";
