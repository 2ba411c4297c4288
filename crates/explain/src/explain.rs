//! Alternatives of each actor with their cost, and the limits that bind the whole assignment.

use std::collections::{BTreeMap, BTreeSet};

use crate::limit::{Limit, LimitGroup, grouped, numbered, of_case, pool_of};
use crate::moves::Moves;
use crate::obstacles_in_place::blocks;
use crate::wording::Wording;
use placement::criteria::congestion::{CongestedLink, congested_links};
use placement::ix::{ActorIx, ResourceIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot, State};

/// An explanation of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The actors in question that are placed.
    pub placed: Vec<PlacedActor>,
    /// The limits that prevent a better assignment.
    pub binding: Binding,
}

/// An actor's unit, and the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedActor {
    /// Position of the actor.
    pub actor: ActorIx,
    /// Position of its unit.
    pub unit: UnitIx,
    /// All other units: the cheapest first, forbidden ones last.
    pub alternatives: Vec<Alternative>,
}

/// Units of one pool that are equivalent for an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The units, ascending.
    pub units: Vec<UnitIx>,
    /// Their pool, or their kind if they belong to none.
    pub pool: String,
    /// The outcome of moving the actor there.
    pub outcome: Outcome,
}

/// The outcome of moving one actor to a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The increase of the cost by level; negative values are gains.
    Costs(Vec<i64>),
    /// The move is forbidden: the first limit in the way, as a sentence.
    Forbidden(String),
}

/// The limits that prevent a better assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Limits that are exhausted, as sentences.
    pub full: Vec<String>,
    /// Shared links that carry more than their capacity, as sentences, if a level names `congestion`.
    pub congested: Vec<String>,
    /// Rules and limits that alone prevent an improving move of some actor; the one with the largest gain
    /// first.
    pub reliefs: Vec<LimitCost>,
}

/// The cost of one rule or limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCost {
    /// The rule or limit as a sentence.
    pub says: String,
    /// The number of actors with an improving move without it.
    pub actors: usize,
    /// The actor with the largest gain, and its unit.
    pub best: (ActorIx, UnitIx),
    /// The change by level; negative values are gains.
    pub change: Vec<i64>,
}

/// The best move that one limit alone forbids.
#[derive(Default)]
struct Forbidden {
    actors: BTreeSet<ActorIx>,
    best: Option<(Vec<i64>, ActorIx, UnitIx)>,
}

impl Forbidden {
    fn add(&mut self, change: Vec<i64>, actor: ActorIx, unit: UnitIx) {
        self.actors.insert(actor);
        let this = (change, actor, unit);
        if self.best.as_ref().is_none_or(|best| this < *best) {
            self.best = Some(this);
        }
    }

    /// Merges the moves that the limits of one group forbid.
    fn joined<'a>(all: impl Iterator<Item = &'a Forbidden>) -> Self {
        let mut joined = Self::default();
        for one in all {
            joined.actors.extend(&one.actors);
            if one.best.is_some() && (joined.best.is_none() || one.best < joined.best) {
                joined.best.clone_from(&one.best);
            }
        }
        joined
    }

    fn into_relief(self, says: impl FnOnce(ActorIx) -> String) -> Option<LimitCost> {
        let (change, actor, unit) = self.best?;
        Some(LimitCost { says: says(actor), actors: self.actors.len(), best: (actor, unit), change })
    }
}

/// Explains a feasible assignment: the alternatives of `actors`, and the binding limits.
pub fn explain(snapshot: &Snapshot, assignment: &Assignment, actors: &[ActorIx]) -> Explanation {
    let mut moves = Moves::new(snapshot, assignment);
    let placed = actors.iter().filter_map(|&actor| placed_actor(snapshot, actor, &mut moves)).collect();
    let reliefs = reliefs(snapshot, &mut moves);
    let (full, congested) = (full(snapshot, &moves.state), congested(snapshot, assignment));
    Explanation { placed, binding: Binding { full, congested, reliefs } }
}

/// The alternatives of one actor; the state is restored.
fn placed_actor(snapshot: &Snapshot, actor: ActorIx, moves: &mut Moves) -> Option<PlacedActor> {
    let here = moves.take(actor)?;
    let stay = moves.price(actor, here);
    let mut open: BTreeMap<(Outcome, String), Vec<UnitIx>> = BTreeMap::new();
    let mut shut: BTreeMap<(Limit, String), Vec<UnitIx>> = BTreeMap::new();
    for unit in UnitIx::first(snapshot.units()).filter(|unit| *unit != here) {
        let pool = pool_of(snapshot, unit);
        let state = &moves.state;
        if state.admits(actor, unit) {
            if let Some(&demand) = moves.broken_cases(actor, unit).first() {
                shut.entry((of_case(snapshot, demand)[0], pool)).or_default().push(unit);
            } else {
                let outcome = Outcome::Costs(change(&stay, &moves.price(actor, unit)));
                open.entry((outcome, pool)).or_default().push(unit);
            }
        } else if let Some(limit) =
            blocks(snapshot, actor, unit, state).first().and_then(|block| block.first())
        {
            shut.entry((*limit, pool)).or_default().push(unit);
        }
    }
    let limits: BTreeSet<Limit> = shut.keys().map(|(limit, _)| *limit).collect();
    let elements = grouped(snapshot, actor, &limits);
    let numbers = numbered(&elements);
    let mut by_element: BTreeMap<(usize, String), (Vec<Limit>, Vec<UnitIx>)> = BTreeMap::new();
    for ((limit, pool), units) in shut {
        let (limits, all) = by_element.entry((numbers[&limit], pool)).or_default();
        limits.push(limit);
        all.extend(units);
    }
    let wording = Wording { snapshot, state: &moves.state, actor };
    let forbidden = by_element.into_iter().map(|((_, pool), (limits, mut units))| {
        units.sort_unstable();
        // Described for these units alone, not for all units of the limit.
        let outcome = Outcome::Forbidden(wording.describe_for(&LimitGroup { limits }, &units));
        Alternative { units, pool, outcome }
    });
    let open = open.into_iter().map(|((outcome, pool), units)| Alternative { units, pool, outcome });
    let alternatives = open.chain(forbidden).collect();
    moves.put(actor, here);
    Some(PlacedActor { actor, unit: here, alternatives })
}

/// The improving moves that a single limit, or a single rule of the policy, prevents.
fn reliefs(snapshot: &Snapshot, moves: &mut Moves) -> Vec<LimitCost> {
    let mut by_limit: BTreeMap<Limit, Forbidden> = BTreeMap::new();
    for actor in ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)) {
        let Some(here) = moves.take(actor) else { continue };
        let stay = moves.price(actor, here);
        for unit in
            UnitIx::first(snapshot.units()).filter(|&unit| snapshot.implementation(actor, unit).is_some())
        {
            let go = moves.price(actor, unit);
            if go >= stay {
                continue;
            }
            let change = change(&stay, &go);
            let mut blocks = blocks(snapshot, actor, unit, &moves.state);
            blocks.extend(by_rule(snapshot, &moves.broken_cases(actor, unit)));
            if let [block] = blocks.as_slice() {
                for limit in block {
                    by_limit.entry(*limit).or_default().add(change.clone(), actor, unit);
                }
            }
        }
        moves.put(actor, here);
    }
    let elements = grouped(snapshot, ActorIx::NONE, &by_limit.keys().copied().collect());
    let reliefs = elements.iter().filter_map(|element| {
        let all = element.limits.iter().filter_map(|limit| by_limit.get(limit));
        Forbidden::joined(all)
            .into_relief(|actor| Wording { snapshot, state: &moves.state, actor }.describe(element))
    });
    let mut reliefs: Vec<LimitCost> = reliefs.collect();
    reliefs.sort_by(|a, b| (&a.change, a.best).cmp(&(&b.change, b.best)));
    reliefs
}

/// Cases grouped by their rule.
fn by_rule(snapshot: &Snapshot, cases: &[usize]) -> impl Iterator<Item = Vec<Limit>> {
    let mut rules: BTreeMap<&str, BTreeSet<Limit>> = BTreeMap::new();
    for &demand in cases {
        let rule = snapshot.rules().map_or("", |rules| rules.cases()[demand].rule.as_str());
        rules.entry(rule).or_default().extend(of_case(snapshot, demand));
    }
    rules.into_values().map(|limits| limits.into_iter().collect())
}

/// Limits whose remaining quantity is too small for any actor that needs it.
fn full(snapshot: &Snapshot, state: &State) -> Vec<String> {
    let mut full = BTreeSet::new();
    for unit in UnitIx::first(snapshot.units()) {
        let slots = snapshot.file().units[unit.at()].slots;
        if slots.is_some_and(|slots| state.hosted_on(unit) as u64 >= slots) {
            full.insert(Limit::Slots { unit });
        }
    }
    let mut least: BTreeMap<(bool, ResourceIx), i64> = BTreeMap::new();
    let problem = snapshot.problem();
    for needs in problem.implementations.iter().flatten().flatten() {
        let of_unit = needs.requires.iter().map(|(resource, quantity)| ((false, *resource), *quantity));
        let of_node = needs.node_requires.iter().map(|(resource, quantity)| ((true, *resource), *quantity));
        for (resource, quantity) in of_unit.chain(of_node) {
            let least = least.entry(resource).or_insert(quantity);
            *least = quantity.min(*least);
        }
    }
    for (&(of_node, resource), &least) in &least {
        if of_node {
            let nodes = problem.nodes.positions();
            let scarce = nodes.filter(|&node| {
                snapshot.provided_at(node, resource) > 0 && state.left_at(node, resource) < least
            });
            full.extend(scarce.map(|node| Limit::OfNode { node, resource }));
        } else {
            let units = problem.capacity.positions();
            let scarce = units.filter(|&unit| {
                snapshot.provided_on(unit, resource) > 0 && state.left_on(unit, resource) < least
            });
            full.extend(scarce.map(|unit| Limit::OfUnit { unit, resource }));
        }
    }
    let wording = Wording { snapshot, state, actor: ActorIx::NONE };
    grouped(snapshot, ActorIx::NONE, &full).iter().map(|element| wording.describe(element)).collect()
}

/// The links with too many messages.
fn congested(snapshot: &Snapshot, assignment: &Assignment) -> Vec<String> {
    let is_level = |level: &Vec<Criterion>| level.contains(&Criterion::Congestion);
    if !snapshot.objectives().levels().iter().any(is_level) {
        return Vec::new();
    }
    let links = congested_links(snapshot, assignment).into_iter().map(|link| {
        let CongestedLink { id, to_its_units, messages, capacity } = link;
        let direction = if to_its_units { "to" } else { "from" };
        format!(
            "{id}: {messages} messages {direction} its units in a window, {} above its capacity",
            messages - capacity
        )
    });
    links.collect()
}

fn change(from: &[i64], to: &[i64]) -> Vec<i64> {
    to.iter().zip(from).map(|(to, from)| to - from).collect()
}
