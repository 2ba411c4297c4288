//! The price of an assignment, in exact integers.

use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use crate::file::{Constraint, Scope};
use crate::{Assignment, Criterion, Objectives, Snapshot};

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
    /// Largest load of a unit in thousandths of its capacity, rounded up. This and what follows are worked out where a
    /// level names them, and 0 elsewhere.
    pub bottleneck: i64,
    /// Units that host anything.
    pub consolidate: i64,
    /// Σ watts of the units ([`Snapshot::draw`]).
    pub energy: i64,
    /// Σ over groups of the largest number of its actors in one zone.
    pub spread: i64,
    /// Σ exchange costs along the dearest path of messages.
    pub latency: i64,
}

impl Cost {
    /// The vector in words, `unplaced` left out when it is 0.
    pub fn in_words(&self, snapshot: &Snapshot) -> String {
        let levels = snapshot.objectives().levels().iter();
        let mut words: Vec<String> = levels
            .map(|level| {
                let value: i64 = level.iter().map(|criterion| self.of(*criterion)).sum();
                format!("{} {value}", Objectives::key(level))
            })
            .collect();
        if self.unplaced > 0 {
            words.insert(0, format!("unplaced {}", self.unplaced));
        }
        words.join(", ")
    }

    /// The value of one criterion.
    pub fn of(&self, criterion: Criterion) -> i64 {
        match criterion {
            Criterion::Overload => self.overload,
            Criterion::Communication => self.communication,
            Criterion::Annoyance => self.annoyance,
            Criterion::Interference => self.interference,
            Criterion::Migration => self.migration,
            Criterion::Policy => self.policy,
            Criterion::Bottleneck => self.bottleneck,
            Criterion::Consolidate => self.consolidate,
            Criterion::Energy => self.energy,
            Criterion::Spread => self.spread,
            Criterion::Latency => self.latency,
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
        Criterion::iter()
            .filter(|criterion| criterion.is_always_told() || snapshot.objectives().names(*criterion))
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
        let mut in_use = vec![false; self.units()];
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
            in_use[unit] = true;
            for edge in self.edges(actor).iter().filter(|edge| edge.peer.at() > actor) {
                let Some(other) = assignment[edge.peer.at()] else { continue };
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
        let names = |criterion| self.objectives().names(criterion);
        if names(Criterion::Bottleneck) {
            cost.bottleneck =
                (0..self.units()).map(|unit| self.fullness(unit, load[unit])).max().unwrap_or(0);
        }
        if names(Criterion::Consolidate) {
            cost.consolidate = in_use.iter().map(|in_use| i64::from(*in_use)).sum();
        }
        if names(Criterion::Energy) {
            let draws = (0..self.units()).map(|unit| self.draw(unit, load[unit], in_use[unit]));
            cost.energy = draws.fold(0, add);
        }
        if names(Criterion::Spread) {
            cost.spread = self.spread(assignment);
        }
        if names(Criterion::Latency) {
            cost.latency = self.latency(assignment);
        }
        cost
    }

    /// A load in thousandths of the unit's capacity, rounded up.
    pub fn fullness(&self, unit: usize, load: i64) -> i64 {
        let capacity = i128::from(self.capacity(unit));
        i64::try_from((i128::from(load) * 1000 + capacity - 1) / capacity).expect(SUMS_FIT)
    }

    /// Σ over groups of the largest number of its actors in one zone; a zone that is not known is the unit's own.
    fn spread(&self, assignment: &Assignment) -> i64 {
        let mut counts: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        for (actor, place) in assignment.iter().enumerate() {
            if let (Some(group), Some(unit)) = (self.group(actor), *place) {
                *counts.entry((group, self.place(Scope::Zone, unit))).or_default() += 1;
            }
        }
        let mut largest = vec![0; self.groups()];
        for ((group, _), count) in counts {
            largest[group] = count.max(largest[group]);
        }
        largest.iter().sum()
    }

    /// The value of the criterion `policy`: the penalties of the policy's rules, and the weights of those preferences
    /// whose actor is placed elsewhere.
    pub fn penalty(&self, assignment: &Assignment) -> i64 {
        let of_rules = self.rules().map_or(0, |rules| rules.penalty(assignment));
        let missed = self.file().constraints.iter().filter_map(|constraint| {
            let Constraint::Prefer { actor, unit, weight } = constraint else { return None };
            let place = assignment[self.problem.actor_by_id[actor].at()]?;
            (place != self.problem.unit_by_id[unit].at()).then(|| i64::try_from(*weight).expect(SUMS_FIT))
        });
        missed.fold(of_rules, add)
    }
}

const SUMS_FIT: &str = "worlds whose sums could pass 2^53 are refused on input";

fn add(a: i64, b: i64) -> i64 {
    a.checked_add(b).expect(SUMS_FIT)
}
