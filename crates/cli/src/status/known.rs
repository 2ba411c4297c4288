//! What is known of a cluster, in the order in which it is asked for: by application and by unit.

use std::collections::BTreeMap;

use crds::{ActorApplication, Instance, Placement};
use kube::ResourceExt;
use world::{ApplicationKey, Index, Objects, Whose};

/// What is known, found once for however many applications.
pub struct Known<'a> {
    /// Whose what is.
    pub index: Index,
    decisions: BTreeMap<ApplicationKey, &'a Placement>,
    instances: BTreeMap<ApplicationKey, Vec<&'a Instance>>,
    /// How many actors were placed on a unit, whosever they are.
    placed: BTreeMap<&'a str, usize>,
    /// The kind of each pool.
    pub kinds: BTreeMap<String, &'a str>,
}

impl<'a> Known<'a> {
    /// All that is known of these.
    pub fn of(objects: &'a Objects) -> Self {
        let index = Index::of(objects);
        let by_key = objects.applications.iter().map(|found| (ApplicationKey::of(found), found.as_ref()));
        let applications: BTreeMap<ApplicationKey, &ActorApplication> = by_key.collect();
        let decision = |placement: &'a Placement| {
            let key = ApplicationKey {
                namespace: placement.namespace().unwrap_or_default(),
                name: placement.name_any(),
            };
            let is_its = world::is_decision_for(placement, applications.get(&key)?);
            is_its.then_some((key, placement))
        };
        let decisions: BTreeMap<ApplicationKey, &Placement> =
            objects.placements.iter().filter_map(|placement| decision(placement)).collect();
        let mut instances: BTreeMap<ApplicationKey, Vec<&Instance>> = BTreeMap::new();
        for instance in &objects.instances {
            if let Whose::Of(application) = index.of_instance(instance) {
                instances.entry(ApplicationKey::of(application)).or_default().push(instance);
            }
        }
        let mut placed = BTreeMap::new();
        for assignment in decisions.values().flat_map(|decision| &decision.spec.assignments) {
            *placed.entry(assignment.unit.as_str()).or_default() += 1;
        }
        let kinds = objects.pools.iter().map(|pool| (pool.name_any(), pool.spec.kind.as_str())).collect();
        Self { index, decisions, instances, placed, kinds }
    }

    /// What was decided for an application.
    pub fn decision(&self, key: &ApplicationKey) -> Option<&'a Placement> {
        self.decisions.get(key).copied()
    }

    /// Its actors, by name, with the Instances that they are in.
    pub fn instances(&self, key: &ApplicationKey) -> BTreeMap<String, &'a Instance> {
        let own = self.instances.get(key).into_iter().flatten();
        own.flat_map(|instance| world::actors_in(instance).into_iter().map(|it| (it.short(), *instance)))
            .collect()
    }

    /// How many actors of other applications than the one of this decision were placed on a unit.
    pub fn others(&self, unit: &str, decision: Option<&Placement>) -> usize {
        let own = decision.iter().flat_map(|decision| &decision.spec.assignments);
        let own = own.filter(|assignment| assignment.unit == unit).count();
        self.placed.get(unit).copied().unwrap_or_default().saturating_sub(own)
    }
}
