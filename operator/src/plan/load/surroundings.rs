//! What a search for measured load depends on beside that load: its change may make a better placement possible.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crds::{ActorApplication, Placement, RebalanceMode};
use world::{ApplicationKey, Policy, UnitUse};

use crate::plan::observe::kinds;
use crate::runtime::context::Context;

/// What searches of an application depend on beside its own load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchSurroundings {
    /// Units of its kinds freed so far by others.
    freed: u64,
    /// Digest of the decided places; `None` after a decision of the search itself, which may be cut, withdrawn or not pay.
    places: Option<u64>,
    /// What uses the units of its actors.
    units: BTreeMap<String, UnitUse>,
    /// Digest of what decides whether moves pay, and whether they are made.
    settings: u64,
}

impl SearchSurroundings {
    /// The present ones of an application with places of this digest.
    pub fn of(
        (key, application): (&ApplicationKey, &ActorApplication),
        places: u64,
        (policy, mode): (&Policy, RebalanceMode),
        ctx: &Context,
    ) -> Self {
        Self {
            freed: ctx.caches.freed_counter(key, kinds(application).into_iter()),
            places: Some(places),
            units: ctx.caches.index().unit_use(key, policy),
            settings: settings_digest(application, policy, mode),
        }
    }

    /// Whether mode, policy and movable groups are those of these surroundings; a search under others says nothing.
    pub fn has_settings_of(&self, other: &Self) -> bool {
        self.settings == other.settings
    }

    /// The same after a decision of the search: what remains to be done is searched once more.
    #[must_use]
    pub fn decided(self) -> Self {
        Self { places: None, ..self }
    }

    /// Whether the same load may have a better placement than in these earlier surroundings.
    pub fn is_opportunity(&self, before: &Self) -> bool {
        let is_crowded = |(unit, now): (&String, &UnitUse)| {
            before.units.get(unit).is_some_and(|before| is_crowded(*before, *now))
        };
        self.freed != before.freed || self.places != before.places || self.units.iter().any(is_crowded)
    }
}

/// Digest of the places of a decision; equal in one process only.
pub fn places_digest(decision: &Placement) -> u64 {
    let places = decision.spec.assignments.iter().map(|it| (it.actor.as_str(), it.unit.as_str()));
    let mut hasher = DefaultHasher::new();
    places.collect::<BTreeSet<_>>().hash(&mut hasher);
    hasher.finish()
}

/// Digest of mode, policy and groups that stay; equal in one process only.
fn settings_digest(application: &ActorApplication, policy: &Policy, mode: RebalanceMode) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Policies have no hash of their own.
    format!("{mode:?} {policy:?}").hash(&mut hasher);
    world::groups_that_stay(application).hash(&mut hasher);
    hasher.finish()
}

/// Whether others overload a unit by more than noise, and need more of it than before.
///
/// More actors of others, and capacity that pods without Cairn take, are no noise. Measured work of others is: the mean of eight windows
/// that vary by 20 % differs from another mean by a fifth in one case of thousands.
fn is_crowded(before: UnitUse, now: UnitUse) -> bool {
    let UnitUse { own, others, other_actors, capacity } = now;
    let is_overloaded = own.saturating_add(others) > capacity.saturating_add(capacity / 20);
    let takes_more = other_actors > before.other_actors
        || others >= before.others.saturating_add(before.capacity / 5)
        || capacity < before.capacity - before.capacity / 20;
    own > 0 && is_overloaded && takes_more
}

#[cfg(test)]
mod tests {
    use crds::{Assignment, PlacementSpec};

    use super::*;

    fn placement(places: &[(&str, &str)]) -> Placement {
        let assignment = |(actor, unit): &(&str, &str)| Assignment {
            actor: (*actor).to_owned(),
            unit: (*unit).to_owned(),
            node: "n".to_owned(),
            pool: "p".to_owned(),
        };
        let assignments = places.iter().map(assignment).collect();
        Placement::new("app", PlacementSpec { assignments, ..PlacementSpec::default() })
    }

    #[test]
    fn freed_units_and_other_places_are_opportunities_once() {
        let of = |freed, places: &[(&str, &str)]| SearchSurroundings {
            freed,
            places: Some(places_digest(&placement(places))),
            ..SearchSurroundings::default()
        };
        let before = of(3, &[("a-0", "n/u"), ("a-1", "n/v")]);
        for (now, expected) in [
            (of(3, &[("a-0", "n/u"), ("a-1", "n/v")]), false),
            (of(3, &[("a-1", "n/v"), ("a-0", "n/u")]), false),
            (of(4, &[("a-0", "n/u"), ("a-1", "n/v")]), true),
            (of(3, &[("a-0", "n/u"), ("a-1", "n/u")]), true),
            (of(3, &[("a-0", "n/u")]), true),
        ] {
            assert_eq!(now.is_opportunity(&before), expected, "{now:?}");
            assert!(!now.is_opportunity(&now), "{now:?}");
        }
        // Its own decision may be cut, and withdrawn moves lead back to the places before.
        assert!(before.is_opportunity(&before.clone().decided()));
    }

    #[test]
    fn mode_policy_and_movable_groups_are_settings() {
        let application = |annotation: &str| -> ActorApplication {
            serde_json::from_value(serde_json::json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
                "metadata": {"name": "app", "annotations": {"note": "n", "cairn.dev/do-not-move": annotation}},
                "spec": {"actors": [{"name": "a", "replicas": 1, "implementations":
                    [{"kind": "cpu", "serviceTime": "1ms", "template": {"spec": {"containers": []}}}]}]}}))
            .unwrap()
        };
        let policy = Policy::builtin("p");
        let mut other_policy = policy.clone();
        other_policy.rebalance.max_moves += 1;
        let before = settings_digest(&application("false"), &policy, RebalanceMode::DryRun);
        for (annotation, policy, mode, is_same) in [
            ("false", &policy, RebalanceMode::DryRun, true),
            ("unset", &policy, RebalanceMode::DryRun, true),
            ("false", &policy, RebalanceMode::On, false),
            ("true", &policy, RebalanceMode::DryRun, false),
            ("false", &other_policy, RebalanceMode::DryRun, false),
        ] {
            let now = settings_digest(&application(annotation), policy, mode);
            assert_eq!(now == before, is_same, "{annotation} {mode:?}");
        }
    }

    #[test]
    fn units_that_others_overload_are_an_opportunity_and_noise_is_none() {
        let unit = |own, others, other_actors, capacity| UnitUse { own, others, other_actors, capacity };
        let before = unit(400, 500, 2, 1000);
        for (now, expected) in [
            (before, false),
            (unit(400, 660, 3, 1000), true),
            (unit(400, 650, 3, 1000), false),
            (unit(600, 500, 2, 1000), false),
            // The same actors of others, with noise and with another load.
            (unit(480, 600, 2, 1000), false),
            (unit(400, 700, 2, 1000), true),
            // Pods of others take capacity.
            (unit(400, 500, 2, 850), true),
            (unit(500, 505, 2, 950), false),
            (unit(0, 1500, 3, 1000), false),
        ] {
            assert_eq!(is_crowded(before, now), expected, "{now:?}");
        }
        let around = |at: &str, used| SearchSurroundings {
            units: [(at.to_owned(), used)].into(),
            ..SearchSurroundings::default()
        };
        let crowded = unit(400, 700, 3, 1000);
        assert!(around("n/u", crowded).is_opportunity(&around("n/u", before)));
        assert!(!around("n/u", crowded).is_opportunity(&around("n/v", before)), "another unit");
    }
}
