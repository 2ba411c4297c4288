//! Links between units: exchange costs of pairs whose devices are known, and links that units share.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Link, NodeTopology, NodeTopologySpec};
use placement::file::{Levels, PairCost, SharedLink, SnapshotFile};
use placement::{Criterion, LARGEST};

use crate::link_costs::{LinkCosts, LinkKind};
use crate::numbers::{Exact, floor, product};
use crate::units::unit::{Unit, Units};
use crate::{Index, Policy};

/// The kinds of links of a topology from a NUMA domain to its devices, and between NUMA domains.
const PCIE: &str = "PCIe";
const INTERCONNECT: &str = "Interconnect";
/// `REMOTE_DISTANCE` of Linux (`include/linux/topology.h`), where local memory is at 10: domains of one socket are nearer.
const REMOTE_DISTANCE: i32 = 20;
/// The type of devices that are processors.
const NUMA_DOMAIN: &str = "NUMA Domain";

/// The topology of one node, indexed for pairs of devices.
struct NodeLinks<'a> {
    devices: BTreeMap<&'a str, &'a Device>,
    /// Direct links by the ids of both ends, the smaller first.
    direct: BTreeMap<(&'a str, &'a str), BTreeSet<LinkKind>>,
    has_several_domains: bool,
    /// The larger distance of the two directions, by the numbers of two NUMA domains, the smaller first.
    distances: BTreeMap<(i32, i32), i32>,
    links: &'a [Link],
}

impl<'a> NodeLinks<'a> {
    fn new(topology: &'a NodeTopologySpec) -> Self {
        let mut direct: BTreeMap<_, BTreeSet<LinkKind>> = BTreeMap::new();
        for Link { source, destination, kind, .. } in &topology.links {
            if let Some(kind) = LinkKind::of_link(kind) {
                direct.entry(ordered(source, destination)).or_default().insert(kind);
            }
        }
        let domains = topology.devices.iter().filter(|device| device.type_ == NUMA_DOMAIN).count();
        let devices: BTreeMap<&str, &Device> =
            topology.devices.iter().map(|device| (device.id.as_str(), device)).collect();
        let number = |id: &String| devices.get(id.as_str())?.numa_node;
        let mut distances = BTreeMap::new();
        for link in topology.links.iter().filter(|link| link.kind == INTERCONNECT) {
            let (Some(a), Some(b)) = (number(&link.source), number(&link.destination)) else { continue };
            let Some(distance) = link.relative_latency else { continue };
            let known = distances.entry((a.min(b), a.max(b))).or_insert(distance);
            *known = distance.max(*known);
        }
        Self { devices, direct, has_several_domains: domains > 1, distances, links: &topology.links }
    }

    /// The device of a unit, if it is known.
    fn device(&self, unit: &Unit) -> Option<&'a Device> {
        self.devices.get(unit.device.as_deref()?).copied()
    }

    /// Pairs of units whose devices have a link of their own.
    fn direct(&self, units: &[UnitDevice], others: &[UnitDevice]) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (unit, device) in units {
            let is_linked = |other: &&UnitDevice| self.direct.contains_key(&ordered(&device.id, &other.1.id));
            pairs.extend(
                others.iter().filter(is_linked).map(|(other, _)| (unit.id.clone(), other.id.clone())),
            );
        }
        pairs
    }

    /// The bandwidth of a root port in one direction, in bytes per second: the largest of the devices below it, as the port of a
    /// switch is as wide as its widest slot.
    fn bandwidth_of_port(&self, port: &str) -> Option<i64> {
        let is_below = |id: &str| {
            self.devices.get(id).is_some_and(|device| device.pci_root_port.as_deref() == Some(port))
        };
        let pcie = self.links.iter().filter(|link| link.kind == PCIE);
        let below = pcie.filter(|link| is_below(&link.source) || is_below(&link.destination));
        below.filter_map(|link| link.bandwidth_bytes_per_second).max()
    }

    /// The interconnects of NUMA domains whose bandwidth is known: the ids and numbers of the domains, and the smaller bandwidth of
    /// the two directions, in bytes per second.
    fn interconnects(&self) -> BTreeMap<[(&'a str, i32); 2], i64> {
        let mut bandwidths: BTreeMap<_, i64> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.kind == INTERCONNECT) {
            let end = |id: &str| {
                let (id, device) = self.devices.get_key_value(id)?;
                Some((*id, device.numa_node?))
            };
            let Some(bandwidth) = link.bandwidth_bytes_per_second else { continue };
            let (Some(a), Some(b)) = (end(&link.source), end(&link.destination)) else { continue };
            let known = bandwidths.entry([a.min(b), a.max(b)]).or_insert(bandwidth);
            *known = bandwidth.min(*known);
        }
        bandwidths
    }

    /// The cheapest connection of two devices; `None` if no kind of theirs is listed, or if one is a part of the other.
    ///
    /// `is_same_kind`: the table of kinds says more of unlike devices than the way between them, so only direct links count there.
    /// Between processors `otherNuma` is the cost of the way.
    fn cost(&self, a: &Device, b: &Device, costs: &LinkCosts, is_same_kind: bool) -> Option<u64> {
        let is_board = |id: &&String| self.devices.get(id.as_str()).is_some_and(|it| it.type_ != NUMA_DOMAIN);
        let board = |device: &Device| device.parent.as_ref().filter(is_board).unwrap_or(&device.id).clone();
        if board(a) == board(b) {
            return None;
        }
        let mut kinds = self.direct.get(&ordered(&a.id, &b.id)).cloned().unwrap_or_default();
        if is_same_kind && a.type_ != NUMA_DOMAIN {
            let is_same = a.numa_node.is_some() && a.numa_node == b.numa_node || !self.has_several_domains;
            kinds.insert(if is_same { LinkKind::SameNuma } else { LinkKind::Interconnect });
            if !is_same && self.are_near(a, b) {
                kinds.insert(LinkKind::NearNuma);
            }
            if a.pci_root_port.is_some() && a.pci_root_port == b.pci_root_port {
                kinds.insert(LinkKind::PciRoot);
            }
        }
        kinds.iter().filter_map(|kind| costs.get(kind)).min().copied()
    }

    /// Whether the NUMA domains of two devices are nearer than those of different sockets.
    fn are_near(&self, a: &Device, b: &Device) -> bool {
        let (Some(a), Some(b)) = (a.numa_node, b.numa_node) else { return false };
        self.distances.get(&(a.min(b), a.max(b))).is_some_and(|distance| *distance < REMOTE_DISTANCE)
    }
}

fn ordered<'a>(a: &'a str, b: &'a str) -> (&'a str, &'a str) {
    (a.min(b), a.max(b))
}

/// A unit and its device.
type UnitDevice<'a> = (&'a Unit, &'a Device);

/// The units of each node that has a topology; `topology` returns that of a node.
fn units_by_node<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
) -> impl Iterator<Item = (&'a NodeTopologySpec, Vec<&'a Unit>)> {
    let mut of_node: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
    for unit in units.iter() {
        of_node.entry(&unit.node).or_default().push(unit);
    }
    of_node.into_iter().filter_map(move |(node, units)| Some((&topology(node)?.spec, units)))
}

/// Those of the units whose device is known.
fn with_devices<'a>(links: &NodeLinks<'a>, units: &[&'a Unit]) -> Vec<UnitDevice<'a>> {
    units.iter().filter_map(|unit| Some((*unit, links.device(unit)?))).collect()
}

/// Adds to a snapshot file what follows from the links between the devices of units.
pub(crate) fn add_links(file: &mut SnapshotFile, index: &Index, units: &Units, policy: &Policy) {
    let topology = |node: &str| index.topology(node).map(AsRef::as_ref);
    file.exchange_cost.pairs = pair_costs(units, topology, policy);
    file.shared_links = shared_links(units, topology, policy);
}

/// The costs of pairs of units of one node whose devices are known, as far as they differ from those of their kinds and domains.
fn pair_costs<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
    policy: &Policy,
) -> Vec<PairCost> {
    let (exchange_cost, costs) = (&policy.exchange_cost, &policy.link_costs);
    let mut pairs = Vec::new();
    if costs.is_empty() {
        return pairs;
    }
    for (topology, units) in units_by_node(units, topology) {
        let links = NodeLinks::new(topology);
        let units = with_devices(&links, &units);
        for (position, &(a, device)) in units.iter().enumerate() {
            for &(b, other) in &units[position + 1..] {
                let is_same_kind = a.kind == b.kind;
                let Some(cost) = links.cost(device, other, costs, is_same_kind) else { continue };
                let is_same_domain = a.numa.is_some() && a.numa == b.numa;
                let surcharge = if is_same_domain { 0 } else { exchange_cost.other_numa };
                let of_class =
                    exchange_cost.of_kinds(&a.kind, &b.kind).and_then(|cost| cost.checked_add(surcharge));
                if of_class != Some(cost) {
                    pairs.push(PairCost { a: a.id.clone(), b: b.id.clone(), cost });
                }
            }
        }
    }
    pairs
}

/// The links that units share, if a level names `congestion`: the network of each node, and between units with known devices
/// PCI root ports and interconnects of NUMA domains.
fn shared_links<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
    policy: &Policy,
) -> Vec<SharedLink> {
    let mut shared = Vec::new();
    let Levels::InOrder(levels) = &policy.objectives else { return shared };
    if !levels.iter().flatten().any(|criterion| *criterion == Criterion::Congestion) {
        return shared;
    }
    let ids = |units: &[UnitDevice]| units.iter().map(|(unit, _)| unit.id.clone()).collect::<Vec<_>>();
    let all = units.len();
    for (topology, units) in units_by_node(units, topology) {
        let Some(node) = units.first().map(|unit| &unit.node) else { continue };
        if let Some(bandwidth) = bandwidth_of_network(topology)
            && units.len() < all
        {
            shared.push(SharedLink {
                id: format!("{node}/network"),
                units: units.iter().map(|unit| unit.id.clone()).collect(),
                to: None,
                direct: Vec::new(),
                capacity: messages(bandwidth, policy),
            });
        }
        let links = NodeLinks::new(topology);
        let units = with_devices(&links, &units);
        let ports: BTreeSet<&str> =
            units.iter().filter_map(|(_, device)| device.pci_root_port.as_deref()).collect();
        for port in ports {
            let Some(bandwidth) = links.bandwidth_of_port(port) else { continue };
            let is_below = |(_, device): &UnitDevice| device.pci_root_port.as_deref() == Some(port);
            let (below, others): (Vec<_>, Vec<_>) = units.iter().copied().partition(is_below);
            shared.push(SharedLink {
                id: format!("{node}/{port}"),
                units: ids(&below),
                to: None,
                direct: links.direct(&below, &others),
                capacity: messages(bandwidth, policy),
            });
        }
        for ([(one, number), (other, other_number)], bandwidth) in links.interconnects() {
            let on = |number: i32| {
                let all = units.iter().copied().filter(move |(_, device)| device.numa_node == Some(number));
                all.collect::<Vec<_>>()
            };
            let (here, there) = (on(number), on(other_number));
            if !here.is_empty() && !there.is_empty() {
                shared.push(SharedLink {
                    id: format!("{node}/{one}-{other}"),
                    units: ids(&here),
                    to: Some(ids(&there)),
                    direct: links.direct(&here, &there),
                    capacity: messages(bandwidth, policy),
                });
            }
        }
    }
    shared
}

/// The bandwidth of a node's network interfaces in one direction, in bytes per second; `None` if none is known.
///
/// Which of several interfaces carries a message is unknown, so all of them count.
fn bandwidth_of_network(topology: &NodeTopologySpec) -> Option<i64> {
    let bandwidths = topology.devices.iter().filter_map(|device| device.network_bandwidth_bytes_per_second);
    bandwidths.reduce(i64::saturating_add)
}

/// The messages per window, in quanta, that a bandwidth in bytes per second allows.
fn messages(bandwidth: i64, policy: &Policy) -> u64 {
    let per_byte = (policy.message_quantum * Exact::from(1_000_000)).recip();
    let messages = product([Exact::from(i128::from(bandwidth.max(0))), per_byte, policy.window]);
    messages.map_or(LARGEST, floor).min(LARGEST)
}
