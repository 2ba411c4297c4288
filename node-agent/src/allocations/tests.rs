//! The kubelet's responses: joined, sorted, bounded, cached and published.

use std::collections::BTreeMap;

use crds::Device;
use kube::{
    api::ObjectMeta,
    core::PartialObjectMetaExt,
    runtime::{reflector::store, watcher::Event},
};

use super::*;
use crate::podresources::{
    fake::{FakePodResourcesServer, Reply, memory, pod},
    wire::{ClaimResource, ContainerDevices, DynamicResource, PodResources},
};

fn uids(pods: &[(&str, &str)]) -> BTreeMap<(String, String), String> {
    let uid = |(namespace, name): &(&str, &str)| {
        (((*namespace).to_owned(), (*name).to_owned()), format!("uid-of-{name}"))
    };
    pods.iter().map(uid).collect()
}

fn joined(list: &[PodResources], pods: &[(&str, &str)]) -> NodeAllocations {
    let uids = uids(pods);
    join::allocations(list, |pod| uids.get(pod))
}

#[test]
fn allocations_of_a_pod_are_complete_and_sorted() {
    let mut crop = pod("vision", "crop-0", "nvidia.com/gpu", &["GPU-2", "GPU-1::3"]);
    let container = &mut crop.containers[0];
    container.devices.push(ContainerDevices {
        resource_name: "nvidia.com/gpu".into(),
        device_ids: vec!["GPU-2".into(), "GPU-0".into()],
    });
    container.cpu_ids = vec![10, 2, 9];
    container.memory = vec![memory("memory", &[1, 0]), memory("hugepages-1Gi", &[0])];
    let device = ClaimResource {
        driver_name: "gpu.example.com".into(),
        pool_name: "node-a".into(),
        device_name: "gpu-7".into(),
    };
    container.dynamic_resources = vec![DynamicResource {
        claim_name: "gpus".into(),
        claim_namespace: "vision".into(),
        claim_resources: vec![device],
    }];
    let gone = pod("vision", "old-0", "nvidia.com/gpu", &["GPU-9"]);
    let first = pod("audio", "mix-0", "xilinx.com/fpga", &["0000:81:00.0"]);
    let current = joined(&[gone, crop, first], &[("vision", "crop-0"), ("audio", "mix-0")]);
    assert_eq!(current.dropped, 0);
    insta::assert_snapshot!(serde_yaml::to_string(&current.list).unwrap());
}

#[test]
fn allocations_beyond_the_limits_of_the_schema_are_dropped_and_counted() {
    let long = "x".repeat(300);
    let invalid = [
        pod("a", "p", "r", &["ok", &long, ""]),
        pod("a", "p", "", &["id"]),
        pod("a", "p", "without-ids", &[]),
    ];
    let current = joined(&invalid, &[("a", "p")]);
    assert_eq!(current.list.iter().map(|it| &*it.resource).collect::<Vec<_>>(), ["r"]);
    assert_eq!((current.list[0].device_ids.as_slice(), current.dropped), (&["ok".to_owned()][..], 2));

    let many: Vec<_> = (0..1100).map(|n| pod("a", "p", &format!("r{n}"), &["id"])).collect();
    let current = joined(&many, &[("a", "p")]);
    assert_eq!((current.list.len(), current.dropped), (1024, 76));

    let ids: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let large: Vec<_> = (0..10).map(|n| pod("a", "p", &format!("r{n}"), &ids)).collect();
    let current = joined(&large, &[("a", "p")]);
    let counts: Vec<_> = current.list.iter().map(|it| it.device_ids.len()).collect();
    assert_eq!((counts, current.dropped), ([vec![1000; 8], vec![192]].concat(), 1808), "8,192 ids in total");
}

#[test]
fn ids_of_device_plugins_are_mapped_to_devices() {
    let device = |id: &str, uuid: Option<&str>, pci: Option<&str>| Device {
        id: id.into(),
        uuid: uuid.map(Into::into),
        pci_bus_id: pci.map(Into::into),
        ..Device::default()
    };
    let spec = NodeTopologySpec {
        devices: vec![
            device("gpu-0000:3b:00.0", Some("GPU-8f6b"), Some("0000:3b:00.0")),
            device("gpu-0000:3b:00.0-mig-1", Some("MIG-77aa"), None),
            device("fpga-0", None, Some("0000:81:00.0")),
        ],
        links: Vec::new(),
    };
    for (id, expected) in [
        ("GPU-8f6b", Some("gpu-0000:3b:00.0")),
        ("gpu-8F6B::3", Some("gpu-0000:3b:00.0")),
        ("00000000:3B:00.0", Some("gpu-0000:3b:00.0")),
        ("MIG-77aa", Some("gpu-0000:3b:00.0-mig-1")),
        ("0000:81:00.0", Some("fpga-0")),
        ("node-a/fpga-0", Some("fpga-0")),
        ("GPU-0000", None),
        ("", None),
    ] {
        assert_eq!(spec.device_of(id).map(|device| device.id.as_str()), expected, "{id}");
    }
}

#[test]
fn series_join_pods_with_devices_and_leave_out_what_is_no_device() {
    let mut crop = pod("vision", "crop-0", "nvidia.com/gpu", &["gpu-0::2", "other"]);
    crop.containers[0].cpu_ids = vec![1, 3];
    crop.containers[0].memory = vec![memory("memory", &[0])];
    let allocations = Allocations::new(Some("node-a"));
    let gpu = Device { id: "gpu-0".into(), ..Device::default() };
    let spec = NodeTopologySpec { devices: vec![gpu], links: Vec::new() };
    let text = || {
        let mut series = Series::default();
        allocations.add(&mut series, Some(&spec));
        let text = Metrics::new().unwrap().render(&BTreeMap::new(), series).unwrap();
        text.lines().filter(|line| line.starts_with("cairn_pod")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text(), "", "no allocations yet");
    allocations.update(joined(&[crop], &[("vision", "crop-0")]));
    insta::assert_snapshot!(text());
}

/// The polling loop with a kubelet whose response changes and that rate-limits requests.
#[tokio::test]
async fn changes_are_published_and_rate_limiting_keeps_the_last_allocations() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let (pods, mut cluster) = store::<PodMeta>();
    let crop = ObjectMeta {
        name: Some("crop-0".into()),
        namespace: Some("vision".into()),
        uid: Some("uid-1".into()),
        ..ObjectMeta::default()
    };
    cluster.apply_watcher_event(&Event::Init);
    cluster.apply_watcher_event(&Event::InitApply(crop.into_response_partial()));
    cluster.apply_watcher_event(&Event::InitDone);

    let (allocations, metrics) = (Allocations::new(Some("node-a")), Metrics::new().unwrap());
    let reply = |ids: &[&str]| Reply::Pods(vec![pod("vision", "crop-0", "nvidia.com/gpu", ids)]);
    let kubelet = FakePodResourcesServer::start(&socket, reply(&["GPU-1"]));
    let mut changes = Box::pin(allocations.changes());
    let scenario = async {
        use futures::StreamExt as _;
        assert_eq!(changes.next().await.unwrap(), ["node-a"]);
        let current = allocations.of("node-a").unwrap();
        assert_eq!((&*current.list[0].pod_uid, &*current.list[0].device_ids[0]), ("uid-1", "GPU-1"));
        assert!(allocations.of("node-b").is_none(), "another node");
        kubelet.set_reply(Reply::Status(8, "rejected by rate limit"));
        let before = kubelet.requests();
        while kubelet.requests() < before + 3 {
            tokio::task::yield_now().await;
        }
        assert!(metrics.collectors_page().starts_with("pod_resources ok"), "{}", metrics.collectors_page());
        kubelet.set_reply(reply(&["GPU-2"]));
        assert_eq!(changes.next().await.unwrap(), ["node-a"]);
        assert_eq!(allocations.of("node-a").unwrap().list[0].device_ids, ["GPU-2"]);
    };
    tokio::select! {
        never = poll(&allocations, &metrics, Kubelet::new(&socket), pods, Duration::from_millis(10)) => match never {},
        () = scenario => {}
    }
}

#[test]
fn failures_are_counted_when_they_begin_and_name_the_remedy() {
    let metrics = Metrics::new().unwrap();
    let mut failing = None;
    let denied = ListError::Denied("/kubelet.sock".into());
    record_failure(&metrics, &denied, &mut failing);
    record_failure(&metrics, &denied, &mut failing);
    record_failure(&metrics, &ListError::Throttled("slowly".into()), &mut failing);
    assert_eq!(
        metrics.collectors_page(),
        "pod_resources denied: cannot open /kubelet.sock: root owns the socket, so run the agent as user 0 (no capability is needed)\n"
    );
    let text = metrics.render(&BTreeMap::new(), Series::default()).unwrap();
    let counted = |reason: &str| {
        text.contains(&format!(
            "cairn_agent_collect_errors_total{{collector=\"pod_resources\",reason=\"{reason}\"}} 1\n"
        ))
    };
    assert!(counted("denied") && counted("throttled"), "{text}");
}
