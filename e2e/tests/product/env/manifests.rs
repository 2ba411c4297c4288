//! Manifests of applications, pools and webhooks.

use serde_json::{Value, json};

/// A group: name, replicas, and service time by kind.
pub type Group<'a> = (&'a str, u32, &'a [(&'a str, &'a str)]);

/// An application with these groups. Each actor requests half a core.
pub fn application(name: &str, groups: &[Group]) -> Value {
    let groups: Vec<_> = groups
        .iter()
        .map(|(group, replicas, kinds)| {
            let implementations: Vec<_> = kinds.iter().map(|(kind, time)| implementation(kind, time)).collect();
            json!({"name": group, "replicas": replicas, "arrivals": "1/s", "implementations": implementations})
        })
        .collect();
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": name},
        "spec": {"actors": groups}})
}

/// An implementation.
pub fn implementation(kind: &str, service_time: &str) -> Value {
    let container = json!({"name": "actor", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}});
    json!({"kind": kind, "serviceTime": service_time, "template": {"spec": {"containers": [container]}}})
}

/// A webhook without a server: creations of this resource in this namespace fail.
pub fn unanswered(name: &str, namespace: &str, resource: &str) -> Value {
    let mut hook = failing_webhook("unanswered", ("", resource), "true");
    hook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    hook["rules"][0]["operations"] = json!(["CREATE"]);
    webhooks(name, &[hook])
}

/// A webhook without a server: creations and updates of this resource of a group fail with 500 if a condition holds.
pub fn failing_webhook(name: &str, (group, resource): (&str, &str), condition: &str) -> Value {
    json!({
        "name": format!("{name}.cairn.dev"), "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
        "matchConditions": [{"name": "it", "expression": condition}],
        "rules": [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}]})
}

/// A configuration of webhooks.
pub fn webhooks(name: &str, hooks: &[Value]) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": hooks})
}

/// A pool of whole nodes, of kind `cpu`.
pub fn cpus() -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"}, "spec": {"kind": "cpu"}})
}

/// A pool of all GPUs.
pub fn gpus() -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "gpus"},
        "spec": {"kind": "gpu", "resource": {"devicePlugin": "acme.com/gpu"}}})
}
