//! Actors with more work than any unit can do for one actor.

use std::collections::BTreeMap;

use counters::MeasuredNumbers;
use crds::{ActorApplication, ActorGroup};

use crate::demand::actors::ApplicationActors;
use crate::demand::application::replicas;
use crate::demand::{GroupNumbers, Numbers};
use crate::snapshot::measured::measured_work;
use crate::units::offer::Offer;

/// A warning for each group with an actor that has more work than any unit can do for one actor.
///
/// Measured work counts instead of the manifest's, from 5 % above the capacity: less may be noise.
pub(crate) fn saturated(
    (application, actors): (&ActorApplication, &ApplicationActors),
    numbers: &Numbers,
    measured: Option<&MeasuredNumbers>,
    offer: &Offer,
) -> Vec<String> {
    let mut capacities: BTreeMap<&str, u64> = BTreeMap::new();
    for unit in offer.units.iter() {
        let most = capacities.entry(unit.kind.as_str()).or_default();
        *most = (*most).max(unit.capacity_per_actor);
    }
    let note = |(group, numbers): (&ActorGroup, &GroupNumbers)| {
        let kinds = numbers.kinds.iter();
        let offered: Vec<(&str, u64, u64)> = kinds
            .filter_map(|(kind, (work, _))| Some((kind.as_str(), *work, *capacities.get(kind.as_str())?)))
            .collect();
        let is_too_busy = |actor: &str| {
            offered.iter().all(|(kind, work, capacity)| match measured_work(measured, actor, kind) {
                Some(work) => work > capacity.saturating_add(capacity / 20),
                None => work > capacity,
            })
        };
        let mut own = actors.names.iter().filter(|name| name.group == group.name);
        let holds = replicas(group) > 0 && !offered.is_empty() && own.any(|name| is_too_busy(&name.short()));
        holds.then(|| {
            format!(
                "an actor of {} has more work than any unit can do for one actor; add replicas or a faster kind",
                group.name
            )
        })
    };
    application.spec.actors.iter().zip(&numbers.groups).filter_map(note).collect()
}
