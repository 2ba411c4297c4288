//! `ResourceQuota`s of resource claims and of the devices that they request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, ActorGroup, DevicePool, Implementation};
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::resource::v1::{DeviceRequest, ResourceClaim, ResourceClaimSpec};
use kube::ResourceExt as _;
use placement::file::Constraint;

use crate::constraints::devices::claimable_devices::is_claim_of;
use crate::constraints::devices::device_requests::ALL;
use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::demand::pods::{resource_amounts, resource_unit};
use crate::demand::requested;
use crate::index::devices::published::name_of;
use crate::index::named;
use crate::index::owner::controller_ref;
use crate::snapshot::model::object_name;
use crate::units::plugin::device_resource::{Provides, provides};
use crate::{ApplicationKey, Index};

/// The name by which a quota counts the claims of a namespace.
const CLAIMS: &str = "count/resourceclaims.resource.k8s.io";
/// Suffix of a `DeviceClass` in the name by which a quota counts its devices.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Marks the claim that kube-scheduler makes for a pod's extended resources, which the pod's requests already count.
const OF_RESOURCES: &str = "resource.kubernetes.io/extended-resource-claim";
/// Devices that a request of all devices counts as: the most that a claim can get.
const MOST_DEVICES: u64 = 32;

/// Whether a quota counts only claims under this name.
pub(crate) fn is_of_claims(name: &str) -> bool {
    name == CLAIMS || name.ends_with(OF_CLASS)
}

/// What a quota counts of claims.
pub(crate) struct ClaimQuota<'a> {
    /// The classes whose devices count; without them the claims count.
    classes: Option<BTreeSet<&'a str>>,
    /// The extended resource of the classes, if the requests of pods count, too.
    resource: Option<&'a str>,
}

/// What the actors of a group count on the units of a pool.
struct Use<'a> {
    group: &'a str,
    pool: &'a DevicePool,
    amount: u64,
    /// Whether claims are a part of it.
    has_claims: bool,
}

impl<'a> ClaimQuota<'a> {
    /// What a quota counts of claims under this name; absent if it counts none.
    pub fn of(index: &'a Index, name: &'a str) -> Option<Self> {
        if name == CLAIMS {
            return Some(Self { classes: None, resource: None });
        }
        if let Some(class) = name.strip_suffix(OF_CLASS) {
            return Some(Self { classes: Some(BTreeSet::from([class])), resource: None });
        }
        let resource = name.strip_prefix("requests.")?;
        let serving = index.scheduling.classes_counted_as(resource);
        (!serving.is_empty()).then_some(Self { classes: Some(serving), resource: Some(resource) })
    }

    /// Whether actors of the application have claims that count.
    pub fn is_used(&self, index: &Index, own: (&ActorApplication, &ApplicationActors)) -> bool {
        let (uses, are_known) = self.uses(index, own);
        !are_known || uses.iter().any(|it| it.has_claims)
    }

    /// The most that the application's actors may have together, if they can reach it.
    pub fn bounds(
        &self,
        index: &Index,
        own: (&ActorApplication, &ApplicationActors),
        left: u64,
        reason: &str,
    ) -> Vec<Constraint> {
        let (uses, _) = self.uses(index, own);
        let groups: BTreeSet<&str> = counting(&uses).map(|it| it.group).collect();
        // A constraint counts each actor on each of its pools.
        let sets = if is_uniform(&uses) {
            vec![groups]
        } else {
            groups.into_iter().map(|group| BTreeSet::from([group])).collect()
        };
        let bound = |groups: BTreeSet<&str>| {
            let of_set: Vec<&Use> = counting(&uses).filter(|it| groups.contains(it.group)).collect();
            let least = of_set.iter().map(|it| it.amount).min()?;
            let may = |name: &&ActorName| {
                let mut ways = of_set.iter().filter(|it| it.group == name.group);
                ways.any(|it| own.1.may_run_on(name, &it.pool.spec.kind))
            };
            let actors: Vec<String> = own.1.names.iter().filter(may).map(ToString::to_string).collect();
            let max = left / least;
            if u64::try_from(actors.len()).is_ok_and(|count| max >= count) {
                return None;
            }
            let pools: BTreeSet<String> = of_set.iter().map(|it| it.pool.name_any()).collect();
            let (pool, pools) = match pools.first() {
                Some(one) if pools.len() == 1 => (Some(one.clone()), None),
                _ => (None, Some(pools.into_iter().collect())),
            };
            let reason = Some(reason.to_owned());
            let (numa, units, resource) = (None, None, None);
            Some(Constraint::Quota { actors, pool, pools, numa, units, resource, max, reason })
        };
        sets.into_iter().filter_map(bound).collect()
    }

    /// Whether only admission counts exactly what the application's actors use.
    pub fn is_left(&self, index: &Index, own: (&ActorApplication, &ApplicationActors)) -> bool {
        let (uses, are_known) = self.uses(index, own);
        let amounts: BTreeSet<u64> = counting(&uses).map(|it| it.amount).collect();
        let is_inexact = !is_uniform(&uses) || amounts.len() > 1;
        !are_known || is_inexact && uses.iter().any(|it| it.has_claims)
    }

    /// What each group counts on each pool, and whether all is known.
    fn uses<'b>(
        &self,
        index: &'b Index,
        (application, actors): (&'b ActorApplication, &ApplicationActors),
    ) -> (Vec<Use<'b>>, bool) {
        let (mut uses, mut are_known) = (Vec::new(), true);
        let namespace = application.namespace().unwrap_or_default();
        for group in &application.spec.actors {
            for way in &group.implementations {
                let asked = actors.admission.requests(way).unwrap_or_default();
                let requested = self
                    .resource
                    .and_then(|resource| resource_amounts(&asked).get(&resource_unit(resource).0).copied());
                // For these requests kube-scheduler makes a claim where the node has no device plugin.
                let mut served = asked.keys().filter_map(|name| index.scheduling.class_serving(name));
                are_known &= self.resource.is_some() || !served.any(|class| self.counts(&class.name_any()));
                let of_templates = self.of_templates(index, &namespace, way.template.spec.as_ref());
                are_known &= of_templates.is_some();
                let of_way = of_templates.unwrap_or(0).saturating_add(requested.unwrap_or(0));
                for pool in index.pools().filter(|pool| pool.spec.kind == way.kind) {
                    let by_plugin = self.resource.is_some_and(|it| provides(pool, it) == Provides::Any);
                    let of_pool = self.of_pool(pool);
                    let amount = of_way.saturating_add(of_pool).saturating_add(by_plugin.into());
                    let has_claims = of_pool > 0 || of_templates != Some(0);
                    uses.push(Use { group: &group.name, pool, amount, has_claims });
                }
            }
        }
        (uses, are_known)
    }

    /// Usage of others in the namespace: claims, and those of decided actors of other applications that do not exist yet.
    pub fn used_by_others(&self, index: &Index, application: &ActorApplication, key: &ApplicationKey) -> u64 {
        let claims = || named(&index.scheduling.resource_claims, &key.namespace, "").into_iter();
        let is_counted = |claim: &&Arc<ResourceClaim>| {
            let is_of_resources = claim.annotations().get(OF_RESOURCES).is_some_and(|it| it == "true");
            let is_counted_by_pod = is_of_resources && self.resource.is_some();
            !is_counted_by_pod && !is_claim_of(index, application, &name_of(claim))
        };
        let existing = claims().filter(is_counted).map(|claim| self.of_claim(&claim.spec));
        let mut total = existing.fold(0, u64::saturating_add);
        let claiming: BTreeSet<&str> = claims()
            .filter_map(|claim| Some(controller_ref(claim.as_ref(), "Instance")?.name.as_str()))
            .collect();
        let others = index.applications.iter().filter(|(it, _)| *it != key && it.namespace == key.namespace);
        for (other, of) in others {
            let names = requested::desired_actors(index, of).names;
            let names: BTreeMap<String, ActorName> =
                names.into_iter().map(|name| (name.short(), name)).collect();
            for assignment in index.placement(other).iter().flat_map(|it| &it.spec.assignments) {
                let Some(name) = names.get(&assignment.actor) else { continue };
                let Some(pool) = index.pool(&assignment.pool) else { continue };
                let object = object_name(name);
                if !claiming.contains(object.as_str()) {
                    total = total.saturating_add(self.of_pool(pool));
                }
                if index.pod(&key.namespace, &object).is_none() {
                    let way = way_of(of, &name.group, &pool.spec.kind);
                    let spec = way.and_then(|way| way.template.spec.as_ref());
                    let of_templates = self.of_templates(index, &key.namespace, spec);
                    total = total.saturating_add(of_templates.unwrap_or(0));
                }
            }
        }
        total
    }

    fn counts(&self, class: &str) -> bool {
        self.classes.as_ref().is_none_or(|classes| classes.contains(class))
    }

    /// The claim that the operator makes for a unit of the pool: one device.
    fn of_pool(&self, pool: &DevicePool) -> u64 {
        let devices = pool.spec.resource.as_ref().and_then(|resource| resource.dra.as_ref());
        devices.is_some_and(|devices| self.counts(&devices.device_class_name)).into()
    }

    /// The claims that are made from templates for a pod; absent if a template is unknown.
    fn of_templates(&self, index: &Index, namespace: &str, spec: Option<&PodSpec>) -> Option<u64> {
        let mut total = 0_u64;
        for claim in spec.and_then(|spec| spec.resource_claims.as_ref()).into_iter().flatten() {
            let Some(name) = &claim.resource_claim_template_name else { continue };
            let key = (namespace.to_owned(), name.clone());
            let of_claim = match index.scheduling.resource_claim_templates.get(&key) {
                Some(template) => self.of_claim(&template.spec.spec),
                None if self.classes.is_none() => 1,
                None => return None,
            };
            total = total.saturating_add(of_claim);
        }
        Some(total)
    }

    fn of_claim(&self, spec: &ResourceClaimSpec) -> u64 {
        let Some(classes) = &self.classes else { return 1 };
        let requests = spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
        let of_class = |(class, count): (&str, u64)| if classes.contains(class) { count } else { 0 };
        requests.flat_map(most_devices).map(of_class).fold(0, u64::saturating_add)
    }
}

/// The most devices that a request may get of each class.
fn most_devices(request: &DeviceRequest) -> BTreeMap<&str, u64> {
    let mut most = BTreeMap::new();
    let mut note = |class, mode: Option<&str>, count: Option<i64>| {
        let count =
            if mode == Some(ALL) { MOST_DEVICES } else { u64::try_from(count.unwrap_or(1)).unwrap_or(0) };
        let known: &mut u64 = most.entry(class).or_default();
        *known = count.max(*known);
    };
    for it in request.first_available.iter().flatten() {
        note(it.device_class_name.as_str(), it.allocation_mode.as_deref(), it.count);
    }
    if let Some(it) = &request.exactly {
        note(it.device_class_name.as_str(), it.allocation_mode.as_deref(), it.count);
    }
    most
}

fn counting<'a, 'b>(uses: &'a [Use<'b>]) -> impl Iterator<Item = &'a Use<'b>> {
    uses.iter().filter(|it| it.amount > 0)
}

/// Whether every group that counts on a pool counts on all pools on which any group does, as far as it runs there.
fn is_uniform(uses: &[Use]) -> bool {
    let groups: BTreeSet<&str> = counting(uses).map(|it| it.group).collect();
    let pools: BTreeSet<String> = counting(uses).map(|it| it.pool.name_any()).collect();
    let is_free =
        |it: &Use| it.amount == 0 && groups.contains(it.group) && pools.contains(&it.pool.name_any());
    !uses.iter().any(is_free)
}

fn way_of<'a>(application: &'a ActorApplication, group: &str, kind: &str) -> Option<&'a Implementation> {
    let mut groups = application.spec.actors.iter();
    let group: &ActorGroup = groups.find(|it| it.name == group)?;
    group.implementations.iter().find(|way| way.kind == kind)
}
