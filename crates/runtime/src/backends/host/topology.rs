//! The machine's topology from sysfs, restricted to what this process may use.
//!
//! hwloc reports more, but application images would need a C library
//! (`docs/adr/0081-the-runtime-reads-sysfs-instead-of-hwloc.md`).

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use rustix::thread::sched_getaffinity;
use serde_json::{Map, Value, json};

use crate::{
    backends::PROCESSING_UNIT,
    hicr::{ComputeResource, Device, MemorySpace, Topology},
    model::{Capability, Error, TopologyManager},
};

/// The type of a device made of processors and their nearest memory.
pub const NUMA_DOMAIN: &str = "NUMA Domain";
/// The type of a memory space that processors access directly.
pub const RAM: &str = "RAM";

/// Reads the topology of the machine once.
#[derive(Clone, Debug)]
pub struct HostTopology(Topology);

impl HostTopology {
    /// The topology of this machine that this process may use.
    pub fn new() -> Result<Self, Error> {
        let allowed = sched_getaffinity(None).map_err(|error| Error::system("read the affinity", error))?;
        let allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
        Self::read(Path::new("/"), &allowed.collect())
    }

    /// The topology read from `sys` and `proc` below `root`, restricted to the allowed processors.
    pub fn read(root: &Path, allowed: &BTreeSet<usize>) -> Result<Self, Error> {
        let sys = root.join("sys/devices/system");
        let mut nodes: Vec<u64> = fs::read_dir(sys.join("node"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| number(&entry))
            .collect();
        nodes.sort_unstable();
        let limit = fs::read_to_string(root.join("sys/fs/cgroup/memory.max")).ok();
        let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
        let all = memory(&root.join("proc/meminfo"), "MemTotal:")?;
        let mut devices = Vec::new();
        if nodes.is_empty() {
            devices.push(device(&sys, 0, allowed.clone(), all));
        }
        // A kernel that initializes memory lazily reports only the initialized part per domain
        let whole = (nodes.len() == 1).then_some(all);
        for node in nodes {
            let folder = sys.join(format!("node/node{node}"));
            let mine = list(&fs::read_to_string(folder.join("cpulist")).unwrap_or_default());
            let mine = mine.intersection(allowed).copied().collect();
            let size = whole.unwrap_or_else(|| memory(&folder.join("meminfo"), "MemTotal:").unwrap_or(0));
            devices.push(device(&sys, node, mine, size));
        }
        // Share the rest of the limit in proportion to size: the domain of future allocations is unknown.
        let total: u64 =
            devices.iter().flat_map(|device| &device.memory_spaces).map(|space| space.size).sum();
        if limit < total {
            for space in devices.iter_mut().flat_map(|device| &mut device.memory_spaces) {
                let part = u128::from(space.size) * u128::from(limit) / u128::from(total);
                space.size = u64::try_from(part).unwrap_or(space.size);
            }
        }
        for device in &mut devices {
            device.memory_spaces.retain(|space| space.size > 0);
        }
        devices.retain(|device| !device.compute_resources.is_empty() || !device.memory_spaces.is_empty());
        Ok(Self(Topology { devices, ..Topology::default() }))
    }
}

impl TopologyManager for HostTopology {
    fn name(&self) -> &'static str {
        "host"
    }

    fn supports(&self, _capability: Capability) -> bool {
        false
    }

    fn query(&self) -> Result<Topology, Error> {
        Ok(self.0.clone())
    }
}

fn number(entry: &fs::DirEntry) -> Option<u64> {
    entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()
}

/// The value in bytes of a `meminfo` line in kB.
fn memory(path: &PathBuf, key: &str) -> Result<u64, Error> {
    let what = format!("read {}", path.display());
    let text = fs::read_to_string(path).map_err(|error| Error::system(&what, error))?;
    let line = text.lines().find_map(|line| line.split_once(key)).map(|(_, rest)| rest);
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|number| number * 1024).ok_or_else(|| Error::system(&what, format!("{key} is missing")))
}

/// Parses a list such as `0-3,8`.
fn list(text: &str) -> BTreeSet<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

fn device(sys: &Path, domain: u64, processors: BTreeSet<usize>, size: u64) -> Device {
    let compute_resources = processors.into_iter().map(|number| processor(sys, domain, number)).collect();
    let more = Map::from_iter([("NUMA Domain Id".to_owned(), json!(domain))]);
    let space = MemorySpace { type_: RAM.into(), size, more: more.clone() };
    Device { type_: NUMA_DOMAIN.into(), compute_resources, memory_spaces: vec![space], more }
}

fn processor(sys: &Path, domain: u64, number: usize) -> ComputeResource {
    let folder = sys.join(format!("cpu/cpu{number}"));
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
    let physical = read("topology/core_id").and_then(|text| text.parse::<u64>().ok());
    let caches = (0..8).map_while(|index| {
        let part = |name: &str| read(&format!("cache/index{index}/{name}"));
        let kilobytes = part("size")?.strip_suffix('K')?.parse::<u64>().ok()?;
        Some(json!({
            "Level": part("level")?.parse::<u64>().ok()?,
            "Type": part("type")?,
            "Size (Bytes)": kilobytes * 1024,
            "Line Size (Bytes)": part("coherency_line_size")?.parse::<u64>().ok()?,
            "Shared": list(&part("shared_cpu_list")?).len() > 1,
        }))
    });
    let caches = Value::Array(caches.collect());
    let more = [
        ("Logical Processor Id", json!(number)),
        ("Physical Processor Id", json!(physical.unwrap_or(number as u64))),
        ("NUMA Affinity", json!(domain)),
        ("Caches", caches),
    ];
    let more = more.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    ComputeResource { type_: PROCESSING_UNIT.into(), count: 1, more }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Each device as "domain: processors, bytes".
    fn seen(files: &[(&str, &str)], allowed: &[usize]) -> Vec<String> {
        let root = machine(files);
        let topology = HostTopology::read(root.path(), &allowed.iter().copied().collect()).unwrap();
        let text = |device: &Device| {
            let number = |resource: &ComputeResource| resource.more["Logical Processor Id"].to_string();
            let numbers: Vec<_> = device.compute_resources.iter().map(number).collect();
            let sizes: Vec<_> = device.memory_spaces.iter().map(|space| space.size.to_string()).collect();
            format!("{}: {}, {}", device.more["NUMA Domain Id"], numbers.join(" "), sizes.join(" "))
        };
        topology.query().unwrap().devices.iter().map(text).collect()
    }

    const TWO: [(&str, &str); 5] = [
        ("proc/meminfo", "MemTotal:  12 kB\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1,4\n"),
        ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  8 kB\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  4 kB\n"),
    ];

    #[test]
    fn allowed_processors_are_grouped_by_domain() {
        assert_eq!(seen(&TWO, &[0, 1, 2, 3, 4]), ["0: 0 1 4, 8192", "1: 2 3, 4096"]);
        assert_eq!(seen(&TWO, &[4]), ["0: 4, 8192", "1: , 4096"]);
    }

    #[test]
    fn a_memory_limit_is_shared_between_domains() {
        let limited = [&TWO[..], &[("sys/fs/cgroup/memory.max", "6144\n")]].concat();
        assert_eq!(seen(&limited, &[0]), ["0: 0, 4096", "1: , 2048"]);
        let unlimited = [&TWO[..], &[("sys/fs/cgroup/memory.max", "max\n")]].concat();
        assert_eq!(seen(&unlimited, &[0]), ["0: 0, 8192", "1: , 4096"]);
    }

    #[test]
    fn a_kernel_without_numa_has_one_domain() {
        assert_eq!(seen(&TWO[..1], &[0, 3]), ["0: 0 3, 12288"]);
    }

    #[test]
    fn the_only_domain_has_all_memory() {
        assert_eq!(seen(&TWO[..3], &[0, 1, 4]), ["0: 0 1 4, 12288"]);
    }

    #[test]
    fn this_machine_has_processors_and_memory_in_hicrs_json() {
        let topology = HostTopology::new().unwrap().query().unwrap();
        assert!(topology.devices.iter().any(|device| !device.compute_resources.is_empty()));
        let text = topology.to_json().to_string();
        assert_eq!(Topology::read(&text).unwrap(), topology);
    }
}
