//! Links between the devices of units: exchange costs of pairs, and links that units share.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Link, NodeTopology, NodeTopologySpec};
use placement::file::{ExchangeCost, Levels, PairCost, SharedLink};
use placement::{Criterion, LARGEST};
use serde::Deserialize;
use strum::IntoEnumIterator as _;

use crate::Policy;
use crate::numbers::{Exact, floor, product};
use crate::units::unit::{Unit, Units};

/// The kinds of links of a topology from a NUMA domain to its devices, and between NUMA domains.
const PCIE: &str = "PCIe";
const INTERCONNECT: &str = "Interconnect";

/// How two devices of a node are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, strum::EnumIter)]
pub enum LinkKind {
    /// By NVLink, directly or through switches.
    #[serde(rename = "NVLink")]
    NvLink,
    /// By AMD's XGMI.
    #[serde(rename = "XGMI")]
    Xgmi,
    /// By Intel's Xe Link.
    #[serde(rename = "Xe Link")]
    XeLink,
    /// Below one PCI root port, so behind one switch.
    #[serde(rename = "PCIRoot")]
    PciRoot,
    /// In one NUMA domain, by way of the processor.
    SameNuma,
    /// In different NUMA domains, by way of the interconnect of the processors; also if a domain is unknown.
    Interconnect,
}

impl LinkKind {
    /// The cost of a message unless the policy gives another, on the scale of Table II of the APO paper, where a message between
    /// CPU and GPU, over PCIe, costs 5.
    ///
    /// The ratios are those of the bandwidths in NCCL's `src/graph/topo.h`: through the processor 6/5 of PCIe
    /// (`INTEL_P2P_OVERHEAD`), over the interconnect twice PCIe (`PCI_BW` to `QPI_BW`). GPUs with links of their own have more
    /// than five times the bandwidth of PCIe since the A100; they keep the 1 of Table II.
    fn default_cost(self) -> u64 {
        match self {
            Self::NvLink | Self::Xgmi | Self::XeLink => 1,
            Self::PciRoot => 5,
            Self::SameNuma => 6,
            Self::Interconnect => 10,
        }
    }

    /// The kind of a link in a topology, if it joins devices directly.
    fn of_link(name: &str) -> Option<Self> {
        match name {
            "NVLink" => Some(Self::NvLink),
            "XGMI" => Some(Self::Xgmi),
            "Xe Link" => Some(Self::XeLink),
            _ => None,
        }
    }
}

/// The cost of a message by kind of link; kinds that are not listed do not count.
pub type LinkCosts = BTreeMap<LinkKind, u64>;

/// The costs unless the policy gives others.
pub(crate) fn default_costs() -> LinkCosts {
    LinkKind::iter().map(|kind| (kind, kind.default_cost())).collect()
}

/// The topology of one node, indexed for pairs of devices.
struct NodeLinks<'a> {
    devices: BTreeMap<&'a str, &'a Device>,
    /// Direct links by the ids of both ends, the smaller first.
    direct: BTreeMap<(&'a str, &'a str), BTreeSet<LinkKind>>,
    has_several_domains: bool,
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
        let domains = topology.devices.iter().filter(|device| device.type_ == "NUMA Domain").count();
        Self {
            devices: topology.devices.iter().map(|device| (device.id.as_str(), device)).collect(),
            direct,
            has_several_domains: domains > 1,
            links: &topology.links,
        }
    }

    /// The device of a unit, if it is known.
    fn device(&self, unit: &Unit) -> Option<&'a Device> {
        self.devices.get(unit.device.as_deref()?).copied()
    }

    /// Pairs of units whose devices have a link of their own.
    fn direct(&self, units: &[Known], others: &[Known]) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (unit, device) in units {
            let is_linked = |other: &&Known| self.direct.contains_key(&ordered(&device.id, &other.1.id));
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
        let below = self.links.iter().filter(|link| link.kind == PCIE && is_below(&link.destination));
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
    fn cost(&self, a: &Device, b: &Device, costs: &LinkCosts, is_same_kind: bool) -> Option<u64> {
        let board = |device: &'a Device| device.parent.as_ref().unwrap_or(&device.id);
        let (a, b) = (self.devices.get(a.id.as_str())?, self.devices.get(b.id.as_str())?);
        if board(a) == board(b) {
            return None;
        }
        let mut kinds = self.direct.get(&ordered(&a.id, &b.id)).cloned().unwrap_or_default();
        if is_same_kind {
            let is_near = a.numa_node.is_some() && a.numa_node == b.numa_node || !self.has_several_domains;
            kinds.insert(if is_near { LinkKind::SameNuma } else { LinkKind::Interconnect });
            if a.pci_root_port.is_some() && a.pci_root_port == b.pci_root_port {
                kinds.insert(LinkKind::PciRoot);
            }
        }
        kinds.iter().filter_map(|kind| costs.get(kind)).min().copied()
    }
}

fn ordered<'a>(a: &'a str, b: &'a str) -> (&'a str, &'a str) {
    (a.min(b), a.max(b))
}

/// A unit and its device.
type Known<'a> = (&'a Unit, &'a Device);

/// The units with a known device, by node; `topology` returns that of a node.
fn units_with_devices<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
) -> impl Iterator<Item = (NodeLinks<'a>, Vec<Known<'a>>)> {
    let mut of_node: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
    for unit in units.iter().filter(|unit| unit.device.is_some()) {
        of_node.entry(&unit.node).or_default().push(unit);
    }
    of_node.into_iter().filter_map(move |(node, units)| {
        let links = NodeLinks::new(&topology(node)?.spec);
        let known = units.into_iter().filter_map(|unit| Some((unit, links.device(unit)?))).collect();
        Some((links, known))
    })
}

/// The costs of pairs of units of one node whose devices are known, as far as they differ from those of their kinds and domains.
pub(crate) fn pair_costs<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
    exchange_cost: &ExchangeCost,
    costs: &LinkCosts,
) -> Vec<PairCost> {
    let mut pairs = Vec::new();
    if costs.is_empty() {
        return pairs;
    }
    for (links, units) in units_with_devices(units, topology) {
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

/// The links that units with known devices share, if a level names `congestion`: PCI root ports, and interconnects of NUMA domains.
pub(crate) fn shared_links<'a>(
    units: &'a Units,
    topology: impl Fn(&str) -> Option<&'a NodeTopology>,
    policy: &Policy,
) -> Vec<SharedLink> {
    let mut shared = Vec::new();
    let Levels::InOrder(levels) = &policy.objectives else { return shared };
    if !levels.iter().flatten().any(|criterion| *criterion == Criterion::Congestion) {
        return shared;
    }
    let ids = |units: &[Known]| units.iter().map(|(unit, _)| unit.id.clone()).collect::<Vec<_>>();
    for (links, units) in units_with_devices(units, topology) {
        let Some((first, _)) = units.first() else { continue };
        let node = &first.node;
        let ports: BTreeSet<&str> =
            units.iter().filter_map(|(_, device)| device.pci_root_port.as_deref()).collect();
        for port in ports {
            let Some(bandwidth) = links.bandwidth_of_port(port) else { continue };
            let is_below = |(_, device): &Known| device.pci_root_port.as_deref() == Some(port);
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

/// The messages per window, in quanta, that a bandwidth in bytes per second allows.
fn messages(bandwidth: i64, policy: &Policy) -> u64 {
    let per_byte = (policy.message_quantum * Exact::from(1_000_000)).recip();
    let messages = product([Exact::from(i128::from(bandwidth.max(0))), per_byte, policy.window]);
    messages.map_or(LARGEST, floor).min(LARGEST)
}
