//! Agents that discover the machine itself, as run by the chart, agree with other tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use crds::{Device, Health, NodeTopology};
use e2e::product::NAMESPACE;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::Value;

use crate::{
    numa::{self, Placed},
    scene::{DEVICES, agent_process, agents, alone, cluster, product, status_of, tell_of},
};

/// What the agents reported about the real hardware.
pub struct Live {
    /// What each agent published, by node.
    topologies: BTreeMap<String, NodeTopology>,
    /// The image of each, as its kubelet knows it.
    pub images: Vec<String>,
    /// The collectors page of each, and its capabilities.
    collectors: BTreeMap<String, (String, String)>,
    /// An application on NUMA domains.
    pub placed: Placed,
}

/// A NUMA domain according to the machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its processing units.
    pub processors: BTreeSet<u32>,
    /// Its memory.
    bytes: i64,
}

/// The NUMA domains of this machine, by number, from `/sys`; the only one has all memory of the machine.
pub fn domains() -> BTreeMap<u32, Domain> {
    let root = "/sys/devices/system/node";
    let read = |path: String| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let online = list(&read(format!("{root}/online")));
    let domain = |number: u32| {
        let one = format!("{root}/node{number}/meminfo");
        let memory = read(if online.len() == 1 { "/proc/meminfo".to_owned() } else { one });
        let (_, total) = memory.split_once("MemTotal:").unwrap();
        let kibibytes: i64 = total.split_whitespace().next().unwrap().parse().unwrap();
        let processors = list(&read(format!("{root}/node{number}/cpulist")));
        (number, Domain { processors, bytes: kibibytes * 1024 })
    };
    online.iter().copied().map(domain).collect()
}

/// A list as the kernel writes it: `0-3,8`.
fn list(text: &str) -> BTreeSet<u32> {
    let parts = text.trim().split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    parts.flat_map(range).collect()
}

/// The id of the image of a pod's container.
pub fn image_of(pod: &Pod) -> String {
    let containers = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    containers[0].image_id.clone()
}

/// Collects what the agents publish, and runs actors on it.
pub async fn look() -> Live {
    let cluster = cluster().await;
    let client = cluster.client().await.unwrap();
    let topologies = Api::<NodeTopology>::all(client.clone());
    let topologies = topologies.list(&ListParams::default()).await.unwrap().items;
    let topologies: BTreeMap<_, _> =
        topologies.into_iter().map(|it| (it.metadata.name.clone().unwrap(), it)).collect();
    let agents = agents().await.unwrap();
    tell_of("hardware discovery", &agents).await;
    let images = agents.iter().map(image_of).collect();
    let mut collectors = BTreeMap::new();
    for pod in &agents {
        let node = pod.spec.as_ref().unwrap().node_name.clone().unwrap();
        let page = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}:9101/proxy/collectors", pod.name_any());
        let said = cluster.kubectl(["get", "--raw", &page]).await.unwrap().stdout;
        collectors.insert(node, (said, status_of(agent_process(pod), "CapEff")));
    }

    let placed = numa::place().await;
    Live { topologies, images, collectors, placed }
}

#[tokio::test]
async fn agents_report_the_hardware_of_the_machine() {
    let _alone = alone().await;
    let Live { topologies, collectors, placed, images: _ } = &product().await.live;
    let Placed { snapshot, unit, .. } = placed;
    assert_eq!(topologies.keys().collect::<Vec<_>>(), DEVICES.map(|(node, _)| node));
    let (machine, cores) = (domains(), cores());
    for (node, topology) in topologies {
        let devices = &topology.spec.devices;
        let count = |device: &Device, type_: &str| -> usize {
            let of = device.compute_resources.iter().filter(|it| it.type_ == type_);
            of.map(|it| usize::try_from(it.count).unwrap()).sum()
        };
        for (number, domain) in &machine {
            let device = devices.iter().find(|it| it.id == format!("numa-{number}")).unwrap();
            assert_eq!(device.health, Health::Ok);
            let bytes: i64 = device.memory_spaces.iter().map(|it| it.size_bytes).sum();
            // The memory of a virtual machine may grow meanwhile.
            let differs = bytes.abs_diff(domain.bytes);
            let few = domain.bytes.unsigned_abs() / 8;
            assert!(differs <= few, "memory of numa-{number} of {node}: {bytes}, not {}", domain.bytes);
            assert_eq!(count(device, "Processing Unit"), domain.processors.len(), "{device:?}");
            let of_domain =
                |(_, processors): &(&u32, &BTreeSet<u32>)| processors.is_subset(&domain.processors);
            assert_eq!(count(device, "Core"), cores.iter().filter(of_domain).count(), "{device:?}");
        }
        assert_eq!(devices.iter().filter(|it| it.id.starts_with("numa-")).count(), machine.len());
        let buses = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
        let buses: BTreeSet<_> =
            buses.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        for address in devices.iter().filter_map(|it| it.pci_bus_id.as_ref()) {
            assert!(buses.contains(address), "{node} has no {address}: {buses:?}");
        }

        let (page, capabilities) = &collectors[node];
        eprintln!("{node}, hardware discovery:\n{page}");
        assert_eq!(capabilities, "0000000000000000");
        assert!(page.contains("hwloc ok") && page.contains("pod_resources ok"), "{page}");
    }
    assert_eq!(lstopo("pu"), machine.values().map(|it| it.processors.len()).sum::<usize>());
    assert_eq!((lstopo("core"), lstopo("numanode")), (cores.len(), machine.len()));

    let units = snapshot["units"].as_array().unwrap();
    let expected = topologies.keys().flat_map(|node| {
        let unit = move |number| (format!("{node}/domains-{number}"), format!("numa-{number}"));
        machine.iter().filter(|(_, it)| !it.processors.is_empty()).map(move |(number, _)| unit(number))
    });
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = units.iter().map(|unit| (text(unit, "id"), text(unit, "numa"))).collect();
    assert_eq!(found, expected.collect::<Vec<_>>(), "{snapshot:#}");
    assert!(units.iter().all(|unit| unit["capacity"].as_u64() > Some(0)), "{snapshot:#}");
    assert!(found.iter().any(|(id, _)| id == unit), "the actor ran on {unit}");
}

/// The processing units of each core of this machine, from `lscpu`.
fn cores() -> BTreeMap<u32, BTreeSet<u32>> {
    let output = Command::new("lscpu").arg("--parse=CPU,CORE").output().expect("lscpu is installed");
    let mut cores: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (processor, core) = line.split_once(',').unwrap();
        cores.entry(core.parse().unwrap()).or_default().insert(processor.parse().unwrap());
    }
    cores
}

/// How many objects of a type hwloc's own tool sees.
fn lstopo(type_: &str) -> usize {
    let mut command = Command::new("lstopo-no-graphics");
    let output = command.args(["--disallowed", "--of", "console", "--only", type_]).output();
    let output = output.expect("lstopo-no-graphics, of Debian's package hwloc, is installed");
    String::from_utf8(output.stdout).unwrap().lines().count()
}
