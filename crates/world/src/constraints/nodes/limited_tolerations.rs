//! Nodes from which pods are evicted after some seconds, because they tolerate a taint for a limited time.

use std::collections::BTreeMap;

use crds::{ActorApplication, ActorGroup};
use placement::file::{Constraint, Places};

use crate::Index;
use crate::constraints::admission::admits::AdmittedSpecs;
use crate::constraints::nodes::selectors::{evicted_after, objection};
use crate::demand::actors::ApplicationActors;
use crate::units::offer::Offer;

/// Actors of a group avoid such nodes unless they would stay unplaced.
pub(crate) fn limited_tolerations(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    specs: &AdmittedSpecs,
    offer: &Offer,
) -> Vec<Constraint> {
    let rule = |group: &ActorGroup| {
        let mut evicting: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for unit in offer.units.iter().filter(|unit| unit.cordoned.is_none()) {
            let (Some(spec), Some(node)) = (specs.spec(&group.name, unit), index.nodes.get(&unit.node))
            else {
                continue;
            };
            if objection(&spec, node).is_some() || specs.obstacle(&group.name, unit).is_some() {
                continue;
            }
            if let Some(reason) = evicted_after(&spec, node) {
                evicting.entry(reason).or_default().push(unit.id.clone());
            }
        }
        let avoid = |(reason, units): (String, Vec<String>)| Constraint::Avoid {
            actors: actors.ids(&group.name),
            places: Places::Units(units),
            reason: Some(reason),
        };
        evicting.into_iter().map(avoid).collect::<Vec<_>>()
    };
    let has_actors = |group: &&ActorGroup| !actors.ids(&group.name).is_empty();
    application.spec.actors.iter().filter(has_actors).flat_map(rule).collect()
}
