//! Devices of `ResourceSlice`s that kube-scheduler may allocate, by the nodes that can use them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{Node, NodeSelector};
use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::ResourceExt;

use crate::constraints::devices::device_requests::{DeviceNeed, MANY, MOST_OF_CLAIM, PodRequest, Selection};
use crate::constraints::devices::shared_counters::{is_others, own_units};
use crate::constraints::nodes::selectors::selects;
use crate::index::devices::published::pool_of;
use crate::index::names::Name;
use crate::index::ownership::Ownership;
use crate::numbers::quantity;
use crate::units::dra::selectors::{DeviceSelector, functions};
use crate::units::dra::slices::{DeviceKey, key_of, read};
use crate::units::offer::Offer;
use crate::units::unit::Unit;
use crate::{ApplicationKey, Index};

/// The nodes that can use a device.
#[derive(Clone, Copy, PartialEq)]
enum Reach<'a> {
    Node(&'a str),
    Nodes(&'a NodeSelector),
    All,
}

impl<'a> Reach<'a> {
    fn of(all: Option<bool>, name: Option<&'a String>, selector: Option<&'a NodeSelector>) -> Option<Self> {
        let all = (all == Some(true)).then_some(Self::All);
        name.map(|name| Self::Node(name)).or(all).or_else(|| selector.map(Self::Nodes))
    }
}

struct Published<'a> {
    slice: &'a ResourceSlice,
    device: &'a Device,
    reach: Reach<'a>,
    /// Whether it is allocated to a claim of the application's own pods.
    is_own: bool,
    /// Whether it is allocated to a claim of other pods, or a place of another application is decided for it.
    is_taken: bool,
    /// Whether its driver's pool is incomplete or invalid, so that kube-scheduler allocates none of it.
    is_withheld: bool,
}

impl Published<'_> {
    fn is_shared(&self) -> bool {
        self.device.allow_multiple_allocations == Some(true)
    }

    /// Whether its capacities are large enough; a capacity that it does not have is not.
    fn has_capacity(&self, least: &BTreeMap<String, String>) -> bool {
        let has = self.device.capacity.as_ref();
        least.iter().all(|(name, least)| {
            let amount = has.and_then(|has| has.get(name));
            amount.is_some_and(|amount| match (quantity(&amount.value.0), quantity(least)) {
                (Ok(amount), Ok(least)) => amount >= least,
                // The API server rejects invalid quantities.
                _ => true,
            })
        })
    }

    /// Whether kube-scheduler may allocate it to a pod of the application, or did.
    fn is_free_for(&self, selection: &Selection) -> bool {
        let is_tainted = || !self.device.taints.iter().flatten().all(|taint| selection.accepts(taint));
        let is_free = selection.is_admin || !self.is_taken;
        is_free && (self.is_own || !self.is_withheld && !is_tainted())
    }
}

/// Numbers of devices.
#[derive(Default)]
pub(crate) struct Counts<'a> {
    by_node: BTreeMap<&'a str, u64>,
    /// Devices that more than one node may use.
    of_several: Vec<(Reach<'a>, u64)>,
}

/// Devices that a request may get.
pub(crate) struct Selected<'a> {
    /// Positions of those that are free.
    positions: BTreeSet<usize>,
    /// Those that are free. One that several claims may share counts as [`MANY`].
    pub free: Counts<'a>,
    /// All that are selected, free or not.
    all: Counts<'a>,
}

/// Devices, and requests that no other devices satisfy.
pub(crate) struct Scope<'a> {
    pub devices: Rc<Selected<'a>>,
    /// Positions of the requests.
    pub requests: Vec<usize>,
}

/// Shared by all pods with the same requests.
type Scopes<'a> = Rc<Vec<Scope<'a>>>;

impl<'a> Counts<'a> {
    fn add(&mut self, reach: Reach<'a>, count: u64) {
        let known = self.of_several.iter_mut().find(|(known, _)| *known == reach);
        let total = match (reach, known) {
            (Reach::Node(name), _) => self.by_node.entry(name).or_default(),
            (_, Some((_, total))) => total,
            (_, None) => return self.of_several.push((reach, count)),
        };
        *total = total.saturating_add(count);
    }

    /// Number of devices that a node can use.
    pub fn on(&self, node: &Node) -> u64 {
        let own = self.by_node.get(node.name_any().as_str()).copied().unwrap_or(0);
        let of_several = self.of_several.iter().filter(|(reach, _)| reach.has(node));
        of_several.map(|(_, count)| *count).fold(own, u64::saturating_add)
    }

    /// Number of devices of a node, if it can use no others.
    pub fn only_of(&self, node: &Node) -> Option<u64> {
        let uses_others = self.of_several.iter().any(|(reach, _)| reach.has(node));
        (!uses_others).then(|| self.on(node))
    }

    /// Sets of these nodes that can use the same device.
    pub fn nodes<'n>(&self, nodes: &BTreeMap<&'n str, &Node>) -> Vec<BTreeSet<&'n str>> {
        let own = nodes.keys().filter(|name| self.by_node.contains_key(**name));
        let own = own.map(|name| BTreeSet::from([*name]));
        let set = |(reach, _): &(Reach, u64)| {
            let usable = nodes.iter().filter(|(_, node)| reach.has(node));
            usable.map(|(name, _)| *name).collect()
        };
        own.chain(self.of_several.iter().map(set)).collect()
    }
}

impl Selected<'_> {
    /// Whether there are some of these devices, and no others.
    pub fn has_all(&self, devices: &BTreeSet<usize>) -> bool {
        !devices.is_empty() && devices.is_subset(&self.positions)
    }
}

impl Reach<'_> {
    fn has(&self, node: &Node) -> bool {
        match self {
            Self::Node(name) => node.metadata.name.as_deref() == Some(name),
            Self::Nodes(selector) => selects(selector, node),
            Self::All => true,
        }
    }
}

/// The devices that pods of an application may get.
pub(crate) struct ClaimableDevices<'a> {
    index: &'a Index,
    application: &'a ActorApplication,
    offer: &'a Offer,
    published: OnceCell<Vec<Published<'a>>>,
    /// Positions of the devices of each node alone.
    on_nodes: OnceCell<BTreeMap<&'a str, Vec<usize>>>,
    selected: RefCell<BTreeMap<Selection, Rc<Selected<'a>>>>,
    scopes: RefCell<BTreeMap<Vec<Vec<Selection>>, Scopes<'a>>>,
}

impl<'a> ClaimableDevices<'a> {
    pub fn of(index: &'a Index, application: &'a ActorApplication, offer: &'a Offer) -> Self {
        Self {
            index,
            application,
            offer,
            published: OnceCell::new(),
            on_nodes: OnceCell::new(),
            selected: RefCell::default(),
            scopes: RefCell::default(),
        }
    }

    /// Whether the devices are known.
    pub fn are_known(&self) -> bool {
        !self.index.scheduling.is_unknown::<ResourceSlice>()
    }

    /// Why a node has no devices for the requests of a pod. Which devices are allocated is up to the scheduler.
    pub fn obstacle(&self, requests: &[PodRequest], node: &Node) -> Option<String> {
        let name = node.name_any();
        if !self.are_known() {
            return None;
        }
        let here: Vec<&PodRequest> =
            requests.iter().filter(|request| request.applies_on(self.index, &name)).collect();
        let lacks = |request: &&&PodRequest| request.any_of.iter().all(|need| !self.is_met(need, node));
        if let Some(lacking) = here.iter().find(lacks) {
            let what = lacking.resource.as_deref().unwrap_or("the resource claims");
            return Some(format!("no ResourceSlice has enough free devices of the node for {what}"));
        }
        let mut by_claim = BTreeMap::<&str, u64>::new();
        for request in &here {
            let total = by_claim.entry(&request.claim).or_default();
            *total = total.saturating_add(self.least_on(request, node));
        }
        if by_claim.values().any(|total| *total > MOST_OF_CLAIM) {
            return Some(format!("a resource claim gets at most {MOST_OF_CLAIM} devices"));
        }
        let here: Vec<&PodRequest> = here.into_iter().filter(|request| !request.is_admin()).collect();
        if here.len() < 2 {
            return None;
        }
        let exceeds = |scope: &Scope| {
            let counts = scope.requests.iter().map(|at| self.least_on(here[*at], node));
            counts.fold(0, u64::saturating_add) > scope.devices.free.on(node)
        };
        let is_short = self.scopes(&here).iter().any(exceeds);
        is_short.then(|| {
            "no ResourceSlice has enough free devices of the node for all requests of the pod".to_owned()
        })
    }

    /// Whether a node has free devices for a need.
    fn is_met(&self, need: &DeviceNeed, node: &Node) -> bool {
        let selected = self.selected(&need.of);
        let free = selected.free.on(node);
        if !need.is_all {
            return free >= need.count;
        }
        // kube-scheduler does not know what all devices are while any pool of the node is incomplete or invalid.
        let name = node.name_any();
        let is_known = || self.index.published.pools.values().all(|pool| pool.fault_on(&name).is_none());
        free > 0 && free == selected.all.on(node) && is_known()
    }

    /// The least number of devices that a request gets on a node.
    pub fn least_on(&self, request: &PodRequest, node: &Node) -> u64 {
        let least = |need: &DeviceNeed| {
            let all = if need.is_all { self.selected(&need.of).all.on(node) } else { need.count };
            if all >= MANY { need.count } else { all }
        };
        request.any_of.iter().map(least).min().unwrap_or(0)
    }

    /// The devices of a selection.
    pub fn selected(&self, selection: &Selection) -> Rc<Selected<'a>> {
        if let Some(known) = self.selected.borrow().get(selection) {
            return Rc::clone(known);
        }
        let selectors = self.compiled(selection);
        let functions = functions();
        let is_selected = |it: &Published| {
            // What cannot be evaluated here is left to the scheduler.
            let holds = || {
                let device = read(it.slice, it.device);
                selectors.iter().all(|selector| selector.selects(&device, &functions).unwrap_or(true))
            };
            it.has_capacity(&selection.capacity) && (selectors.is_empty() || holds())
        };
        let published = self.published();
        let all: BTreeSet<usize> =
            (0..published.len()).filter(|position| is_selected(&published[*position])).collect();
        let free = all.iter().copied().filter(|position| published[*position].is_free_for(selection));
        let selected = Rc::new(self.counted(free.collect(), &all));
        self.selected.borrow_mut().insert(selection.clone(), Rc::clone(&selected));
        selected
    }

    fn counted(&self, free: BTreeSet<usize>, all: &BTreeSet<usize>) -> Selected<'a> {
        let counts = |positions: &BTreeSet<usize>| {
            let mut counts = Counts::default();
            for it in positions.iter().map(|position| &self.published()[*position]) {
                counts.add(it.reach, if it.is_shared() { MANY } else { 1 });
            }
            counts
        };
        Selected { free: counts(&free), all: counts(all), positions: free }
    }

    /// For each set of devices that one of the requests may get, and for all of these devices, the requests that no others satisfy.
    ///
    /// That is exact if of any two sets that overlap one contains the other.
    pub fn scopes(&self, requests: &[&PodRequest]) -> Scopes<'a> {
        let key: Vec<Vec<Selection>> = requests.iter().map(|request| request.selections()).collect();
        if let Some(known) = self.scopes.borrow().get(&key) {
            return Rc::clone(known);
        }
        let union = |sets: &[Rc<Selected<'a>>]| {
            if let [only] = sets {
                return Rc::clone(only);
            }
            let free: BTreeSet<usize> = sets.iter().flat_map(|it| &it.positions).copied().collect();
            Rc::new(self.counted(free, &BTreeSet::new()))
        };
        let selected = |all: &Vec<Selection>| {
            union(&all.iter().map(|selection| self.selected(selection)).collect::<Vec<_>>())
        };
        let sets: Vec<Rc<Selected>> = key.iter().map(selected).collect();
        let whole = Some(union(&sets)).filter(|_| !sets.is_empty());
        let mut scopes: Vec<Scope> = Vec::new();
        for devices in sets.iter().cloned().chain(whole) {
            if scopes.iter().all(|known| known.devices.positions != devices.positions) {
                let is_inside = |at: &usize| devices.has_all(&sets[*at].positions);
                let requests = (0..sets.len()).filter(is_inside).collect();
                scopes.push(Scope { devices, requests });
            }
        }
        let scopes = Rc::new(scopes);
        self.scopes.borrow_mut().insert(key, Rc::clone(&scopes));
        scopes
    }

    /// Positions of the free devices among which the actor of a unit gets one.
    pub fn of_unit(&self, unit: &Unit) -> BTreeSet<usize> {
        let Some(claim) = &unit.claim else { return BTreeSet::new() };
        let selection = Selection {
            class: claim.class.clone(),
            selectors: claim.selectors.clone(),
            ..Selection::default()
        };
        let published = self.published();
        let on_nodes = self.on_nodes.get_or_init(|| {
            let mut on_nodes = BTreeMap::<&str, Vec<usize>>::new();
            for (at, it) in published.iter().enumerate() {
                if let Reach::Node(name) = it.reach {
                    on_nodes.entry(name).or_default().push(at);
                }
            }
            on_nodes
        });
        let on_node = on_nodes.get(unit.node.as_str()).into_iter().flatten();
        let on_node = on_node.map(|at| (*at, &published[*at]));
        let free = on_node.filter(|(_, it)| it.is_free_for(&selection) && !it.is_shared());
        if let Some(key) = &claim.device {
            return free.filter(|(_, it)| key_of(it.slice, it.device) == *key).map(|(at, _)| at).collect();
        }
        let (selectors, functions) = (self.compiled(&selection), functions());
        let is_selected = |it: &Published| {
            let device = read(it.slice, it.device);
            selectors.iter().all(|selector| selector.selects(&device, &functions).unwrap_or(false))
        };
        free.filter(|(_, it)| is_selected(it)).map(|(at, _)| at).collect()
    }

    /// The selectors of the class and of the request, as far as they can be compiled here.
    fn compiled(&self, selection: &Selection) -> Vec<Arc<DeviceSelector>> {
        let class = self.index.scheduling.device_classes.get(&selection.class);
        let of_class = class.into_iter().flat_map(|class| class.spec.selectors.iter().flatten());
        let of_class = of_class.filter_map(|selector| Some(&selector.cel.as_ref()?.expression));
        let mut known = self.index.selectors.lock().unwrap_or_else(PoisonError::into_inner);
        of_class.chain(&selection.selectors).filter_map(|text| known.get(text).ok()).collect()
    }

    /// The devices of the generation of each pool that counts on their nodes.
    fn published(&self) -> &[Published<'a>] {
        self.published.get_or_init(|| {
            let own = own_units(self.index, &ApplicationKey::of(self.application));
            let others = self.offer.units.iter().filter(|unit| is_others(self.index, &own, &unit.id));
            let decided: BTreeSet<&DeviceKey> =
                others.filter_map(|unit| unit.claim.as_ref()?.device.as_ref()).collect();
            let slices = self.index.scheduling.resource_slices.values();
            slices.flat_map(|slice| self.devices(slice, &decided)).collect()
        })
    }

    fn devices(&self, slice: &'a ResourceSlice, decided: &BTreeSet<&DeviceKey>) -> Vec<Published<'a>> {
        let spec = &slice.spec;
        let pool = self.index.published.pools.get(&pool_of(slice));
        let device = |device: &'a Device| {
            let reach = if spec.per_device_node_selection == Some(true) {
                Reach::of(device.all_nodes, device.node_name.as_ref(), device.node_selector.as_ref())
            } else {
                Reach::of(spec.all_nodes, spec.node_name.as_ref(), spec.node_selector.as_ref())
            };
            let reach = reach?;
            let node = if let Reach::Node(name) = reach { name } else { "" };
            let state = pool?.on_nodes.get(node).filter(|it| it.generation == spec.pool.generation)?;
            let key = key_of(slice, device);
            let holders = || self.index.published.holders(&key);
            let is_shared = device.allow_multiple_allocations == Some(true);
            let is_taken = !is_shared
                && (decided.contains(&key)
                    || holders().any(|claim| !is_claim_of(self.index, self.application, claim)));
            let is_own = holders().any(|claim| is_claim_of(self.index, self.application, claim));
            Some(Published { slice, device, reach, is_own, is_taken, is_withheld: state.fault.is_some() })
        };
        spec.devices.iter().flatten().filter_map(device).collect()
    }
}

/// Whether a claim was made for a pod of the application, and goes with it.
pub(crate) fn is_claim_of(index: &Index, application: &ActorApplication, name: &Name) -> bool {
    let of_pod = || {
        let claim = index.scheduling.resource_claims.get(name)?;
        let owner = claim.owner_references().iter().find(|owner| owner.kind == "Pod")?;
        let pod = index.pod(&name.0, &owner.name)?;
        match index.owner_of_pod(pod) {
            Ownership::OwnedBy((owner, _)) => Some(owner.uid() == application.uid()),
            Ownership::Orphaned | Ownership::Foreign => None,
        }
    };
    index.application_of_claim(name) == Some(ApplicationKey::of(application)) || of_pod() == Some(true)
}
