//! Nodes from which pods are evicted after some seconds, because they tolerate a taint for a limited time.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, ActorGroup};
use placement::file::{Constraint, Places};

use crate::Index;
use crate::constraints::admits::AdmittedSpecs;
use crate::constraints::selectors::{evicted_after, objection};
use crate::demand::actors::{ApplicationActors, actors_of_instance};
use crate::demand::pods::{resource_amounts, unit_of};
use crate::snapshot::model::owned_objects;
use crate::units::offer::Offer;
use crate::units::unit::Unit;

/// Keeps new actors of a group off such nodes while the other nodes have room for all of them.
pub(crate) fn limited_tolerations(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    specs: &AdmittedSpecs,
    offer: &Offer,
) -> Vec<Constraint> {
    let rule = |group: &ActorGroup| {
        let mut evicting: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut others: Vec<&Unit> = Vec::new();
        for unit in offer.units.iter().filter(|unit| unit.cordoned.is_none()) {
            let (Some(spec), Some(node)) = (specs.spec(&group.name, unit), index.nodes.get(&unit.node))
            else {
                continue;
            };
            if objection(&spec, node).is_some() || specs.obstacle(&group.name, unit).is_some() {
                continue;
            }
            match evicted_after(&spec, node) {
                Some(reason) => evicting.entry(reason).or_default().push(unit.id.clone()),
                None => others.push(unit),
            }
        }
        if evicting.is_empty()
            || room(index, group, actors, &others) < waiting(index, application, group, actors, &others)
        {
            return Vec::new();
        }
        let never = |(reason, units): (String, Vec<String>)| Constraint::Never {
            actors: actors.ids(&group.name),
            places: Places::Units(units),
            except_current: true,
            reason: Some(reason),
        };
        evicting.into_iter().map(never).collect()
    };
    let has_actors = |group: &&ActorGroup| !actors.ids(&group.name).is_empty();
    application.spec.actors.iter().filter(has_actors).flat_map(rule).collect()
}

/// Number of pods of the group for which these units' nodes have room.
fn room(index: &Index, group: &ActorGroup, actors: &ApplicationActors, units: &[&Unit]) -> u64 {
    let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
    for unit in units {
        let way = group.implementations.iter().find(|way| way.kind == unit.kind);
        let asked = way.and_then(|way| actors.admission.requests(way).ok());
        let (Some(asked), Some(room)) = (asked, index.room(&unit.node)) else { continue };
        let left = |resource: &String| room.left.get(resource).copied().unwrap_or(0);
        let fits = resource_amounts(&asked)
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(resource, amount)| left(&resource) / amount)
            .min()
            .unwrap_or(0);
        let slots = unit.slots.map_or(fits, |slots| {
            fits.min(slots.saturating_sub(room.held.get(&unit.id).copied().unwrap_or(0)))
        });
        let total = nodes.entry(&unit.node).or_default();
        *total = (*total + slots).min(fits);
    }
    nodes.values().sum()
}

/// Number of the group's actors that do not run on these units.
fn waiting(
    index: &Index,
    application: &ActorApplication,
    group: &ActorGroup,
    actors: &ApplicationActors,
    units: &[&Unit],
) -> u64 {
    let good: BTreeSet<&str> = units.iter().map(|unit| unit.id.as_str()).collect();
    let objects = owned_objects(index, application);
    let running = objects.values().filter(|(instance, pod)| {
        actors_of_instance(instance).iter().any(|actor| actor.group == group.name)
            && pod.as_ref().and_then(|pod| unit_of(pod)).is_some_and(|unit| good.contains(unit))
    });
    let all = u64::try_from(actors.ids(&group.name).len()).unwrap_or(u64::MAX);
    all.saturating_sub(u64::try_from(running.count()).unwrap_or(0))
}
