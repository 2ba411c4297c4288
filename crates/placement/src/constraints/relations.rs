//! What `apart` and `together` have in common: each is about where actors are relative to each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Limit;
use crate::checked::{Checked, Rule, Violation};
use crate::file::{Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, RelationIx, UnitIx};
use crate::lifted::{Lifted, LiftedLimit, listed};
use crate::problem::{self, Problem};
use crate::written::{MOST_LITERALS, Now, Writer};

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

/// The name of what is lifted: whatever ties an actor to the others of a relation.
const RELATED: &str = "related";

/// Who of a relation stands against somebody now, not both of them fixed.
fn in_breach(problem: &Problem, relation: &problem::Relation) -> Vec<ActorIx> {
    let there = relation.actors.iter();
    let places: Vec<(ActorIx, PlaceIx)> = there
        .filter_map(|&actor| Some((actor, problem.place(relation.scope, problem.current[actor]?))))
        .collect();
    let mut all: BTreeMap<PlaceIx, [usize; 2]> = BTreeMap::new();
    let mut sum = [0; 2];
    for (actor, place) in &places {
        let fixed = usize::from(problem.fixed[*actor]);
        all.entry(*place).or_default()[fixed] += 1;
        sum[fixed] += 1;
    }
    let stands = |&(actor, place): &(ActorIx, PlaceIx)| {
        let here = all[&place];
        let [ours, theirs] = if relation.apart { here } else { [sum[0] - here[0], sum[1] - here[1]] };
        let own = usize::from(relation.apart);
        if problem.fixed[actor] { ours > 0 } else { ours + theirs > own }
    };
    places.into_iter().filter(stands).map(|(actor, _)| actor).collect()
}

/// Writes out what ties those who are lifted to all the others of their relation, pair by pair.
fn write_out(writer: &mut Writer, relation: &problem::Relation) {
    let (file, problem) = (writer.file, writer.problem);
    let name = listed(relation.constraint);
    if writer.lifted.of(RELATED).all(|(of, _)| of != name) {
        return;
    }
    let (Constraint::Apart { actors, .. } | Constraint::Together { actors, .. }) =
        &file.constraints[relation.constraint]
    else {
        return;
    };
    let actors: BTreeSet<ActorIx> = actors.iter().map(|id| problem.actor_by_id[id]).collect();
    let mut literals = Literals::new(writer, relation, &actors);
    let id = |actor: ActorIx| &file.actors[actor.at()].id;
    let demands = super::says(file, relation.constraint);
    let now = |actor: ActorIx| problem.current[actor].map(|unit| problem.place(relation.scope, unit));
    for &one in actors.iter().filter(|actor| writer.lifted.has(RELATED, &name, id(**actor))) {
        let is_counted = |other: ActorIx| other < one && writer.lifted.has(RELATED, &name, id(other));
        let others = actors.iter().copied().filter(|other| *other != one && !is_counted(*other));
        let others = others.filter(|other| !(problem.fixed[one] && problem.fixed[*other]));
        let is_broken =
            |other: &ActorIx| now(one).zip(now(*other)).is_some_and(|(u, v)| (u == v) == relation.apart);
        let (broken, kept): (Vec<ActorIx>, Vec<ActorIx>) = others.partition(is_broken);
        let places: Vec<PlaceIx> = literals.places[&one].keys().copied().collect();
        let many = i64::try_from(kept.len()).expect("actors are few enough to be numbered");
        for &place in places.iter().filter(|_| !kept.is_empty()) {
            let mut body = vec![(literals.in_place(writer, one, place), many)];
            for &other in &kept {
                let against = literals.against(writer, other, place);
                body.extend(against.map(|literal| (literal, 1)));
            }
            if body.len() == 1 {
                // Nobody can be against it there.
                continue;
            }
            let clash = writer.if_sum(many + 1, body);
            writer.never(
                clash,
                LiftedLimit::Constraint(relation.constraint),
                format!("{}: {demands}", id(one)),
            );
        }
        for other in broken {
            let mut clashes = Vec::new();
            for &place in &places {
                let here = literals.in_place(writer, one, place);
                if let Some(against) = literals.against(writer, other, place) {
                    clashes.push(writer.if_sum(2, vec![(here, 1), (against, 1)]));
                }
            }
            let clash = writer.if_sum(1, clashes.into_iter().map(|literal| (literal, 1)).collect());
            writer.never(
                clash,
                LiftedLimit::Constraint(relation.constraint),
                format!("{}, {}: {demands}", id(one), id(other)),
            );
        }
    }
}

/// The literals of a relation's places, each written once.
struct Literals<'a> {
    relation: &'a problem::Relation,
    /// By actor: where it could be, by place.
    places: BTreeMap<ActorIx, BTreeMap<PlaceIx, Vec<UnitIx>>>,
    here: BTreeMap<(ActorIx, PlaceIx), i32>,
    against: BTreeMap<(ActorIx, PlaceIx), Option<i32>>,
}

impl<'a> Literals<'a> {
    fn new(writer: &Writer, relation: &'a problem::Relation, actors: &BTreeSet<ActorIx>) -> Self {
        let of_actor = |actor: &ActorIx| {
            let mut places: BTreeMap<PlaceIx, Vec<UnitIx>> = BTreeMap::new();
            for unit in writer.places(*actor) {
                places.entry(writer.problem.place(relation.scope, unit)).or_default().push(unit);
            }
            (*actor, places)
        };
        let places = actors.iter().map(of_actor).collect();
        Self { relation, places, here: BTreeMap::new(), against: BTreeMap::new() }
    }

    /// Says that an actor is in a place where it could be.
    fn in_place(&mut self, writer: &mut Writer, actor: ActorIx, place: PlaceIx) -> i32 {
        let units = &self.places[&actor][&place];
        *self.here.entry((actor, place)).or_insert_with(|| any_of(writer, actor, units))
    }

    /// Says that an actor is where it may not be if another one is in a place; none where it cannot be there.
    fn against(&mut self, writer: &mut Writer, actor: ActorIx, place: PlaceIx) -> Option<i32> {
        let is_there = |at: PlaceIx| (at == place) == self.relation.apart;
        *self.against.entry((actor, place)).or_insert_with(|| {
            let there = self.places[&actor].iter().filter(|(at, _)| is_there(**at));
            let units: Vec<UnitIx> = there.flat_map(|(_, units)| units.iter().copied()).collect();
            (!units.is_empty()).then(|| any_of(writer, actor, &units))
        })
    }
}

fn any_of(writer: &mut Writer, actor: ActorIx, units: &[UnitIx]) -> i32 {
    let there: Vec<i32> = units.iter().map(|unit| writer.at(actor, *unit)).collect();
    writer.any(&there)
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

    fn broken(&self, now: &Now, found: &mut Lifted) {
        for relation in now.problem.relations.iter().filter(|relation| relation.apart == T::APART) {
            let in_breach = in_breach(now.problem, relation);
            // Of who must be together, everywhere else is against each place.
            let units = now.problem.capacity.len();
            let places = if relation.apart { units } else { units.saturating_mul(units) };
            let others = in_breach.len().saturating_mul(relation.actors.len());
            if others.saturating_mul(places) > MOST_LITERALS {
                continue;
            }
            for actor in in_breach {
                let id = &now.file.actors[actor.at()].id;
                found.insert(RELATED, &listed(relation.constraint), id);
            }
        }
    }

    fn lift(&self, lifted: &Lifted, file: &SnapshotFile, problem: &mut Problem) {
        for relation in problem.relations.positions() {
            let given = &mut problem.relations[relation];
            if given.apart != T::APART {
                continue;
            }
            let name = listed(given.constraint);
            let is_lifted = |actor: &ActorIx| lifted.has(RELATED, &name, &file.actors[actor.at()].id);
            for actor in given.actors.iter().filter(|actor| is_lifted(actor)) {
                problem.relations_of[*actor].retain(|known| *known != relation);
            }
            given.actors.retain(|actor| !is_lifted(actor));
        }
    }

    fn write_out(&self, writer: &mut Writer) {
        for relation in writer.problem.relations.iter().filter(|relation| relation.apart == T::APART) {
            write_out(writer, relation);
        }
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
        let name = listed(position);
        let is_lifted = |actor: ActorIx| checked.is_lifted(RELATED, &name, &checked.actor(actor).id);
        let before = |a: ActorIx, b: ActorIx| checked.now[a].zip(checked.now[b]);
        let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
            let clash = |&&(b, at_b): &&(ActorIx, UnitIx)| {
                is_same_place(checked, scope, at_a, at_b) == T::APART
                    && !(checked.is_fixed(a) && checked.is_fixed(b))
                    && !(is_lifted(a) || is_lifted(b))
                    && before(a, b).is_none_or(|(u, v)| is_same_place(checked, scope, u, v) != T::APART)
            };
            placed[i + 1..].iter().find(clash).map(|&(b, _)| (a, b))
        });
        if let Some((a, b)) = broken {
            let (a, b) = (&checked.actor(a).id, &checked.actor(b).id);
            let kinds = [a, b].map(|id| checked.kind((RELATED, &name, id), Rule::Constraint));
            let rule = if kinds.contains(&Rule::Policy) { Rule::Policy } else { Rule::Constraint };
            let says = format!("{a}, {b}: {}", super::says(checked.file, position));
            found.push(Violation { rule, says });
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
