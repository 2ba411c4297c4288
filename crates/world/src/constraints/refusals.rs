//! Refusals as placement constraints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::{ActorApplication, RefusalScope};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use placement::file::{Constraint, Places};

use crate::demand::actors::{ApplicationActors, actors_of_instance};
use crate::demand::pods::{is_terminal, unit_of};
use crate::snapshot::model::owned_objects;
use crate::units::offer::Offer;
use crate::units::unit::Unit;
use crate::{ActorName, ApplicationKey, Index};

/// Active refusals of an application.
///
/// A refusal by a node applies to the whole group on devices of that kind there, except for running actors. A refusal
/// of a template keeps the group off the kind if it has another one. Refusals of the namespace do not constrain
/// placement.
pub(crate) struct ActiveRefusals<'a> {
    active: Vec<&'a crds::Refusal>,
    /// Units of the actors, by short name.
    running: BTreeMap<String, String>,
}

impl<'a> ActiveRefusals<'a> {
    pub fn of(index: &'a Index, application: &'a ActorApplication, now: Timestamp) -> Self {
        let key = ApplicationKey::of(application);
        let status = index.placement(&key).and_then(|placement| placement.status.as_ref());
        let all = status.into_iter().flat_map(|status| &status.refusals);
        let active: Vec<&crds::Refusal> = all
            .filter(|it| it.until.0 > now && it.scope != RefusalScope::Namespace)
            .filter(|it| it.scope != RefusalScope::Template || has_another_kind(application, it))
            .collect();
        let mut runs = BTreeMap::new();
        if !active.is_empty() {
            for (instance, pod) in owned_objects(index, application).values() {
                // Bound, whether it runs yet or not.
                let is_taken = |pod: &&Arc<Pod>| {
                    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                    is_bound && pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod)
                };
                let pod = pod.as_ref().filter(is_taken);
                if let Some(unit) = pod.and_then(|pod| unit_of(pod)) {
                    runs.extend(
                        actors_of_instance(instance).iter().map(|name| (name.short(), unit.to_owned())),
                    );
                }
            }
        }
        Self { active, running: runs }
    }

    /// Whether this actor is refused on this unit and does not run there.
    pub fn has(&self, actor: &ActorName, unit: &Unit) -> bool {
        let runs_there = || self.running.get(&actor.short()) == Some(&unit.id);
        self.active.iter().any(|it| applies_to(it, actor) && covers(it, unit)) && !runs_there()
    }

    /// One constraint for each reason and set of units.
    pub fn rules(&self, actors: &ApplicationActors, offer: &Offer) -> Vec<Constraint> {
        let mut rules: BTreeMap<RuleKey, BTreeSet<String>> = BTreeMap::new();
        for it in &self.active {
            let units: Vec<String> =
                offer.units.iter().filter(|unit| covers(it, unit)).map(|unit| unit.id.clone()).collect();
            let at = it.node.as_ref().map_or(String::new(), |node| format!(" on {node}"));
            let reason = format!("refused{at}: {}", it.reason);
            let concerned = actors.names.iter().filter(|name| applies_to(it, name)).map(ToString::to_string);
            if !units.is_empty() {
                let whole = it.node.as_ref().filter(|_| it.kind.is_none());
                rules.entry((reason, whole, units)).or_default().extend(concerned);
            }
        }
        let rule = |((reason, whole, units), actors): (RuleKey, BTreeSet<String>)| {
            let places = match whole {
                Some(node) => Places::Nodes(vec![node.clone()]),
                None => Places::Units(units),
            };
            let actors = actors.into_iter().collect();
            Constraint::Never { actors, places, except_current: true, reason: Some(reason) }
        };
        rules.into_iter().filter(|(_, actors)| !actors.is_empty()).map(rule).collect()
    }
}

/// Reason, node if all of it is refused, and units.
type RuleKey<'a> = (String, Option<&'a String>, Vec<String>);

/// Whether the group has an implementation for another kind.
fn has_another_kind(application: &ActorApplication, refusal: &crds::Refusal) -> bool {
    let group = application.spec.actors.iter().find(|group| Some(&group.name) == refusal.group.as_ref());
    let mut kinds = group.into_iter().flat_map(|group| &group.implementations);
    kinds.any(|implementation| Some(&implementation.kind) != refusal.kind.as_ref())
}

fn applies_to(refusal: &crds::Refusal, actor: &ActorName) -> bool {
    match &refusal.group {
        Some(group) => *group == actor.group,
        None => refusal.actor == actor.short(),
    }
}

fn covers(refusal: &crds::Refusal, unit: &Unit) -> bool {
    refusal.node.as_ref().is_none_or(|node| *node == unit.node)
        && refusal.kind.as_ref().is_none_or(|kind| *kind == unit.kind)
        && (refusal.node.is_some() || refusal.scope == RefusalScope::Template)
}
