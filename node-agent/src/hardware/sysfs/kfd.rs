//! The topology of AMD's compute driver `kfd`: compute units, memory, partitions, and XGMI links.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use crds::{ComputeResource, Device, Link, MemorySpace};

use super::numbered;

/// XGMI in `kfd`'s enumeration of links.
const XGMI: u64 = 11;

/// The types of memory banks of a GPU: visible to the host, and private.
const LOCAL_MEMORY: [u64; 2] = [1, 2];

/// A GPU, or a partition of one.
struct Node {
    number: u64,
    /// PCI domain, bus and device number.
    slot: (u64, u64, u64),
    function: u64,
    compute_units: u64,
    memory_bytes: u64,
    unique_id: u64,
    render_minor: u64,
    /// The number of the other node, and the bandwidth in megabytes per second.
    links: Vec<(u64, u64)>,
}

/// What `kfd` reports beside the attributes of devices.
#[derive(Debug, Default)]
pub struct Topology {
    /// The links between GPUs.
    pub links: Vec<Link>,
    /// Whether the kernel refused to report a GPU, its memory or its links.
    ///
    /// It reports them only to processes whose device cgroup allows the GPU's render device, whatever their user is.
    pub is_denied: bool,
}

/// Adds the attributes that `kfd` reports, and partitions.
pub fn describe(root: &Path, devices: &mut Vec<Device>) -> Topology {
    let mut is_denied = false;
    let nodes: Vec<_> = numbered(&root.join("sys/class/kfd/kfd/topology/nodes"), "")
        .iter()
        .filter_map(|it| node(it, &mut is_denied))
        .collect();
    let mut ids = BTreeMap::<u64, String>::new();
    let mut parts = Vec::new();
    for device in devices.iter_mut() {
        let Some(address) = device.pci_bus_id.clone() else { continue };
        let at: Vec<&Node> = nodes.iter().filter(|node| is_at(node, &address)).collect();
        let Some(first) = at.first() else { continue };
        ids.extend(at.iter().map(|node| (node.number, device.id.clone())));
        let units = at.iter().map(|node| node.compute_units).sum();
        device.compute_resources = compute_units(units);
        if device.uuid.is_none() && first.unique_id != 0 {
            device.uuid = Some(format!("GPU-{:016x}", first.unique_id));
        }
        if device.memory_spaces.is_empty() {
            // Partitions may share all memory.
            device.memory_spaces = memory(at.iter().map(|node| node.memory_bytes).max().unwrap_or(0));
        }
        if at.len() > 1 {
            parts.extend(at.iter().enumerate().map(|(nth, node)| partition(root, device, nth, node)));
        }
    }
    devices.extend(parts);
    Topology { links: links(&nodes, &ids), is_denied }
}

fn partition(root: &Path, gpu: &Device, nth: usize, node: &Node) -> Device {
    let render = format!("renderD{}", node.render_minor);
    let device = fs::canonicalize(root.join("sys/class/drm").join(&render).join("device")).ok();
    // AMD's device plugin uses this name.
    let platform = device.as_ref().and_then(|path| path.file_name()?.to_str());
    let platform = platform.filter(|name| name.starts_with("amdgpu_xcp")).map(str::to_owned);
    Device {
        id: format!("{}-{nth}", gpu.id),
        type_: "GPU Partition".to_owned(),
        vendor: gpu.vendor.clone(),
        model: gpu.model.clone(),
        driver: gpu.driver.clone(),
        health: gpu.health,
        numa_node: gpu.numa_node,
        parent: Some(gpu.id.clone()),
        aliases: Some(render).into_iter().filter(|_| node.render_minor > 0).chain(platform).collect(),
        compute_resources: compute_units(node.compute_units),
        memory_spaces: memory(node.memory_bytes),
        ..Device::default()
    }
}

fn compute_units(count: u64) -> Vec<ComputeResource> {
    let count = i32::try_from(count).ok().filter(|count| *count > 0);
    count.map(|count| ComputeResource::new("Compute Unit", count)).into_iter().collect()
}

fn memory(bytes: u64) -> Vec<MemorySpace> {
    let bytes = i64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    bytes.map(|size_bytes| MemorySpace { type_: "Device RAM".to_owned(), size_bytes }).into_iter().collect()
}

/// A node with compute units; the others are processors.
fn node(folder: &Path, is_denied: &mut bool) -> Option<Node> {
    let number = folder.file_name()?.to_str()?.parse().ok()?;
    let properties = properties(folder, is_denied);
    let get = |key: &str| properties.get(key).copied().unwrap_or(0);
    let simds = get("simd_count");
    if simds == 0 {
        return None;
    }
    let location = get("location_id");
    let mut memory_bytes = 0_u64;
    for bank in numbered(&folder.join("mem_banks"), "") {
        let bank = self::properties(&bank, is_denied);
        if bank.get("heap_type").is_some_and(|heap| LOCAL_MEMORY.contains(heap)) {
            memory_bytes = memory_bytes.saturating_add(bank.get("size_in_bytes").copied().unwrap_or(0));
        }
    }
    let links = ["io_links", "p2p_links"].iter().flat_map(|links| numbered(&folder.join(links), ""));
    let links = links.filter_map(|link| {
        let link = self::properties(&link, is_denied);
        let is_xgmi = link.get("type") == Some(&XGMI);
        is_xgmi.then_some(())?;
        Some((*link.get("node_to")?, link.get("max_bandwidth").copied().unwrap_or(0)))
    });
    Some(Node {
        number,
        slot: (get("domain"), location >> 8 & 0xff, location >> 3 & 0x1f),
        function: location & 0x7,
        compute_units: simds / get("simd_per_cu").max(1),
        memory_bytes,
        unique_id: get("unique_id"),
        render_minor: get("drm_render_minor"),
        links: links.collect(),
    })
}

/// Whether a node is the GPU at an address, or a partition of it, whose number may stand in place of the function.
fn is_at(node: &Node, address: &str) -> bool {
    let (domain, bus, slot) = node.slot;
    let place = format!("{domain:04x}:{bus:02x}:{slot:02x}.");
    let function = address.strip_prefix(&place);
    function.is_some_and(|function| function == "0" || function == format!("{:x}", node.function))
}

/// Each pair of GPUs once, with the smaller bandwidth if the directions differ.
fn links(nodes: &[Node], ids: &BTreeMap<u64, String>) -> Vec<Link> {
    let mut pairs = BTreeMap::<(&str, &str), u64>::new();
    let mut seen = BTreeSet::new();
    for node in nodes {
        for (to, megabytes) in &node.links {
            let (Some(from), Some(to)) = (ids.get(&node.number), ids.get(to)) else { continue };
            if from == to || !seen.insert((from, to)) {
                continue;
            }
            let pair = (from.min(to).as_str(), from.max(to).as_str());
            let bandwidth = pairs.entry(pair).or_insert(*megabytes);
            *bandwidth = (*bandwidth).min(*megabytes);
        }
    }
    let link = |((source, destination), megabytes): ((&str, &str), u64)| Link {
        source: source.to_owned(),
        destination: destination.to_owned(),
        kind: "XGMI".to_owned(),
        bandwidth_bytes_per_second: i64::try_from(megabytes)
            .ok()
            .filter(|megabytes| *megabytes > 0)
            .map(|megabytes| megabytes.saturating_mul(1_000_000)),
        relative_latency: None,
    };
    pairs.into_iter().map(link).collect()
}

/// The numbers of a file with a name and a number in each line; sets `is_denied` if there is no permission to read it.
fn properties(folder: &Path, is_denied: &mut bool) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(folder.join("properties")).unwrap_or_else(|error| {
        *is_denied |= error.kind() == io::ErrorKind::PermissionDenied;
        String::new()
    });
    let pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    pairs.filter_map(|(key, value)| Some((key.to_owned(), value.trim().parse().ok()?))).collect()
}
