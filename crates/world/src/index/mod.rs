//! An index over the cluster's objects, updated by each event.

pub(crate) mod devices;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod namespaces;
pub(crate) mod objects;
pub(crate) mod owner;
pub(crate) mod ownership;
pub(crate) mod placements;
pub(crate) mod relist;
pub(crate) mod room;
pub(crate) mod runtime_requests;
pub(crate) mod scheduling;
pub(crate) mod scheduling_events;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use crds::{ActorApplication, DevicePool, Instance, NodeTopology, Placement};
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use kube::ResourceExt;

use crate::demand::pods::{Quantities, add, allocatable, is_terminal, pod_requests, scheduled_node, unit_of};
use crate::index::devices::published::PublishedDevices;
use crate::index::load::by_unit::{Loads, Measure};
use crate::index::names::{Name, namespace_of, remove_from_set};
use crate::index::namespaces::Namespaces;
use crate::index::owner::{controlled, controller_ref, is_decision_for, uid};
use crate::index::ownership::Ownership;
use crate::index::room::NodeRoom;
use crate::index::runtime_requests::Requests;
use crate::index::scheduling::SchedulingObjects;
use crate::numbers::Exact;
use crate::snapshot::measured::MeasuredDemand;
use crate::units::dra::selectors::SelectorCache;
use crate::units::offer::OfferCache;
use crate::units::withdrawn::WithdrawnUnits;
use crate::{ApplicationKey, Objects};

/// The objects of a snapshot, indexed by name, owner and node.
#[derive(Debug, Default)]
pub struct Index {
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) topologies: BTreeMap<String, Arc<NodeTopology>>,
    pub(crate) pools: BTreeMap<String, Arc<DevicePool>>,
    pub(crate) applications: BTreeMap<ApplicationKey, Arc<ActorApplication>>,
    pub(crate) placements: BTreeMap<ApplicationKey, Arc<Placement>>,
    pub(crate) instances: BTreeMap<Name, Arc<Instance>>,
    pub(crate) pods: BTreeMap<Name, IndexedPod>,
    pub(crate) quotas: BTreeMap<Name, Arc<ResourceQuota>>,
    pub(crate) namespaces: Namespaces,
    pub(crate) scheduling: SchedulingObjects,
    /// Devices of dynamic resource allocation.
    pub(crate) published: PublishedDevices,
    /// Compiled selectors of devices.
    pub(crate) selectors: Mutex<SelectorCache>,
    /// By uid.
    application_by_uid: BTreeMap<String, ApplicationKey>,
    /// By uid.
    instance_by_uid: BTreeMap<String, Name>,
    /// Instances by the uid of their controller, and pods likewise.
    instances_by_owner: BTreeMap<String, BTreeSet<Name>>,
    pods_by_owner: BTreeMap<String, BTreeSet<Name>>,
    pub(crate) requests: Requests,
    /// Pods that have not ended, by the node they are bound to or, if unbound, pinned to.
    pub(crate) pods_by_node: BTreeMap<String, BTreeSet<Name>>,
    /// Applications with a decided place, by node.
    pub(crate) applications_by_node: BTreeMap<String, BTreeSet<ApplicationKey>>,
    /// Number of actors decided on each unit, by node.
    pub(crate) decided_by_node: BTreeMap<String, BTreeMap<String, u64>>,
    /// By existing node.
    rooms: BTreeMap<String, NodeRoom>,
    /// Units in use that are no longer offered.
    pub(crate) withdrawn: WithdrawnUnits,
    /// Nodes whose agent's lease expired.
    pub(crate) stale_agents: BTreeSet<String>,
    /// Measured numbers of applications.
    measured: BTreeMap<ApplicationKey, Arc<MeasuredDemand>>,
    /// Whether counters of applications are read.
    reads_counters: bool,
    /// Applications of which nothing is measured although counters are read.
    unmeasured: BTreeSet<ApplicationKey>,
    /// Load of applications, by the measure it is counted with.
    pub(crate) loads: Mutex<BTreeMap<Measure, Loads>>,
    /// Offered units, by window.
    pub(crate) offers: Mutex<BTreeMap<Exact, OfferCache>>,
}

/// A pod with its requests and node.
#[derive(Debug)]
pub(crate) struct IndexedPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) asks: Quantities,
    pub(crate) node: Option<String>,
}

impl Index {
    /// Indexes all these objects.
    pub fn of(objects: &Objects) -> Self {
        let mut index = Self { scheduling: objects.scheduling.clone(), ..Self::default() };
        index.publish_all();
        for it in &objects.nodes {
            index.put_node(it.clone());
        }
        for it in &objects.topologies {
            index.put_topology(it.clone());
        }
        for it in &objects.pools {
            index.put_pool(it.clone());
        }
        for it in &objects.quotas {
            index.put_quota(it.clone());
        }
        for it in &objects.limits {
            index.put_limits(it.clone());
        }
        for it in &objects.namespaces {
            index.put_namespace(it);
        }
        for it in &objects.applications {
            index.put_application(it.clone());
        }
        for it in &objects.instances {
            index.put_instance(it.clone());
        }
        for it in &objects.placements {
            index.put_placement(it.clone());
        }
        for it in &objects.pods {
            index.put_pod(it.clone());
        }
        index
    }

    /// Adds or updates a node.
    pub fn put_node(&mut self, node: Arc<Node>) {
        let name = node.name_any();
        self.track_withdrawals(Some(&BTreeSet::from([name.clone()])), |index| {
            index.nodes.insert(name.clone(), node);
            index.recount_node(&name);
        });
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.withdrawn.expire_node(name);
        self.recount_node(name);
    }

    /// Adds or updates an application.
    pub fn put_application(&mut self, application: Arc<ActorApplication>) {
        let key = ApplicationKey::of(&application);
        let new = uid(application.as_ref()).map(str::to_owned);
        let old = self.applications.insert(key.clone(), application);
        self.load_changed(&key);
        self.update_ownership(&key, old.as_deref(), new.as_ref());
    }

    /// Removes an application.
    pub fn remove_application(&mut self, key: &ApplicationKey) {
        let old = self.applications.remove(key);
        self.measured.remove(key);
        self.unmeasured.remove(key);
        self.load_changed(key);
        self.update_ownership(key, old.as_deref(), None);
    }

    /// A new uid changes the ownership of pods.
    fn update_ownership(
        &mut self,
        key: &ApplicationKey,
        old: Option<&ActorApplication>,
        new: Option<&String>,
    ) {
        let old = old.and_then(|old| uid(old)).map(str::to_owned);
        if old.as_ref() == new {
            return;
        }
        if let Some(uid) = &old {
            self.application_by_uid.remove(uid);
        }
        if let Some(uid) = new {
            self.application_by_uid.insert(uid.clone(), key.clone());
        }
        let names = old.iter().chain(new).filter_map(|uid| self.instances_by_owner.get(uid)).flatten();
        let instances: Vec<Arc<Instance>> =
            names.filter_map(|name| self.instances.get(name)).cloned().collect();
        for instance in &instances {
            self.recount_pods_of(instance);
        }
    }

    /// Adds or updates an Instance.
    pub fn put_instance(&mut self, instance: Arc<Instance>) {
        let name = (namespace_of(instance.as_ref()), instance.name_any());
        let chain = |it: &Instance| (uid(it).map(str::to_owned), controlled(it, "ActorApplication"));
        let new = chain(&instance);
        let is_another = self.instances.get(&name).map(|old| chain(old)).as_ref() != Some(&new);
        if is_another {
            self.remove_instance(&name.0, &name.1);
            if let Some(uid) = &new.0 {
                self.instance_by_uid.insert(uid.clone(), name.clone());
            }
            if let Some(owner) = new.1 {
                self.instances_by_owner.entry(owner).or_default().insert(name.clone());
            }
            self.requests.put(&name, &instance);
        }
        self.request_changed(&name, &instance);
        let kept = Arc::clone(self.instances.entry(name).insert_entry(instance).get());
        if is_another {
            self.recount_pods_of(&kept);
        }
    }

    /// Removes an Instance.
    pub fn remove_instance(&mut self, namespace: &str, name: &str) {
        let name = (namespace.to_owned(), name.to_owned());
        let Some(old) = self.instances.remove(&name) else { return };
        self.requests.remove(&name, &old);
        self.request_changed(&name, &old);
        if let Some(owner) = controlled(old.as_ref(), "ActorApplication") {
            remove_from_set(&mut self.instances_by_owner, &owner, &name);
        }
        if let Some(uid) = uid(old.as_ref()) {
            self.instance_by_uid.remove(uid);
        }
        self.recount_pods_of(&old);
    }

    /// Adds or updates a pod.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        let name = (namespace_of(pod.as_ref()), pod.name_any());
        let scheduled = scheduled_node(&pod).map(str::to_owned);
        let pinned = || unit_of(&pod)?.rsplit_once('/').map(|(node, _)| node.to_owned());
        let node = scheduled.or_else(pinned).filter(|_| !is_terminal(&pod));
        // The API server rejects invalid quantities.
        let asks = pod_requests(&pod).unwrap_or_default();
        let is_elsewhere = self
            .pods
            .get(&name)
            .is_none_or(|held| held.asks != asks || placement_facts(&held.pod) != placement_facts(&pod));
        if is_elsewhere {
            self.pod_changed(&name);
        }
        let before = self.forget_pod(&name);
        if let Some(owner) = controlled(pod.as_ref(), "Instance") {
            self.pods_by_owner.entry(owner).or_default().insert(name.clone());
        }
        if let Some(node) = &node {
            self.pods_by_node.entry(node.clone()).or_default().insert(name.clone());
        }
        self.pods.insert(name.clone(), IndexedPod { pod, asks, node: node.clone() });
        if is_elsewhere {
            self.pod_changed(&name);
        }
        for node in BTreeSet::from([before, node]).iter().flatten() {
            self.recount_node(node);
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        let name = (namespace.to_owned(), name.to_owned());
        self.pod_changed(&name);
        if let Some(node) = self.forget_pod(&name) {
            self.recount_node(&node);
        }
    }

    /// Removes a pod from the index and returns its node.
    fn forget_pod(&mut self, name: &Name) -> Option<String> {
        let old = self.pods.remove(name)?;
        if let Some(owner) = controlled(old.pod.as_ref(), "Instance") {
            remove_from_set(&mut self.pods_by_owner, &owner, name);
        }
        let node = old.node?;
        remove_from_set(&mut self.pods_by_node, &node, name);
        Some(node)
    }

    /// The ownership of an Instance's pods may have changed.
    fn recount_pods_of(&mut self, instance: &Instance) {
        let pods = uid(instance).and_then(|uid| self.pods_by_owner.get(uid)).into_iter().flatten();
        let nodes: BTreeSet<String> = pods.filter_map(|name| self.pods.get(name)?.node.clone()).collect();
        for node in &nodes {
            self.recount_node(node);
        }
        let ownership = match self.owner_of_instance(instance) {
            Ownership::OwnedBy(application) if !nodes.is_empty() => Some(ApplicationKey::of(application)),
            _ => None,
        };
        if let Some(key) = ownership {
            self.load_changed(&key);
        }
    }

    /// Recomputes the free capacity of a node.
    fn recount_node(&mut self, name: &str) {
        self.node_changed(name);
        let Some(node) = self.nodes.get(name) else {
            self.rooms.remove(name);
            let is_used = self.pods_by_node.contains_key(name);
            self.withdrawn.drop_unused(name, |_| is_used);
            return;
        };
        let (allocatable, served) = (allocatable(node), self.scheduling.served_on(node));
        let (mut foreign, mut all, mut held) = (Quantities::new(), Quantities::new(), BTreeMap::new());
        for pod in self.pods_by_node.get(name).into_iter().flatten().filter_map(|name| self.pods.get(name)) {
            let ownership = self.owner_of_pod(&pod.pod);
            let is_ours = matches!(ownership, Ownership::OwnedBy(_));
            // Annotations of foreign pods are not trusted.
            if !is_ours && scheduled_node(&pod.pod).is_none() {
                continue;
            }
            let one = Quantities::from([("pods".to_owned(), Exact::from(1))]);
            let takers = [Some(&mut all), matches!(ownership, Ownership::Foreign).then_some(&mut foreign)];
            for total in takers.into_iter().flatten() {
                add(total, &one);
                add(total, &pod.asks);
            }
            if let Some(unit) = unit_of(&pod.pod).filter(|_| is_ours) {
                *held.entry(unit.to_owned()).or_default() += 1;
            }
        }
        self.withdrawn.drop_unused(name, |unit| held.contains_key(unit));
        let room = NodeRoom::of(&allocatable, [&foreign, &all], held, served);
        self.rooms.insert(name.to_owned(), room);
        self.begin_grace(name);
    }

    /// Recomputes the free capacity of all nodes.
    fn recount_all(&mut self) {
        let nodes: Vec<String> = self.nodes.keys().cloned().collect();
        for node in &nodes {
            self.recount_node(node);
        }
    }

    /// The application with this name.
    pub fn application(&self, key: &ApplicationKey) -> Option<&Arc<ActorApplication>> {
        self.applications.get(key)
    }

    /// Names of all applications.
    pub fn applications(&self) -> impl Iterator<Item = &ApplicationKey> {
        self.applications.keys()
    }

    /// The application's decision: the Placement with its name that it controls.
    pub fn placement(&self, key: &ApplicationKey) -> Option<&Arc<Placement>> {
        let application = self.application(key)?;
        self.named_placement(key).filter(|placement| is_decision_for(placement, application))
    }

    /// The Placement with this name, whatever its owner.
    pub fn named_placement(&self, key: &ApplicationKey) -> Option<&Arc<Placement>> {
        self.placements.get(key)
    }

    /// Whether a node with this name exists.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Free capacity of a node.
    pub fn room(&self, node: &str) -> Option<&NodeRoom> {
        self.rooms.get(node)
    }

    /// Applications with a decided place on a node.
    pub fn applications_on(&self, node: &str) -> impl Iterator<Item = &ApplicationKey> {
        self.applications_by_node.get(node).into_iter().flatten()
    }

    /// Number of actors decided on a unit.
    pub fn decided_on(&self, unit: &str) -> u64 {
        let node = unit.rsplit_once('/').and_then(|(node, _)| self.decided_by_node.get(node));
        node.and_then(|units| units.get(unit)).copied().unwrap_or(0)
    }

    /// Number of actors decided on each unit of a node.
    pub(crate) fn decided_at(&self, node: &str) -> Option<&BTreeMap<String, u64>> {
        self.decided_by_node.get(node)
    }

    /// The pod with this name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        self.pods.get(&(namespace.to_owned(), name.to_owned())).map(|held| &held.pod)
    }

    /// Node of a pod that has not ended.
    pub fn node_of_pod(&self, namespace: &str, name: &str) -> Option<&str> {
        self.pods.get(&(namespace.to_owned(), name.to_owned()))?.node.as_deref()
    }

    /// The application that owns the Instance with this uid.
    pub fn application_of(&self, instance: &str) -> Option<ApplicationKey> {
        let instance = self.instances.get(self.instance_by_uid.get(instance)?)?;
        match self.owner_of_instance(instance) {
            Ownership::OwnedBy(application) => Some(ApplicationKey::of(application)),
            Ownership::Orphaned | Ownership::Foreign => None,
        }
    }

    /// The application that owns an Instance.
    pub fn owner_of_instance(&self, instance: &Instance) -> Ownership<&ActorApplication> {
        let Some(owner) = controller_ref(instance, "ActorApplication") else { return Ownership::Foreign };
        let key = self.application_by_uid.get(owner.uid.as_str());
        match key.and_then(|key| self.applications.get(key)) {
            None => Ownership::Orphaned,
            Some(application) if application.namespace() == instance.namespace() => {
                Ownership::OwnedBy(application)
            }
            Some(_) => Ownership::Foreign,
        }
    }

    /// The Instance that owns a pod and has its name, with the Instance's application.
    pub fn owner_of_pod(&self, pod: &Pod) -> Ownership<(&ActorApplication, &Instance)> {
        let Some(owner) = controller_ref(pod, "Instance") else { return Ownership::Foreign };
        let name = self.instance_by_uid.get(owner.uid.as_str());
        let Some(instance) = name.and_then(|name| self.instances.get(name)) else {
            return Ownership::Orphaned;
        };
        match self.owner_of_instance(instance) {
            Ownership::Orphaned => Ownership::Orphaned,
            Ownership::OwnedBy(application)
                if (pod.namespace(), pod.name_any()) == (instance.namespace(), instance.name_any()) =>
            {
                Ownership::OwnedBy((application, instance))
            }
            Ownership::OwnedBy(_) | Ownership::Foreign => Ownership::Foreign,
        }
    }

    /// Instances that the application controls, by name.
    pub(crate) fn instances_of(&self, application: &ActorApplication) -> Vec<&Arc<Instance>> {
        let names = uid(application).and_then(|uid| self.instances_by_owner.get(uid)).into_iter().flatten();
        names.filter_map(|name| self.instances.get(name)).collect()
    }

    /// Instances in a namespace whose names have this prefix.
    pub(crate) fn instances_named(&self, namespace: &str, prefix: &str) -> Vec<&Arc<Instance>> {
        named(&self.instances, namespace, prefix)
    }

    /// Pods in a namespace whose names have this prefix.
    pub(crate) fn pods_named(&self, namespace: &str, prefix: &str) -> Vec<&Arc<Pod>> {
        named(&self.pods, namespace, prefix).into_iter().map(|held| &held.pod).collect()
    }

    /// Free capacity by node.
    pub(crate) fn node_rooms(&self) -> &BTreeMap<String, NodeRoom> {
        &self.rooms
    }

    /// Marks an application's load for recounting.
    pub(crate) fn load_changed(&mut self, key: &ApplicationKey) {
        let loads = self.loads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for loads in loads.values_mut() {
            loads.changed(key);
        }
    }

    pub(crate) fn forget_loads(&mut self) {
        self.loads.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The facts of a pod, beside its requests, that its application's load depends on.
fn placement_facts(pod: &Pod) -> (Option<&str>, Option<&str>, [bool; 2], Option<&str>) {
    let owner = controller_ref(pod, "Instance").map(|owner| owner.uid.as_str());
    (owner, unit_of(pod), [is_terminal(pod), pod.metadata.deletion_timestamp.is_some()], scheduled_node(pod))
}

/// Entries of this namespace whose names have this prefix.
pub(crate) fn named<'a, T>(all: &'a BTreeMap<Name, T>, namespace: &str, prefix: &str) -> Vec<&'a T> {
    let from = Bound::Included((namespace.to_owned(), prefix.to_owned()));
    let of_it = |(name, _): &(&Name, &T)| name.0 == namespace && name.1.starts_with(prefix);
    all.range((from, Bound::Unbounded)).take_while(of_it).map(|(_, object)| object).collect()
}
