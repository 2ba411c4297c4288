//! What is kept of watched objects: the operator's memory grows with the cluster, so only what it reads.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Namespace,
    Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceQuota, Service, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Drops the bookkeeping of server-side apply.
pub fn metadata<K: ResourceExt>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// Keeps whose it is.
pub fn service(service: &mut Service) {
    metadata(service);
    (service.spec, service.status) = (None, None);
}

/// Keeps what it allows.
pub fn quota(quota: &mut ResourceQuota) {
    metadata(quota);
    quota.status = None;
}

/// Keeps labels.
pub fn namespace(namespace: &mut Namespace) {
    metadata(namespace);
    (namespace.spec, namespace.status, namespace.metadata.annotations) = (None, None, None);
}

/// Keeps labels, taints and what is allocatable.
pub fn node(node: &mut Node) {
    metadata(node);
    node.metadata.annotations = None;
    if let Some(status) = node.status.take() {
        node.status = Some(NodeStatus { allocatable: status.allocatable, ..NodeStatus::default() });
    }
}

/// Labels, whether it is cordoned, taints, what is allocatable.
type NodeFacts =
    (BTreeMap<String, String>, Option<bool>, Option<Vec<Taint>>, Option<BTreeMap<String, Quantity>>);

/// What a plan reads of a node.
pub fn node_facts(node: &Node) -> NodeFacts {
    let spec = node.spec.clone().unwrap_or_default();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.clone());
    (node.labels().clone(), spec.unschedulable, spec.taints, allocatable)
}

/// Keeps of a container that is not ready what it waits for, and how it ended before.
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

/// Keeps whose it is, where it is, what it asks for and how it is; of an actor's pod also why it is not ready.
pub fn pod(pod: &mut Pod) {
    metadata(pod);
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key == crds::labels::UNIT);
    }
    let requests = |container: Container| Container {
        name: container.name,
        resources: container.resources,
        restart_policy: container.restart_policy,
        ..Container::default()
    };
    if let Some(spec) = pod.spec.take() {
        pod.spec = Some(PodSpec {
            containers: spec.containers.into_iter().map(requests).collect(),
            init_containers: spec.init_containers.map(|list| list.into_iter().map(requests).collect()),
            node_name: spec.node_name,
            overhead: spec.overhead,
            resources: spec.resources,
            ..PodSpec::default()
        });
    }
    let is_actors = pod.owner_references().iter().any(|owner| owner.kind == "Instance");
    if let Some(status) = pod.status.take() {
        let of_containers = |list: Option<Vec<ContainerStatus>>| {
            let kept: Vec<_> = list.filter(|_| is_actors)?.into_iter().filter_map(unready).collect();
            (!kept.is_empty()).then_some(kept)
        };
        let conditions = status.conditions.map(|list| {
            list.into_iter()
                .filter(|condition| matches!(condition.type_.as_str(), "PodScheduled" | "Ready"))
                .collect()
        });
        pod.status = Some(PodStatus {
            conditions,
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            pod_ip: status.pod_ip,
            init_container_statuses: of_containers(status.init_container_statuses),
            container_statuses: of_containers(status.container_statuses),
            ..PodStatus::default()
        });
    }
}
