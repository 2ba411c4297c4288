//! `Instance`: one running actor. In HiCR's terms, an Instance.

use std::collections::BTreeMap;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{self, Condition, dns_label};

/// One running actor of an application: what it needs, and the unit, node and pod that it got.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "Instance",
    namespaced,
    doc = "One running actor of an application: what it needs, and the unit, node and pod that it got.",
    plural = "instances",
    shortname = "inst",
    category = "cairn",
    status = "InstanceStatus",
    derive = "PartialEq",
    validation = requested_name(),
    printcolumn = r#"{"name":"Application","type":"string","description":"The application of the actor.","jsonPath":".spec.applicationName"}"#,
    printcolumn = r#"{"name":"Actor group","type":"string","description":"The group of the actor.","jsonPath":".spec.actorGroup"}"#,
    printcolumn = r#"{"name":"Unit","type":"string","description":"The computing unit that it runs on.","jsonPath":".status.unit"}"#,
    printcolumn = r#"{"name":"Node","type":"string","description":"The node of the unit.","jsonPath":".status.node"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"Where the instance is in its life.","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("the spec of an Instance is immutable: delete it and make another one"),
    validation = Rule::new("self.origin == 'Runtime' || (has(self.actor) && has(self.actorGroup))")
        .message("an Instance of origin Spec is the operator's and has actor and actorGroup: to ask for one set origin: Runtime"),
    validation = Rule::new("self.origin != 'Runtime' || (has(self.actorGroup) && !has(self.actor))")
        .message("an Instance of origin Runtime has an actorGroup, whose pod template is used, and no actor: it is the actor inst-<its name>")
)]
pub struct InstanceSpec {
    /// The name of the `ActorApplication` that the actor belongs to, in the same namespace.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(validation = dns_label())]
    pub application_name: String,

    /// Who asked for it: `Spec`, the manifest's replicas, or `Runtime`, the application itself while it runs.
    #[serde(default)]
    pub origin: InstanceOrigin,

    /// The group of the actor: its pod template is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 24))]
    #[x_kube(validation = dns_label())]
    pub actor_group: Option<String>,

    /// The short name of the actor, such as `crop-0`; absent where the application asked for it: `inst-` and the Instance's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub actor: Option<String>,

    /// The least topology that the actor needs; HiCR's InstanceTemplate.
    #[serde(default)]
    pub template: InstanceTemplate,
}

/// An Instance that an application asks for gives its name to an actor, its pod and that pod's host name.
fn requested_name() -> Rule {
    Rule::new(
        "self.spec.origin != 'Runtime' || (self.metadata.name.size() <= 58 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
    )
    .message(
        "the name of an Instance of origin Runtime has at most 58 characters: lower-case letters, digits and '-', \
         starting and ending with a letter or digit, because its actor is named after it",
    )
}

/// Who asked for an Instance: `Spec`, the manifest's replicas, or `Runtime`, the application itself while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum InstanceOrigin {
    /// The manifest's replicas; the operator makes and removes it.
    #[default]
    Spec,
    /// The application's own runtime, which makes and deletes it.
    Runtime,
}

/// The least topology that an instance needs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTemplate {
    /// The kind of device, such as `gpu`; absent: any kind that the group has an implementation for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub kind: Option<String>,

    /// The memory that the device must have, in MiB.
    #[serde(default, rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_mib: Option<i64>,

    /// How many devices the instance needs; default 1.
    #[serde(default = "common::one")]
    #[schemars(range(min = 1, max = 64))]
    pub count: i32,

    /// What the application attaches to the instance, carried along and not read by Cairn.
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

/// What became of an instance.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the instance is in its life: `Pending`, `Starting`, `Running`, `Stopping`, `Failed` or `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<InstancePhase>,

    /// The computing unit that it runs on, such as `node-0/gpu-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,

    /// The node of the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,

    /// The name of its pod, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// What its pod really got, by resource, once the node agent has seen it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["resource".into()]))]
    pub devices: Vec<HeldDevices>,

    /// The address where it can be reached, once its pod has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,

    /// Whether it is the root instance of its application; exactly one is.
    #[serde(default, skip_serializing_if = "common::is_false")]
    pub root: bool,

    /// What holds for the instance now, `Ready` first of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What a pod got of one resource, its containers taken together.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldDevices {
    /// What it asked for, such as `nvidia.com/gpu`.
    #[schemars(length(min = 1, max = 317))]
    pub resource: String,

    /// What it got, in the words of the device plugin or driver, such as `GPU-8f6b…`.
    #[schemars(length(max = 1024), inner(length(min = 1, max = 256)))]
    pub device_ids: Vec<String>,
}

/// Where the instance is in its life: `Pending`, `Starting`, `Running`, `Stopping`, `Failed` or `Succeeded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum InstancePhase {
    /// It has no pod yet.
    #[default]
    Pending,
    /// Its pod exists and does not run yet.
    Starting,
    /// Its pod runs.
    Running,
    /// It is being stopped; its unit is still taken.
    Stopping,
    /// Its pod failed, or could not be made.
    Failed,
    /// Its pod ended well.
    Succeeded,
}
