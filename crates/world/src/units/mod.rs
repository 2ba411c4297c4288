//! From pools, nodes and topologies to computing units.

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
use crate::units::slots::{Claims as Slots, State, slots};
use crate::units::unit::{CordonReason, Unit};
use crate::{Index, Policy};

/// The label that names a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node with what pods that are not ours leave of it.
pub(crate) struct FreeNode<'a> {
    pub node: &'a Node,
    pub name: &'a str,
    pub topology: Option<&'a NodeTopology>,
    /// What is left.
    pub room: &'a NodeRoom,
    /// How many actors each unit was decided for.
    decided: Option<&'a BTreeMap<String, u64>>,
    /// Units whose pods hold a device that is lost.
    lost: BTreeSet<&'a str>,
    /// Units that are offered no more, and that somebody is on still.
    leaving: BTreeSet<&'a str>,
    /// Whether the agent that speaks of its devices is silent.
    is_silent: bool,
}

impl FreeNode<'_> {
    /// Who has which slot of a pool.
    fn claims(&self, pool: &str) -> Slots {
        let prefix = format!("{}/{pool}-", self.name);
        let slot = |unit: &str| unit.strip_prefix(&prefix)?.parse().ok();
        Slots {
            held: self.room.held.keys().filter_map(|unit| slot(unit)).collect(),
            lost: self.lost.iter().filter_map(|unit| slot(unit)).collect(),
            leaving: self.leaving.iter().filter_map(|unit| slot(unit)).collect(),
            decided: self.decided.into_iter().flatten().filter_map(|(unit, _)| slot(unit)).collect(),
        }
    }

    /// What foreign pods leave of a resource; may be below zero.
    pub fn left(&self, resource: &str) -> Exact {
        self.room.free.get(resource).copied().unwrap_or_default()
    }

    /// Whether what it offers depends on more than what changes at the node: on pods, wherever they are, that hold a device
    /// that is lost, and on units that are kept for a while.
    pub fn is_in_transit(&self) -> bool {
        !self.leaving.is_empty() || self.topology.is_some_and(|it| it.spec.has_lost())
    }
}

/// The nodes by name, with foreign pods taken off.
///
/// Foreign is who does not come to us by the chain of controllers, whatever its labels say. Who is left over from an
/// owner that is gone is none either: it is about to go, and a start waits for it.
pub(crate) fn free_nodes(index: &Index) -> Vec<FreeNode<'_>> {
    index.nodes.keys().filter_map(|name| free_node(index, name)).collect()
}

/// One node, with foreign pods taken off.
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
        leaving: index.kept_at(name).filter(|unit| room.held.contains_key(*unit)).collect(),
        is_silent: index.is_agent_stale(name),
    })
}

/// The units whose pods hold a device that is lost, as far as the node's agent says who holds what.
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

/// The units of a node that are offered no more because their device is lost, and that somebody is on: as they would be if it were
/// merely degraded, with which who is there stays.
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

/// What the pools make of some nodes: units, and a report on each pool.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    pub units: Vec<Unit>,
    pub reports: BTreeMap<String, PoolReport>,
}

/// Who has what of a node already: the pool with the smaller name wins.
#[derive(Default)]
struct Claims {
    /// Its cores, by kind.
    cores: BTreeMap<String, String>,
    /// Its devices, by kind and id.
    devices: BTreeMap<(String, String), String>,
    /// Its resources.
    resources: BTreeMap<String, String>,
}

/// What the pools make of one node, with what was offered a moment ago and is left by nobody yet; units by name.
pub(crate) fn offer_of(index: &Index, node: &FreeNode, policy: &Policy) -> Offered {
    let mut offer = offered(index, node, policy);
    let is_offered = |id: &str| offer.units.iter().any(|unit| unit.id == id);
    let leaving = node.leaving.iter().filter(|unit| !is_offered(unit));
    let leaving: Vec<Unit> = leaving.filter_map(|unit| index.kept_unit(node.name, unit, policy)).collect();
    offer.units.extend(leaving);
    offer.units.sort_by(|a, b| a.id.cmp(&b.id));
    offer
}

/// What the pools make of one node now, without what was offered a moment ago.
///
/// What one node offers depends on no other node.
pub(crate) fn offered(index: &Index, node: &FreeNode, policy: &Policy) -> Offered {
    let mut offer = Offered::default();
    let mut claims = Claims::default();
    for (name, pool) in index.pools.iter().filter(|(_, pool)| selects(pool, node.node)) {
        let Ok(measures) = Measures::of(pool, policy) else { continue };
        let mut report = PoolReport::default();
        Source { pool, name, node, measures: &measures }.offer(&mut claims, &mut report, &mut offer.units);
        if report != PoolReport::default() {
            offer.reports.insert(name.clone(), report);
        }
    }
    offer
}

/// What keeps a pool from offering anything.
pub(crate) fn is_invalid(pool: &DevicePool, policy: &Policy) -> Option<String> {
    Measures::of(pool, policy).err()
}

fn selects(pool: &DevicePool, node: &Node) -> bool {
    pool.spec.node_selector.as_ref().is_none_or(|selector| labels_match(selector, node.labels()))
}

/// A pool's numbers.
struct Measures {
    /// Window × utilization × speed: what one lane does, in microseconds.
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
struct Source<'a> {
    pool: &'a DevicePool,
    name: &'a str,
    node: &'a FreeNode<'a>,
    measures: &'a Measures,
}

impl Source<'_> {
    fn offer(&self, claims: &mut Claims, report: &mut PoolReport, units: &mut Vec<Unit>) {
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
        if self.node.is_silent && self.pool.spec.unit() != UnitKind::Node {
            let problem = format!(
                "{}: its agent is silent; who is there stays, and nobody comes until it is heard again",
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
        // Whole nodes need no agent.
        let is_hearsay = self.node.is_silent && resource.is_some();
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

    /// What the node has for pods, in MiB.
    fn node_memory(&self) -> Option<u64> {
        let (_, scale) = resource_unit("memory");
        allocatable(self.node.node).get("memory").map(|memory| floor(*memory * scale))
    }

    /// Whether nobody has the node's cores for this kind yet.
    fn claims_cores(&self, claims: &mut Claims, report: &mut PoolReport) -> bool {
        let key = self.pool.spec.kind.clone();
        let owner = claims.cores.entry(key).or_insert_with(|| self.name.to_owned());
        if owner == self.name {
            return true;
        }
        let problem =
            format!("pool {owner} has the cores of {} already; narrow nodeSelector", self.node.name);
        report.add_problem("Overlap", problem);
        false
    }

    fn resource(&self, index: i32) -> String {
        resource_of(self.pool, &index.to_string()).unwrap_or_default()
    }

    fn offer_domains(&self, claims: &mut Claims, report: &mut PoolReport, units: &mut Vec<Unit>) {
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
                    // Who is there stays: that nothing is offered says nothing against the domain.
                    let mut unit = self.unit(position, lanes, None, Some(index), Some(resource.clone()));
                    unit.memory_mib = memory(&[device]);
                    let held = |holders: Option<&u64>| holders.copied().unwrap_or(0);
                    let decided = held(self.node.decided.and_then(|decided| decided.get(&unit.id)));
                    unit.slots = Some(held(self.node.room.held.get(&unit.id)).max(decided));
                    unit.cordoned = unit.cordoned.or(Some(CordonReason::Overcommitted));
                    units.push(unit);
                }
                let problem = format!(
                    "{} offers no {resource}: its device plugin is missing or all are taken",
                    self.node.name
                );
                report.add_problem("Degraded", problem);
                continue;
            }
            report.healthy += usize::from(!self.node.is_silent);
            let slots = Some(self.measures.sharing.unwrap_or(u64::MAX).min(offered));
            let memory_mib = memory(&[device]);
            units.push(Unit { memory_mib, ..self.unit(position, lanes, slots, Some(index), Some(resource)) });
        }
    }

    fn offer_devices(&self, claims: &mut Claims, report: &mut PoolReport, units: &mut Vec<Unit>) {
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
            // Nobody says what is there: who is there stays.
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
                "{}: {} devices, {} healthy, room for {offered} in {resource}",
                self.node.name,
                devices.len(),
                healthy.len()
            );
            report.add_problem("Degraded", problem);
        }
        report.healthy += if self.node.is_silent { 0 } else { usable };
        let classes: BTreeSet<_> = healthy.iter().map(|device| (&device.model, device.numa_node)).collect();
        if classes.len() > 1 {
            let problem = format!(
                "{}: devices of {} classes (model, NUMA domain) behind {resource}; the kubelet picks which one",
                self.node.name,
                classes.len()
            );
            report.add_problem("Ambiguous", problem);
        }
        let numa = healthy.first().filter(|_| classes.len() == 1).and_then(|device| device.numa_node);
        units.extend(self.slots(usable, sharing, (numa, memory(&healthy)), &resource));
    }

    /// The slots of the pool on the node, `usable` of which there is room for.
    fn slots(
        &self,
        usable: usize,
        sharing: u64,
        (numa, memory_mib): (Option<i32>, Option<u64>),
        resource: &str,
    ) -> Vec<Unit> {
        let lanes = self.measures.lanes.unwrap_or_else(|| Exact::from(1));
        let unit = |(index, state): (usize, State)| {
            let unit = self.unit(index, lanes, Some(sharing), numa, Some(resource.to_owned()));
            let crowded = Some(CordonReason::Overcommitted).filter(|_| state == State::HeldOnly);
            Unit { cordoned: unit.cordoned.or(crowded), memory_mib, ..unit }
        };
        slots(&self.node.claims(self.name), usable).into_iter().map(unit).collect()
    }

    /// Whether nobody has the devices, or their resource, yet.
    fn claims_devices(
        &self,
        devices: &[&Device],
        resource: &str,
        claims: &mut Claims,
        report: &mut PoolReport,
    ) -> bool {
        let (node, kind) = (self.node.name, &self.pool.spec.kind);
        let keys: Vec<_> = devices.iter().map(|device| (kind.clone(), device.id.clone())).collect();
        if let Some((owner, id)) = keys.iter().find_map(|key| Some((claims.devices.get(key)?, &key.1))) {
            let problem = format!("pool {owner} has {id} of {node} already; narrow devices or nodeSelector");
            report.add_problem("Overlap", problem);
            return false;
        }
        if let Some(owner) = claims.resources.get(resource) {
            let problem = format!(
                "pool {owner} asks for {resource} on {node} too, and the kubelet picks the device; give each its own resource"
            );
            report.add_problem("Ambiguous", problem);
            return false;
        }
        claims.resources.insert(resource.to_owned(), self.name.to_owned());
        claims.devices.extend(keys.into_iter().map(|key| (key, self.name.to_owned())));
        true
    }

    /// The node's devices of a type, in the form that kinds have: lower case, words joined by `-`.
    fn devices(&self, kind: &str) -> Vec<&Device> {
        let of_kind = |device: &&Device| device.type_.to_lowercase().replace(' ', "-") == kind;
        let devices = self.node.topology.map(|topology| topology.spec.devices.as_slice()).unwrap_or_default();
        let mut devices: Vec<&Device> = devices.iter().filter(of_kind).collect();
        devices.sort_by(|a, b| (a.numa_node, &a.id).cmp(&(b.numa_node, &b.id)));
        devices
    }
}

/// Work in microseconds per window. More than a snapshot counts is as good as the most that it does.
fn capacity(exact: Option<Exact>) -> u64 {
    exact.map_or(LARGEST, floor).clamp(1, LARGEST)
}

/// The memory of the smallest of some devices, in MiB, where it is known of each.
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

/// Whether a text fits a pattern in which `*` stands for any text; upper and lower case are the same.
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
