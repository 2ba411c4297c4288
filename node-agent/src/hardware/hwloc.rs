//! The hwloc collector: NUMA domains, PCI devices, their locality and distances.
//!
//! hwloc is written in C, and its XML parser trusts its input. It runs in a child process ([`super::child`]), which may
//! crash, hang or exhaust its memory without affecting the agent.

mod devices;
mod domains;
mod error;
mod kinds;
mod links;
mod object;
mod pci;

pub use devices::{prefix, short_vendor};
pub use error::Error;
pub use pci::{is_address, normal_address};

use std::path::Path;

use crds::NodeTopologySpec;
use hwlocality::{
    Topology,
    topology::builder::{BuildFlags, TypeFilter},
};
use serde::{Deserialize, Serialize};

use super::{changes, child::Answer};

/// The machine to probe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum HwlocInput {
    /// The local one, or the one whose `/sys` and `/proc` are under `HWLOC_FSROOT`.
    Live,
    /// The same, without loading GPU drivers.
    LiveWithoutDrivers,
    /// One that was exported by `lstopo FILE.xml`.
    Xml(String),
    /// One in hwloc's synthetic form, such as `package:2 numa:1(memory=64GiB) core:16 pu:2`.
    Synthetic(String),
}

/// The memory limit of hwloc, in bytes. A machine with a thousand processors takes a tenth of it; a wrong number in a
/// description could take gigabytes.
pub const MEMORY: u64 = 192 * 1024 * 1024;

/// Components of hwloc that the agent disables. OpenCL and GL load GPU drivers, which take 60 MiB and may hang. x86
/// migrates the process from core to core, and `/sys` has the same data.
const WITHOUT: [&str; 3] = ["opencl", "gl", "x86"];

/// Components of hwloc that load GPU drivers.
const DRIVERS: [&str; 4] = ["cuda", "nvml", "rsmi", "levelzero"];

/// The devices of a machine and their links, unordered.
///
/// They include devices that the process itself may not use.
pub fn read(machine: &HwlocInput) -> Result<NodeTopologySpec, Error> {
    let topology = load(machine)?;
    let mut domains = domains::read(&topology)?;
    if matches!(machine, HwlocInput::Live | HwlocInput::LiveWithoutDrivers) {
        domains::set_total_memory(&mut domains, changes::memory_of_only_domain(&changes::root()));
    }
    let found = devices::read(&topology, &domains)?;
    domains::adopt_device_memory(&mut domains, &found);
    let links = links::read(&topology, &domains, &found);
    let devices = domains.into_iter().map(|domain| domain.device).chain(found).collect();
    Ok(NodeTopologySpec { devices, links })
}

/// Probes a machine in the child process.
pub fn probe(machine: &HwlocInput) -> Answer<NodeTopologySpec> {
    match read(machine) {
        Ok(found) => Answer::Found(found),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn load(machine: &HwlocInput) -> Result<Topology, Error> {
    if matches!(machine, HwlocInput::Live | HwlocInput::LiveWithoutDrivers) {
        check_root(&changes::root())?;
    }
    let failed = |error: &dyn std::fmt::Display| Error::Failed(error.to_string());
    let mut builder = Topology::builder();
    // hwloc fails to disable missing components, such as OpenCL and GL without the plugins.
    let is_present = |component: &&str| Topology::builder().without_component(component).is_ok();
    let drivers: &[&str] = if *machine == HwlocInput::LiveWithoutDrivers { &DRIVERS } else { &[] };
    for component in WITHOUT.iter().chain(drivers).copied().filter(is_present) {
        builder = builder.without_component(component).map_err(|error| failed(&error))?;
    }
    builder = builder
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| failed(&error))?
        .with_io_type_filter(TypeFilter::KeepAll)
        .map_err(|error| failed(&error))?;
    builder = match machine {
        HwlocInput::Live | HwlocInput::LiveWithoutDrivers => builder,
        HwlocInput::Xml(xml) => builder.from_xml(xml).map_err(|_| Error::Refused(hint(xml).to_owned()))?,
        HwlocInput::Synthetic(line) => {
            builder.from_synthetic(line).map_err(|_| Error::Refused(String::new()))?
        }
    };
    builder.build().map_err(|error| match machine {
        HwlocInput::Live | HwlocInput::LiveWithoutDrivers => failed(&error),
        HwlocInput::Xml(xml) => Error::Refused(hint(xml).to_owned()),
        HwlocInput::Synthetic(_) => Error::Refused(String::new()),
    })
}

/// Fails if a root other than the system's own lists no processors: hwloc then takes those of this machine.
fn check_root(root: &Path) -> Result<(), Error> {
    if root == Path::new("/") || root.join("sys/devices/system/cpu").is_dir() {
        return Ok(());
    }
    Err(Error::Root(root.to_owned()))
}

/// The likely defect of an XML file that hwloc rejects without a message.
fn hint(xml: &str) -> &'static str {
    let head = xml.get(..xml.len().min(512)).unwrap_or_default();
    if !head.contains("<topology") {
        " (it does not start with <topology>)"
    } else if head.contains("version=\"3") {
        " (it was written by hwloc 3: write it with `lstopo --export-xml-flags v2`)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_without_processors_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = check_root(root.path()).unwrap_err().to_string();
        let expected = format!(
            "HWLOC_FSROOT={} has no sys/devices/system/cpu: it must contain the machine's /sys and /proc",
            root.path().display()
        );
        assert_eq!(error, expected);
        std::fs::create_dir_all(root.path().join("sys/devices/system/cpu")).unwrap();
        assert!(check_root(root.path()).is_ok());
        assert!(check_root(Path::new("/")).is_ok());
    }

    /// A machine with a core, so many bytes of memory, and accelerators at these addresses.
    fn machine(bytes: &str, addresses: &[&str]) -> HwlocInput {
        let sets = "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"";
        let device = |(index, address): (usize, &&str)| {
            format!(
                "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"{address}\" \
                 pci_type=\"1200 [1e52:401e] [0000:0000] 00\" pci_link_speed=\"1.0\"/>",
                index + 10
            )
        };
        let devices: String = addresses.iter().enumerate().map(device).collect();
        // Without libxml, hwloc wants a line for each header.
        HwlocInput::Xml(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\
             <object type=\"Machine\" os_index=\"0\" {sets} allowed_cpuset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">\
             <object type=\"NUMANode\" os_index=\"0\" {sets} gp_index=\"2\" local_memory=\"{bytes}\"/>\
             <object type=\"Core\" os_index=\"0\" {sets} gp_index=\"3\">\
             <object type=\"PU\" os_index=\"0\" {sets} gp_index=\"4\"/></object>\
             <object type=\"Bridge\" gp_index=\"5\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-ff]\">{devices}</object>\
             </object></topology>"
        ))
    }

    #[test]
    fn impossible_memory_and_repeated_addresses_are_refused() {
        let read = |bytes: &str, addresses: &[&str]| match read(&machine(bytes, addresses)) {
            Ok(spec) => spec.summary(),
            Err(error) => error.to_string(),
        };
        let most = (1_u64 << 56).to_string();
        assert_eq!(read("1024", &["0000:12:00.0", "0000:13:00.0"]), "2 NPU, 1 NUMA Domain");
        assert_eq!(read(&most, &[]), "1 NUMA Domain");
        for bytes in ["-1", "18446744073709551615"] {
            assert_eq!(
                read(bytes, &[]),
                "NUMA node 0 has 18446744073709551615 bytes of memory, which is impossible: correct its size"
            );
        }
        assert_eq!(
            read("1024", &["0000:12:00.0", "0000:12:00.0"]),
            "two PCI devices have the address 0000:12:00.0: each needs its own"
        );
    }
}
