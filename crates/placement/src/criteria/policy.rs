//! `policy`: penalties of the policy, its own and those of `prefer`.

use std::collections::BTreeMap;

use super::{Amounts, CriterionClass, Encoding, Facts, Measure, Placed, UnaryPreference};
use crate::file::format::{Constraint, SnapshotFile};
use crate::ix::{ActorIx, UnitIx};
use crate::{Rules, Snapshot};

/// Σ penalties. What a policy's own program adds comes from the judge, so `cost` leaves it 0; here is what `prefer`
/// asks for.
pub(super) struct Policy;

impl Measure for Policy {
    fn class(&self) -> CriterionClass {
        CriterionClass::Actors
    }

    fn value(&self, _: &Placed) -> i64 {
        0
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let of_rules = amounts.snapshot.rules().map_or(0, Rules::most_penalty);
        let missed: i128 =
            self.preferred_units(amounts.snapshot).iter().map(|home| i128::from(home.price)).sum();
        i128::from(of_rules) + missed
    }

    fn preferred_units(&self, snapshot: &Snapshot) -> Vec<UnaryPreference> {
        let problem = snapshot.problem();
        let preferred = snapshot.file().constraints.iter().filter_map(|constraint| match constraint {
            Constraint::Prefer { actor, unit, weight } => Some(UnaryPreference {
                actor: problem.actor_by_id[actor],
                unit: problem.unit_by_id[unit],
                price: i64::try_from(*weight).expect("numbers above 2^53 are refused on input"),
                without_place: false,
            }),
            _ => None,
        });
        preferred.collect()
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let mut weights: BTreeMap<(ActorIx, UnitIx), i64> = BTreeMap::new();
        for home in
            self.preferred_units(world.snapshot).iter().filter(|home| !world.problem().fixed[home.actor])
        {
            *weights.entry((home.actor, home.unit)).or_default() += home.price;
        }
        for ((actor, unit), weight) in weights.into_iter().filter(|(_, weight)| *weight > 0) {
            facts.say("prefer", [actor.into(), unit.into(), weight.into()]);
        }
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        let prices = self.preferred_units(world.snapshot).into_iter().map(|home| home.price);
        prices.fold(world.snapshot.rules().map_or(0, Rules::most_penalty), i64::saturating_add)
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        for constraint in &mut file.constraints {
            if let Constraint::Prefer { weight, .. } = constraint {
                *weight = divide(*weight);
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/prefer.lp")
    }
}
