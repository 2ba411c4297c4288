//! Conversion between NodeTopology and HiCR's topology.

use crds::{ComputeResource, CoreKind, Device, Health, Link, MemorySpace, NodeTopologySpec};
use hicr::Topology;
use serde_json::{Value, json};

fn read(json: &Value) -> Topology {
    Topology::from_json(json.clone()).expect("a topology")
}

/// One device with every field set, and one with none.
fn full() -> NodeTopologySpec {
    let text = |text: &str| Some(text.to_owned());
    let gpu = Device {
        id: "gpu-0000:3b:00.0".into(),
        type_: "GPU".into(),
        vendor: text("nvidia"),
        model: text("NVIDIA A100"),
        pci_bus_id: text("0000:3b:00.0"),
        pci_root_port: text("0000:3a:01.0"),
        uuid: text("GPU-8f6b"),
        aliases: vec!["card0".into(), "renderD128".into()],
        driver: text("580.65.06"),
        health: Health::Degraded,
        numa_node: Some(0),
        parent: text("numa-0"),
        nearest_memory: text("numa-0"),
        network_bandwidth_bytes_per_second: Some(25_000_000_000),
        compute_resources: vec![
            ComputeResource::new("CUDA Core", 6912),
            ComputeResource::new("Nothing", 0),
            ComputeResource::new("Streaming Multiprocessor", 108),
        ],
        memory_spaces: vec![
            MemorySpace { type_: "Device RAM".into(), size_bytes: 1 << 40 },
            MemorySpace { type_: "Device RAM".into(), size_bytes: 0 },
        ],
    };
    let numa = Device {
        id: "numa-0".into(),
        type_: "NUMA Domain".into(),
        numa_node: Some(0),
        compute_resources: vec![
            ComputeResource {
                kinds: vec![
                    CoreKind { name: Some("IntelAtom".into()), count: 1, relative_capacity: 640 },
                    CoreKind { name: None, count: 1, relative_capacity: 1024 },
                ],
                ..ComputeResource::new("Core", 2)
            },
            ComputeResource::new("Processing Unit", 2),
        ],
        ..Device::default()
    };
    let bare = Device { id: "x".into(), type_: "Thing".into(), ..Device::default() };
    let link = |bandwidth, latency| Link {
        source: "gpu-0000:3b:00.0".into(),
        destination: "numa-0".into(),
        kind: "PCIe".into(),
        bandwidth_bytes_per_second: bandwidth,
        relative_latency: latency,
    };
    NodeTopologySpec {
        devices: vec![gpu, numa, bare],
        links: vec![link(Some(1), None), link(None, Some(10))],
    }
}

#[test]
fn conversion_round_trips() {
    let there = Topology::from(&full());
    let text = there.to_json().to_string();
    let back = Topology::read(&text).unwrap();
    assert_eq!(back, there);
    assert_eq!(NodeTopologySpec::from(&back), full());
    let empty = Topology::from(&NodeTopologySpec::default());
    assert_eq!(NodeTopologySpec::from(&read(&empty.to_json())), NodeTopologySpec::default());
}

#[test]
fn output_has_the_form_that_hicr_reads() {
    let written = Topology::from(&full()).to_json();
    assert_eq!(
        written["Devices"][1],
        json!({"Type": "NUMA Domain", "Id": "numa-0", "NUMA Domain Id": 0, "Memory Spaces": [],
               "Core Kinds": {"Core": [{"name": "IntelAtom", "count": 1, "relativeCapacity": 640},
                                       {"count": 1, "relativeCapacity": 1024}]},
               "Compute Resources": [{"Type": "Core"}, {"Type": "Core"}, {"Type": "Processing Unit"},
                                     {"Type": "Processing Unit"}]})
    );
    assert_eq!(written["Metadata"], Value::Null);
    for device in written["Devices"].as_array().unwrap() {
        assert!(device["Type"].is_string());
        assert!(device["Compute Resources"].as_array().unwrap().iter().all(|it| it["Type"].is_string()));
        assert!(device["Memory Spaces"].as_array().unwrap().iter().all(|it| it["Size"].is_u64()));
    }
}

#[test]
fn devices_without_ids_are_named() {
    let topology = read(&json!({"Devices": [
        {"Type": "NUMA Domain", "NUMA Domain Id": 1, "Memory Spaces": [], "Compute Resources": [
            {"Type": "Processing Unit", "Logical Processor Id": 0}, {"Type": "Processing Unit"}]},
        {"Type": "", "Device Type": "OpenCL GPU", "Compute Resources": [], "Memory Spaces": []}]}));
    let ours = NodeTopologySpec::from(&topology);
    assert_eq!((ours.devices[0].id.as_str(), ours.devices[0].numa_node), ("numa-1", Some(1)));
    assert_eq!(ours.devices[0].compute_resources, [ComputeResource::new("Processing Unit", 2)]);
    assert_eq!(ours.devices[1].id, "opencl-gpu-1");
}

#[test]
fn unexpected_values_keep_the_number_of_devices() {
    let values = [json!(null), json!(-1), json!(u64::MAX), json!("x"), json!([1]), json!({"a": 1})];
    let keys = ["Id", "Health", "NUMA Domain Id", "NUMA Affinity", "Parent", "Vendor", "UUID"];
    for key in keys {
        for value in &values {
            let mut device = json!({"Type": "GPU", "Compute Resources": [{"Type": "CU", "Count": u64::MAX}],
                "Memory Spaces": [{"Type": "RAM", "Size": u64::MAX}]});
            device[key] = value.clone();
            let topology = read(&json!({"Devices": [device], "Links": [value, {"Source": value}]}));
            let ours = NodeTopologySpec::from(&topology);
            assert_eq!((ours.devices.len(), ours.links.len()), (1, 0), "{key}: {value}");
            assert_eq!(ours.devices[0].compute_resources[0].count, i32::MAX);
        }
    }
}
