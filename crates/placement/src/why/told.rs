//! What is told of the actors of a plan that have no place.

use std::collections::{BTreeMap, BTreeSet};

use super::core::{Core, WhyNot};
use super::limit::{Limit, actors_of};
use super::ruled::{Effects, Policy};
use super::words::few;
use crate::{Assignment, Judge, Plan, Snapshot, Unplaced};

/// The effort that is worth knowing why: a second or two at 500 nodes.
pub const REASONS_EFFORT: u64 = 20_000_000;

/// What actors that are kept out by the same have in common: what they need, the rules that name them, where they are,
/// and what the policy makes of their places.
type Alike = (String, Vec<usize>, Option<usize>, Vec<(usize, Effects)>);

impl Plan {
    /// The world that was planned: the snapshot, and what the policy derived from it.
    pub fn world(&self, snapshot: &Snapshot) -> Snapshot {
        snapshot.with_derived(self.derived.clone()).expect("it was a sound world when it was planned")
    }

    /// Finds out why each actor without a place has none, and tells that in place of what keeps it off each unit.
    ///
    /// `effort` is as for [`Snapshot::why_not`], for all actors together.
    pub fn find_reasons(&mut self, snapshot: &Snapshot, judge: &dyn Judge, effort: u64) {
        let world = self.world(snapshot).open_to_questions(snapshot, judge, &self.assignment);
        self.unplaced = world.reasons(&self.assignment, effort);
    }
}

impl Snapshot {
    /// The same world, with the policy's rules also about places that only a dropped limit opens, for questions about
    /// who has no place. `bare` is the world before the policy derived anything. Where the policy cannot be written out
    /// so far, its rules stay as they are.
    #[must_use]
    pub fn open_to_questions(&self, bare: &Snapshot, judge: &dyn Judge, assignment: &Assignment) -> Self {
        let homeless: Vec<usize> = (0..self.actors()).filter(|&actor| assignment[actor].is_none()).collect();
        match self.rules().map(|_| judge.rules_everywhere(bare, &homeless)) {
            Some(Ok(rules)) => self.clone().with_rules(rules),
            _ => self.clone(),
        }
    }

    /// Why each actor that has no place in a lawful assignment has none. Actors that are alike are asked about once.
    pub fn reasons(&self, assignment: &Assignment, effort: u64) -> Vec<Unplaced> {
        let actors: Vec<usize> = (0..self.actors()).filter(|&actor| assignment[actor].is_none()).collect();
        let alike = self.alike(&actors);
        let different = alike.iter().collect::<BTreeSet<_>>().len();
        let share = effort / (different.max(1) as u64);
        let mut known: BTreeMap<&Alike, (usize, WhyNot)> = BTreeMap::new();
        let told = actors.iter().zip(&alike).map(|(&actor, alike)| {
            let (asked, why) =
                known.entry(alike).or_insert_with(|| (actor, self.why_not(actor, assignment, share)));
            self.unplaced_because(actor, &why.of_another(*asked, actor), assignment)
        });
        told.collect()
    }

    fn alike(&self, actors: &[usize]) -> Vec<Alike> {
        let mut rules = vec![Vec::new(); self.actors()];
        if !actors.is_empty() {
            for (position, constraint) in self.file().constraints.iter().enumerate() {
                for actor in actors_of(self, constraint) {
                    rules[actor].push(position);
                }
            }
        }
        let policy = self.rules().map(|rules| Policy::new(rules, actors));
        let alike = |(at, &actor): (usize, &usize)| {
            let given = &self.file().actors[actor];
            let needs = serde_json::to_string(&(&given.runs_on, &given.requires))
                .expect("plain data with text keys always serializes");
            let effects = policy.as_ref().map(|policy| policy.effects(at).to_vec()).unwrap_or_default();
            (needs, std::mem::take(&mut rules[actor]), self.current(actor), effects)
        };
        actors.iter().enumerate().map(alike).collect()
    }

    fn unplaced_because(&self, actor: usize, why: &WhyNot, assignment: &Assignment) -> Unplaced {
        let (reasons, holds) = match why {
            WhyNot::Blocked(core) => (core.lines(self, assignment), Some(core.holds)),
            WhyNot::Room(moves) => {
                let place = |&(actor, unit): &(usize, usize)| {
                    format!("{} on {}", self.short_name(actor), self.unit_id(unit))
                };
                let places: Vec<String> = moves.iter().map(place).collect();
                let places: Vec<&str> = places.iter().map(String::as_str).collect();
                (vec![format!("there is room for it: {}", few(&places))], None)
            }
        };
        Unplaced { actor, reasons, holds }
    }
}

impl WhyNot {
    /// The same, said of an actor that is like the one that was asked about.
    fn of_another(&self, asked: usize, actor: usize) -> Self {
        match self {
            WhyNot::Blocked(core) => {
                let mut core = Core { actor, ..core.clone() };
                for limit in core.elements.iter_mut().flat_map(|element| &mut element.limits) {
                    if *limit == (Limit::Kinds { actor: asked }) {
                        *limit = Limit::Kinds { actor };
                    }
                }
                WhyNot::Blocked(core)
            }
            WhyNot::Room(moves) => {
                let of = |&(who, unit): &(usize, usize)| (if who == asked { actor } else { who }, unit);
                WhyNot::Room(moves.iter().map(of).collect())
            }
        }
    }
}
