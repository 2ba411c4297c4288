//! `DevicePool`: what the administrator allows.

use k8s_openapi::api::core::v1::{EnvVar, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, dns_label, object_name, positive_rational, share};

/// A pool of like devices that applications may use, and how a pod asks for one of them.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "DevicePool",
    doc = "A pool of like devices that applications may use, and how a pod asks for one of them.",
    plural = "devicepools",
    shortname = "devpool",
    category = "cairn",
    status = "DevicePoolStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Kind","type":"string","description":"The kind of device that implementations name.","jsonPath":".spec.kind"}"#,
    printcolumn = r#"{"name":"Units","type":"integer","description":"Computing units found.","jsonPath":".status.units"}"#,
    printcolumn = r#"{"name":"Healthy","type":"integer","description":"Units that can take an actor.","jsonPath":".status.healthy"}"#,
    printcolumn = r#"{"name":"Allocated","type":"integer","description":"Units that host an actor.","jsonPath":".status.allocated"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether the pool is well.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = needs_resource(),
    validation = needs_indexed_resource(),
    validation = index_is_for_domains(),
    validation = nodes_need_no("resource", "a pool of unit Node uses the cores of its nodes and needs no resource: \
        remove resource, or set unit to Device"),
    validation = nodes_need_no("devices", "a pool of unit Node has no devices to match: \
        remove devices, and choose its nodes by nodeSelector")
)]
pub struct DevicePoolSpec {
    /// The kind of device that implementations name: `cpu`, `gpu`, `fpga`, `npu` or any DNS label; immutable.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = dns_label(),
        validation = Rule::new("self == oldSelf")
            .message("kind is immutable: make another pool for the other kind")
    )]
    pub kind: String,

    /// The nodes that the pool draws from; absent: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::template::label_selector")]
    #[x_kube(
        validation = Rule::new("!has(self.matchExpressions) || self.matchExpressions.all(e, \
            (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))")
            .message("in a selector the operators In and NotIn need values, Exists and DoesNotExist take none")
            .field_path(".matchExpressions")
    )]
    pub node_selector: Option<LabelSelector>,

    /// Which devices of the nodes belong to the pool, matched on `NodeTopology`; absent: every device of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceMatch>,

    /// What counts as one computing unit: `Device`, `NumaDomain` or `Node`; default `Node` for kind `cpu`, else `Device`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitKind>,

    /// How a pod asks for one unit; needed for `Device` and `NumaDomain`, absent for `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<PoolResource>,

    /// How many servers work side by side in one unit, a count.
    ///
    /// Absent: 1 for `Device`; the free cores, fractions included, for `Node`; its share of them for `NumaDomain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub lanes: Option<i32>,

    /// How fast a unit is relative to `serviceTime`, a number above zero such as `"1"`, `"0.5"` or `"3/2"`; default `"1"`.
    ///
    /// An A100 and a T4 are two pools of one kind with two speeds.
    #[serde(default = "default_speed")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = positive_rational())]
    pub speed: String,

    /// The share of a unit's time that may be planned, above 0 and at most 1; default `"0.9"`.
    #[serde(default = "default_utilization")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = share())]
    pub utilization_target: String,

    /// Whether actors may share a unit; default: one actor for `Device`, no limit for `NumaDomain` and `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,

    /// A bound on the instances in the pool; absent: as many as its units take.
    ///
    /// Who is one too many has no place, and its application says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstanceLimit>,

    /// The namespaces whose applications may use the pool, by their labels; absent: all.
    ///
    /// Who is there when this changes stays, and nobody comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,

    /// Bounds on what one namespace has of the pool; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<PoolQuota>,

    /// What every pod that is placed in the pool gets on top of its own template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_defaults: Option<PodDefaults>,
}

/// The unit in force: the field, or its default by kind.
const UNIT: &str = "(has(self.unit) ? self.unit : (self.kind == 'cpu' ? 'Node' : 'Device'))";

fn needs_resource() -> Rule {
    Rule::new(format!("{UNIT} != 'Device' || has(self.resource)"))
        .message(
            "a pool of unit Device needs resource.devicePlugin, as in nvidia.com/gpu, because it is how a \
             pod asks for one device",
        )
        .field_path(".resource")
}

fn needs_indexed_resource() -> Rule {
    let indexed = "has(self.resource) && self.resource.devicePlugin.contains('{index}')";
    Rule::new(format!("{UNIT} != 'NumaDomain' || {indexed}"))
        .message(
            "a pool of unit NumaDomain needs a resource for each domain: set resource.devicePlugin with \
             {index} in it, as in cairn.dev/numa-{index}",
        )
        .field_path(".resource")
}

fn index_is_for_domains() -> Rule {
    let plain = "!has(self.resource) || !self.resource.devicePlugin.contains('{index}')";
    Rule::new(format!("{UNIT} == 'NumaDomain' || {plain}"))
        .message(
            "{index} in resource.devicePlugin stands for the number of a NUMA domain: use it with unit \
             NumaDomain only",
        )
        .field_path(".resource")
}

fn nodes_need_no(field: &str, message: &str) -> Rule {
    Rule::new(format!("{UNIT} != 'Node' || !has(self.{field})"))
        .message(message)
        .field_path(format!(".{field}"))
}

fn default_speed() -> String {
    "1".to_owned()
}

fn default_utilization() -> String {
    "0.9".to_owned()
}

impl DevicePoolSpec {
    /// A pool of a kind with everything else at its default.
    pub fn new(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            node_selector: None,
            devices: None,
            unit: None,
            resource: None,
            lanes: None,
            speed: default_speed(),
            utilization_target: default_utilization(),
            sharing: None,
            instances: None,
            namespace_selector: None,
            quota: None,
            pod_defaults: None,
        }
    }

    /// What counts as one computing unit: the field, or `Node` for `cpu` and `Device` for every other kind.
    pub fn unit(&self) -> UnitKind {
        self.unit.unwrap_or(if self.kind == "cpu" { UnitKind::Node } else { UnitKind::Device })
    }

    /// How many instances one unit takes at most; `None` where nothing limits it.
    pub fn max_instances_per_unit(&self) -> Option<i32> {
        match (&self.sharing, self.unit()) {
            (Some(sharing), _) => Some(sharing.max_instances),
            (None, UnitKind::Device) => Some(1),
            (None, UnitKind::NumaDomain | UnitKind::Node) => None,
        }
    }
}

/// Which devices belong to a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMatch {
    /// The vendor as `NodeTopology` gives it, such as `nvidia`; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub vendor: Option<String>,

    /// The model as `NodeTopology` gives it, where `*` stands for any text, such as `*A100*`; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,
}

/// What counts as one computing unit: `Device`, `NumaDomain` or `Node`; default `Node` for kind `cpu`, else `Device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum UnitKind {
    /// One device, such as a GPU.
    Device,
    /// The cores and the memory of one NUMA domain.
    NumaDomain,
    /// All cores of a node.
    Node,
}

/// How a pod asks for one unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolResource {
    /// The extended resource of a device plugin, such as `nvidia.com/gpu`.
    ///
    /// For `NumaDomain` with `{index}` in it, the number of the domain, as in `cairn.dev/numa-{index}`.
    #[schemars(length(min = 3, max = 128))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9{]([-A-Za-z0-9_.{}]*[A-Za-z0-9}])?$')")
            .message("must be the name of an extended resource: a domain, '/', and a name, as in nvidia.com/gpu"),
        validation = Rule::new("!self.replace('{index}', '').matches('[{}]')")
            .message("the only placeholder in the name of a resource is {index}, the number of the NUMA domain")
    )]
    pub device_plugin: String,
}

/// Whether actors may share a unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sharing {
    /// How many instances one unit takes at most, 1 or more.
    ///
    /// Above 1, the device plugin must offer each device that many times.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_instances: i32,
}

/// A bound on the instances in a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceLimit {
    /// How many instances the whole pool takes at most; 0 closes it to new ones.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max: i32,
}

/// Bounds on what one namespace has of a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolQuota {
    /// How many instances all applications of one namespace have in the pool at most; 0 closes it to new ones.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub per_namespace: i32,
}

/// What every pod that is placed in a pool gets on top of its own template.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDefaults {
    /// Tolerations added to those of the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,

    /// The runtime class, where the template names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub runtime_class_name: Option<String>,

    /// Environment variables of the container that gets the device, where the template does not set them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
}

/// What Cairn reports about a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DevicePoolStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many computing units the pool has.
    #[serde(default)]
    pub units: i32,

    /// How many of them can take an actor.
    #[serde(default)]
    pub healthy: i32,

    /// How many of them host at least one actor.
    #[serde(default)]
    pub allocated: i32,

    /// What holds for the pool now, `Ready` first of all; `Stale`, `Degraded`, `NoTopology`, `Ambiguous`, `Overlap` and `Invalid` name what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_pool_is_made_of_nodes_and_any_other_of_devices() {
        let (mut cpu, mut gpu) = (DevicePoolSpec::new("cpu"), DevicePoolSpec::new("gpu"));
        assert_eq!((cpu.unit(), gpu.unit()), (UnitKind::Node, UnitKind::Device));
        (cpu.unit, gpu.unit) = (Some(UnitKind::NumaDomain), Some(UnitKind::Node));
        assert_eq!((cpu.unit(), gpu.unit()), (UnitKind::NumaDomain, UnitKind::Node));
    }

    #[test]
    fn a_device_is_not_shared_unless_the_pool_says_so() {
        let (mut cpu, mut gpu) = (DevicePoolSpec::new("cpu"), DevicePoolSpec::new("gpu"));
        assert_eq!((cpu.max_instances_per_unit(), gpu.max_instances_per_unit()), (None, Some(1)));
        cpu.sharing = Some(Sharing { max_instances: 8 });
        gpu.sharing = Some(Sharing { max_instances: 4 });
        assert_eq!((cpu.max_instances_per_unit(), gpu.max_instances_per_unit()), (Some(8), Some(4)));
    }
}
