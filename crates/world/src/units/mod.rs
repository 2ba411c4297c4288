//! Derives computing units from pools, nodes and topologies.

pub(crate) mod device_resource;
pub(crate) mod grace;
pub(crate) mod offer;
pub(crate) mod offer_cache;
pub(crate) mod report;
pub(crate) mod slots;
pub(crate) mod unit;
pub(crate) mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, DeviceMatch, DevicePool, Health, NodeTopology, UnitKind};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use placement::LARGEST;

use crate::constraints::selectors::labels_match;
use crate::demand::pods::{allocatable, resource_unit, unit_of};
use crate::index::ownership::Ownership;
use crate::index::room::NodeRoom;
use crate::numbers::{Exact, floor, product, rational};
use crate::units::device_resource::resource_of;
use crate::units::report::PoolReport;
use crate::units::slots::{SlotClaims as Slots, SlotState, slots};
use crate::units::unit::{CordonReason, Unit};
use crate::{Index, Policy};

/// Label with a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A node less the requests of foreign pods.
pub(crate) struct FreeNode<'a> {
    pub node: &'a Node,
    pub name: &'a str,
    pub topology: Option<&'a NodeTopology>,
    /// Free capacity.
    pub room: &'a NodeRoom,
    /// Number of actors decided on each unit.
    decided: Option<&'a BTreeMap<String, u64>>,
    /// Units whose pods hold a lost device.
    lost: BTreeSet<&'a str>,
    /// Units in use that are no longer offered.
    withdrawn: BTreeSet<&'a str>,
    /// Whether the lease of its agent expired.
    is_agent_stale: bool,
}

impl FreeNode<'_> {
    /// Slots of a pool that are in use or decided.
    fn claims(&self, pool: &str) -> Slots {
        let prefix = format!("{}/{pool}-", self.name);
        let slot = |unit: &str| unit.strip_prefix(&prefix)?.parse().ok();
        Slots {
            held: self.room.held.keys().filter_map(|unit| slot(unit)).collect(),
            lost: self.lost.iter().filter_map(|unit| slot(unit)).collect(),
            withdrawn: self.withdrawn.iter().filter_map(|unit| slot(unit)).collect(),
            decided: self.decided.into_iter().flatten().filter_map(|(unit, _)| slot(unit)).collect(),
        }
    }

    /// What foreign pods leave of a resource; may be negative.
    pub fn left(&self, resource: &str) -> Exact {
        self.room.free.get(resource).copied().unwrap_or_default()
    }

    /// Whether its offer also depends on events elsewhere: pods that hold lost devices, and grace periods.
    pub fn is_volatile(&self) -> bool {
        !self.withdrawn.is_empty() || self.topology.is_some_and(|it| it.spec.has_lost())
    }
}

/// All nodes by name, less the requests of foreign pods.
///
/// A pod is foreign if its controllers do not lead to one of our applications, whatever its labels say. An orphaned pod
/// is not foreign: it will be deleted soon, and a start waits for it.
pub(crate) fn free_nodes(index: &Index) -> Vec<FreeNode<'_>> {
    index.nodes.keys().filter_map(|name| free_node(index, name)).collect()
}

/// One node, less the requests of foreign pods.
pub(crate) fn free_node<'a>(index: &'a Index, name: &str) -> Option<FreeNode<'a>> {
    let topology = index.topology(name).map(AsRef::as_ref);
    let room = index.room(name)?;
    let (name, node) = index.nodes.get_key_value(name)?;
    Some(FreeNode {
        node,
        topology,
        name,
        room,
        decided: index.decided_at(name),
        lost: topology.map(|topology| lost(index, topology)).unwrap_or_default(),
        withdrawn: index.withdrawn_at(name).filter(|unit| room.held.contains_key(*unit)).collect(),
        is_agent_stale: index.is_agent_stale(name),
    })
}

/// Units whose pods hold a lost device, according to the agent's allocations.
fn lost<'a>(index: &'a Index, topology: &NodeTopology) -> BTreeSet<&'a str> {
    if !topology.spec.has_lost() {
        return BTreeSet::new();
    }
    let is_lost =
        |id: &String| topology.spec.device_of(id).is_some_and(|device| device.health == Health::Lost);
    let allocations = topology.status.iter().flat_map(|status| &status.allocations);
    let hit = allocations.filter(|allocation| allocation.device_ids.iter().any(is_lost));
    let unit = |allocation: &crds::Allocation| {
        let pod = index.pod(&allocation.namespace, &allocation.pod)?;
        let is_it = pod.metadata.uid.as_ref() == Some(&allocation.pod_uid);
        unit_of(pod).filter(|_| is_it && matches!(index.owner_of_pod(pod), Ownership::OwnedBy(_)))
    };
    hit.filter_map(unit).collect()
}

/// Units in use that are not offered because their device is lost, as they would be with a degraded device.
pub(crate) fn lost_units(index: &Index, node: &str, topology: &NodeTopology, policy: &Policy) -> Vec<Unit> {
    let mut topology = topology.clone();
    for device in topology.spec.devices.iter_mut().filter(|device| device.health == Health::Lost) {
        device.health = Health::Degraded;
    }
    let Some(free) = free_node(index, node) else { return Vec::new() };
    let now = offered(index, &free, policy).units;
    let before = FreeNode { topology: Some(&topology), lost: BTreeSet::new(), ..free };
    let mut units = offered(index, &before, policy).units;
    units.retain(|unit| before.room.pods_on(&unit.id) > 0 && now.iter().all(|other| other.id != unit.id));
    units
}

/// Units that the pools derive from a node, and a report on each pool.
#[derive(Debug, Default)]
pub(crate) struct NodeOffer {
    pub units: Vec<Unit>,
    pub reports: BTreeMap<String, PoolReport>,
}

/// What each pool claims of a node; the pool with the smaller name wins.
#[derive(Default)]
struct PoolClaims {
    /// Pool by kind of cores.
    cores: BTreeMap<String, String>,
    /// Pool by device kind and id.
    devices: BTreeMap<(String, String), String>,
    /// Pool by resource.
    resources: BTreeMap<String, String>,
}

/// The offer of a node, including withdrawn units in their grace period; units are sorted.
pub(crate) fn node_offer(index: &Index, node: &FreeNode, policy: &Policy) -> NodeOffer {
    let mut offer = offered(index, node, policy);
    let is_offered = |id: &str| offer.units.iter().any(|unit| unit.id == id);
    let leaving = node.withdrawn.iter().filter(|unit| !is_offered(unit));
    let leaving: Vec<Unit> =
        leaving.filter_map(|unit| index.withdrawn_unit(node.name, unit, policy)).collect();
    offer.units.extend(leaving);
    offer.units.sort_by(|a, b| a.id.cmp(&b.id));
    offer
}

/// The current offer of a node, without withdrawn units.
///
/// It depends on no other node.
pub(crate) fn offered(index: &Index, node: &FreeNode, policy: &Policy) -> NodeOffer {
    let mut offer = NodeOffer::default();
    let mut claims = PoolClaims::default();
    for (name, pool) in index.pools.iter().filter(|(_, pool)| selects(pool, node.node)) {
        let Ok(measures) = Measures::of(pool, policy) else { continue };
        let mut report = PoolReport::default();
        PoolOnNode { pool, name, node, measures: &measures }.offer(
            &mut claims,
            &mut report,
            &mut offer.units,
        );
        if report != PoolReport::default() {
            offer.reports.insert(name.clone(), report);
        }
    }
    offer
}

/// Why a pool is invalid.
pub(crate) fn pool_problem(pool: &DevicePool, policy: &Policy) -> Option<String> {
    Measures::of(pool, policy).err()
}

fn selects(pool: &DevicePool, node: &Node) -> bool {
    pool.spec.node_selector.as_ref().is_none_or(|selector| labels_match(selector, node.labels()))
}

/// Numbers of a pool.
struct Measures {
    /// Window × utilization × speed: work of one lane in microseconds.
    per_lane: Exact,
    lanes: Option<Exact>,
    sharing: Option<u64>,
}

impl Measures {
    fn of(pool: &DevicePool, policy: &Policy) -> Result<Self, String> {
        let number =
            |field: &str, text: &str| rational(text).map_err(|e| format!("spec.{field}: {e}; correct it"));
        let speed = number("speed", &pool.spec.speed)?;
        let share = number("utilizationTarget", &pool.spec.utilization_target)?;
        Ok(Self {
            per_lane: policy.window * share * speed,
            lanes: pool.spec.lanes.map(|lanes| Exact::from(i128::from(lanes))),
            sharing: pool.spec.max_instances_per_unit().and_then(|most| u64::try_from(most).ok()),
        })
    }
}

/// One pool on one node.
struct PoolOnNode<'a> {
    pool: &'a DevicePool,
    name: &'a str,
    node: &'a FreeNode<'a>,
    measures: &'a Measures,
}

impl PoolOnNode<'_> {
    fn offer(&self, claims: &mut PoolClaims, report: &mut PoolReport, units: &mut Vec<Unit>) {
        match self.pool.spec.unit() {
            UnitKind::Node => {
                if self.claims_cores(claims, report) {
                    report.units += 1;
                    report.healthy += 1;
                    let lanes = self.measures.lanes.unwrap_or_else(|| self.node.left("cpu"));
                    units.push(self.unit(0, lanes, self.measures.sharing, None, None));
                }
            }
            UnitKind::NumaDomain => self.offer_domains(claims, report, units),
            UnitKind::Device => self.offer_devices(claims, report, units),
        }
        if self.node.is_agent_stale && self.pool.spec.unit() != UnitKind::Node {
            let problem = format!(
                "{}: the lease of its agent expired; running actors stay, and new ones are placed once it is renewed",
                self.node.name
            );
            report.add_problem("Stale", problem);
        }
    }

    fn unit(
        &self,
        index: usize,
        lanes: Exact,
        slots: Option<u64>,
        numa: Option<i32>,
        resource: Option<String>,
    ) -> Unit {
        let zone = self.node.node.labels().get(ZONE).cloned();
        // Units of whole nodes do not depend on the agent.
        let is_hearsay = self.node.is_agent_stale && resource.is_some();
        Unit {
            id: format!("{}/{}-{index}", self.node.name, self.name),
            kind: self.pool.spec.kind.clone(),
            node: self.node.name.to_owned(),
            zone,
            numa: numa.map(|numa| format!("numa-{numa}")),
            pool: self.name.to_owned(),
            capacity: capacity(product([self.measures.per_lane, lanes.max(Exact::default())])),
            capacity_per_actor: capacity(Some(self.measures.per_lane)),
            memory_mib: self.node_memory().filter(|_| resource.is_none()),
            slots,
            resource,
            cordoned: Some(CordonReason::StaleAgent).filter(|_| is_hearsay),
        }
    }

    /// Allocatable memory in MiB.
    fn node_memory(&self) -> Option<u64> {
        let (_, scale) = resource_unit("memory");
        allocatable(self.node.node).get("memory").map(|memory| floor(*memory * scale))
    }

    /// Claims the node's cores for this kind; false if another pool has them.
    fn claims_cores(&self, claims: &mut PoolClaims, report: &mut PoolReport) -> bool {
        let key = self.pool.spec.kind.clone();
        let owner = claims.cores.entry(key).or_insert_with(|| self.name.to_owned());
        if owner == self.name {
            return true;
        }
        let problem =
            format!("pool {owner} already claims the cores of {}; narrow nodeSelector", self.node.name);
        report.add_problem("Overlap", problem);
        false
    }

    fn resource(&self, index: i32) -> String {
        resource_of(self.pool, &index.to_string()).unwrap_or_default()
    }

    fn offer_domains(&self, claims: &mut PoolClaims, report: &mut PoolReport, units: &mut Vec<Unit>) {
        let domains = self.devices("numa-domain");
        if domains.is_empty() || !self.claims_cores(claims, report) {
            return;
        }
        let cores = |device: &Device| -> i128 {
            let of = |type_: &str| {
                device.compute_resources.iter().find(|r| r.type_ == type_).map(|r| r.count.into())
            };
            of("Core").or_else(|| of("Processing Unit")).unwrap_or(1)
        };
        let all: i128 = domains.iter().map(|device| cores(device)).sum();
        for (position, device) in domains.iter().enumerate() {
            report.units += 1;
            let index = device.numa_node.unwrap_or_else(|| i32::try_from(position).unwrap_or(i32::MAX));
            let resource = self.resource(index);
            let offered = floor(self.node.left(&resource));
            let position = usize::try_from(index).unwrap_or(position);
            let share = Exact::new(cores(device), all.max(1));
            let lanes = self.measures.lanes.unwrap_or_else(|| self.node.left("cpu") * share);
            if device.health != Health::Ok || offered == 0 {
                let claims = self.node.claims(self.name);
                if claims.held.contains(&position) && device.health != Health::Lost {
                    // Running actors stay: a resource that is not offered does not prove a fault of the domain.
                    let mut unit = self.unit(position, lanes, None, Some(index), Some(resource.clone()));
                    unit.memory_mib = memory(&[device]);
                    let held = |holders: Option<&u64>| holders.copied().unwrap_or(0);
                    let decided = held(self.node.decided.and_then(|decided| decided.get(&unit.id)));
                    unit.slots = Some(held(self.node.room.held.get(&unit.id)).max(decided));
                    unit.cordoned = unit.cordoned.or(Some(CordonReason::Overcommitted));
                    units.push(unit);
                }
                let problem = format!(
                    "{} offers no {resource}: its device plugin is missing or all devices are in use",
                    self.node.name
                );
                report.add_problem("Degraded", problem);
                continue;
            }
            report.healthy += usize::from(!self.node.is_agent_stale);
            let slots = Some(self.measures.sharing.unwrap_or(u64::MAX).min(offered));
            let memory_mib = memory(&[device]);
            units.push(Unit { memory_mib, ..self.unit(position, lanes, slots, Some(index), Some(resource)) });
        }
    }

    fn offer_devices(&self, claims: &mut PoolClaims, report: &mut PoolReport, units: &mut Vec<Unit>) {
        let resource = self.resource(0);
        let wanted = self.pool.spec.devices.clone().unwrap_or_default();
        let devices: Vec<&Device> = self
            .devices(&self.pool.spec.kind)
            .into_iter()
            .filter(|device| matches(&wanted, device))
            .collect();
        let sharing = self.measures.sharing.unwrap_or(1).max(1);
        let offered = floor(self.node.left(&resource)) / sharing;
        if devices.is_empty() {
            if offered > 0 && self.node.topology.is_none() {
                let problem =
                    format!("{} offers {resource}, but no node agent reports its devices", self.node.name);
                report.add_problem("NoTopology", problem);
            }
            // Without a topology, running actors stay.
            units.extend(self.slots(0, sharing, (None, None), &resource));
            return;
        }
        if !self.claims_devices(&devices, &resource, claims, report) {
            return;
        }
        report.units += devices.len();
        let healthy: Vec<&Device> =
            devices.iter().copied().filter(|device| device.health == Health::Ok).collect();
        let usable = healthy.len().min(usize::try_from(offered).unwrap_or(usize::MAX));
        if usable < devices.len() {
            let problem = format!(
                "{}: {} devices, {} healthy, {offered} available as {resource}",
                self.node.name,
                devices.len(),
                healthy.len()
            );
            report.add_problem("Degraded", problem);
        }
        report.healthy += if self.node.is_agent_stale { 0 } else { usable };
        let classes: BTreeSet<_> = healthy.iter().map(|device| (&device.model, device.numa_node)).collect();
        if classes.len() > 1 {
            let problem = format!(
                "{}: devices of {} classes (model, NUMA domain) behind {resource}; the kubelet chooses one",
                self.node.name,
                classes.len()
            );
            report.add_problem("Ambiguous", problem);
        }
        let numa = healthy.first().filter(|_| classes.len() == 1).and_then(|device| device.numa_node);
        units.extend(self.slots(usable, sharing, (numa, memory(&healthy)), &resource));
    }

    /// Slots of the pool on the node; `usable` is the capacity.
    fn slots(
        &self,
        usable: usize,
        sharing: u64,
        (numa, memory_mib): (Option<i32>, Option<u64>),
        resource: &str,
    ) -> Vec<Unit> {
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let unit = |(index, state): (usize, SlotState)| {
            let unit = self.unit(index, lanes, Some(sharing), numa, Some(resource.to_owned()));
            let crowded = Some(CordonReason::Overcommitted).filter(|_| state == SlotState::Cordoned);
            Unit { cordoned: unit.cordoned.or(crowded), memory_mib, ..unit }
        };
        slots(&self.node.claims(self.name), usable).into_iter().map(unit).collect()
    }

    /// Claims devices and their resource; false if another pool has them.
    fn claims_devices(
        &self,
        devices: &[&Device],
        resource: &str,
        claims: &mut PoolClaims,
        report: &mut PoolReport,
    ) -> bool {
        let (node, kind) = (self.node.name, &self.pool.spec.kind);
        let keys: Vec<_> = devices.iter().map(|device| (kind.clone(), device.id.clone())).collect();
        if let Some((owner, id)) = keys.iter().find_map(|key| Some((claims.devices.get(key)?, &key.1))) {
            let problem =
                format!("pool {owner} already claims {id} of {node}; narrow devices or nodeSelector");
            report.add_problem("Overlap", problem);
            return false;
        }
        if let Some(owner) = claims.resources.get(resource) {
            let problem = format!(
                "pool {owner} also requests {resource} on {node}, and the kubelet chooses the device; give each pool its own resource"
            );
            report.add_problem("Ambiguous", problem);
            return false;
        }
        claims.resources.insert(resource.to_owned(), self.name.to_owned());
        claims.devices.extend(keys.into_iter().map(|key| (key, self.name.to_owned())));
        true
    }

    /// The node's devices of a kind; types compare in lower case with `-` for spaces.
    fn devices(&self, kind: &str) -> Vec<&Device> {
        let of_kind = |device: &&Device| device.type_.to_lowercase().replace(' ', "-") == kind;
        let devices = self.node.topology.map(|topology| topology.spec.devices.as_slice()).unwrap_or_default();
        let mut devices: Vec<&Device> = devices.iter().filter(of_kind).collect();
        devices.sort_by(|a, b| (a.numa_node, &a.id).cmp(&(b.numa_node, &b.id)));
        devices
    }
}

/// Work in microseconds per window, capped at the maximum of a snapshot.
fn capacity(exact: Option<Exact>) -> u64 {
    exact.map_or(LARGEST, floor).clamp(1, LARGEST)
}

/// Memory of the smallest device in MiB, if all are known.
fn memory(devices: &[&Device]) -> Option<u64> {
    let of = |device: &&Device| {
        let sizes = device.memory_spaces.iter().map(|space| u64::try_from(space.size_bytes).unwrap_or(0));
        let bytes: u64 = sizes.fold(0, u64::saturating_add);
        (bytes > 0).then_some(bytes >> 20)
    };
    devices.iter().map(of).min().flatten()
}

fn matches(wanted: &DeviceMatch, device: &Device) -> bool {
    let same = |wanted: &Option<String>, found: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| found.as_ref().is_some_and(|found| glob(wanted, found)))
    };
    same(&wanted.vendor, &device.vendor) && same(&wanted.model, &device.model)
}

/// Whether a text matches a pattern with `*` wildcards, ignoring case.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
