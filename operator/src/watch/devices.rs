//! The devices that pods hold, as the node agents report them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crds::{AllocatedDevices, Allocation, NodeTopology};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Limits of an Instance's status: resources, and ids per resource.
const MOST_RESOURCES: usize = 64;
const MOST_IDS: usize = 1024;

/// The devices of a pod, merged over its containers and sorted by resource.
///
/// Matched by uid, as an earlier pod of the same name may have held others.
pub fn held_by(pod: &Pod, topologies: &BTreeMap<String, &NodeTopology>) -> Vec<AllocatedDevices> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let status = node.and_then(|node| topologies.get(node)).and_then(|topology| topology.status.as_ref());
    let mut held = BTreeMap::<&str, BTreeSet<&str>>::new();
    for allocation in status.iter().flat_map(|status| &status.allocations) {
        if pod.metadata.uid.as_ref() == Some(&allocation.pod_uid) {
            let ids = held.entry(&allocation.resource).or_default();
            ids.extend(allocation.device_ids.iter().map(String::as_str));
        }
    }
    let owned = |(resource, ids): (&str, BTreeSet<&str>)| AllocatedDevices {
        resource: resource.to_owned(),
        device_ids: ids.into_iter().take(MOST_IDS).map(str::to_owned).collect(),
    };
    held.into_iter().take(MOST_RESOURCES).map(owned).collect()
}

/// A pod: its namespace and its name.
pub type PodName = (String, String);

/// The last allocations of each node.
#[derive(Default)]
pub struct AllocationDiff(HashMap<String, Vec<Allocation>>);

impl AllocationDiff {
    /// The pods whose allocations changed, in order.
    pub fn changed(&mut self, topology: &NodeTopology, present: bool) -> Vec<PodName> {
        let status = topology.status.as_ref().filter(|_| present);
        let now = status.map(|status| status.allocations.clone()).unwrap_or_default();
        let before = if now.is_empty() {
            self.0.remove(&topology.name_any())
        } else {
            self.0.insert(topology.name_any(), now.clone())
        };
        let before = before.unwrap_or_default();
        let only = |these: &[Allocation], those: &[Allocation]| {
            let differ = these.iter().filter(|allocation| !those.contains(allocation));
            differ.map(|it| (it.namespace.clone(), it.pod.clone())).collect::<Vec<_>>()
        };
        let pods: BTreeSet<_> = only(&now, &before).into_iter().chain(only(&before, &now)).collect();
        pods.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn topology(allocations: &[(&str, &str, &str, &[&str])]) -> NodeTopology {
        let allocation = |(uid, container, resource, ids): &(&str, &str, &str, &[&str])| {
            json!({"namespace": "ns", "pod": format!("pod-{uid}"), "podUid": uid, "container": container,
                "resource": resource, "deviceIds": ids})
        };
        let allocations: Vec<_> = allocations.iter().map(allocation).collect();
        serde_json::from_value(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology",
            "metadata": {"name": "node-a"}, "spec": {}, "status": {"allocations": allocations}}))
        .unwrap()
    }

    fn pod(uid: &str, node: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid},
            "spec": {"nodeName": node, "containers": []}}))
        .unwrap()
    }

    #[test]
    fn a_pod_holds_the_devices_reported_for_its_uid() {
        let topology = topology(&[
            ("1", "actor", "nvidia.com/gpu", &["GPU-2"]),
            ("1", "side", "nvidia.com/gpu", &["GPU-1", "GPU-2"]),
            ("1", "actor", "cpu", &["3"]),
            ("2", "actor", "nvidia.com/gpu", &["GPU-9"]),
        ]);
        let topologies = BTreeMap::from([("node-a".to_owned(), &topology)]);
        let held = |uid, node| {
            let devices = held_by(&pod(uid, node), &topologies);
            devices
                .iter()
                .map(|it| format!("{} {}", it.resource, it.device_ids.join(",")))
                .collect::<Vec<_>>()
        };
        assert_eq!(held("1", "node-a"), ["cpu 3", "nvidia.com/gpu GPU-1,GPU-2"]);
        assert_eq!(held("2", "node-a"), ["nvidia.com/gpu GPU-9"]);
        assert_eq!(held("3", "node-a"), [""; 0], "another pod");
        assert_eq!(held("1", "node-b"), [""; 0], "another node");
    }

    #[test]
    fn pods_with_changed_devices_are_returned() {
        let mut seen = AllocationDiff::default();
        let mut changed = |allocations: &[(&str, &str, &str, &[&str])], present| {
            let pods = seen.changed(&topology(allocations), present);
            pods.into_iter().map(|(_, pod)| pod).collect::<Vec<_>>()
        };
        assert_eq!(
            changed(&[("1", "a", "gpu", &["x"]), ("2", "a", "gpu", &["y"])], true),
            ["pod-1", "pod-2"]
        );
        assert_eq!(changed(&[("1", "a", "gpu", &["x"]), ("2", "a", "gpu", &["y"])], true), [""; 0]);
        assert_eq!(changed(&[("1", "a", "gpu", &["z"]), ("2", "a", "gpu", &["y"])], true), ["pod-1"]);
        assert_eq!(changed(&[("1", "a", "gpu", &["z"])], true), ["pod-2"]);
        assert_eq!(changed(&[("1", "a", "gpu", &["z"])], false), ["pod-1"], "the topology is gone");
    }
}
