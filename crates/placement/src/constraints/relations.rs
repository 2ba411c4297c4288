//! Shared code of `apart` and `together`, which concern the relative location of actors.

use std::collections::{BTreeMap, BTreeSet};

use super::ConstraintKind;
use crate::checker::checked::{Checked, Rule, Violation};
use crate::file::format::{Constraint, Scope, SnapshotFile};
use crate::ix::{ActorIx, IxVec, PlaceIx, RelationIx, UnitIx};
use crate::problem::dense::{self, Problem};
use crate::rules::circuit::{CurrentPlacement, Writer};
use crate::rules::suspended_limits::{SuspendedLimit, SuspendedLimits, listed};

/// By relation and domain: the number of its actors there.
pub(crate) struct ColocationCounts(IxVec<RelationIx, BTreeMap<PlaceIx, usize>>);

impl ColocationCounts {
    /// With no actor placed.
    pub fn new(problem: &Problem) -> Self {
        Self(IxVec::of(BTreeMap::new(), problem.relations.len()))
    }

    /// Applies the addition or removal of an actor.
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

    /// Every relation that the unplaced actor would violate on the unit.
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

/// The name of a suspended relation between an actor and the others.
const RELATED: &str = "related";

/// The actors of a relation that currently violate it with another one, not both fixed.
fn in_breach(problem: &Problem, relation: &dense::AffinityRule) -> Vec<ActorIx> {
    let there = relation.actors.iter();
    let places: Vec<(ActorIx, PlaceIx)> = there
        .filter_map(|&actor| Some((actor, problem.place(relation.scope, problem.running[actor]?))))
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

/// The actors of a relation that currently share a domain, ascending: they satisfy `together` among themselves, or violate `apart`.
type GroupUnitCounts = BTreeMap<PlaceIx, Vec<ActorIx>>;

/// The maximum number of literals of a relation with violating actors and a number of possible units.
fn most_literals(
    problem: &Problem,
    relation: &dense::AffinityRule,
    (actors, in_breach): (&[ActorIx], &[ActorIx]),
    places: impl Fn(ActorIx) -> usize,
) -> usize {
    let all = |actors: &[ActorIx]| actors.iter().map(|actor| places(*actor)).sum::<usize>();
    if relation.apart {
        return 2 * all(actors) + 5 * all(in_breach);
    }
    // Each co-located set is combined with every unplaced actor.
    let at = |actor: &ActorIx| problem.running[*actor].map(|unit| problem.place(relation.scope, unit));
    let crowds = actors.iter().filter_map(at).collect::<BTreeSet<PlaceIx>>().len();
    let coming: Vec<ActorIx> = actors.iter().copied().filter(|actor| at(actor).is_none()).collect();
    let beside = crowds * (2 * all(&coming).min(problem.capacity.len()) + coming.len());
    3 * all(actors) + 5 * all(in_breach) + beside
}

/// Grounds the demands among actors that currently satisfy a relation, and the pairs that violate it: domain by domain rather than
/// pair by pair.
fn ground_relation(writer: &mut Writer, relation: &dense::AffinityRule) {
    let (file, problem, suspended) = (writer.file, writer.problem, writer.suspended);
    let name = listed(relation.constraint);
    if !suspended.has_any(RELATED, &name) {
        return;
    }
    let (Constraint::Apart { actors, .. } | Constraint::Together { actors, .. }) =
        &file.constraints[relation.constraint]
    else {
        return;
    };
    let actors: BTreeSet<ActorIx> = actors.iter().map(|id| problem.actor_by_id[id]).collect();
    let actors: Vec<ActorIx> = actors.into_iter().collect();
    let is_suspended = |actor: &ActorIx| suspended.has(RELATED, &name, &file.actors[actor.at()].id);
    let in_breach: Vec<ActorIx> = actors.iter().copied().filter(is_suspended).collect();
    let (mut crowds, mut others) = (GroupUnitCounts::new(), Vec::new());
    for &actor in &actors {
        match problem.running[actor] {
            Some(unit) => crowds.entry(problem.place(relation.scope, unit)).or_default().push(actor),
            None => others.push(actor),
        }
    }
    let everywhere = |actor: ActorIx| if problem.fixed[actor] { 1 } else { problem.capacity.len() };
    let of = (actors.as_slice(), in_breach.as_slice());
    let literals = most_literals(problem, relation, of, everywhere);
    writer.everywhere_if(literals, |writer| {
        if relation.apart {
            write_apart(writer, relation, crowds, &others);
        } else {
            write_together(writer, relation, &crowds, &others);
        }
    });
}

/// Only actors of one co-located set may share a domain; an unplaced actor is a set of its own. An actor that shares a domain with
/// another one of its set has a grandfathered violation.
fn write_apart(
    writer: &mut Writer,
    relation: &dense::AffinityRule,
    crowds: GroupUnitCounts,
    others: &[ActorIx],
) {
    let problem = writer.problem;
    // By domain: for each co-located set, whether it is there, and its members.
    let mut at: BTreeMap<PlaceIx, Vec<(i32, Vec<i32>)>> = BTreeMap::new();
    for crowd in crowds.into_values().chain(others.iter().map(|actor| vec![*actor])) {
        // By actor: that it is in a domain, and another one with it.
        let mut beside: BTreeMap<ActorIx, Vec<i32>> = BTreeMap::new();
        for (place, there) in could_be(writer, relation.scope, &crowd) {
            let literals: Vec<i32> = there.iter().map(|(_, literal)| *literal).collect();
            if literals.len() > 1 {
                let two = writer.at_least(2, &literals);
                for (actor, literal) in there.into_iter().filter(|(actor, _)| !problem.fixed[*actor]) {
                    beside.entry(actor).or_default().push(writer.at_least(2, &[literal, two]));
                }
            }
            at.entry(place).or_default().push((writer.any(&literals), literals));
        }
        for (actor, literals) in beside {
            let breaks = writer.any(&literals);
            let other = crowd.iter().copied().find(|other| *other != actor);
            write_breach(writer, relation, breaks, actor, (other, crowd.len() - 1));
        }
    }
    for crowds in at.into_values().filter(|crowds| crowds.len() > 1) {
        let (one_of, members): (Vec<i32>, Vec<Vec<i32>>) = crowds.into_iter().unzip();
        let most = members.iter().map(Vec::len).max().unwrap_or(0);
        write_clash(writer, relation, &one_of, &members.concat(), most);
    }
}

/// Each co-located set is in one domain, with all unplaced actors. While sets are in several domains, members are grandfathered.
fn write_together(
    writer: &mut Writer,
    relation: &dense::AffinityRule,
    crowds: &GroupUnitCounts,
    others: &[ActorIx],
) {
    let problem = writer.problem;
    let coming = could_be(writer, relation.scope, others);
    let coming = any_present(writer, &coming);
    let others: Vec<i32> = others.iter().map(|actor| anywhere(writer, *actor)).collect();
    // By domain: for each co-located set, whether it is there.
    let mut taken: BTreeMap<PlaceIx, Vec<i32>> = BTreeMap::new();
    for crowd in crowds.values() {
        let there = could_be(writer, relation.scope, crowd);
        let present = any_present(writer, &there);
        if crowd.len() + others.len() > 1 {
            let mut all: BTreeMap<PlaceIx, Vec<i32>> = BTreeMap::new();
            for (place, literal) in coming.iter().chain(&present) {
                all.entry(*place).or_default().push(*literal);
            }
            let places: Vec<i32> = all.values().map(|literals| writer.any(literals)).collect();
            let own = there.values().flatten().map(|(_, literal)| *literal);
            let members: Vec<i32> = own.chain(others.iter().copied()).collect();
            write_clash(writer, relation, &places, &members, crowd.len() + others.len());
        }
        for (place, literal) in present {
            taken.entry(place).or_default().push(literal);
        }
    }
    let taken: Vec<i32> = taken.values().map(|literals| writer.any(literals)).collect();
    let torn = writer.at_least(2, &taken);
    let count: usize = crowds.values().map(Vec::len).sum();
    for (place, crowd) in crowds {
        let elsewhere = crowds.iter().find(|(at, _)| *at != place).map(|(_, crowd)| crowd[0]);
        for &actor in crowd.iter().filter(|actor| !problem.fixed[**actor]) {
            let placed = anywhere(writer, actor);
            let breaks = writer.at_least(2, &[torn, placed]);
            write_breach(writer, relation, breaks, actor, (elsewhere, count - crowd.len()));
        }
    }
}

/// At most one of these may hold, each with a maximum number of members. The fewer members are beside a second one, the smaller the
/// violation.
fn write_clash(
    writer: &mut Writer,
    relation: &dense::AffinityRule,
    one_of: &[i32],
    members: &[i32],
    most: usize,
) {
    let most = i64::try_from(most).expect("actors are few enough to be numbered");
    let mut body: BTreeMap<i32, i64> = BTreeMap::new();
    let weights = one_of.iter().map(|literal| (*literal, most + 1));
    for (literal, weight) in weights.chain(members.iter().map(|literal| (*literal, 1))) {
        *body.entry(literal).or_default() += weight;
    }
    // One with all its members counts one less.
    let clash = writer.if_sum(2 * most + 2, body.into_iter().collect());
    let demands = super::says(writer.file, relation.constraint);
    writer.never(clash, SuspendedLimit::Constraint(relation.constraint), demands);
}

/// The violation of a relation by an actor, with one of its current counterparts and their number.
fn write_breach(
    writer: &mut Writer,
    relation: &dense::AffinityRule,
    breaks: i32,
    actor: ActorIx,
    (other, count): (Option<ActorIx>, usize),
) {
    let file = writer.file;
    let id = |actor: ActorIx| &file.actors[actor.at()].id;
    let actors = match other {
        Some(other) if count == 1 => format!("{}, {}", id(actor.min(other)), id(actor.max(other))),
        _ => format!("{} and {count} others", id(actor)),
    };
    let says = format!("{actors}: {}", super::says(file, relation.constraint));
    writer.never(breaks, SuspendedLimit::Breach(relation.constraint, actor), says);
}

/// By domain: the possible actors, each with the literal of its presence.
type There = BTreeMap<PlaceIx, Vec<(ActorIx, i32)>>;

/// The possible domains of some actors.
fn could_be(writer: &mut Writer, scope: Scope, actors: &[ActorIx]) -> There {
    let mut found = There::new();
    for &actor in actors {
        let mut places: BTreeMap<PlaceIx, Vec<i32>> = BTreeMap::new();
        for unit in writer.places(actor) {
            let literal = writer.at(actor, unit);
            places.entry(writer.problem.place(scope, unit)).or_default().push(literal);
        }
        for (place, literals) in places {
            found.entry(place).or_default().push((actor, writer.any(&literals)));
        }
    }
    found
}

/// By domain: the literal that one of the possible actors is there.
fn any_present(writer: &mut Writer, there: &There) -> BTreeMap<PlaceIx, i32> {
    let literals = |there: &[(ActorIx, i32)]| there.iter().map(|(_, literal)| *literal).collect::<Vec<_>>();
    there.iter().map(|(place, there)| (*place, writer.any(&literals(there)))).collect()
}

/// The literal that an actor is placed.
fn anywhere(writer: &mut Writer, actor: ActorIx) -> i32 {
    let units = writer.places(actor);
    let literals: Vec<i32> = units.into_iter().map(|unit| writer.at(actor, unit)).collect();
    writer.any(&literals)
}

/// A scope as a word.
fn in_words(scope: Scope) -> String {
    match scope {
        Scope::Numa => "NUMA domain".to_owned(),
        other => other.to_string(),
    }
}

/// The difference between `apart` and `together`.
pub(super) trait Relation: Sync {
    /// Whether its actors may not share a domain; otherwise they must.
    const APART: bool;

    /// Its scope and actors, if the constraint is of this type.
    fn of(given: &Constraint) -> Option<(Scope, &[String])>;

    /// Its demand as a sentence, given the scope.
    fn describe(scope: &str) -> String;
}

impl<T: Relation> ConstraintKind for T {
    fn add_to_problem(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        if let Some((scope, actors)) = T::of(given) {
            problem.add_relation(position, T::APART, scope, actors);
        }
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let Some((scope, _)) = T::of(given) else { return format!("constraints[{position}]") };
        T::describe(&in_words(scope))
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        check::<T>(checked, found);
    }

    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        for relation in now.problem.relations.iter().filter(|relation| relation.apart == T::APART) {
            let in_breach = in_breach(now.problem, relation);
            let of = (relation.actors.as_slice(), in_breach.as_slice());
            let places = |actor: ActorIx| now.places(actor);
            if in_breach.is_empty() || !now.affords(most_literals(now.problem, relation, of, places)) {
                continue;
            }
            for actor in in_breach {
                let id = &now.file.actors[actor.at()].id;
                found.insert(RELATED, &listed(relation.constraint), id);
            }
        }
    }

    fn suspend(&self, suspended: &SuspendedLimits, file: &SnapshotFile, problem: &mut Problem) {
        for relation in problem.relations.positions() {
            let given = &mut problem.relations[relation];
            if given.apart != T::APART {
                continue;
            }
            let name = listed(given.constraint);
            let is_suspended = |actor: &ActorIx| suspended.has(RELATED, &name, &file.actors[actor.at()].id);
            for actor in given.actors.iter().filter(|actor| is_suspended(actor)) {
                problem.relations_of[*actor].retain(|known| *known != relation);
            }
            given.actors.retain(|actor| !is_suspended(actor));
        }
    }

    fn ground(&self, writer: &mut Writer) {
        for relation in writer.problem.relations.iter().filter(|relation| relation.apart == T::APART) {
            ground_relation(writer, relation);
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/relations.lp")
    }
}

/// Finds the relations of one type that two actors violate that are not both fixed.
fn check<T: Relation>(checked: &Checked, found: &mut Vec<Violation>) {
    for (&position, actors) in &checked.index.related {
        let Some((scope, _)) = T::of(&checked.file.constraints[position]) else { continue };
        let mut numbers: BTreeMap<DomainName, usize> = BTreeMap::new();
        let mut number = |unit: UnitIx| {
            let next = numbers.len();
            *numbers.entry(domain_of(checked, scope, unit)).or_insert(next)
        };
        let placed: Vec<(ActorIx, usize)> =
            actors.iter().filter_map(|&actor| Some((actor, number(checked.assignment[actor]?)))).collect();
        // Pairs are compared only if there is a violation, grandfathered or not.
        if if T::APART { numbers.len() == placed.len() } else { numbers.len() <= 1 } {
            continue;
        }
        let name = listed(position);
        let is_suspended = |actor: ActorIx| checked.is_suspended(RELATED, &name, &checked.actor(actor).id);
        // A relation that is not grounded binds, whatever the current placement.
        let is_written = checked.ruled.has_any(RELATED, &name);
        let is_excused = |a: ActorIx, b: ActorIx| {
            let before = checked.now[a].zip(checked.now[b]);
            let is_together = |(u, v)| domain_of(checked, scope, u) == domain_of(checked, scope, v);
            is_written && before.is_some_and(|before| is_together(before) == T::APART)
        };
        let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
            let clash = |&&(b, at_b): &&(ActorIx, usize)| {
                let clashes = (at_a == at_b) == T::APART;
                let stay = checked.is_fixed(a) && checked.is_fixed(b);
                clashes && !(stay || is_suspended(a) || is_suspended(b) || is_excused(a, b))
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

/// A domain by its names: of a node and a NUMA domain, or of a node or zone. A unit without a known one is a domain of its own.
type DomainName<'a> = (&'a str, Option<&'a str>, Option<UnitIx>);

/// The domain of a unit.
fn domain_of<'a>(checked: &Checked<'a>, scope: Scope, at: UnitIx) -> DomainName<'a> {
    let (unit, alone) = (checked.unit(at), ("", None, Some(at)));
    match scope {
        Scope::Unit => alone,
        Scope::Numa => unit.numa.as_deref().map_or(alone, |numa| (&unit.node, Some(numa), None)),
        Scope::Node => (&unit.node, None, None),
        Scope::Zone => unit.zone.as_deref().map_or(alone, |zone| (zone, None, None)),
    }
}
