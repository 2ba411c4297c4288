//! `migration`: the cost of moving actors off their unit.

use super::{Amounts, CriterionClass, Encoding, Facts, Measure, Placed, UnaryPreference, add};
use crate::Snapshot;
use crate::file::format::SnapshotFile;
use crate::ix::ActorIx;

/// Σ move cost of actors that are not on their current unit.
pub(super) struct Migration;

impl Measure for Migration {
    fn class(&self) -> CriterionClass {
        CriterionClass::Actors
    }

    fn is_always_reported(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        let snapshot = placed.snapshot;
        let left = placed.assignment.enumerate().filter(|(actor, place)| {
            let home = snapshot.current(*actor);
            home.is_some() && **place != home
        });
        left.map(|(actor, _)| snapshot.move_cost(actor)).fold(0, add)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let snapshot = amounts.snapshot;
        ActorIx::first(snapshot.actors()).map(|actor| i128::from(snapshot.move_cost(actor))).sum()
    }

    fn preferred_units(&self, snapshot: &Snapshot) -> Vec<UnaryPreference> {
        let running = snapshot.problem().current.enumerate();
        let home = running.filter_map(|(actor, unit)| {
            let price = snapshot.move_cost(actor);
            Some(UnaryPreference { actor, unit: (*unit)?, price, without_place: true })
        });
        home.collect()
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        for &actor in &problem.movable {
            if let Some(unit) = problem.current[actor] {
                facts.say("current", [actor.into(), unit.into()]);
                facts.say("move_cost", [actor.into(), problem.move_cost[actor].into()]);
            }
        }
    }

    fn constant_part(&self, _: &Encoding, _: i64) -> i64 {
        0
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        file.actors.iter_mut().for_each(|actor| actor.move_cost = divide(actor.move_cost));
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/migration.lp")
    }
}
