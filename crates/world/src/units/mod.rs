//! Derives computing units from pools, nodes and topologies.

pub(crate) mod dra;
pub(crate) mod grace;
pub(crate) mod offer;
pub(crate) mod offer_cache;
pub(crate) mod plugin;
pub(crate) mod report;
pub(crate) mod unit;
pub(crate) mod withdrawn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crds::{Device, DevicePool, Health, NodeTopology, UnitKind};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use placement::LARGEST;

use crate::constraints::nodes::selectors::{label_requirements, labels_match};
use crate::demand::pods::{allocatable, resource_unit, unit_of};
use crate::index::ownership::Ownership;
use crate::index::room::NodeRoom;
use crate::numbers::{Exact, floor, product, rational};
use crate::units::plugin::device_resource::resource_of;
use crate::units::plugin::slots::SlotClaims as Slots;
use crate::units::report::{NO_MATCH, PoolReport};
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
        let on_node = PoolOnNode { index, pool, name, node, measures: &measures };
        on_node.offer(&mut claims, &mut report, &mut offer.units);
        if report != PoolReport::default() {
            offer.reports.insert(name.clone(), report);
        }
    }
    drop_collisions(node.name, &mut offer);
    offer
}

/// Drops units with the id of a unit of another pool: `a-0` of pool `p`, and `0` of pool `p-a`.
fn drop_collisions(node: &str, offer: &mut NodeOffer) {
    if offer.units.iter().map(|unit| &unit.id).collect::<BTreeSet<_>>().len() == offer.units.len() {
        return;
    }
    let mut owners = BTreeMap::<String, String>::new();
    offer.units.retain(|unit| {
        let Some(owner) = owners.get(&unit.id) else {
            owners.insert(unit.id.clone(), unit.pool.clone());
            return true;
        };
        let report = offer.reports.entry(unit.pool.clone()).or_default();
        report.units = report.units.saturating_sub(1);
        report.healthy = report.healthy.saturating_sub(1);
        let problem =
            format!("{node}: pool {owner} already has a unit {}; rename one of the two pools", unit.id);
        report.add_problem("Overlap", problem);
        false
    });
}

/// Why a pool is unusable on all nodes, with the type of the condition.
pub(crate) fn pool_problem(
    index: &Index,
    pool: &DevicePool,
    policy: &Policy,
) -> Option<(&'static str, String)> {
    let invalid = Measures::of(pool, policy).err().or_else(|| resource_problem(pool));
    invalid.map(|problem| ("Invalid", problem)).or_else(|| dra::claimed::class_problem(index, pool))
}

/// Why nothing says by which resource a pod requests a device of the pool: an older CRD drops `resource.dra`.
fn resource_problem(pool: &DevicePool) -> Option<String> {
    let is_dropped = pool.spec.unit() == UnitKind::Device
        && pool.spec.resource.as_ref().is_none_or(|it| it.device_plugin.is_none() && it.dra.is_none());
    is_dropped.then(|| {
        "spec.resource has neither devicePlugin nor dra: the CRDs are older than the pool and dropped the field; apply the CRDs \
         and the pool again, until then running actors stay and no new ones are placed"
            .to_owned()
    })
}

/// Notes on a pool that are of no single node.
pub(crate) fn note_pool(index: &Index, pool: &DevicePool, report: &mut PoolReport) {
    if let Some(selector) = &pool.spec.node_selector
        && !index.nodes.values().any(|node| selects(pool, node))
    {
        let requirements = label_requirements(selector).join(", ");
        let note = format!(
            "no node has the labels of spec.nodeSelector: {requirements}; correct it, or label the nodes"
        );
        report.add_note(NO_MATCH, note);
    }
    dra::claimed::note_devices_of_several_nodes(index, pool, report);
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
        let per_lane = product([policy.window, share, speed]).ok_or_else(|| {
            "spec.speed: speed times utilizationTarget is too large or has too many digits; correct it"
                .to_owned()
        })?;
        Ok(Self {
            per_lane,
            lanes: pool.spec.lanes.map(|lanes| Exact::from(i128::from(lanes))),
            sharing: pool.spec.max_instances_per_unit().and_then(|most| u64::try_from(most).ok()),
        })
    }
}

/// One pool on one node.
struct PoolOnNode<'a> {
    index: &'a Index,
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
                    let device = match self.devices("numa-domain")[..] {
                        [only] => Some(only.id.clone()),
                        _ => None,
                    };
                    units.push(Unit { device, ..self.unit(0, lanes, self.measures.sharing, None, None) });
                }
            }
            UnitKind::NumaDomain => self.offer_domains(claims, report, units),
            UnitKind::Device => match self.dra() {
                Some(devices) => self.offer_claimed(devices, claims, report, units),
                None if resource_problem(self.pool).is_some() => units.extend(self.in_use(None)),
                None => self.offer_devices(claims, report, units),
            },
        }
        // Slices and the cores of whole nodes do not depend on the agent.
        if self.node.is_agent_stale && self.pool.spec.unit() != UnitKind::Node && self.dra().is_none() {
            let problem = format!(
                "{}: the lease of its agent expired; running actors stay, and new ones are placed once it is renewed",
                self.node.name
            );
            report.add_problem("Stale", problem);
        }
    }

    fn unit(
        &self,
        name: impl Display,
        lanes: Exact,
        slots: Option<u64>,
        numa: Option<i32>,
        resource: Option<String>,
    ) -> Unit {
        let zone = self.node.node.labels().get(ZONE).cloned();
        // Units of whole nodes do not depend on the agent.
        let is_hearsay = self.node.is_agent_stale && resource.is_some();
        Unit {
            id: format!("{}/{}-{name}", self.node.name, self.name),
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
            claim: None,
            device: None,
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
