//! The part of a plan that is necessary, whatever it gains.

use std::collections::BTreeMap;

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, FoundBy, Judged, Plan, Snapshot, Stage, Unplaced};

use crate::commit::full_cost;
use crate::gain::price::vector;

/// The assignment with only the necessary moves of `goes`; the others are elective.
///
/// Placing an actor that has no place is necessary, and so is every move without which fewer actors would be placed, more
/// exceptions would remain, or a limit would be violated: the actor's place became infeasible, or it makes room. Equals the
/// incumbent if all moves are elective.
pub fn necessary_part(snapshot: &Snapshot, goes: &Assignment) -> Assignment {
    let stays = snapshot.incumbent();
    // If an actor gives its place up to another, that exchange may be elective, too.
    let gives_up = |actor: ActorIx| stays[actor].is_some() && goes[actor].is_none();
    let exchanges = ActorIx::first(snapshot.actors()).any(gives_up);
    let may_be_elective =
        |&actor: &ActorIx| stays[actor] != goes[actor] && (exchanges || stays[actor].is_some());
    let movers: Vec<ActorIx> = ActorIx::first(snapshot.actors()).filter(may_be_elective).collect();
    let mut part = goes.clone();
    if !movers.is_empty() {
        MoveReverter::new(snapshot, &stays, goes).take_back(&chains(&movers, &stays, goes), &mut part);
    }
    part
}

/// Takes back moves as far as no fewer actors are placed and no more exceptions remain.
pub(super) struct MoveReverter<'a> {
    snapshot: &'a Snapshot,
    stays: &'a Assignment,
    serves: Vec<i64>,
}

impl<'a> MoveReverter<'a> {
    pub fn new(snapshot: &'a Snapshot, stays: &'a Assignment, goes: &Assignment) -> Self {
        Self { snapshot, stays, serves: served(snapshot, goes) }
    }

    /// Takes back all of these chains or, if that is infeasible, as many of each half as is feasible.
    fn take_back(&self, chains: &[Vec<ActorIx>], part: &mut Assignment) {
        let mut back = part.clone();
        for &actor in chains.iter().flatten() {
            back[actor] = self.stays[actor];
        }
        if self.is_as_good(&back) {
            *part = back;
            return;
        }
        match chains {
            [chain] if chain.len() > 1 => {
                let single: Vec<Vec<ActorIx>> = chain.iter().map(|&actor| vec![actor]).collect();
                self.take_back_halves(&single, part);
            }
            [] | [_] => {}
            _ => self.take_back_halves(chains, part),
        }
    }

    fn take_back_halves(&self, chains: &[Vec<ActorIx>], part: &mut Assignment) {
        let (first, second) = chains.split_at(chains.len() / 2);
        self.take_back(first, part);
        self.take_back(second, part);
    }

    pub fn is_as_good(&self, assignment: &Assignment) -> bool {
        served(self.snapshot, assignment) <= self.serves && self.snapshot.violations(assignment).is_empty()
    }
}

/// The levels before the objectives: unplaced actors, and exceptions if there are any.
fn served(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let mut levels = vector(snapshot, assignment);
    levels.truncate(1 + exceptions(snapshot));
    levels
}

/// The number of levels that count exceptions.
fn exceptions(snapshot: &Snapshot) -> usize {
    let levels = snapshot.objectives().levels();
    levels.iter().take_while(|level| level.contains(&Criterion::Excused)).count()
}

/// Movers that go where others come from, together: a chain or a cycle through full units.
fn chains(movers: &[ActorIx], stays: &Assignment, goes: &Assignment) -> Vec<Vec<ActorIx>> {
    let mut chain_of: BTreeMap<UnitIx, usize> = BTreeMap::new();
    let mut chains: Vec<Vec<ActorIx>> = Vec::new();
    for &actor in movers {
        let ends = [stays[actor], goes[actor]].map(|unit| unit.and_then(|unit| chain_of.get(&unit).copied()));
        let chain = match ends {
            [Some(one), Some(other)] if one != other => {
                let (kept, joined) = (one.min(other), one.max(other));
                let moved = std::mem::take(&mut chains[joined]);
                chains[kept].extend(moved);
                chain_of.values_mut().filter(|chain| **chain == joined).for_each(|chain| *chain = kept);
                kept
            }
            [Some(known), _] | [_, Some(known)] => known,
            [None, None] => {
                chains.push(Vec::new());
                chains.len() - 1
            }
        };
        chains[chain].push(actor);
        for unit in [stays[actor], goes[actor]].into_iter().flatten() {
            chain_of.insert(unit, chain);
        }
    }
    chains.retain(|chain| !chain.is_empty());
    chains
}

/// The plan with only a part of its moves. The caller adds the reasons of unplaced actors.
pub(super) fn only(snapshot: &Snapshot, plan: Plan, assignment: Assignment) -> Plan {
    let cost = full_cost(snapshot, &assignment);
    let optimal = plan.optimal && cost.vector(snapshot) == plan.cost.vector(snapshot);
    let waits = ActorIx::first(snapshot.actors()).filter(|actor| assignment[*actor].is_none());
    let is_incumbent = assignment == snapshot.incumbent();
    Plan {
        unplaced: waits.map(|actor| Unplaced { actor, reasons: Vec::new(), holds: None }).collect(),
        excused: snapshot.excused(&assignment),
        moves: plan
            .moves
            .into_iter()
            .filter(|it| assignment[it.actor] == plan.assignment[it.actor])
            .collect(),
        cost,
        optimal,
        proven_by: plan.proven_by.filter(|_| optimal),
        judged: Judged::None,
        stage: if is_incumbent { Stage::Incumbent } else { plan.stage },
        found_by: if is_incumbent { FoundBy::Incumbent } else { plan.found_by },
        assignment,
        ..plan
    }
}
