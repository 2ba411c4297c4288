//! Devices of `ResourceSlice`s that kube-scheduler may allocate, by the nodes that can use them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{Node, NodeSelector};
use k8s_openapi::api::resource::v1::{Device, ResourceSlice};
use kube::ResourceExt;

use crate::constraints::devices::device_requests::{MANY, PodRequest, Selection};
use crate::constraints::nodes::selectors::selects;
use crate::index::devices::{PoolKey, pool_of};
use crate::index::names::Name;
use crate::index::ownership::Ownership;
use crate::units::dra::selectors::{DeviceSelector, functions};
use crate::units::dra::slices::{key_of, read};
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
    /// Whether it is allocated to a claim of other pods.
    is_taken: bool,
}

/// Numbers of devices that a request may get.
#[derive(Default)]
pub(crate) struct Selected<'a> {
    by_node: BTreeMap<&'a str, u64>,
    /// Devices that more than one node may use.
    of_several: Vec<(Reach<'a>, u64)>,
}

impl<'a> Selected<'a> {
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
    fn on(&self, node: &Node) -> u64 {
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
    all: OnceCell<Vec<Published<'a>>>,
    selected: RefCell<BTreeMap<Selection, Rc<Selected<'a>>>>,
}

impl<'a> ClaimableDevices<'a> {
    pub fn of(index: &'a Index, application: &'a ActorApplication) -> Self {
        Self { index, application, all: OnceCell::new(), selected: RefCell::default() }
    }

    /// Whether the devices are known.
    pub fn are_known(&self) -> bool {
        !self.index.scheduling.is_unknown::<ResourceSlice>()
    }

    /// Why a node has no devices for one of the requests. Which devices are allocated is up to the scheduler.
    pub fn obstacle(&self, requests: &[PodRequest], node: &Node) -> Option<String> {
        let is_enough =
            |request: &PodRequest| request.any_of.iter().any(|it| self.selected(&it.of).on(node) >= it.count);
        let lacks = |request: &&PodRequest| {
            self.are_known() && request.applies_on(self.index, &node.name_any()) && !is_enough(request)
        };
        let lacking = requests.iter().find(lacks)?;
        let what = lacking.resource.as_deref().unwrap_or("the resource claims");
        Some(format!("no ResourceSlice has enough free devices of the node for {what}"))
    }

    /// The devices of a selection that are not allocated to claims of other pods.
    pub fn selected(&self, selection: &Selection) -> Rc<Selected<'a>> {
        if let Some(known) = self.selected.borrow().get(selection) {
            return Rc::clone(known);
        }
        let selectors = self.compiled(selection);
        let functions = functions();
        let is_selected = |it: &&Published| {
            let is_free = selection.is_admin || !it.is_taken;
            // What cannot be evaluated here is left to the scheduler.
            let holds = || {
                let device = read(it.slice, it.device);
                selectors.iter().all(|selector| selector.selects(&device, &functions).unwrap_or(true))
            };
            is_free && (selectors.is_empty() || holds())
        };
        let mut selected = Selected::default();
        for it in self.all.get_or_init(|| self.published()).iter().filter(is_selected) {
            let is_shared = it.device.allow_multiple_allocations == Some(true) || selection.is_admin;
            selected.add(it.reach, if is_shared { MANY } else { 1 });
        }
        let selected = Rc::new(selected);
        self.selected.borrow_mut().insert(selection.clone(), Rc::clone(&selected));
        selected
    }

    /// The selectors of the class and of the request, as far as they can be compiled here.
    fn compiled(&self, selection: &Selection) -> Vec<Arc<DeviceSelector>> {
        let class = self.index.scheduling.device_classes.get(&selection.class);
        let of_class = class.into_iter().flat_map(|class| class.spec.selectors.iter().flatten());
        let of_class = of_class.filter_map(|selector| Some(&selector.cel.as_ref()?.expression));
        let mut known = self.index.selectors.lock().unwrap_or_else(PoisonError::into_inner);
        of_class.chain(&selection.selectors).filter_map(|text| known.get(text).ok()).collect()
    }

    /// The devices of the newest generation of each pool.
    fn published(&self) -> Vec<Published<'a>> {
        let slices = || self.index.scheduling.resource_slices.values().map(|slice| &**slice);
        let mut newest: BTreeMap<PoolKey, i64> = BTreeMap::new();
        for slice in slices() {
            let generation = newest.entry(pool_of(slice)).or_insert(slice.spec.pool.generation);
            *generation = slice.spec.pool.generation.max(*generation);
        }
        let current =
            slices().filter(|slice| newest.get(&pool_of(slice)) == Some(&slice.spec.pool.generation));
        current.flat_map(|slice| self.devices(slice)).collect()
    }

    fn devices(&self, slice: &'a ResourceSlice) -> impl Iterator<Item = Published<'a>> {
        let spec = &slice.spec;
        let device = move |device: &'a Device| {
            let reach = if spec.per_device_node_selection == Some(true) {
                Reach::of(device.all_nodes, device.node_name.as_ref(), device.node_selector.as_ref())
            } else {
                Reach::of(spec.all_nodes, spec.node_name.as_ref(), spec.node_selector.as_ref())
            };
            let is_taken = device.allow_multiple_allocations != Some(true)
                && self
                    .index
                    .published
                    .holders(&key_of(slice, device))
                    .any(|claim| !is_claim_of(self.index, self.application, claim));
            Some(Published { slice, device, reach: reach?, is_taken })
        };
        spec.devices.iter().flatten().filter_map(device)
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
