//! `DevicePool`: devices that an administrator makes available to applications.

use k8s_openapi::api::core::v1::{EnvVar, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, dns_label, object_name, positive_rational, share};

/// A pool of similar devices that applications may use, and how a pod requests one of them.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "DevicePool",
    doc = "A pool of similar devices that applications may use, and how a pod requests one of them.",
    plural = "devicepools",
    shortname = "devpool",
    category = "cairn",
    status = "DevicePoolStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Kind","type":"string","description":"The kind of device that implementations name.","jsonPath":".spec.kind"}"#,
    printcolumn = r#"{"name":"Units","type":"integer","description":"Discovered computing units.","jsonPath":".status.units"}"#,
    printcolumn = r#"{"name":"Healthy","type":"integer","description":"Units that can host an actor.","jsonPath":".status.healthy"}"#,
    printcolumn = r#"{"name":"Allocated","type":"integer","description":"Units that host an actor.","jsonPath":".status.allocated"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether the pool is healthy.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = needs_resource(),
    validation = needs_indexed_resource(),
    validation = index_needs_numa_domain(),
    validation = claims_are_not_shared(),
    validation = claims_have_selectors(),
    validation = forbidden_for_nodes("resource", "a pool with unit Node uses the cores of its nodes and has no resource: \
        remove resource, or set unit to Device"),
    validation = forbidden_for_nodes("devices", "a pool with unit Node has no devices to match: \
        remove devices, and select nodes with nodeSelector")
)]
pub struct DevicePoolSpec {
    /// The kind of device that implementations name: `cpu`, `gpu`, `fpga`, `npu` or any DNS label; immutable.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = dns_label(),
        validation = Rule::new("self == oldSelf")
            .message("kind is immutable: create a new pool for another kind")
    )]
    pub kind: String,

    /// The nodes of the pool; default: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::template::label_selector")]
    #[x_kube(
        validation = Rule::new("!has(self.matchExpressions) || self.matchExpressions.all(e, \
            (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))")
            .message("the operators In and NotIn require values, Exists and DoesNotExist must have none")
            .field_path(".matchExpressions")
    )]
    pub node_selector: Option<LabelSelector>,

    /// The devices that belong to the pool, matched on `NodeTopology`; default: every device of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceMatch>,

    /// The granularity of computing units: `Device`, `NumaDomain` or `Node`; default `Node` for kind `cpu`, otherwise `Device`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitKind>,

    /// How a pod requests one unit; required for `Device` and `NumaDomain`, not allowed for `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<PoolResource>,

    /// The number of parallel servers in one unit.
    ///
    /// Default: 1 for `Device`; the free cores, fractions included, for `Node`; its share of them for `NumaDomain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_536))]
    pub lanes: Option<i32>,

    /// The speed of a unit relative to `serviceTime`, a positive number such as `"1"`, `"0.5"` or `"3/2"`; default `"1"`.
    ///
    /// Devices of one kind with different speeds, such as A100 and T4, belong in different pools.
    #[serde(default = "default_speed")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = positive_rational())]
    pub speed: String,

    /// The target utilization of a unit, above 0 and at most 1; default `"0.9"`.
    #[serde(default = "default_utilization")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = share())]
    pub utilization_target: String,

    /// Whether actors may share a unit; default: one actor for `Device`, no limit for `NumaDomain` and `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,

    /// The power of a unit, for the objective `energy` and policies; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<UnitPower>,

    /// A limit on the instances in the pool; default: the capacity of its units.
    ///
    /// Actors above the limit stay unplaced, and the status of their application reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstanceLimit>,

    /// The namespaces whose applications may use the pool, by label; default: all.
    ///
    /// When this changes, running actors stay; no new actors of excluded namespaces are placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,

    /// The quota of each namespace; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<PoolQuota>,

    /// Defaults added to the template of every pod in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_defaults: Option<PodDefaults>,
}

/// The effective unit: the field, or its default by kind.
const UNIT: &str = "(has(self.unit) ? self.unit : (self.kind == 'cpu' ? 'Node' : 'Device'))";

fn needs_resource() -> Rule {
    Rule::new(format!("{UNIT} != 'Device' || has(self.resource)"))
        .message(
            "a pool with unit Device needs resource.devicePlugin, for example nvidia.com/gpu, or resource.dra, with which a \
             pod requests a device",
        )
        .field_path(".resource")
}

fn needs_indexed_resource() -> Rule {
    let indexed = "has(self.resource) && has(self.resource.devicePlugin) && self.resource.devicePlugin.contains('{index}')";
    Rule::new(format!("{UNIT} != 'NumaDomain' || {indexed}"))
        .message(
            "a pool with unit NumaDomain needs one resource for each domain: set resource.devicePlugin to a name \
             with {index}, for example cairn.dev/numa-{index}",
        )
        .field_path(".resource")
}

fn index_needs_numa_domain() -> Rule {
    let plain = "!has(self.resource) || !has(self.resource.devicePlugin) || !self.resource.devicePlugin.contains('{index}')";
    Rule::new(format!("{UNIT} == 'NumaDomain' || {plain}"))
        .message(
            "{index} in resource.devicePlugin is the number of a NUMA domain: use it only with unit NumaDomain",
        )
        .field_path(".resource")
}

fn claims_are_not_shared() -> Rule {
    let is_shared = "has(self.sharing) && self.sharing.maxInstances > 1";
    Rule::new(format!("!({is_shared}) || !has(self.resource) || !has(self.resource.dra)"))
        .message("each actor has its own claim, and a device is allocated to one claim: remove sharing, or set maxInstances to 1")
        .field_path(".sharing")
}

fn claims_have_selectors() -> Rule {
    Rule::new("!has(self.devices) || !has(self.resource) || !has(self.resource.dra)")
        .message("the devices of a pool with resource.dra are those of its class: remove devices, and use resource.dra.selectors")
        .field_path(".devices")
}

fn forbidden_for_nodes(field: &str, message: &str) -> Rule {
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
    /// A pool of the kind with all other fields at their defaults.
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
            power: None,
            instances: None,
            namespace_selector: None,
            quota: None,
            pod_defaults: None,
        }
    }

    /// The effective unit: the field, or `Node` for `cpu` and `Device` for every other kind.
    pub fn unit(&self) -> UnitKind {
        self.unit.unwrap_or(if self.kind == "cpu" { UnitKind::Node } else { UnitKind::Device })
    }

    /// The maximum number of instances of one unit; `None` if unlimited.
    pub fn max_instances_per_unit(&self) -> Option<i32> {
        match (&self.sharing, self.unit()) {
            (Some(sharing), _) => Some(sharing.max_instances),
            (None, UnitKind::Device) => Some(1),
            (None, UnitKind::NumaDomain | UnitKind::Node) => None,
        }
    }
}

/// The devices that belong to a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMatch {
    /// The vendor as in `NodeTopology`, such as `nvidia`; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub vendor: Option<String>,

    /// The model as in `NodeTopology`, where `*` matches any text, such as `*A100*`; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub model: Option<String>,
}

/// The granularity of computing units: `Device`, `NumaDomain` or `Node`; default `Node` for kind `cpu`, otherwise `Device`.
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

/// How a pod requests one unit: by a device plugin, or by a claim of dynamic resource allocation (DRA).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.devicePlugin) != has(self.dra)")
        .message("set devicePlugin, for example nvidia.com/gpu, or dra, and not both")
)]
pub struct PoolResource {
    /// The extended resource of a device plugin, such as `nvidia.com/gpu`.
    ///
    /// For `NumaDomain` it contains `{index}`, the number of the domain, for example `cairn.dev/numa-{index}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 128))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9{]([-A-Za-z0-9_.{}]*[A-Za-z0-9}])?$')")
            .message("must be an extended resource: a domain, '/' and a name, for example nvidia.com/gpu"),
        validation = Rule::new("!self.replace('{index}', '').matches('[{}]')")
            .message("the only allowed placeholder is {index}, the number of the NUMA domain")
    )]
    pub device_plugin: Option<String>,

    /// Devices of `ResourceSlice`s, each of which is a unit, and which pods request by a `ResourceClaim`; Kubernetes 1.34 or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dra: Option<DraDevices>,
}

impl PoolResource {
    /// The extended resource of a device plugin.
    pub fn plugin(name: impl Into<String>) -> Self {
        Self { device_plugin: Some(name.into()), dra: None }
    }
}

/// The devices of a pool with dynamic resource allocation (DRA), and how a claim selects one of them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraDevices {
    /// The `DeviceClass`, such as `gpu.nvidia.com`, whose devices belong to the pool.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub device_class_name: String,

    /// CEL expressions that the devices satisfy, such as `device.attributes['gpu.nvidia.com'].productName.startsWith('NVIDIA H100')`; default: all devices of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 10_240)))]
    pub selectors: Vec<String>,

    /// The attribute by which a claim selects one device, such as `gpu.nvidia.com/uuid`; default `Auto`.
    ///
    /// Its value is a string that differs between the devices of the pool on a node. `Auto` is the first of `resource.kubernetes.io/pciBusID`, the driver's `uuid`, and any other such attribute of the driver.
    #[serde(default = "default_pin", skip_serializing_if = "is_default_pin")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(
        validation = Rule::new("self == 'Auto' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z_][A-Za-z0-9_]*$')")
            .message("must be Auto or an attribute with its domain, for example gpu.nvidia.com/uuid")
    )]
    pub pin_by: String,
}

impl DraDevices {
    /// The attribute by which a claim selects a device; `None` for `Auto`.
    pub fn pin_attribute(&self) -> Option<&str> {
        Some(self.pin_by.as_str()).filter(|attribute| *attribute != AUTO)
    }
}

/// The value of `pinBy` for the first suitable attribute.
const AUTO: &str = "Auto";

fn default_pin() -> String {
    AUTO.to_owned()
}

fn is_default_pin(pin: &String) -> bool {
    pin == AUTO
}

/// Whether actors may share a unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sharing {
    /// The maximum number of instances of one unit, at least 1.
    ///
    /// If above 1, the device plugin must advertise each device that many times.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_instances: i32,
}

/// The power of a unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitPower {
    /// The power while it hosts an actor, such as `50W`; default `0W`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 7))]
    #[x_kube(validation = watts())]
    pub idle: Option<String>,

    /// The power added at full load, in proportion to the load, such as `300W`; default `0W`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 7))]
    #[x_kube(validation = watts())]
    pub busy: Option<String>,
}

fn watts() -> Rule {
    Rule::new("self.matches('^[0-9]+W$')").message("must be a whole number of watts, for example 300W")
}

impl UnitPower {
    /// Watts while it hosts an actor, and watts added at full load.
    pub fn watts(&self) -> (u64, u64) {
        let watts = |text: &Option<String>| {
            text.as_ref().and_then(|text| text.strip_suffix('W')?.parse().ok()).unwrap_or(0)
        };
        (watts(&self.idle), watts(&self.busy))
    }
}

/// A limit on the instances in a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceLimit {
    /// The maximum number of instances in the pool; 0 admits no new instances.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max: i32,
}

/// The quota of each namespace in a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolQuota {
    /// The maximum number of instances of one namespace in the pool; 0 admits no new instances.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub per_namespace: i32,
}

/// Defaults added to the template of every pod in a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDefaults {
    /// Tolerations added to those of the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,

    /// The runtime class, unless the template sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub runtime_class_name: Option<String>,

    /// Environment variables of the container that gets the device, unless the template sets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
}

/// The observed state of a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DevicePoolStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The number of computing units.
    #[serde(default)]
    pub units: i32,

    /// The number of units that can host an actor.
    #[serde(default)]
    pub healthy: i32,

    /// The number of units that host at least one actor.
    #[serde(default)]
    pub allocated: i32,

    /// The conditions of the pool; `Ready` summarizes `Stale`, `Degraded`, `NoTopology`, `Ambiguous`, `Overlap`, `Unsupported` and `Invalid`. `IncompletePool`, `MissingReplicas`, `MixedLocality`, `MixedModels`, `MultiNodeDevices`, `NoMatchingDevice`, `NotPinnable`, `SharedDevices`, `UnreportedDomain` and `UnusedReplicas` are information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_pools_default_to_nodes_and_others_to_devices() {
        let (mut cpu, mut gpu) = (DevicePoolSpec::new("cpu"), DevicePoolSpec::new("gpu"));
        assert_eq!((cpu.unit(), gpu.unit()), (UnitKind::Node, UnitKind::Device));
        (cpu.unit, gpu.unit) = (Some(UnitKind::NumaDomain), Some(UnitKind::Node));
        assert_eq!((cpu.unit(), gpu.unit()), (UnitKind::NumaDomain, UnitKind::Node));
    }

    #[test]
    fn devices_are_exclusive_unless_sharing_is_set() {
        let (mut cpu, mut gpu) = (DevicePoolSpec::new("cpu"), DevicePoolSpec::new("gpu"));
        assert_eq!((cpu.max_instances_per_unit(), gpu.max_instances_per_unit()), (None, Some(1)));
        cpu.sharing = Some(Sharing { max_instances: 8 });
        gpu.sharing = Some(Sharing { max_instances: 4 });
        assert_eq!((cpu.max_instances_per_unit(), gpu.max_instances_per_unit()), (Some(8), Some(4)));
    }
}
