//! What `apart` and `together` have in common: each is about where actors are relative to each other.

use std::collections::BTreeMap;

use crate::checked::{Checked, Rule, Violation};
use crate::file::{Constraint, Scope};
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
pub(super) fn in_words(scope: Scope) -> String {
    match scope {
        Scope::Numa => "NUMA domain".to_owned(),
        other => other.to_string(),
    }
}

/// Finds the relations of one type, told its scope, that two actors break which are not both fixed.
pub(super) fn check(
    checked: &Checked,
    found: &mut Vec<Violation>,
    apart: bool,
    scope: impl Fn(&Constraint) -> Option<Scope>,
) {
    for (&position, actors) in &checked.reading.related {
        let Some(scope) = scope(&checked.file.constraints[position]) else { continue };
        let placed: Vec<(ActorIx, UnitIx)> =
            actors.iter().filter_map(|&actor| Some((actor, checked.assignment[actor]?))).collect();
        let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
            let clash = |&&(b, at_b): &&(ActorIx, UnitIx)| {
                is_same_place(checked, scope, at_a, at_b) == apart
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
