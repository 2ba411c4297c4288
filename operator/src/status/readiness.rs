//! Why the pod of an actor is not ready, according to its containers. Pure.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use world::{is_ready, is_terminal};

use crate::watch::slim::SANDBOX;

/// Waiting reasons of a container that is just being created.
const BEGINS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Why the containers of a pod are not ready; nothing if they are, or are just being created.
pub fn not_ready_reason(pod: &Pod) -> Option<String> {
    if is_ready(pod) || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let reported: Vec<String> = containers(pod).filter_map(of_container).collect();
    (!reported.is_empty()).then(|| reported.join("; "))
}

/// Why no container of a pod with claims was created: the kubelet has no sandbox for it, whose devices it prepares first.
///
/// The kubelet retries, and writes the cause only into events. It is so for a moment at every start.
pub fn not_set_up(pod: &Pod) -> Option<String> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let waits = conditions.into_iter().any(|it| it.type_ == SANDBOX && it.status == "False");
    let has_claims = pod.spec.as_ref().is_some_and(|spec| spec.resource_claims.is_some());
    (waits && has_claims && !is_terminal(pod)).then(|| {
        "the kubelet has not set up its devices, volumes and network yet; see the events of the pod, such as \
         FailedPrepareDynamicResources of a driver that fails"
            .to_owned()
    })
}

/// The container of a pod that is in a crash loop, and how it ended.
pub fn crash_loop(pod: &Pod) -> Option<String> {
    if is_ready(pod) || is_terminal(pod) {
        return None;
    }
    containers(pod).find_map(|container| {
        let ended = container.last_state.as_ref()?.terminated.as_ref()?;
        let reason = ended.reason.as_deref().unwrap_or("Error");
        Some(format!(
            "container {} is in a crash loop ({reason}, exit code {}); the kubelet restarts it with backoff; \
             see kubectl logs --previous",
            container.name, ended.exit_code
        ))
    })
}

/// The containers of a pod, init containers first.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    })
}

fn of_container(container: &ContainerStatus) -> Option<String> {
    let ended = |state: Option<&ContainerState>| {
        let ended = state?.terminated.as_ref()?;
        let why = ended.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        Some(format!("exit code {}{why}", ended.exit_code))
    };
    let (now, before) = (container.state.as_ref(), ended(container.last_state.as_ref()));
    let waits = now.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    let waits = waits.filter(|reason| !BEGINS.contains(reason));
    let reported = match (waits, ended(now), before) {
        (Some(reason), _, Some(before)) => format!("{reason}, last {before}"),
        (Some(reason), _, None) => reason.to_owned(),
        // An init container ends successfully before the pod is ready.
        (None, Some(now), _) if !now.starts_with("exit code 0") => format!("ended with {now}"),
        (None, _, Some(before)) => format!("restarted after {before}"),
        (None, _, None) => return None,
    };
    Some(format!("container {}: {reported}", container.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::slim;
    use serde_json::{Value, json};

    /// A driver that fails to prepare a device leaves the pod without a sandbox, and only an event says why.
    #[test]
    fn a_pod_whose_devices_are_not_prepared_points_to_its_events() {
        let claims = json!([{"name": "gpu", "resourceClaimName": "c"}]);
        for (claims, sandbox, is_reported) in [
            (&claims, json!([{"type": SANDBOX, "status": "False"}]), true),
            (&claims, json!([{"type": SANDBOX, "status": "True"}]), false),
            (&claims, json!([]), false),
            (&json!(null), json!([{"type": SANDBOX, "status": "False"}]), false),
        ] {
            let mut pod: Pod = serde_json::from_value(json!({
                "metadata": {"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "name": "a", "uid": "u"}]},
                "spec": {"containers": [], "nodeName": "n", "resourceClaims": claims},
                "status": {"phase": "Pending", "conditions": sandbox}}))
            .unwrap();
            slim::pod(&mut pod);
            let reason = not_set_up(&pod);
            let names_event = reason.as_ref().is_some_and(|it| it.contains("FailedPrepareDynamicResources"));
            assert_eq!((reason.is_some(), names_event), (is_reported, is_reported), "{claims} {sandbox}");
            assert_eq!(not_ready_reason(&pod), None, "a start is not reported at once");
        }
    }

    /// The reason for a pod of an Instance with these containers, after slimming.
    fn reported(ready: bool, containers: &Value, first: &Value) -> Option<String> {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "name": "a", "uid": "u"}]},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
                "containerStatuses": containers, "initContainerStatuses": first}}))
        .unwrap();
        slim::pod(&mut pod);
        not_ready_reason(&pod)
    }

    fn container(name: &str, state: &Value, last: &Value) -> Value {
        json!({"name": name, "ready": false, "restartCount": 4, "image": "i", "imageID": "i", "state": state, "lastState": last})
    }

    #[test]
    fn a_container_that_is_not_ready_is_explained() {
        let waiting =
            |reason: &str| json!({"waiting": {"reason": reason, "message": "back-off 40s restarting"}});
        let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": "2026-01-01T00:00:00Z"}});
        let runs = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        for (state, last, expected) in [
            (waiting("ContainerCreating"), json!({}), None),
            (runs.clone(), json!({}), None),
            (waiting("ImagePullBackOff"), json!({}), Some("container actor: ImagePullBackOff")),
            (
                waiting("CrashLoopBackOff"),
                ended(1, "Error"),
                Some("container actor: CrashLoopBackOff, last exit code 1 (Error)"),
            ),
            (
                runs.clone(),
                ended(137, "OOMKilled"),
                Some("container actor: restarted after exit code 137 (OOMKilled)"),
            ),
            (ended(2, "Error"), json!({}), Some("container actor: ended with exit code 2 (Error)")),
            (ended(0, "Completed"), json!({}), None),
        ] {
            let containers = json!([container("actor", &state, &last)]);
            assert_eq!(reported(false, &containers, &json!([])).as_deref(), expected, "{state} after {last}");
            assert_eq!(reported(true, &containers, &json!([])), None, "it is ready");
        }
        let both = (
            json!([container("actor", &waiting("PodInitializing"), &json!({}))]),
            json!([container("fetch", &waiting("ErrImagePull"), &json!({}))]),
        );
        assert_eq!(reported(false, &both.0, &both.1).as_deref(), Some("container fetch: ErrImagePull"));
    }
}
