//! `Instance`: one running actor (an Instance in HiCR).

use std::collections::BTreeMap;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{self, Condition, dns_label};

/// One actor of an application: its device requirements, and its assigned unit, node and pod.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "Instance",
    namespaced,
    doc = "One actor of an application: its device requirements, and its assigned unit, node and pod.",
    plural = "instances",
    shortname = "inst",
    category = "cairn",
    status = "InstanceStatus",
    derive = "PartialEq",
    validation = requested_name(),
    printcolumn = r#"{"name":"Application","type":"string","description":"The application of the actor.","jsonPath":".spec.applicationName"}"#,
    printcolumn = r#"{"name":"Actor group","type":"string","description":"The group of the actor.","jsonPath":".spec.actorGroup"}"#,
    printcolumn = r#"{"name":"Unit","type":"string","description":"The computing unit that the actor runs on.","jsonPath":".status.unit"}"#,
    printcolumn = r#"{"name":"Node","type":"string","description":"The node of the unit.","jsonPath":".status.node"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"The phase of the instance.","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("spec is immutable: delete the Instance and create a new one"),
    validation = Rule::new("self.origin == 'Runtime' || (has(self.actor) && has(self.actorGroup))")
        .message("an Instance with origin Spec is created by the operator and must set actor and actorGroup: set origin: Runtime to request an Instance"),
    validation = Rule::new("self.origin != 'Runtime' || (has(self.actorGroup) && !has(self.actor))")
        .message("an Instance with origin Runtime must set actorGroup and must not set actor: its actor is named inst-<name of the Instance>")
)]
pub struct InstanceSpec {
    /// The name of the actor's `ActorApplication`, in the same namespace.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(validation = dns_label())]
    pub application_name: String,

    /// What requested the instance: `Spec`, the replicas of the ActorApplication, or `Runtime`, the application itself while it runs.
    #[serde(default)]
    pub origin: InstanceOrigin,

    /// The actor's group, whose pod template is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 24))]
    #[x_kube(validation = dns_label())]
    pub actor_group: Option<String>,

    /// The short name of the actor, such as `crop-0`; absent with origin `Runtime`, where it is `inst-` and the name of the Instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub actor: Option<String>,

    /// The minimum device requirements of the actor; an InstanceTemplate in HiCR.
    #[serde(default)]
    pub template: InstanceTemplate,
}

/// The name of a requested Instance becomes part of the names of its actor and pod, and of the pod's host name.
fn requested_name() -> Rule {
    Rule::new(
        "self.spec.origin != 'Runtime' || (self.metadata.name.size() <= 58 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
    )
    .message(
        "metadata.name of an Instance with origin Runtime must have at most 58 characters: lower-case letters, digits \
         and '-', starting and ending with a letter or digit, because its actor is named after it",
    )
}

/// What requested an Instance: `Spec`, the replicas of the ActorApplication, or `Runtime`, the application itself while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum InstanceOrigin {
    /// The replicas of the ActorApplication; the operator creates and deletes the Instance.
    #[default]
    Spec,
    /// The application's runtime, which creates and deletes the Instance.
    Runtime,
}

/// The minimum device requirements of an instance.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTemplate {
    /// The kind of device, such as `gpu`; default: any kind that the group has an implementation for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub kind: Option<String>,

    /// The minimum device memory in MiB.
    #[serde(default, rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_mib: Option<i64>,

    /// The number of devices; default 1.
    #[serde(default = "common::one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: i32,

    /// Arbitrary data of the application; Cairn stores it and does not interpret it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "metadata_values")]
    pub metadata: BTreeMap<String, String>,
}

fn metadata_values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 1024},
    })
}

impl Default for InstanceTemplate {
    fn default() -> Self {
        Self { kind: None, memory_mib: None, count: common::one(), metadata: BTreeMap::new() }
    }
}

/// The observed state of an instance.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The phase of the instance: `Pending`, `Starting`, `Running`, `Stopping`, `Failed` or `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InstancePhase>,

    /// The computing unit that the actor runs on, such as `node-0/gpu-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,

    /// The node of the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// The name of the pod, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// The devices allocated to the pod, by resource, as reported by the node agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["resource".into()]))]
    pub devices: Vec<AllocatedDevices>,

    /// The address of the pod, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,

    /// Whether this is the root instance; each application has exactly one.
    #[serde(default, skip_serializing_if = "common::is_false")]
    pub root: bool,

    /// The conditions of the instance; `Ready` summarizes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The devices of one resource allocated to a pod, over all of its containers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedDevices {
    /// The requested resource, such as `nvidia.com/gpu`.
    #[schemars(length(min = 1, max = 317))]
    pub resource: String,

    /// The allocated devices as named by the device plugin or driver, such as `GPU-8f6b…`.
    #[schemars(length(max = 1024), inner(length(min = 1, max = 256)))]
    pub device_ids: Vec<String>,
}

/// The phase of an instance: `Pending`, `Starting`, `Running`, `Stopping`, `Failed` or `Succeeded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum InstancePhase {
    /// The pod does not exist yet.
    #[default]
    Pending,
    /// The pod exists and does not run yet.
    Starting,
    /// The pod runs.
    Running,
    /// The pod is terminating and still occupies its unit.
    Stopping,
    /// The pod failed or could not be created.
    Failed,
    /// The pod succeeded.
    Succeeded,
}
