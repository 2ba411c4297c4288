//! What hwloc knows of a machine: NUMA domains, PCI devices, where they hang, how far apart they are.
//!
//! hwloc is C, and its reader of XML trusts what it reads more than one should: everything here runs in a process of
//! its own ([`super::child`]), which may crash, hang or take memory without anybody else noticing.

mod devices;
mod domains;
mod links;
mod object;
mod pci;

pub use devices::short_vendor;
pub use pci::{is_address, normal_address};

use crds::NodeTopologySpec;
use hwlocality::{
    Topology,
    topology::builder::{BuildFlags, TypeFilter},
};
use serde::{Deserialize, Serialize};

use super::{changes, child::Answer};

/// Which machine hwloc is to look at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Machine {
    /// The one that this process runs on, or the one whose `/sys` and `/proc` lie under `HWLOC_FSROOT`.
    Live,
    /// The same, without asking the drivers of GPUs.
    LiveWithoutDrivers,
    /// One that was written down by `lstopo FILE.xml`.
    Xml(String),
    /// One in hwloc's own words, such as `package:2 numa:1(memory=64GiB) core:16 pu:2`.
    Synthetic(String),
}

/// Why hwloc does not tell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no description of a machine.
    #[error(
        "hwloc refuses the description{0}; it takes XML of hwloc 1 and 2, as `lstopo FILE.xml` writes it, or one \
         line such as `package:2 core:16 pu:2`"
    )]
    Refused(String),
    /// hwloc says no more than a number.
    #[error("hwloc fails: {0}")]
    Failed(String),
}

/// The most memory that hwloc may take, in bytes: a machine with a thousand processors takes a tenth of it, and a number
/// that is wrong in a description would take gigabytes.
pub const MEMORY: u64 = 192 * 1024 * 1024;

/// Parts of hwloc that the agent does without. OpenCL and GL load the drivers of GPUs into the process, which cost 60 MiB
/// and can hang; x86 moves the process from core to core to ask each, and `/sys` says the same.
const WITHOUT: [&str; 3] = ["opencl", "gl", "x86"];

/// Parts of hwloc that load the drivers of GPUs.
const DRIVERS: [&str; 4] = ["cuda", "nvml", "rsmi", "levelzero"];

/// The devices of a machine and the links between them, in no particular order.
///
/// Whatever the process may use itself, this is the whole machine.
pub fn read(machine: &Machine) -> Result<NodeTopologySpec, Error> {
    let topology = load(machine)?;
    let mut domains = domains::read(&topology);
    if matches!(machine, Machine::Live | Machine::LiveWithoutDrivers) {
        domains::has_all_memory(&mut domains, changes::memory_of_only_domain(&changes::root()));
    }
    let found = devices::read(&topology, &domains);
    domains::adopt_device_memory(&mut domains, &found);
    let links = links::read(&topology, &domains, &found);
    let devices = domains.into_iter().map(|domain| domain.device).chain(found).collect();
    Ok(NodeTopologySpec { devices, links })
}

/// What the child says that was asked to look at a machine.
pub fn answer(machine: &Machine) -> Answer<NodeTopologySpec> {
    match read(machine) {
        Ok(found) => Answer::Found(found),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn load(machine: &Machine) -> Result<Topology, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
    let mut builder = Topology::builder();
    // hwloc refuses to leave out what it has not: where its plugins are not installed, OpenCL and GL are not there.
    let is_there = |component: &&str| Topology::builder().without_component(component).is_ok();
    let drivers: &[&str] = if *machine == Machine::LiveWithoutDrivers { &DRIVERS } else { &[] };
    for component in WITHOUT.iter().chain(drivers).copied().filter(is_there) {
        builder = builder.without_component(component).map_err(|error| failed(&error))?;
    }
    builder = builder
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| failed(&error))?
        .with_io_type_filter(TypeFilter::KeepAll)
        .map_err(|error| failed(&error))?;
    builder = match machine {
        Machine::Live | Machine::LiveWithoutDrivers => builder,
        Machine::Xml(xml) => builder.from_xml(xml).map_err(|_| Error::Refused(hint(xml).to_owned()))?,
        Machine::Synthetic(line) => {
            builder.from_synthetic(line).map_err(|_| Error::Refused(String::new()))?
        }
    };
    builder.build().map_err(|error| match machine {
        Machine::Live | Machine::LiveWithoutDrivers => failed(&error),
        Machine::Xml(xml) => Error::Refused(hint(xml).to_owned()),
        Machine::Synthetic(_) => Error::Refused(String::new()),
    })
}

/// What is probably wrong with an XML that hwloc refuses without a word.
fn hint(xml: &str) -> &'static str {
    let head = xml.get(..xml.len().min(512)).unwrap_or_default();
    if !head.contains("<topology") {
        " (it has no <topology> at its beginning)"
    } else if head.contains("version=\"3") {
        " (it was written by hwloc 3: write it with `lstopo --export-xml-flags v2`)"
    } else {
        ""
    }
}
