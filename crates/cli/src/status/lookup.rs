//! Indexes the objects of a cluster by application and by unit.

use std::collections::BTreeMap;

use crds::{ActorApplication, Instance, Placement, RebalanceMode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use world::{ApplicationKey, Index, Objects, Ownership, Policy};

/// Indexes that all applications share.
pub struct ClusterLookup<'a> {
    /// Ownership of objects.
    pub index: Index,
    decisions: BTreeMap<ApplicationKey, &'a Placement>,
    instances: BTreeMap<ApplicationKey, Vec<&'a Instance>>,
    /// The number of actors of all applications by unit.
    placed: BTreeMap<&'a str, usize>,
    /// The kind of each pool.
    pub kinds: BTreeMap<String, &'a str>,
    /// The rebalance mode of each known policy.
    pub modes: BTreeMap<String, RebalanceMode>,
}

impl<'a> ClusterLookup<'a> {
    /// Indexes the objects.
    pub fn of(objects: &'a Objects) -> Self {
        let index = Index::of(objects);
        let by_key = objects.applications.iter().map(|found| (ApplicationKey::of(found), found.as_ref()));
        let applications: BTreeMap<ApplicationKey, &ActorApplication> = by_key.collect();
        let decision = |placement: &'a Placement| {
            let key = ApplicationKey {
                namespace: placement.namespace().unwrap_or_default(),
                name: placement.name_any(),
            };
            let is_owned = world::is_decision_for(placement, applications.get(&key)?);
            is_owned.then_some((key, placement))
        };
        let decisions: BTreeMap<ApplicationKey, &Placement> =
            objects.placements.iter().filter_map(|placement| decision(placement)).collect();
        let mut instances: BTreeMap<ApplicationKey, Vec<&Instance>> = BTreeMap::new();
        for instance in &objects.instances {
            if let Ownership::OwnedBy(application) = index.owner_of_instance(instance) {
                instances.entry(ApplicationKey::of(application)).or_default().push(instance);
            }
        }
        let mut placed = BTreeMap::new();
        for assignment in decisions.values().flat_map(|decision| &decision.spec.assignments) {
            *placed.entry(assignment.unit.as_str()).or_default() += 1;
        }
        let kinds = objects.pools.iter().map(|pool| (pool.name_any(), pool.spec.kind.as_str())).collect();
        let mode = |policy: &ConfigMap| Some((policy.name_any(), Policy::read(policy).ok()?.rebalance.mode));
        let modes = objects.policies.iter().filter_map(|policy| mode(policy)).collect();
        Self { index, decisions, instances, placed, kinds, modes }
    }

    /// The Placement of an application.
    pub fn decision(&self, key: &ApplicationKey) -> Option<&'a Placement> {
        self.decisions.get(key).copied()
    }

    /// The Instances of an application, by actor.
    pub fn instances(&self, key: &ApplicationKey) -> BTreeMap<String, &'a Instance> {
        let own = self.instances.get(key).into_iter().flatten();
        own.flat_map(|instance| {
            world::actors_of_instance(instance).into_iter().map(|it| (it.short(), *instance))
        })
        .collect()
    }

    /// The number of actors on a unit that belong to other applications than this decision.
    pub fn others(&self, unit: &str, decision: Option<&Placement>) -> usize {
        let own = decision.iter().flat_map(|decision| &decision.spec.assignments);
        let own = own.filter(|assignment| assignment.unit == unit).count();
        self.placed.get(unit).copied().unwrap_or_default().saturating_sub(own)
    }
}
