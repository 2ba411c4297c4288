//! What `apart` and `together` have in common: each is about where actors are relative to each other.

use std::collections::BTreeMap;

use super::Limit;
use crate::checked::{Checked, Rule, Violation};
use crate::file::{Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, RelationIx, UnitIx};
use crate::problem::Problem;

/// By relation and place: how many of its actors are there.
pub(crate) struct Company(IxVec<RelationIx, BTreeMap<PlaceIx, usize>>);

impl Company {
    /// Nobody is anywhere.
    pub fn new(problem: &Problem) -> Self {
        Self(IxVec::of(BTreeMap::new(), problem.relations.len()))
    }

    /// An actor comes to a unit or leaves it.
    pub fn count(&mut self, problem: &Problem, actor: ActorIx, unit: UnitIx, comes: bool) {
        for &relation in &problem.relations_of[actor] {
            let place = problem.place(problem.relations[relation].scope, unit);
            let count = self.0[relation].entry(place).or_default();
            *count = if comes { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.0[relation].remove(&place);
            }
        }
    }

    /// Every relation that the actor, which has no place now, would break on the unit.
    pub fn broken<'a>(
        &'a self,
        problem: &'a Problem,
        actor: ActorIx,
        unit: UnitIx,
    ) -> impl Iterator<Item = RelationIx> + 'a {
        problem.relations_of[actor].iter().copied().filter(move |&relation| {
            let (given, places) = (&problem.relations[relation], &self.0[relation]);
            let here = places.contains_key(&problem.place(given.scope, unit));
            if given.apart { here } else { !(places.is_empty() || (here && places.len() == 1)) }
        })
    }
}

/// A scope in plain words.
fn in_words(scope: Scope) -> String {
    match scope {
        Scope::Numa => "NUMA domain".to_owned(),
        other => other.to_string(),
    }
}

/// What tells `apart` from `together`.
pub(super) trait Relation: Sync {
    /// Whether its actors may not share a place; they must otherwise.
    const APART: bool;

    /// Its scope and its actors, if this is one of the type.
    fn of(given: &Constraint) -> Option<(Scope, &[String])>;

    /// What it demands of actors, told the scope in plain words.
    fn demands(scope: &str) -> String;
}

impl<T: Relation> Limit for T {
    fn enter(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        if let Some((scope, actors)) = T::of(given) {
            problem.add_relation(position, T::APART, scope, actors);
        }
    }

    fn demands(&self, position: usize, given: &Constraint) -> String {
        let Some((scope, _)) = T::of(given) else { return format!("constraints[{position}]") };
        T::demands(&in_words(scope))
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        check::<T>(checked, found);
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/relations.lp")
    }
}

/// Finds the relations of one type that two actors break which are not both fixed.
fn check<T: Relation>(checked: &Checked, found: &mut Vec<Violation>) {
    for (&position, actors) in &checked.reading.related {
        let Some((scope, _)) = T::of(&checked.file.constraints[position]) else { continue };
        let placed: Vec<(ActorIx, UnitIx)> =
            actors.iter().filter_map(|&actor| Some((actor, checked.assignment[actor]?))).collect();
        let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
            let clash = |&&(b, at_b): &&(ActorIx, UnitIx)| {
                is_same_place(checked, scope, at_a, at_b) == T::APART
                    && !(checked.is_fixed(a) && checked.is_fixed(b))
            };
            placed[i + 1..].iter().find(clash).map(|&(b, _)| (a, b))
        });
        if let Some((a, b)) = broken {
            let (a, b) = (&checked.actor(a).id, &checked.actor(b).id);
            let says = format!("{a}, {b}: {}", super::says(checked.file, position));
            found.push(Violation { rule: Rule::Constraint, says });
        }
    }
}

/// Whether two units are at one place.
fn is_same_place(checked: &Checked, scope: Scope, a: UnitIx, b: UnitIx) -> bool {
    let (one, other) = (checked.unit(a), checked.unit(b));
    a == b
        || match scope {
            Scope::Unit => false,
            Scope::Numa => one.numa.is_some() && one.numa == other.numa && one.node == other.node,
            Scope::Node => one.node == other.node,
            Scope::Zone => one.zone.is_some() && one.zone == other.zone,
        }
}
