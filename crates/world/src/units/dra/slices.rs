//! Devices of dynamic resource allocation (DRA): which a driver publishes for a node, which are free, and how a claim selects one.
//!
//! A unit of a pool with `resource.dra` is one device of a `ResourceSlice`.

use std::collections::BTreeMap;
use std::fmt;

use crds::NodeTopologySpec;
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute, ResourceClaim, ResourceSlice};

use crate::numbers::{Exact, floor, quantity};

/// The standard attribute for the PCI address of a device.
const PCI_BUS_ID: &str = "resource.kubernetes.io/pciBusID";
/// Ends of attributes of drivers that name the board of a device. Older versions of NVIDIA's driver have their own name for the PCI address.
const OF_BOARD: [&str; 3] = ["/pciBusID", "/pcieBusID", "/parentUUID"];

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

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// The value of a device's attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A text.
    String(String),
    /// A semantic version, such as `570.86.15`.
    Version(String),
}

/// A counter that devices share: driver, pool, counter set and name.
pub type CounterKey = (String, String, String, String);

/// What the taints of a device and the state of its pool permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum DeviceAvailability {
    /// New actors may use it.
    #[strum(to_string = "usable")]
    Usable,
    /// Running actors stay; kube-scheduler allocates no device of its pool, which is incomplete or invalid.
    #[strum(to_string = "of an incomplete or invalid pool")]
    Withheld,
    /// Running actors stay; no new ones are placed: a taint `NoSchedule`.
    #[strum(to_string = "tainted NoSchedule")]
    HoldersOnly,
    /// As if it were not published: a taint `NoExecute`.
    #[strum(to_string = "tainted NoExecute")]
    Gone,
}

/// A device that a driver publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceDevice {
    /// Its name.
    pub key: DeviceKey,
    /// Its node; empty if it is of several nodes.
    pub node: String,
    /// Attributes by qualified name, such as `gpu.nvidia.com/uuid`.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Capacities, which are quantities, by qualified name, such as `gpu.nvidia.com/memory`.
    pub capacity: BTreeMap<String, String>,
    /// What it takes of the counters that it shares with other devices of its pool, by counter set and counter.
    pub consumes: BTreeMap<(String, String), Exact>,
    /// Its memory in MiB, if the driver publishes it.
    pub memory_mib: Option<u64>,
    /// Its NUMA node, if the driver publishes it.
    pub numa_node: Option<i32>,
    /// What its taints and the state of its pool permit.
    pub availability: DeviceAvailability,
    /// Whether several claims may share it (consumable capacity).
    pub allows_multiple_allocations: bool,
}

impl SliceDevice {
    /// The agent's device with the same PCI address or another of its names.
    pub fn described<'a>(&self, topology: &'a NodeTopologySpec) -> Option<&'a crds::Device> {
        self.described_by(topology).map(|(_, device)| device)
    }

    /// The agent's device, and the attribute by which it is found.
    pub fn described_by<'a>(&self, topology: &'a NodeTopologySpec) -> Option<(&str, &'a crds::Device)> {
        let names = self.strings().filter(|(name, _)| is_of_board(name) || name.ends_with("/uuid"));
        // A partition has the PCI address of its GPU; its own id is more specific.
        let mut found: Vec<_> =
            names.filter_map(|(name, value)| Some((name, topology.device_of(value)?))).collect();
        found.sort_by_key(|(name, _)| is_of_board(name));
        found.first().copied()
    }

    /// What it takes of the counters that it shares.
    pub fn counters(&self) -> impl Iterator<Item = (CounterKey, Exact)> {
        let key = |set: &String, name: &String| {
            (self.key.driver.clone(), self.key.pool.clone(), set.clone(), name.clone())
        };
        self.consumes.iter().map(move |((set, name), amount)| (key(set, name), *amount))
    }

    /// Attributes of type string.
    pub fn strings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().filter_map(|(name, value)| match value {
            AttributeValue::String(text) => Some((name.as_str(), text.as_str())),
            _ => None,
        })
    }

    /// The value of an attribute of type string.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name)? {
            AttributeValue::String(text) => Some(text),
            _ => None,
        }
    }
}

/// How a claim selects one device of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePin {
    /// The qualified name of an attribute that has another value on each other device that the pool selects on the node.
    pub attribute: String,
    /// Its value on the device.
    pub value: String,
}

impl DevicePin {
    /// Number of devices that one expression excludes: its length in Kubernetes is limited to 10 KiB.
    const MAX_EXCLUDED: usize = 64;

    /// The CEL expression of a claim's selector.
    ///
    /// Without the guard kube-scheduler fails to allocate at all if one device of the class lacks the attribute.
    pub fn expression(&self) -> String {
        let (guard, attribute) = access(&self.attribute);
        format!("{guard} && {attribute} == {}", quoted(&self.value))
    }

    /// CEL expressions of selectors that select none of these devices.
    pub fn exclusions(pins: &[Self]) -> Vec<String> {
        let mut values = BTreeMap::<&str, Vec<String>>::new();
        for pin in pins {
            values.entry(&pin.attribute).or_default().push(quoted(&pin.value));
        }
        let exclude = |(name, values): (&str, Vec<String>)| {
            let (guard, attribute) = access(name);
            let chunks = values.chunks(Self::MAX_EXCLUDED);
            let of = |some: &[String]| format!("!({guard} && {attribute} in [{}])", some.join(", "));
            chunks.map(of).collect::<Vec<_>>()
        };
        values.into_iter().flat_map(exclude).collect()
    }
}

/// CEL expressions for whether a device has an attribute, and for its value.
fn access(attribute: &str) -> (String, String) {
    let (domain, name) = attribute.split_once('/').unwrap_or(("", attribute));
    let of_domain = format!("device.attributes[\"{domain}\"]");
    (format!("\"{name}\" in {of_domain}"), format!("{of_domain}.{name}"))
}

/// A string in CEL.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A device of a slice; the node of one of several nodes is empty.
pub(crate) fn read(slice: &ResourceSlice, device: &Device) -> SliceDevice {
    let spec = &slice.spec;
    let node = device.node_name.as_ref().or(spec.node_name.as_ref());
    let attributes: BTreeMap<String, &DeviceAttribute> = device
        .attributes
        .iter()
        .flatten()
        .map(|(name, value)| (qualified(&spec.driver, name), value))
        .collect();
    let typed = |value: &DeviceAttribute| {
        let text = value.string.clone().map(AttributeValue::String);
        let text = text.or_else(|| value.version.clone().map(AttributeValue::Version));
        text.or_else(|| value.int.map(AttributeValue::Int)).or_else(|| value.bool.map(AttributeValue::Bool))
    };
    let typed = attributes.iter().filter_map(|(name, value)| Some((name.clone(), typed(value)?))).collect();
    let capacity = device.capacity.iter().flatten();
    let capacity = capacity.map(|(name, it)| (qualified(&spec.driver, name), it.value.0.clone()));
    let consumed = device.consumes_counters.iter().flatten().flat_map(|of| {
        of.counters.iter().map(|(name, it)| ((of.counter_set.clone(), name.clone()), &it.value))
    });
    let is_numa = |name: &str| name.rsplit('/').next().is_some_and(|name| NUMA_NODE.contains(&name));
    let numa = attributes.iter().find(|(name, _)| is_numa(name)).and_then(|(_, value)| value.int);
    let memory = device.capacity.iter().flatten().find(|(name, _)| name.rsplit('/').next() == Some("memory"));
    let bytes = memory.and_then(|(_, capacity)| quantity(&capacity.value.0).ok());
    // Some drivers publish 0 if they do not know it.
    let memory_mib = bytes.map(|bytes| floor(bytes) >> 20).filter(|memory| *memory > 0);
    let taints = device.taints.iter().flatten().map(|taint| match taint.effect.as_str() {
        "NoExecute" => DeviceAvailability::Gone,
        "None" => DeviceAvailability::Usable,
        // an unknown effect does not evict, and is no permission
        _ => DeviceAvailability::HoldersOnly,
    });
    SliceDevice {
        key: key_of(slice, device),
        node: node.cloned().unwrap_or_default(),
        attributes: typed,
        capacity: capacity.collect(),
        consumes: consumed.filter_map(|(name, it)| Some((name, quantity(&it.0).ok()?))).collect(),
        memory_mib,
        numa_node: numa.and_then(|numa| i32::try_from(numa).ok()).filter(|numa| *numa >= 0),
        availability: taints.max().unwrap_or(DeviceAvailability::Usable),
        allows_multiple_allocations: device.allow_multiple_allocations == Some(true),
    }
}

/// The name of a device in the cluster.
pub(crate) fn key_of(slice: &ResourceSlice, device: &Device) -> DeviceKey {
    DeviceKey {
        driver: slice.spec.driver.clone(),
        pool: slice.spec.pool.name.clone(),
        device: device.name.clone(),
    }
}

/// The name of an attribute with its domain; without one it is the driver's.
fn qualified(driver: &str, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{driver}/{name}") }
}

/// How a claim selects one of the devices that class and pool select on a node; `None` if no attribute tells it apart.
///
/// CEL cannot see the name of a device. In this order: the attribute `by`; or the PCI address, the driver's `uuid`, and any other
/// string of the driver that is unique among the selected devices.
pub fn pin(selected: &[&SliceDevice], device: &SliceDevice, by: Option<&str>) -> Option<DevicePin> {
    let uuid = format!("{}/uuid", device.key.driver);
    let own = format!("{}/", device.key.driver);
    let names: Vec<&str> = if let Some(name) = by {
        vec![name]
    } else {
        let others = device.strings().map(|(name, _)| name).filter(|name| name.starts_with(&own));
        [PCI_BUS_ID, &uuid].into_iter().chain(others).collect()
    };
    names.into_iter().find_map(|name| {
        let value = device.string(name)?;
        let count = selected.iter().filter(|it| it.string(name) == Some(value)).count();
        (count == 1).then(|| DevicePin { attribute: name.to_owned(), value: value.to_owned() })
    })
}

/// The devices that a claim holds. Access for administration takes no device away.
pub fn allocated_devices(claim: &ResourceClaim) -> Vec<DeviceKey> {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    let results = devices.into_iter().flat_map(|devices| devices.results.iter().flatten());
    let held = results.filter(|result| result.admin_access != Some(true));
    held.map(|result| DeviceKey {
        driver: result.driver.clone(),
        pool: result.pool.clone(),
        device: result.device.clone(),
    })
    .collect()
}

/// Whether an attribute names the board of a device, which its partitions share.
fn is_of_board(attribute: &str) -> bool {
    OF_BOARD.iter().any(|end| attribute.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::dra::selectors::{DeviceSelector, functions};

    /// The devices of a slice of `gpu.example.com` for `n0`.
    fn read_all(devices: &str) -> Vec<SliceDevice> {
        let text = format!(
            "{{metadata: {{name: s}}, spec: {{driver: gpu.example.com, nodeName: n0, pool: {{name: n0, generation: 1, \
             resourceSliceCount: 1}}, devices: [{devices}]}}}}"
        );
        let slice: ResourceSlice = serde_yaml::from_str(&text).unwrap();
        slice.spec.devices.iter().flatten().map(|device| read(&slice, device)).collect()
    }

    #[test]
    fn devices_have_memory_locality_and_the_strictest_of_their_taints() {
        let device = "{name: a, attributes: {numaNode: {int: 1}, model: {string: X}, 'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}}, \
                      capacity: {memory: {value: 80Gi}}, taints: [{key: k, effect: None}, {key: k, effect: NoSchedule}]}";
        let other = "{name: b, attributes: {'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}}, taints: [{key: k, effect: NoExecute}], \
                     capacity: {memory: {value: '0'}}}";
        let found = read_all(&format!("{device}, {other}"));
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (a.memory_mib, a.numa_node, a.availability),
            (Some(81920), Some(1), DeviceAvailability::HoldersOnly)
        );
        assert_eq!((b.memory_mib, b.availability), (None, DeviceAvailability::Gone), "0 is unknown");
        assert_eq!(a.string("gpu.example.com/model"), Some("X"));
        let gpu = crds::Device {
            id: "gpu-0000:05:00.0".into(),
            pci_bus_id: Some("0000:05:00.0".into()),
            numa_node: Some(0),
            ..crds::Device::default()
        };
        let topology = NodeTopologySpec { devices: vec![gpu], links: Vec::new() };
        let numa = |device: &SliceDevice| device.described(&topology).and_then(|it| it.numa_node);
        assert_eq!((numa(a), numa(b)), (Some(0), Some(0)));
    }

    #[test]
    fn a_device_is_found_by_its_own_id_before_that_of_its_board() {
        let device = |id: &str, aliases: &[&str]| crds::Device {
            id: id.to_owned(),
            aliases: aliases.iter().map(|it| (*it).to_owned()).collect(),
            ..crds::Device::default()
        };
        let devices = vec![device("board", &["0000:05:00.0", "GPU-1"]), device("part", &["MIG-1"])];
        let topology = NodeTopologySpec { devices, links: Vec::new() };
        for (attributes, expected) in [
            ("pcieBusID: {string: '0000:05:00.0'}", Some("board")),
            ("pcieBusID: {string: '0000:05:00.0'}, uuid: {string: MIG-1}", Some("part")),
            // The agent does not list the partition.
            ("parentUUID: {string: GPU-1}, uuid: {string: MIG-2}", Some("board")),
            ("productName: {string: '0000:05:00.0'}", None),
        ] {
            let found = read_all(&format!("{{name: a, attributes: {{{attributes}}}}}"));
            let found = found[0].described(&topology).map(|device| device.id.as_str());
            assert_eq!(found, expected, "{attributes}");
        }
    }

    #[test]
    fn a_claim_selects_a_device_by_an_attribute_that_no_other_has() {
        let pins = |devices: &str, by| {
            let found = read_all(devices);
            let all: Vec<&SliceDevice> = found.iter().collect();
            pin(&all, &found[0], by).map(|pin| pin.expression())
        };
        let pci = "{name: a, attributes: {'resource.kubernetes.io/pciBusID': {string: '0000:05:00.0'}, uuid: {string: U}}}";
        assert_eq!(
            pins(pci, None).as_deref(),
            Some(
                "\"pciBusID\" in device.attributes[\"resource.kubernetes.io\"] && \
                 device.attributes[\"resource.kubernetes.io\"].pciBusID == \"0000:05:00.0\""
            )
        );
        assert_eq!(
            pins(pci, Some("gpu.example.com/uuid")).as_deref(),
            Some(
                "\"uuid\" in device.attributes[\"gpu.example.com\"] && device.attributes[\"gpu.example.com\"].uuid == \"U\""
            )
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
            Some(
                "\"serial\" in device.attributes[\"gpu.example.com\"] && \
                 device.attributes[\"gpu.example.com\"].serial == \"S\\\"a\""
            )
        );
        assert_eq!(
            pins(
                "{name: a, attributes: {kind: {string: x}}}, {name: b, attributes: {kind: {string: x}}}",
                None
            ),
            None
        );
    }

    /// kube-scheduler evaluates the selector of a claim for each device of the class, and fails if one evaluation does.
    #[test]
    fn selectors_of_claims_hold_for_devices_without_the_attribute() {
        let given = "{name: a, attributes: {uuid: {string: 'U\\\"0'}}}, {name: b, attributes: {uuid: {string: U1}}}, \
                     {name: c, attributes: {uuid: {int: 1}}}, {name: d, attributes: {'x.example.com/y': {string: z}}}, {name: e}";
        let found = read_all(given);
        let all: Vec<&SliceDevice> = found.iter().collect();
        let selects = |expression: &str| -> Vec<&str> {
            let selector = DeviceSelector::compile(expression).unwrap();
            let is_selected = |device: &&&SliceDevice| selector.selects(device, &functions()).unwrap();
            all.iter().filter(is_selected).map(|device| device.key.device.as_str()).collect()
        };
        let pins: Vec<DevicePin> = all.iter().filter_map(|device| pin(&all, device, None)).collect();
        assert_eq!(pins.len(), 2);
        assert_eq!(selects(&pins[0].expression()), ["a"]);
        let [without] = &DevicePin::exclusions(&pins)[..] else { panic!() };
        assert_eq!(selects(without), ["c", "d", "e"]);
        let many: Vec<DevicePin> = (0..100).map(|_| pins[0].clone()).collect();
        assert_eq!(DevicePin::exclusions(&many).len(), 2, "expressions have a limited length");
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
        let held: Vec<String> = claims.iter().flat_map(allocated_devices).map(|key| key.device).collect();
        assert_eq!(held, ["a"]);
    }
}
