//! The price of an assignment, in exact integers.

use std::collections::BTreeMap;

use crate::file::Constraint;
use crate::{Assignment, Criterion, Snapshot};

/// What an assignment costs: the unplaced first, then every criterion that is known without a judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Actors without a place.
    pub unplaced: i64,
    /// Largest minus smallest overload of the units (APO III-B, M1).
    pub overload: i64,
    /// Σ messages × exchange cost over pairs on different units (APO III-B, M2).
    pub communication: i64,
    /// Σ drag of annoyance pairs on different units (APO III-C, M3).
    pub annoyance: i64,
    /// Σ drag of interference pairs that share a unit.
    pub interference: i64,
    /// Σ move cost of actors that are not where they were.
    pub migration: i64,
    /// Penalties, as the judge gave them; 0 before it was asked.
    pub policy: i64,
}

impl Cost {
    /// The value of one criterion.
    pub fn of(&self, criterion: Criterion) -> i64 {
        match criterion {
            Criterion::Overload => self.overload,
            Criterion::Communication => self.communication,
            Criterion::Annoyance => self.annoyance,
            Criterion::Interference => self.interference,
            Criterion::Migration => self.migration,
            Criterion::Policy => self.policy,
        }
    }

    /// The vector that is compared: unplaced actors, then each level of the snapshot's objectives.
    pub fn vector(&self, snapshot: &Snapshot) -> Vec<i64> {
        let levels = snapshot.objectives().levels();
        std::iter::once(self.unplaced)
            .chain(levels.iter().map(|level| level.iter().map(|criterion| self.of(*criterion)).sum()))
            .collect()
    }

    /// The criteria by name, for people and files: the five that are always told, and those that are aimed at.
    pub fn by_name(&self, snapshot: &Snapshot) -> BTreeMap<String, i64> {
        use Criterion::{Annoyance, Communication, Interference, Migration, Overload, Policy};
        [Overload, Communication, Annoyance, Interference, Migration, Policy]
            .into_iter()
            .filter(|criterion| *criterion != Policy || snapshot.objectives().names(Policy))
            .map(|criterion| (criterion.to_string(), self.of(criterion)))
            .collect()
    }
}

impl Snapshot {
    /// Prices an assignment; exact, whether it is lawful or not, `policy` left 0.
    ///
    /// An actor on a kind that it cannot run on loads nothing there. Sums are checked: a world in which one could
    /// pass 2^53 is refused on input.
    pub fn cost(&self, assignment: &Assignment) -> Cost {
        let mut cost = Cost::default();
        let mut load = vec![0i64; self.units()];
        for (actor, place) in assignment.iter().enumerate() {
            if *place != self.current(actor) && self.current(actor).is_some() {
                cost.migration = add(cost.migration, self.move_cost(actor));
            }
            let Some(unit) = *place else {
                cost.unplaced += 1;
                continue;
            };
            let work = self.implementation(actor, unit).map_or(0, |implementation| implementation.work);
            load[unit] = add(load[unit], work);
            for edge in self.edges(actor).iter().filter(|edge| edge.peer > actor) {
                let Some(other) = assignment[edge.peer] else { continue };
                if unit == other {
                    cost.interference = add(cost.interference, edge.interference);
                } else {
                    let price = edge.rate.checked_mul(self.exchange_cost(unit, other)).expect(SUMS_FIT);
                    cost.communication = add(cost.communication, price);
                    cost.annoyance = add(cost.annoyance, edge.annoyance);
                }
            }
        }
        let overloads = load.iter().enumerate().map(|(unit, load)| (load - self.capacity(unit)).max(0));
        let (least, most) = overloads.fold((i64::MAX, 0), |(least, most), o| (least.min(o), most.max(o)));
        cost.overload = if load.is_empty() { 0 } else { most - least };
        cost
    }

    /// The value of the criterion `policy`: the penalties of the policy's rules, and the weights of those preferences
    /// whose actor is placed elsewhere.
    pub fn penalty(&self, assignment: &Assignment) -> i64 {
        let of_rules = self.rules().map_or(0, |rules| rules.penalty(assignment));
        let missed = self.file().constraints.iter().filter_map(|constraint| {
            let Constraint::Prefer { actor, unit, weight } = constraint else { return None };
            let place = assignment[self.index.actor_by_id[actor]]?;
            (place != self.index.unit_by_id[unit]).then(|| i64::try_from(*weight).expect(SUMS_FIT))
        });
        missed.fold(of_rules, add)
    }
}

const SUMS_FIT: &str = "worlds whose sums could pass 2^53 are refused on input";

fn add(a: i64, b: i64) -> i64 {
    a.checked_add(b).expect(SUMS_FIT)
}
