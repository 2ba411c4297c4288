//! Templates whose pods admission rejects or the scheduler never places: said before a pod is made.

use std::collections::BTreeMap;

use crds::ActorApplication;
use placement::file::{Constraint, Places};

use crate::Index;
use crate::constraints::admits::AdmittedSpecs;
use crate::constraints::obstacles::device_obstacle;
use crate::demand::actors::ApplicationActors;
use crate::index::names::namespace_of;
use crate::units::offer::Offer;

/// Units on which pods of a group never start: one constraint for each reason and set of units.
pub(crate) fn never_scheduled(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    specs: &AdmittedSpecs,
    offer: &Offer,
) -> Vec<Constraint> {
    let namespace = namespace_of(application);
    let mut kept_out: BTreeMap<(String, Vec<String>), Vec<String>> = BTreeMap::new();
    for group in &application.spec.actors {
        let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for unit in offer.units.iter() {
            let Some(spec) = specs.spec(&group.name, unit) else { continue };
            let without_device = || {
                let node = index.nodes.get(&unit.node)?;
                device_obstacle(index, &namespace, &spec, node)
            };
            if let Some(reason) = specs.obstacle(&group.name, unit).or_else(without_device) {
                units.entry(reason).or_default().push(unit.id.clone());
            }
        }
        for at in units {
            kept_out.entry(at).or_default().extend(actors.ids(&group.name));
        }
    }
    let rule = |((reason, units), actors): ((String, Vec<String>), Vec<String>)| Constraint::Never {
        actors,
        places: Places::Units(units),
        except_current: true,
        reason: Some(reason),
    };
    kept_out.into_iter().filter(|(_, actors)| !actors.is_empty()).map(rule).collect()
}
