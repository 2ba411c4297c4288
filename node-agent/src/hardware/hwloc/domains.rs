//! NUMA domains: cores and memory that are close to each other.

use crds::{ComputeResource, Device, MemorySpace};
use hwlocality::{
    Topology,
    cpu::cpuset::CpuSet,
    object::{TopologyObject, attributes::ObjectAttributes, types::ObjectType},
};

use super::object::info;

/// A NUMA node of the system as a device.
pub struct Domain {
    pub device: Device,
    /// The processing units closest to its memory.
    pub cpus: CpuSet,
    /// Whether these are its own; false for memory without processors, which lists those of its neighbour.
    pub has_cores: bool,
    /// The address of the PCI device that the memory belongs to.
    pub memory_of: Option<String>,
}

/// The NUMA nodes in the order of their numbers.
pub fn read(topology: &Topology) -> Vec<Domain> {
    let mut nodes: Vec<_> = topology
        .objects_with_type(ObjectType::NUMANode)
        .filter_map(|it| Some((it.os_index()?, it)))
        .collect();
    nodes.sort_by_key(|(index, _)| *index);
    let mut domains = Vec::<Domain>::new();
    for (index, node) in nodes {
        let cpus = node.cpuset().map(|set| CpuSet::clone(&set)).unwrap_or_default();
        let memory_of = info(node, "PCIBusID").map(super::pci::normal_address);
        // hwloc assigns adjacent processors to memory without processors: they belong to the domain with the lowest number, and
        // no processor belongs to two. Objects that span several domains are local to none.
        let has_cores = !cpus.is_empty()
            && memory_of.is_none()
            && !domains.iter().any(|other| other.has_cores && other.cpus.intersects(&cpus));
        let parent = domains.iter().find(|other| other.has_cores && !has_cores && other.cpus == cpus);
        let parent = parent.map(|other| other.device.id.clone());
        let device = device(topology, node, index, has_cores.then_some(&cpus), parent);
        domains.push(Domain { device, cpus, has_cores, memory_of });
    }
    domains
}

/// Attaches memory that sits on a device, as with GPUs of POWER and Grace machines, to that device.
pub fn adopt_device_memory(domains: &mut [Domain], devices: &[Device]) {
    for domain in domains {
        if let Some(address) = &domain.memory_of
            && let Some(owner) = devices.iter().find(|device| device.pci_bus_id.as_ref() == Some(address))
        {
            domain.device.parent = Some(owner.id.clone());
        }
    }
}

/// Gives the only domain all memory of the machine, if the system reports less for the domain.
pub fn has_all_memory(domains: &mut [Domain], bytes: Option<i64>) {
    if let [domain] = domains
        && let [memory] = &mut *domain.device.memory_spaces
        && let Some(bytes) = bytes
    {
        memory.size_bytes = memory.size_bytes.max(bytes);
    }
}

/// The domain of an object; `None` if it spans several.
pub fn of<'a>(domains: &'a [Domain], object: &TopologyObject) -> Option<&'a Domain> {
    let cpus = object.cpuset()?;
    let mut near = domains.iter().filter(|domain| domain.has_cores && cpus.intersects(&domain.cpus));
    let first = near.next()?;
    near.next().is_none().then_some(first)
}

fn device(
    topology: &Topology,
    node: &TopologyObject,
    index: usize,
    cpus: Option<&CpuSet>,
    parent: Option<String>,
) -> Device {
    let bytes = match node.attributes() {
        Some(ObjectAttributes::NUMANode(numa)) => numa.local_memory().map_or(0, std::num::NonZero::get),
        _ => 0,
    };
    let kind = node.subtype().and_then(|subtype| subtype.to_str().ok());
    let memory = MemorySpace {
        type_: match kind {
            None | Some("" | "DRAM") => "RAM".to_owned(),
            Some("GPUMemory") => "Device RAM".to_owned(),
            Some(other) => other.to_owned(),
        },
        size_bytes: bytes.try_into().unwrap_or(i64::MAX),
    };
    let package = cpus.and_then(|cpus| package(topology, cpus));
    Device {
        id: format!("numa-{index}"),
        type_: if cpus.is_some() { "NUMA Domain" } else { "Memory Domain" }.to_owned(),
        vendor: package.and_then(|it| info(it, "CPUVendor")).map(vendor),
        model: package.and_then(|it| info(it, "CPUModel")).map(str::to_owned),
        numa_node: index.try_into().ok(),
        parent,
        compute_resources: cpus.map(|cpus| compute_resources(topology, cpus)).unwrap_or_default(),
        memory_spaces: if bytes == 0 { Vec::new() } else { vec![memory] },
        ..Device::default()
    }
}

fn compute_resources(topology: &Topology, cpus: &CpuSet) -> Vec<ComputeResource> {
    let count = |type_| topology.objects_inside_cpuset_with_type(cpus, type_).count();
    let of = |type_: &str, count: usize| {
        let count = count.try_into().unwrap_or(i32::MAX);
        (count > 0).then(|| ComputeResource { type_: type_.to_owned(), count })
    };
    [of("Core", count(ObjectType::Core)), of("Processing Unit", count(ObjectType::PU))]
        .into_iter()
        .flatten()
        .collect()
}

/// The processor with some of these processing units; old descriptions store its model on the machine.
fn package<'a>(topology: &'a Topology, cpus: &CpuSet) -> Option<&'a TopologyObject> {
    topology
        .objects_with_type(ObjectType::Package)
        .find(|package| {
            package.cpuset().is_some_and(|set| set.intersects(cpus)) && info(package, "CPUModel").is_some()
        })
        .or_else(|| Some(topology.root_object()))
}

/// The common spelling of a vendor.
fn vendor(text: &str) -> String {
    match text {
        "GenuineIntel" => "intel".to_owned(),
        "AuthenticAMD" => "amd".to_owned(),
        other => other.to_lowercase(),
    }
}
