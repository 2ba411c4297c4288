//! What tests read from pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// Since when a pod is ready, also while it is being deleted; none if it is not.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|it| it.type_ == "Ready" && it.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

/// Whether a pod is ready, and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && ready_since(pod).is_some()
}
