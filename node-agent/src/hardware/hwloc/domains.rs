//! NUMA domains: cores and memory that are close to each other.
//!
//! Each processing unit is in exactly one domain. Cores without local memory, as on a die without memory channels or with
//! offline memory, form a domain of 0 bytes. It names the domain with the nearest memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crds::{ComputeResource, CoreKind, Device, MemorySpace};
use hwlocality::{
    Topology,
    cpu::cpuset::CpuSet,
    object::{TopologyObject, attributes::ObjectAttributes, types::ObjectType},
};

use super::{
    error::Error,
    kinds::{self, Kind},
    object::info,
};

/// The most bytes of a NUMA node: no processor addresses more.
const MAX_BYTES: u64 = 1 << 56;

/// A NUMA node of the system as a device.
pub struct Domain {
    pub device: Device,
    /// The processing units of the domain; for memory without processors, those of adjacent domains.
    pub cpus: CpuSet,
    /// Whether the processing units belong to the domain; false for memory without processors.
    pub has_cores: bool,
    /// The address of the PCI device that the memory belongs to.
    pub memory_of: Option<String>,
}

/// A domain before it becomes a device.
struct Draft<'a> {
    number: usize,
    /// hwloc's object; `None` for cores without a memory node.
    node: Option<&'a TopologyObject>,
    /// The processing units that hwloc lists for the memory.
    near: CpuSet,
    /// The processing units of `near` that belong to no other domain.
    own: CpuSet,
    memory_of: Option<String>,
}

impl Draft<'_> {
    fn bytes(&self) -> u64 {
        match self.node.and_then(TopologyObject::attributes) {
            Some(ObjectAttributes::NUMANode(numa)) => numa.local_memory().map_or(0, std::num::NonZero::get),
            _ => 0,
        }
    }

    fn has_cores(&self) -> bool {
        !self.own.is_empty()
    }
}

/// The domains in the order of their numbers. Memory that no machine has is an error.
pub fn read(topology: &Topology) -> Result<Vec<Domain>, Error> {
    let mut drafts = nodes(topology);
    if let Some(draft) = drafts.iter().find(|draft| draft.bytes() > MAX_BYTES) {
        return Err(Error::Memory { node: draft.number, bytes: draft.bytes() });
    }
    share_cores(topology, &mut drafts);
    drafts.extend(without_memory(topology, &drafts));
    drafts.sort_by_key(|draft| draft.number);
    let kinds = kinds::read(topology);
    let domain = |draft: &Draft| Domain {
        device: device(topology, &kinds, draft, &drafts),
        cpus: if draft.has_cores() { draft.own.clone() } else { draft.near.clone() },
        has_cores: draft.has_cores(),
        memory_of: draft.memory_of.clone(),
    };
    Ok(drafts.iter().map(domain).collect())
}

/// The memory nodes of the system, without cores.
fn nodes(topology: &Topology) -> Vec<Draft<'_>> {
    let nodes = topology.objects_with_type(ObjectType::NUMANode);
    let mut drafts: Vec<_> = nodes
        .filter_map(|node| {
            Some(Draft {
                number: node.os_index()?,
                node: Some(node),
                near: node.cpuset().map(|set| CpuSet::clone(&set)).unwrap_or_default(),
                own: CpuSet::new(),
                memory_of: info(node, "PCIBusID").map(super::pci::normal_address),
            })
        })
        .collect();
    drafts.sort_by_key(|draft| draft.number);
    drafts
}

/// Assigns each processing unit to one memory node.
///
/// hwloc lists adjacent processors for memory without processors. They belong to the domain with the lowest number. A
/// node that overlaps with an earlier one gets only the remaining processors.
fn share_cores(topology: &Topology, drafts: &mut [Draft<'_>]) {
    let mut taken = CpuSet::new();
    for draft in drafts.iter_mut().filter(|draft| draft.memory_of.is_none()) {
        if !draft.near.intersects(&taken) {
            draft.own = draft.near.clone();
            taken |= &draft.own;
        }
    }
    let all = topology.root_object().cpuset().map(|set| CpuSet::clone(&set)).unwrap_or_default();
    for draft in drafts.iter_mut().filter(|draft| draft.memory_of.is_none() && draft.own.is_empty()) {
        draft.own = &(&draft.near & &all) - &taken;
        taken |= &draft.own;
    }
}

/// The domains of processing units that belong to no memory node: one for each die or package, and for each memory node
/// that hwloc lists without memory.
///
/// Their number is that of the node that hwloc lists without memory, or else the lowest free number.
fn without_memory<'a>(topology: &'a Topology, drafts: &[Draft<'a>]) -> Vec<Draft<'a>> {
    let mut taken = CpuSet::new();
    for draft in drafts {
        taken |= &draft.own;
    }
    // Of a package that is in part without memory, each core is found alone.
    let mut groups = Vec::<(CpuSet, Option<usize>, u64)>::new();
    let mut grouped = taken.clone();
    for unit in topology.objects_with_type(ObjectType::PU) {
        if unit.cpuset().is_none_or(|set| set.is_empty() || set.intersects(&grouped)) {
            continue;
        }
        let whole = die(unit, &taken);
        let Some(cpus) = whole.cpuset() else { continue };
        let cpus = &*cpus - &grouped;
        grouped |= &cpus;
        let (known, package) = (only_node(whole), package_id(whole));
        match groups.iter_mut().find(|(_, node, of)| (*node, *of) == (known, package)) {
            Some((all, ..)) => *all |= &cpus,
            None => groups.push((cpus, known, package)),
        }
    }
    let mut numbers: BTreeSet<usize> = drafts.iter().map(|draft| draft.number).collect();
    // Groups with known numbers come first, so that no other group takes one of these.
    groups.sort_by_key(|(_, known, _)| Reverse(known.is_some()));
    let numbered = groups.into_iter().map(|(own, known, _)| {
        // One of n + 1 numbers is free if n are used.
        let free = || (0..=numbers.len()).find(|number| !numbers.contains(number));
        let number = known.filter(|known| !numbers.contains(known)).or_else(free).unwrap_or_default();
        numbers.insert(number);
        Draft { number, node: None, near: own.clone(), own, memory_of: None }
    });
    numbered.collect()
}

/// The largest object around a processing unit, within a package and one memory node, that contains no unit with
/// memory.
fn die<'a>(unit: &'a TopologyObject, with_memory: &CpuSet) -> &'a TopologyObject {
    let mut whole = unit;
    while let Some(parent) = whole.parent() {
        let is_mixed = parent.cpuset().is_none_or(|set| set.intersects(with_memory));
        let spans_nodes = only_node(whole).is_some() && only_node(parent) != only_node(whole);
        if whole.object_type() == ObjectType::Package || is_mixed || spans_nodes {
            break;
        }
        whole = parent;
    }
    whole
}

/// hwloc's id of the die or package that an object is, or belongs to; 0 if there is none.
fn package_id(object: &TopologyObject) -> u64 {
    let mut all = std::iter::once(object).chain(object.ancestors());
    let is_package = |it: &&TopologyObject| matches!(it.object_type(), ObjectType::Die | ObjectType::Package);
    all.find(is_package).map_or(0, TopologyObject::global_persistent_index)
}

/// The memory node of an object, with or without memory, if there is exactly one.
fn only_node(object: &TopologyObject) -> Option<usize> {
    let nodes = object.complete_nodeset()?;
    let first = nodes.first_set()?;
    (nodes.weight() == Some(1)).then(|| first.into())
}

/// Sets the device as the parent of memory on it, as with GPUs of POWER and Grace machines.
pub fn adopt_device_memory(domains: &mut [Domain], devices: &[Device]) {
    for domain in domains {
        if let Some(address) = &domain.memory_of
            && let Some(owner) = devices.iter().find(|device| device.pci_bus_id.as_ref() == Some(address))
        {
            domain.device.parent = Some(owner.id.clone());
        }
    }
}

/// Sets the memory of the only domain to that of the machine, if the system reports less for the domain.
pub fn set_total_memory(domains: &mut [Domain], bytes: Option<i64>) {
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

fn device(topology: &Topology, kinds: &[Kind], draft: &Draft<'_>, all: &[Draft<'_>]) -> Device {
    let bytes = draft.bytes();
    let kind = draft.node.and_then(|node| node.subtype()?.to_str().ok());
    let memory = MemorySpace {
        type_: match kind {
            None | Some("" | "DRAM") => "RAM".to_owned(),
            Some("GPUMemory") => "Device RAM".to_owned(),
            Some(other) => other.to_owned(),
        },
        size_bytes: bytes.try_into().unwrap_or(i64::MAX),
    };
    let cpus = Some(&draft.own).filter(|_| draft.has_cores());
    let package = cpus.and_then(|cpus| package(topology, cpus));
    let beside = |other: &&Draft<'_>| other.has_cores() && other.near == draft.near;
    let parent = if cpus.is_some() { None } else { all.iter().find(beside) };
    let nearest = cpus.filter(|_| bytes == 0).and_then(|_| nearest_memory(topology, draft, all));
    Device {
        id: id(draft.number),
        type_: if cpus.is_some() { "NUMA Domain" } else { "Memory Domain" }.to_owned(),
        vendor: package.and_then(|it| info(it, "CPUVendor")).map(vendor),
        model: package.and_then(|it| info(it, "CPUModel")).map(str::to_owned),
        numa_node: draft.number.try_into().ok(),
        parent: parent.map(|other| id(other.number)),
        nearest_memory: nearest.map(id),
        compute_resources: cpus.map(|cpus| compute_resources(topology, kinds, cpus)).unwrap_or_default(),
        memory_spaces: if bytes == 0 { Vec::new() } else { vec![memory] },
        ..Device::default()
    }
}

fn id(number: usize) -> String {
    format!("numa-{number}")
}

/// The number of the memory nearest to cores without memory: by latency, then by the size of the common ancestor.
fn nearest_memory(topology: &Topology, draft: &Draft<'_>, all: &[Draft<'_>]) -> Option<usize> {
    let latencies = latencies(topology, draft.number);
    let machine = topology.root_object().cpuset()?.weight()?;
    let around = |other: &Draft<'_>| {
        if other.near.is_empty() {
            return machine;
        }
        let both = &draft.own | &other.near;
        let object = topology.smallest_object_covering_cpuset(&both);
        object.and_then(|object| object.cpuset()?.weight()).unwrap_or(machine)
    };
    let with_memory = all.iter().filter(|other| other.bytes() > 0 && other.memory_of.is_none());
    let nearest = with_memory.min_by_key(|other| {
        (latencies.get(&other.number).copied().unwrap_or(u64::MAX), around(other), other.number)
    });
    nearest.map(|other| other.number)
}

/// The latencies from a memory node to the others.
fn latencies(topology: &Topology, from: usize) -> BTreeMap<usize, u64> {
    let mut latencies = BTreeMap::new();
    for matrix in topology.distances(None).unwrap_or_default() {
        let name = matrix.name().and_then(|name| name.to_str().ok());
        if name.is_some_and(|name| name != "NUMALatency") {
            continue;
        }
        let number = |object: Option<&TopologyObject>| {
            object.filter(|it| it.object_type() == ObjectType::NUMANode)?.os_index()
        };
        let numbers: Vec<_> = matrix.objects().map(number).collect();
        for ((start, end), value) in matrix.enumerate_distances() {
            if let (Some(start), Some(end)) = (numbers[start], numbers[end])
                && start == from
            {
                latencies.insert(end, value);
            }
        }
    }
    latencies
}

fn compute_resources(topology: &Topology, kinds: &[Kind], cpus: &CpuSet) -> Vec<ComputeResource> {
    // A core whose threads are in several domains is counted in that of its first thread.
    let first = |object: &&TopologyObject| object.cpuset()?.first_set();
    let here = |type_| -> Vec<_> {
        let objects = topology.objects_with_type(type_);
        objects.filter_map(|it| first(&it)).filter(|first| cpus.is_set(*first)).collect()
    };
    let resources = [("Core", here(ObjectType::Core)), ("Processing Unit", here(ObjectType::PU))];
    let present = resources.into_iter().filter(|(_, units)| !units.is_empty());
    let mut resources: Vec<ComputeResource> = Vec::new();
    for (type_, units) in present {
        let count = |units: usize| units.try_into().unwrap_or(i32::MAX);
        let mut resource = ComputeResource::new(type_, count(units.len()));
        if resources.is_empty() {
            let of_kind = kinds.iter().map(|kind| CoreKind {
                name: kind.name.clone(),
                count: count(units.iter().filter(|unit| kind.cpus.is_set(**unit)).count()),
                relative_capacity: kind.capacity,
            });
            resource.kinds = of_kind.filter(|kind| kind.count > 0).collect();
            if resource.kinds.iter().map(|kind| kind.count).sum::<i32>() != resource.count {
                resource.kinds.clear();
            }
        }
        resources.push(resource);
    }
    resources
}

/// The package with some of these processing units. Old descriptions store the model in the machine object.
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
