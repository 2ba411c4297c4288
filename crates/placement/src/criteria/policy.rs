//! `policy`: penalties of the policy, its own and those of `prefer`.

use super::{Amounts, Class, Home, Measure, Placed};
use crate::file::Constraint;
use crate::{Rules, Snapshot};

/// Σ penalties. What a policy's own program adds comes from whoever judges, so `cost` leaves it 0; here is what `prefer`
/// asks for.
pub(super) struct Policy;

impl Measure for Policy {
    fn class(&self) -> Class {
        Class::Actors
    }

    fn value(&self, _: &Placed) -> i64 {
        0
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        let of_rules = amounts.snapshot.rules().map_or(0, Rules::most_penalty);
        let missed: i128 = self.homes(amounts.snapshot).iter().map(|home| i128::from(home.price)).sum();
        i128::from(of_rules) + missed
    }

    fn homes(&self, snapshot: &Snapshot) -> Vec<Home> {
        let problem = snapshot.problem();
        let preferred = snapshot.file().constraints.iter().filter_map(|constraint| match constraint {
            Constraint::Prefer { actor, unit, weight } => Some(Home {
                actor: problem.actor_by_id[actor],
                unit: problem.unit_by_id[unit],
                price: i64::try_from(*weight).expect("numbers above 2^53 are refused on input"),
                without_place: false,
            }),
            _ => None,
        });
        preferred.collect()
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/prefer.lp")
    }
}
