//! Strips watched objects to the fields that the operator reads, as its memory grows with the cluster.

use crds::{Instance, Placement};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMap, Container, ContainerPort, ContainerState, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Namespace, Node, NodeStatus, Pod, PodSpec, PodStatus,
    ResourceQuota, Service, ServiceSpec, Taint, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

use crate::apply::pods::identity::peers_name;

/// Holds a copy of the manifest applied by kubectl.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The condition that a pod has a sandbox, in which containers are created.
pub const SANDBOX: &str = "PodReadyToStartContainers";

/// Drops managed fields and kubectl's annotation.
pub fn metadata<K: ResourceExt>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

/// Keeps owner and spec; labels and annotations are not read.
pub fn instance(instance: &mut Instance) {
    metadata(instance);
    (instance.metadata.labels, instance.metadata.annotations) = (None, None);
}

/// Keeps the spec. Old operators listed some placed actors as unplaced; these entries are dropped (ADR 141).
pub fn placement(placement: &mut Placement) {
    metadata(placement);
    let spec = &mut placement.spec;
    if !spec.unplaced.is_empty() {
        let placed: BTreeSet<&str> = spec.assignments.iter().map(|place| place.actor.as_str()).collect();
        spec.unplaced.retain(|left| !placed.contains(left.actor.as_str()));
    }
}

/// Keeps the owner, and the data of peers files only: any user may label a large `ConfigMap`.
pub fn peers(file: &mut ConfigMap) {
    metadata(file);
    file.binary_data = None;
    let of = world::controller_ref(file, "ActorApplication");
    if of.is_none_or(|of| file.name_any() != peers_name(&of.name)) {
        file.data = None;
    }
}

/// Keeps the owner, and the fields of the spec that are repaired.
pub fn service(service: &mut Service) {
    metadata(service);
    service.status = None;
    service.spec = service.spec.take().map(|spec| ServiceSpec {
        selector: spec.selector,
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        ..ServiceSpec::default()
    });
}

/// Keeps the limits.
pub fn quota(quota: &mut ResourceQuota) {
    metadata(quota);
    quota.status = None;
}

/// Keeps labels, deletion, and the annotations that admission of pods reads.
pub fn namespace(namespace: &mut Namespace) {
    metadata(namespace);
    namespace.annotations_mut().retain(|key, _| world::POD_ANNOTATIONS.contains(&key.as_str()));
    (namespace.spec, namespace.status) = (None, None);
}

/// Keeps labels, taints and allocatable resources.
pub fn node(node: &mut Node) {
    metadata(node);
    node.metadata.annotations = None;
    if let Some(status) = node.status.take() {
        node.status = Some(NodeStatus { allocatable: status.allocatable, ..NodeStatus::default() });
    }
}

/// Labels, unschedulable, taints, allocatable.
type NodeFacts =
    (BTreeMap<String, String>, Option<bool>, Option<Vec<Taint>>, Option<BTreeMap<String, Quantity>>);

/// The fields of a node that plans depend on.
pub fn node_facts(node: &Node) -> NodeFacts {
    let spec = node.spec.clone().unwrap_or_default();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
    (node.labels().clone(), spec.unschedulable, spec.taints, allocatable)
}

/// Keeps why a container that is not ready waits, and how it ended before.
fn unready(status: ContainerStatus) -> Option<ContainerStatus> {
    if status.ready {
        return None;
    }
    let kept = |state: ContainerState| ContainerState {
        running: None,
        terminated: state.terminated.map(|ended| ContainerStateTerminated {
            exit_code: ended.exit_code,
            reason: ended.reason,
            ..ContainerStateTerminated::default()
        }),
        waiting: state.waiting.map(|it| ContainerStateWaiting { reason: it.reason, message: None }),
    };
    Some(ContainerStatus {
        name: status.name,
        state: status.state.map(kept),
        last_state: status.last_state.map(kept),
        ..ContainerStatus::default()
    })
}

/// Keeps required anti-affinity, which binds other pods too.
fn anti_affinity(affinity: Option<Affinity>) -> Option<Affinity> {
    let mut own = affinity?.pod_anti_affinity?;
    own.preferred_during_scheduling_ignored_during_execution = None;
    let has_terms = !own.required_during_scheduling_ignored_during_execution.as_ref()?.is_empty();
    has_terms.then(|| Affinity { pod_anti_affinity: Some(own), ..Affinity::default() })
}

/// Keeps the containers with ports of the host; on the host's network each port is one.
fn with_host_ports(containers: Vec<Container>, on_host: bool) -> Vec<Container> {
    let slim = |container: Container| {
        let is_of_host = |port: &ContainerPort| on_host || port.host_port.is_some_and(|number| number > 0);
        let mut ports = container.ports?;
        ports.retain(is_of_host);
        let restart_policy = container.restart_policy;
        (!ports.is_empty()).then(|| Container { ports: Some(ports), restart_policy, ..Container::default() })
    };
    containers.into_iter().filter_map(slim).collect()
}

/// Keeps the volumes of claims, and disks.
fn volumes(mut volumes: Vec<Volume>) -> Vec<Volume> {
    let is_claim = |volume: &Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    volumes.retain(|volume| is_claim(volume) || is_disk(volume));
    volumes
}

/// Whether a volume is a disk that conflicts with other pods or counts against the limits of nodes.
pub fn is_disk(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.portworx_volume.is_some()
        || volume.iscsi.is_some()
        || volume.rbd.is_some()
}

/// Keeps labels, owner, node, priority, requests, what binds other pods, and status; of an actor's pod also why it is not ready.
///
/// Restart counts and times are dropped: a crash loop is one fact, not one change per restart.
pub fn pod(pod: &mut Pod) {
    metadata(pod);
    let keep = |map: &mut Option<BTreeMap<String, String>>, wanted: &[&str]| {
        let kept = map.take().into_iter().flatten().filter(|(name, _)| wanted.contains(&name.as_str()));
        *map = Some(kept.collect::<BTreeMap<_, _>>()).filter(|kept| !kept.is_empty());
    };
    keep(&mut pod.metadata.annotations, &[crds::labels::UNIT]);
    let asks = world::pod_requests(pod).unwrap_or_default();
    let asks: BTreeMap<String, Quantity> =
        asks.into_iter().map(|(name, it)| (name, world::to_quantity(it))).collect();
    let is_actors = pod.owner_references().iter().any(|owner| owner.kind == "Instance");
    if let Some(spec) = pod.spec.take() {
        let on_host = spec.host_network == Some(true);
        // The overhead counts as it is, whatever the resource. Containers take two kilobytes each.
        pod.spec = Some(PodSpec {
            affinity: anti_affinity(spec.affinity),
            containers: with_host_ports(spec.containers, on_host),
            init_containers: spec
                .init_containers
                .map(|all| with_host_ports(all, on_host))
                .filter(|all| !all.is_empty()),
            host_network: on_host.then_some(true),
            volumes: spec.volumes.map(volumes).filter(|volumes| !volumes.is_empty()),
            node_name: spec.node_name,
            priority: spec.priority,
            resource_claims: spec.resource_claims.filter(|_| is_actors),
            overhead: Some(asks).filter(|asks| !asks.is_empty()),
            ..PodSpec::default()
        });
    }
    let has_claims = pod.spec.as_ref().is_some_and(|spec| spec.resource_claims.is_some());
    if let Some(status) = pod.status.take() {
        let is_kept =
            |type_: &str| matches!(type_, "PodScheduled" | "Ready") || type_ == SANDBOX && has_claims;
        let of_containers = |list: Option<Vec<ContainerStatus>>| {
            let kept: Vec<_> = list.filter(|_| is_actors)?.into_iter().filter_map(unready).collect();
            (!kept.is_empty()).then_some(kept)
        };
        let conditions = status
            .conditions
            .map(|list| list.into_iter().filter(|condition| is_kept(&condition.type_)).collect());
        pod.status = Some(PodStatus {
            conditions,
            phase: status.phase,
            nominated_node_name: status.nominated_node_name,
            reason: status.reason,
            message: status.message,
            pod_ip: status.pod_ip,
            init_container_statuses: of_containers(status.init_container_statuses),
            container_statuses: of_containers(status.container_statuses),
            ..PodStatus::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slimming_a_pod_keeps_its_requests() {
        for (asked, kept) in [
            (["1.2Gi", "0"], "1288490188800m"),
            (["1.7Gi", "2.3Gi"], "4Gi"),
            (["1.1Gi", "0"], "1181116006400m"),
            (["1.25Gi", "250m"], "1342177280250m"),
            (["9Ei", "1"], "10376293541461622785"),
            // the API server rounds up to thousandths
            (["1Ti", "1n"], "1099511627776001m"),
            // as much as many containers with the largest quantity of the API server
            (["1000Ei", "1Ei"], "1001Ei"),
            (["1000Ei", "1n"], "1152921504606846976000001m"),
        ] {
            let containers = asked.map(|it| json!({"name": "c", "resources": {"requests": {"memory": it}}}));
            let mut of: Pod = serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap();
            let whole = world::pod_requests(&of).unwrap();
            pod(&mut of);
            assert_eq!(world::pod_requests(&of).unwrap(), whole, "{asked:?}");
            assert_eq!(whole["memory"], world::quantity(kept).unwrap(), "{asked:?}");
        }
    }

    #[test]
    fn slimming_twice_counts_a_resized_pod_once() {
        let sizes = json!({"name": "c", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}});
        let mut of: Pod = serde_json::from_value(json!({
            "metadata": {"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "name": "a", "uid": "u"}]},
            "spec": {"overhead": {"cpu": "250m"}, "resources": {"requests": {"memory": "1Ki"}}, "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"acme.com/gpu": "1", "ephemeral-storage": "1Gi"}}}]},
            "status": {"containerStatuses": [sizes], "resources": {"requests": {"memory": "2Ki"}}}}))
        .unwrap();
        let whole = world::pod_requests(&of).unwrap();
        assert_eq!(whole["cpu"], world::quantity("3250m").unwrap());
        for _ in 0..2 {
            pod(&mut of);
            assert_eq!(world::pod_requests(&of).unwrap(), whole);
        }
    }

    #[test]
    fn slimming_keeps_only_fields_that_are_read() {
        let metadata = json!({"name": "a", "uid": "1", "managedFields": [{"manager": "x"}],
            "annotations": {"cairn.dev/unit": "n/p-0", LAST_APPLIED: "{}", "b": "c"},
            "labels": {"cairn.dev/template-hash": "h", "cairn.dev/actor": "a-0", "app": "x"}});
        let mut kept: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": "n",
            "serviceAccountName": "default", "priority": 7, "containers": [{"name": "c", "image": "i", "env": [{"name": "E"}],
                "resources": {"requests": {"cpu": "1500m", "memory": "1Ki"}}}, {"name": "d",
                "resources": {"limits": {"cpu": "250m", "acme.com/gpu": "1"}}}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
                "containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 3,
                    "lastState": {"terminated": {"exitCode": 1}}}]}}))
        .unwrap();
        pod(&mut kept);
        let expected = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "uid": "1", "annotations": {"cairn.dev/unit": "n/p-0"},
                "labels": {"app": "x", "cairn.dev/actor": "a-0", "cairn.dev/template-hash": "h"}},
            "spec": {"nodeName": "n", "priority": 7, "containers": [],
                "overhead": {"acme.com/gpu": "1", "cpu": "1750m", "memory": "1024"}},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(serde_json::to_value(&kept).unwrap(), expected);

        let mut kept = Instance::new("a", crds::InstanceSpec::default());
        kept.metadata = serde_json::from_value(metadata).unwrap();
        instance(&mut kept);
        let expected = json!({"name": "a", "uid": "1"});
        assert_eq!(serde_json::to_value(&kept.metadata).unwrap(), expected);
    }

    #[test]
    fn slimming_keeps_the_volumes_that_bind_other_pods() {
        let mut kept: Pod = serde_json::from_value(json!({"spec": {"containers": [], "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "made", "ephemeral": {}},
            {"name": "ebs", "awsElasticBlockStore": {"volumeID": "v"}}, {"name": "gce", "gcePersistentDisk": {"pdName": "d"}},
            {"name": "iscsi", "iscsi": {"targetPortal": "p", "iqn": "q", "lun": 0}}, {"name": "empty", "emptyDir": {}},
            {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i"}}, {"name": "host", "hostPath": {"path": "/"}}]}}))
        .unwrap();
        pod(&mut kept);
        let volumes = kept.spec.unwrap().volumes.unwrap();
        let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!(names, ["claim", "made", "ebs", "gce", "iscsi", "rbd"]);
    }

    #[test]
    fn placed_actors_are_not_listed_as_unplaced() {
        let place = |actor: &str| json!({"actor": actor, "unit": "n/p-0", "node": "n", "pool": "p"});
        let left = |actor: &str| json!({"actor": actor, "reasons": ["no room"]});
        let mut kept: Placement = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {
            "application": "a", "applicationGeneration": 1, "policy": "p", "snapshotDigest": "", "strategy": "asp",
            "seed": 1, "effort": 1, "objective": {}, "levels": [], "optimal": false,
            "assignments": [place("a-0"), place("a-1")], "unplaced": [left("a-1"), left("a-2")], "moves": []}}))
        .unwrap();
        placement(&mut kept);
        let unplaced: Vec<&str> = kept.spec.unplaced.iter().map(|left| left.actor.as_str()).collect();
        assert_eq!((kept.spec.assignments.len(), unplaced), (2, vec!["a-2"]));
    }

    #[test]
    fn the_last_termination_of_a_crash_loop_is_kept() {
        let kept = |ready: bool, restarts: i32| {
            let mut kept: Pod = serde_json::from_value(json!({
                "metadata": {"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "name": "a", "uid": "u"}]},
                "status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": ready, "restartCount": restarts,
                 "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
                 "lastState": {"terminated": {"exitCode": 7, "reason": "Error", "containerID": "x"}}}]}}))
            .unwrap();
            pod(&mut kept);
            kept
        };
        assert_eq!(kept(false, 2), kept(false, 3), "each time is no news");
        let how = kept(false, 2).status.unwrap().container_statuses.unwrap().remove(0).last_state.unwrap();
        assert_eq!(how.terminated.unwrap().exit_code, 7);
        assert_eq!(kept(true, 2).status.unwrap().container_statuses, None);
    }
}
