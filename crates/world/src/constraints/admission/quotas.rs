//! Quotas of pools and namespaces, less the usage of other applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, DevicePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use placement::file::Constraint;

use crate::constraints::admission::claim_quotas::{ClaimQuota, is_of_claims};
use crate::constraints::admission::resource_limits::is_unscoped;
use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::demand::pods::{add, is_past_grace, is_terminal, requests, resource_amounts, resource_unit};
use crate::demand::requested;
use crate::index::names::namespace_of;
use crate::index::ownership::Ownership;
use crate::index::{IndexedPod, named};
use crate::numbers::{Exact, floor, quantity};
use crate::snapshot::model::object_name;
use crate::units::plugin::device_resource::{Provides, provides, resource_of};
use crate::units::unit::pool_of;
use crate::{ApplicationKey, Index};

impl Index {
    /// Adds or updates a `ResourceQuota`.
    pub fn put_quota(&mut self, quota: Arc<ResourceQuota>) {
        self.quotas.insert((namespace_of(quota.as_ref()), quota.name_any()), quota);
    }

    /// Removes a `ResourceQuota`.
    pub fn remove_quota(&mut self, namespace: &str, name: &str) {
        self.quotas.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Quotas of a namespace.
    pub fn quotas_of(&self, namespace: &str) -> impl Iterator<Item = &ResourceQuota> {
        named(&self.quotas, namespace, "").into_iter().map(AsRef::as_ref)
    }

    /// Pods of a namespace.
    pub(crate) fn held_in(&self, namespace: &str) -> Vec<&IndexedPod> {
        named(&self.pods, namespace, "")
    }

    /// Removes the quotas that are not among `names`.
    pub fn retain_quotas(&mut self, names: &BTreeSet<(String, String)>) {
        self.quotas.retain(|name, _| names.contains(name));
    }
}

/// All quotas that the application's actors could exceed.
pub(crate) fn quotas(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    now: Timestamp,
) -> Vec<Constraint> {
    let key = ApplicationKey::of(own.0);
    let mut bounds: Vec<Constraint> =
        index.pools().flat_map(|pool| of_pool(index, own, &key, pool)).collect();
    bounds.extend(of_namespace(index, own, &key, now));
    bounds
}

/// Limits of a pool: in total, and per namespace.
fn of_pool(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    key: &ApplicationKey,
    pool: &DevicePool,
) -> Vec<Constraint> {
    let name = pool.name_any();
    let most = pool.spec.instances.as_ref().map(|instances| instances.max);
    let per_namespace = pool.spec.quota.as_ref().map(|quota| quota.per_namespace);
    if most.is_none() && per_namespace.is_none() {
        return Vec::new();
    }
    let actors = of_kinds(own, &BTreeSet::from([pool.spec.kind.as_str()]));
    let (mut everywhere, mut here) = (0, 0);
    for (other, application) in index.applications.iter().filter(|(other, _)| *other != key) {
        let count = if application.metadata.deletion_timestamp.is_some() {
            let pods = index.pods_of(application).into_iter();
            pods.filter(|pod| pool_of(pod.unit, &index.pools) == Some(&name)).count()
        } else {
            let decided = index.placement(other).into_iter().flat_map(|it| &it.spec.assignments);
            decided.filter(|it| it.pool == name).count()
        };
        everywhere += count;
        here += if other.namespace == key.namespace { count } else { 0 };
    }
    let bound = |most: i32, others: usize, of: String| {
        let left = usize::try_from(most).unwrap_or(0).saturating_sub(others);
        // A limit that cannot be exceeded is left out, so that other applications' changes do not change this snapshot.
        (left < actors.len()).then(|| Constraint::Quota {
            actors: actors.clone(),
            pool: Some(name.clone()),
            pools: None,
            numa: None,
            units: None,
            resource: None,
            max: u64::try_from(left).unwrap_or(u64::MAX),
            reason: Some(format!("pool {name} allows {}{of}, others use {others}", instances(most))),
        })
    };
    let all = most.and_then(|most| bound(most, everywhere, String::new()));
    let of = format!(" of namespace {}", key.namespace);
    all.into_iter().chain(per_namespace.and_then(|most| bound(most, here, of))).collect()
}

fn instances(count: i32) -> String {
    if count == 1 { "1 instance".to_owned() } else { format!("{count} instances") }
}

/// Actors that can run on one of these kinds.
fn of_kinds(
    (application, actors): (&ActorApplication, &ApplicationActors),
    kinds: &BTreeSet<&str>,
) -> Vec<String> {
    let can =
        |group: &&crds::ActorGroup| group.implementations.iter().any(|way| kinds.contains(way.kind.as_str()));
    let groups: BTreeSet<&str> =
        application.spec.actors.iter().filter(can).map(|group| group.name.as_str()).collect();
    let own = actors.names.iter().filter(|name| groups.contains(name.group.as_str()));
    let may = |name: &&ActorName| kinds.iter().any(|kind| actors.may_run_on(name, kind));
    own.filter(may).map(ToString::to_string).collect()
}

/// Remaining `ResourceQuota`s by resource; quotas with scopes are left to admission.
fn of_namespace(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    key: &ApplicationKey,
    now: Timestamp,
) -> Vec<Constraint> {
    let (application, actors) = own;
    let quotas: Vec<&ResourceQuota> = index.quotas_of(&key.namespace).filter(|it| is_unscoped(it)).collect();
    if quotas.is_empty() {
        return Vec::new();
    }
    let others = used_by_others(index, application, key, now);
    let ended = ended_pods(index, own, &key.namespace);
    let beyond = used_beyond_templates(index, own);
    let all: Vec<String> = actors.names.iter().map(ToString::to_string).collect();
    let mut bounds = Vec::new();
    for quota in quotas {
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
        for (name, hard) in hard.into_iter().flatten() {
            let (QuotaTarget::Requests(resource), Ok(hard)) = (counted(name), quantity(&hard.0)) else {
                continue;
            };
            let (unit, scale) = resource_unit(resource);
            let more = beyond.get(&unit).copied().unwrap_or(0);
            let mut taken = others.get(&unit).copied().unwrap_or(0).saturating_add(more);
            if name == "count/pods" {
                taken = taken.saturating_add(ended);
            }
            let of_claims = ClaimQuota::of(index, name);
            if let Some(of_claims) = &of_claims {
                taken = taken.saturating_add(of_claims.used_by_others(index, application, key));
            }
            let left = floor(hard * scale).saturating_sub(taken);
            let reason = format!(
                "ResourceQuota {} allows {name} {}, less the usage of others{}",
                quota.name_any(),
                shown(hard),
                if more > 0 { " and what running pods request beyond their templates" } else { "" }
            );
            if let Some(of_claims) = of_claims.filter(|it| it.is_used(index, own)) {
                bounds.extend(of_claims.bounds(index, own, left, &reason));
                continue;
            }
            let devices = pools_providing(index, resource);
            if devices.is_empty() && left < max_requests(own, &unit) {
                let (actors, reason) = (all.clone(), Some(reason.clone()));
                let (pool, pools, numa, resource) = (None, None, None, Some(unit));
                let units = None;
                bounds.push(Constraint::Quota {
                    actors,
                    pool,
                    pools,
                    numa,
                    units,
                    resource,
                    max: left,
                    reason,
                });
            }
            for (numa, pools) in devices {
                bounds.extend(of_devices(own, (numa, pools.as_slice()), left, &reason));
            }
        }
    }
    bounds
}

/// Pods of a namespace that have ended and still exist. One of a wanted actor is deleted before its successor, which has its
/// name, is created.
fn ended_pods(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    namespace: &str,
) -> u64 {
    let wanted: BTreeSet<String> = actors.names.iter().map(object_name).collect();
    let is_replaced = |held: &IndexedPod| {
        wanted.contains(&held.pod.name_any())
            && matches!(index.owner_of_pod(&held.pod), Ownership::OwnedBy((owner, _)) if owner.uid() == application.uid())
    };
    let ended = index.held_in(namespace).into_iter().filter(|held| is_terminal(&held.pod));
    u64::try_from(ended.filter(|held| !is_replaced(held)).count()).unwrap_or(u64::MAX)
}

/// Remaining quota of a device over the pools that provide it; each actor requests one.
fn of_devices(
    own: (&ActorApplication, &ApplicationActors),
    (numa, pools): (Option<String>, &[&DevicePool]),
    left: u64,
    reason: &str,
) -> Option<Constraint> {
    let actors = of_kinds(own, &pools.iter().map(|pool| pool.spec.kind.as_str()).collect());
    let names: Vec<String> = pools.iter().map(|pool| pool.name_any()).collect();
    let (pool, pools) = match names.as_slice() {
        [one] => (Some(one.clone()), None),
        _ => (None, Some(names)),
    };
    let is_reached = u64::try_from(actors.len()).is_ok_and(|count| left < count);
    let reason = Some(reason.to_owned());
    let (units, resource) = (None, None);
    is_reached.then_some(Constraint::Quota { actors, pool, pools, numa, units, resource, max: left, reason })
}

fn shown(amount: Exact) -> String {
    if amount.is_integer() { amount.to_integer().to_string() } else { amount.to_string() }
}

/// What a quota limits.
pub(crate) enum QuotaTarget<'a> {
    /// The sum of the pods' requests of a resource.
    Requests(&'a str),
    /// The sum of their limits, which only admission knows.
    ByAdmission,
    /// Other objects.
    Other,
}

/// What a quota limits under this name.
pub(crate) fn counted(name: &str) -> QuotaTarget<'_> {
    match name {
        "pods" | "count/pods" => QuotaTarget::Requests("pods"),
        "cpu" | "memory" | "ephemeral-storage" => QuotaTarget::Requests(name),
        _ if name.starts_with("hugepages-") || is_of_claims(name) => QuotaTarget::Requests(name),
        _ if name.starts_with("limits.") => QuotaTarget::ByAdmission,
        _ => name
            .strip_prefix("requests.")
            .filter(|resource| *resource != "storage")
            .map_or(QuotaTarget::Other, QuotaTarget::Requests),
    }
}

/// Pools that provide a resource, by NUMA domain if it is specific to one.
fn pools_providing<'a>(index: &'a Index, resource: &str) -> BTreeMap<Option<String>, Vec<&'a DevicePool>> {
    let mut pools: BTreeMap<Option<String>, Vec<&DevicePool>> = BTreeMap::new();
    for pool in index.pools() {
        match provides(pool, resource) {
            Provides::None => {}
            Provides::Any => pools.entry(None).or_default().push(pool),
            Provides::Domain(number) => pools.entry(Some(format!("numa-{number}"))).or_default().push(pool),
        }
    }
    pools
}

/// Upper bound on the application's requests of a resource.
fn max_requests((application, actors): (&ActorApplication, &ApplicationActors), unit: &str) -> u64 {
    let of_way = |way: &crds::Implementation| {
        let asked = actors.admission.requests(way).unwrap_or_default();
        resource_amounts(&asked).get(unit).copied().unwrap_or(0)
    };
    let of_group = |group: &crds::ActorGroup| {
        let one = group.implementations.iter().map(of_way).max().unwrap_or(0);
        let members = actors.names.iter().filter(|name| name.group == group.name).count();
        one.saturating_mul(u64::try_from(members).unwrap_or(u64::MAX))
    };
    application.spec.actors.iter().map(of_group).fold(0, u64::saturating_add)
}

/// What pods of the application's actors request beyond their templates, in a snapshot's amounts.
fn used_beyond_templates(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
) -> BTreeMap<String, u64> {
    let larger = index.requests_beyond_templates(application);
    if larger.is_empty() {
        return BTreeMap::new();
    }
    let own: BTreeSet<&ActorName> = actors.names.iter().collect();
    let mut total = BTreeMap::new();
    larger
        .into_iter()
        .filter(|(pod, _)| own.contains(&pod.actor))
        .for_each(|(_, more)| sum(&mut total, more));
    total
}

/// Adds amounts by resource. Saturates.
fn sum(total: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (unit, amount) in more {
        let sum = total.entry(unit).or_default();
        *sum = sum.saturating_add(amount);
    }
}

/// Requests of others in a namespace, in a snapshot's amounts: existing pods, and decided actors of other applications
/// without a pod.
fn used_by_others(
    index: &Index,
    application: &ActorApplication,
    key: &ApplicationKey,
    now: Timestamp,
) -> BTreeMap<String, u64> {
    let is_own = |of: &ActorApplication| of.uid() == application.uid();
    let mut total: BTreeMap<String, u64> = BTreeMap::new();
    let mut there: BTreeSet<String> = BTreeSet::new();
    for held in index.held_in(&key.namespace) {
        if is_terminal(&held.pod)
            || is_past_grace(&held.pod, now)
            || matches!(index.owner_of_pod(&held.pod), Ownership::OwnedBy((owner, _)) if is_own(owner))
        {
            continue;
        }
        there.insert(held.pod.name_any());
        sum(&mut total, resource_amounts(&held.asks));
    }
    let decisions = index.decisions_beside(key).filter(|(other, ..)| other.namespace == key.namespace);
    for (_, it, placement) in decisions {
        let groups: BTreeMap<&str, &crds::ActorGroup> =
            it.spec.actors.iter().map(|group| (group.name.as_str(), group)).collect();
        let ApplicationActors { names, admission, .. } = requested::desired_actors(index, it);
        let names: BTreeMap<String, ActorName> = names.into_iter().map(|name| (name.short(), name)).collect();
        for assignment in &placement.spec.assignments {
            let Some(name) = names.get(&assignment.actor) else { continue };
            let (Some(group), Some(pool)) = (groups.get(name.group.as_str()), index.pool(&assignment.pool))
            else {
                continue;
            };
            if there.contains(&object_name(name)) {
                continue;
            }
            let way = group.implementations.iter().find(|way| way.kind == pool.spec.kind);
            let spec = admission.spec(way.and_then(|way| way.template.spec.as_ref()), Some(pool));
            let mut asked = requests(&spec).unwrap_or_default();
            let number = assignment.unit.rsplit_once('-').map_or("", |(_, number)| number);
            if let Some(resource) = resource_of(pool, number) {
                add(&mut asked, &BTreeMap::from([(resource, Exact::from(1))]));
            }
            sum(&mut total, resource_amounts(&asked));
        }
    }
    total
}
