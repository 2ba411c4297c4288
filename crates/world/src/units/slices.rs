//! Devices of dynamic resource allocation (DRA): which a driver publishes for a node, which are free, and how a claim selects one.
//!
//! Pure, and not used by pools yet: a unit is one device of a `ResourceSlice`.

use std::collections::{BTreeMap, BTreeSet};

use crds::NodeTopologySpec;
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, ResourceClaim, ResourceSlice};

use crate::numbers::{floor, quantity};

/// The standard attribute for the PCI address of a device.
const PCI_BUS_ID: &str = "resource.kubernetes.io/pciBusID";

/// Names of attributes for the NUMA node, without their domain, by the drivers that have one.
const NUMA_NODE: [&str; 3] = ["numaNode", "numa", "numaNodeID"];

/// The name of a device in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceKey {
    /// The DRA driver.
    pub driver: String,
    /// The pool of the driver.
    pub pool: String,
    /// The device in the pool.
    pub device: String,
}

/// What the taints of a device permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceAvailability {
    /// New actors may use it.
    Usable,
    /// Running actors stay; no new ones are placed: a taint `NoSchedule`.
    HoldersOnly,
    /// As if it were not published: a taint `NoExecute`.
    Gone,
}

/// A device that a driver publishes for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceDevice {
    /// Its name.
    pub key: DeviceKey,
    /// Its node.
    pub node: String,
    /// Attributes of type string by qualified name, such as `gpu.nvidia.com/uuid`.
    pub strings: BTreeMap<String, String>,
    /// Its memory in MiB, if the driver publishes it.
    pub memory_mib: Option<u64>,
    /// Its NUMA node, if the driver publishes it.
    pub numa_node: Option<i32>,
    /// What its taints permit.
    pub availability: DeviceAvailability,
}

impl SliceDevice {
    /// The NUMA node: of the driver, else of the agent's device with the same PCI address or another of its names.
    pub fn locate(&self, topology: &NodeTopologySpec) -> Option<i32> {
        let of_agent = || {
            let names =
                self.strings.iter().filter(|(name, _)| *name == PCI_BUS_ID || name.ends_with("/uuid"));
            let mut devices = names.filter_map(|(_, value)| topology.device_of(value));
            devices.find_map(|device| device.numa_node)
        };
        self.numa_node.or_else(of_agent)
    }
}

/// How a claim selects one device of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePin {
    /// The qualified name of an attribute that has a different value on each device of the node.
    pub attribute: String,
    /// Its value on the device.
    pub value: String,
}

impl DevicePin {
    /// The CEL expression of a claim's selector.
    pub fn expression(&self) -> String {
        let (domain, name) = self.attribute.split_once('/').unwrap_or(("", &self.attribute));
        let value = self.value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("device.attributes[\"{domain}\"].{name} == \"{value}\"")
    }
}

/// The devices of the newest complete generation of each driver's pool, of single nodes; sorted by name.
///
/// A driver replaces the slices of a pool one by one: until all of a generation exist, it is unknown what the pool has.
pub fn slice_devices<'a>(slices: impl IntoIterator<Item = &'a ResourceSlice>) -> Vec<SliceDevice> {
    let mut pools = BTreeMap::<(&str, &str), BTreeMap<i64, Vec<&ResourceSlice>>>::new();
    for slice in slices {
        let spec = &slice.spec;
        let generations = pools.entry((&spec.driver, &spec.pool.name)).or_default();
        generations.entry(spec.pool.generation).or_default().push(slice);
    }
    let is_complete = |slices: &[&ResourceSlice]| {
        let wanted = slices.iter().map(|slice| slice.spec.pool.resource_slice_count).max();
        wanted.is_some_and(|wanted| i64::try_from(slices.len()).is_ok_and(|count| count == wanted))
    };
    let newest = pools
        .values()
        .filter_map(|generations| generations.values().rev().find(|slices| is_complete(slices)));
    let mut devices: Vec<SliceDevice> = newest
        .flatten()
        .flat_map(|slice| slice.spec.devices.iter().flatten().filter_map(|device| read(slice, device)))
        .collect();
    devices.sort_by(|a, b| a.key.cmp(&b.key));
    devices
}

/// A device of one node; `None` for one of several nodes.
fn read(slice: &ResourceSlice, device: &Device) -> Option<SliceDevice> {
    let spec = &slice.spec;
    let node = device.node_name.as_ref().or(spec.node_name.as_ref())?;
    let attributes: BTreeMap<String, &DeviceAttribute> = device
        .attributes
        .iter()
        .flatten()
        .map(|(name, value)| (qualified(&spec.driver, name), value))
        .collect();
    let strings =
        attributes.iter().filter_map(|(name, value)| Some((name.clone(), value.string.clone()?))).collect();
    let is_numa = |name: &str| name.rsplit('/').next().is_some_and(|name| NUMA_NODE.contains(&name));
    let numa = attributes.iter().find(|(name, _)| is_numa(name)).and_then(|(_, value)| value.int);
    let memory = device.capacity.iter().flatten().find(|(name, _)| name.rsplit('/').next() == Some("memory"));
    let bytes = memory.and_then(|(_, capacity)| quantity(&capacity.value.0).ok());
    let taints = device.taints.iter().flatten().map(|taint| match taint.effect.as_str() {
        "NoExecute" => DeviceAvailability::Gone,
        "None" => DeviceAvailability::Usable,
        // an unknown effect does not evict, and is no permission
        _ => DeviceAvailability::HoldersOnly,
    });
    Some(SliceDevice {
        key: DeviceKey {
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
            device: device.name.clone(),
        },
        node: node.clone(),
        strings,
        memory_mib: bytes.map(|bytes| floor(bytes) >> 20),
        numa_node: numa.and_then(|numa| i32::try_from(numa).ok()).filter(|numa| *numa >= 0),
        availability: taints.max().unwrap_or(DeviceAvailability::Usable),
    })
}

/// The name of an attribute with its domain; without one it is the driver's.
fn qualified(driver: &str, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{driver}/{name}") }
}

/// How a claim selects each device of a node and driver; `None` if no attribute tells it apart from the others.
///
/// CEL cannot see the name of a device. In this order: the attribute `by`; or the PCI address, the driver's `uuid`, and any other
/// string of the driver that is unique on the node.
pub fn pin(devices: &[&SliceDevice], device: &SliceDevice, by: Option<&str>) -> Option<DevicePin> {
    let of_driver =
        || devices.iter().filter(|it| it.node == device.node && it.key.driver == device.key.driver);
    let uuid = format!("{}/uuid", device.key.driver);
    let own = format!("{}/", device.key.driver);
    let names: Vec<&str> = if let Some(name) = by {
        vec![name]
    } else {
        let others = device.strings.keys().filter(|name| name.starts_with(&own));
        [PCI_BUS_ID, &uuid].into_iter().chain(others.map(String::as_str)).collect()
    };
    names.into_iter().find_map(|name| {
        let value = device.strings.get(name)?;
        let count = of_driver().filter(|it| it.strings.get(name) == Some(value)).count();
        (count == 1).then(|| DevicePin { attribute: name.to_owned(), value: value.clone() })
    })
}

/// The devices that claims hold. Access for administration takes no device away.
pub fn allocated_devices<'a>(claims: impl IntoIterator<Item = &'a ResourceClaim>) -> BTreeSet<DeviceKey> {
    let allocations = claims.into_iter().filter_map(|claim| claim.status.as_ref()?.allocation.as_ref());
    let results =
        allocations.flat_map(|it| it.devices.iter().flat_map(|devices| devices.results.iter().flatten()));
    let held = results.filter(|result| result.admin_access != Some(true));
    held.map(|result| DeviceKey {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of pool `n0` of `gpu.example.com`: its generation and count, and devices.
    fn slice(generation: i64, count: i64, devices: &str) -> ResourceSlice {
        let text = format!(
            "{{metadata: {{name: s}}, spec: {{driver: gpu.example.com, nodeName: n0, pool: {{name: n0, generation: {generation}, \
             resourceSliceCount: {count}}}, devices: [{devices}]}}}}"
        );
        serde_yaml::from_str(&text).unwrap()
    }

    fn names(slices: &[ResourceSlice]) -> Vec<String> {
        slice_devices(slices).into_iter().map(|device| device.key.device).collect()
    }

    #[test]
    fn only_the_newest_complete_generation_counts() {
        let old = [slice(1, 2, "{name: a}"), slice(1, 2, "{name: b}")];
        assert_eq!(names(&old), ["a", "b"]);
        let half = [&old[..], &[slice(2, 2, "{name: c}")]].concat();
        assert_eq!(names(&half), ["a", "b"]);
        let whole = [&half[..], &[slice(2, 2, "{name: d}")]].concat();
        assert_eq!(names(&whole), ["c", "d"]);
        assert_eq!(names(&whole[2..3]), [""; 0], "one of two slices");
        let of_cluster = ResourceSlice::default();
        assert_eq!(names(&[of_cluster]), [""; 0]);
    }

    #[test]
    fn devices_have_memory_locality_and_the_strictest_of_their_taints() {
        let device = "{name: a, attributes: {numaNode: {int: 1}, model: {string: X}, 'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}}, \
                      capacity: {memory: {value: 80Gi}}, taints: [{key: k, effect: None}, {key: k, effect: NoSchedule}]}";
        let other = "{name: b, attributes: {'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}}, taints: [{key: k, effect: NoExecute}]}";
        let found = slice_devices(&[slice(1, 1, &format!("{device}, {other}"))]);
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (a.memory_mib, a.numa_node, a.availability),
            (Some(81920), Some(1), DeviceAvailability::HoldersOnly)
        );
        assert_eq!((b.memory_mib, b.availability), (None, DeviceAvailability::Gone));
        assert_eq!(a.strings.get("gpu.example.com/model").map(String::as_str), Some("X"));
        let gpu = crds::Device {
            id: "gpu-0000:05:00.0".into(),
            pci_bus_id: Some("0000:05:00.0".into()),
            numa_node: Some(0),
            ..crds::Device::default()
        };
        let topology = NodeTopologySpec { devices: vec![gpu], links: Vec::new() };
        assert_eq!(
            (a.locate(&topology), b.locate(&topology)),
            (Some(1), Some(0)),
            "the driver knows it better"
        );
    }

    #[test]
    fn a_claim_selects_a_device_by_an_attribute_that_no_other_has() {
        let pins = |devices: &str, by| {
            let found = slice_devices(&[slice(1, 1, devices)]);
            let all: Vec<&SliceDevice> = found.iter().collect();
            pin(&all, &found[0], by).map(|pin| pin.expression())
        };
        let pci = "{name: a, attributes: {'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}, uuid: {string: U}}}";
        assert_eq!(
            pins(pci, None).as_deref(),
            Some("device.attributes[\"resource.kubernetes.io\"].pciBusID == \"0000:05:00.0\"")
        );
        assert_eq!(
            pins(pci, Some("gpu.example.com/uuid")).as_deref(),
            Some("device.attributes[\"gpu.example.com\"].uuid == \"U\"")
        );
        assert_eq!(pins(pci, Some("gpu.example.com/none")), None);
        // two partitions of one GPU: its address is not unique
        let part = |name: &str, address: &str| {
            format!(
                "{{name: {name}, attributes: {{'resource.kubernetes.io/pciBusID': {{string: '{address}'}}, kind: {{string: part}}, serial: {{string: 'S\"{name}'}}}}}}"
            )
        };
        let parts = format!("{}, {}", part("a", "0000:05:00.0"), part("b", "0000:05:00.0"));
        assert_eq!(
            pins(&parts, None).as_deref(),
            Some("device.attributes[\"gpu.example.com\"].serial == \"S\\\"a\"")
        );
        assert_eq!(
            pins(
                "{name: a, attributes: {kind: {string: x}}}, {name: b, attributes: {kind: {string: x}}}",
                None
            ),
            None
        );
    }

    #[test]
    fn allocations_of_all_claims_take_devices_away() {
        let claim = |text: &str| serde_yaml::from_str::<ResourceClaim>(text).unwrap();
        let claims = [
            claim("{metadata: {name: c}, spec: {devices: {}}}"),
            claim(
                "{metadata: {name: d}, spec: {devices: {}}, status: {allocation: {devices: {results: [\
                   {driver: gpu.example.com, pool: n0, device: a, request: r}, \
                   {driver: gpu.example.com, pool: n0, device: b, request: r, adminAccess: true}]}}}}",
            ),
        ];
        let held: Vec<String> = allocated_devices(&claims).into_iter().map(|key| key.device).collect();
        assert_eq!(held, ["a"]);
    }
}
