//! What Instances tell: pure.

use crds::{HeldDevices, Instance, InstancePhase, InstanceStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use world::unit_of;

/// What an Instance's status says of its actor.
pub fn instance_status(
    instance: &Instance,
    pod: Option<&Pod>,
    devices: Vec<HeldDevices>,
    root: bool,
) -> InstanceStatus {
    let before = instance.status.clone().unwrap_or_default();
    let phase = match pod {
        None => InstancePhase::Pending,
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => InstancePhase::Stopping,
        Some(pod) => match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => InstancePhase::Running,
            Some("Succeeded") => InstancePhase::Succeeded,
            Some("Failed") => InstancePhase::Failed,
            _ => InstancePhase::Starting,
        },
    };
    let unit = pod.and_then(unit_of).map(str::to_owned);
    InstanceStatus {
        observed_generation: instance.metadata.generation,
        phase: Some(phase),
        node: unit.as_ref().and_then(|unit| unit.rsplit_once('/')).map(|(node, _)| node.to_owned()),
        unit,
        pod: pod.map(ResourceExt::name_any),
        devices,
        endpoint: pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.pod_ip.clone()),
        root,
        conditions: before.conditions,
    }
}
