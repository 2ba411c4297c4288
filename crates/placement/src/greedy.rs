//! `greedy`: keep what runs, place the rest where it costs least, then take every step that pays.

use std::collections::BTreeMap;

use crate::state::State;
use crate::{Answer, Budget, Snapshot, SolveError, StoppedBy, Strategy};

/// Keeps what runs lawfully, places the rest one by one where the vector grows least, then moves single actors as
/// long as that makes the vector smaller.
///
/// A piece of effort is one actor looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn summary(&self) -> &'static str {
        "keeps what runs, places the rest where it costs least, then takes every single step that pays"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let mut work = Work { left: budget.effort.unwrap_or(u64::MAX), done: 0, budget };
        let mut state = State::new(snapshot);
        keep_what_runs(&mut state, snapshot);
        let mut order = Order::new(snapshot, &state);
        // Construction is always finished: an answer without it would leave out actors that have room.
        while let Some(actor) = order.next(snapshot) {
            place(&mut state, snapshot, actor);
            work.spend();
        }
        let improved = improve(&mut state, snapshot, &mut work);
        Ok(Answer {
            assignment: state.assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort: work.done,
            stopped_by: if improved || work.left == 0 { StoppedBy::Effort } else { StoppedBy::Deadline },
        })
    }
}

struct Work<'a> {
    left: u64,
    done: u64,
    budget: &'a Budget<'a>,
}

impl Work<'_> {
    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.done += 1;
    }

    fn is_over(&self) -> bool {
        self.left == 0 || (self.budget.stop)()
    }
}

fn keep_what_runs(state: &mut State, snapshot: &Snapshot) {
    for actor in (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)) {
        if let Some(unit) = snapshot.current(actor)
            && state.admits(actor, unit)
        {
            state.put(actor, unit);
        }
    }
}

/// Who is placed next: whoever is tied most to what has a place already; the choosy before the easy.
struct Order {
    waiting: Vec<usize>,
    pull: Vec<i64>,
}

impl Order {
    fn new(snapshot: &Snapshot, state: &State) -> Self {
        let waiting: Vec<usize> =
            (0..snapshot.actors()).filter(|&actor| state.assignment[actor].is_none()).collect();
        let pull = (0..snapshot.actors())
            .map(|actor| {
                let placed = |peer: usize| state.assignment[peer].is_some();
                snapshot.edges(actor).iter().filter(|edge| placed(edge.peer)).map(|edge| edge.rate).sum()
            })
            .collect();
        Self { waiting, pull }
    }

    fn next(&mut self, snapshot: &Snapshot) -> Option<usize> {
        let bound = |actor: usize| !snapshot.index.relations_of[actor].is_empty();
        let key = |actor: usize| {
            let heaviest =
                snapshot.index.implementations[actor].iter().flatten().map(|needs| needs.work).max();
            let choosy = snapshot.candidates(actor).len() <= 1;
            (choosy, bound(actor), self.pull[actor], heaviest, std::cmp::Reverse(actor))
        };
        let position = (0..self.waiting.len()).max_by_key(|&position| key(self.waiting[position]))?;
        let actor = self.waiting.swap_remove(position);
        for edge in snapshot.edges(actor) {
            self.pull[edge.peer] += edge.rate;
        }
        Some(actor)
    }
}

/// The lawful unit with the smallest price; among equals where it was, then the emptiest.
fn cheapest(state: &State, snapshot: &Snapshot, actor: usize) -> Option<(Vec<i64>, usize)> {
    let lawful = snapshot.candidates(actor).iter().filter(|unit| state.admits(actor, **unit));
    lawful
        .map(|&unit| {
            let elsewhere = snapshot.current(actor) != Some(unit);
            (state.price(actor, unit), (elsewhere, state.fullness_with(actor, unit), unit))
        })
        .min()
        .map(|(price, (_, _, unit))| (price, unit))
}

fn place(state: &mut State, snapshot: &Snapshot, actor: usize) {
    if let Some((_, unit)) = cheapest(state, snapshot, actor) {
        state.put(actor, unit);
    }
}

/// Takes steps that pay until none is left; false when the budget ended it first.
fn improve(state: &mut State, snapshot: &Snapshot, work: &mut Work) -> bool {
    let movable: Vec<usize> = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
    loop {
        let mut improved = false;
        for &actor in &movable {
            if work.is_over() {
                return false;
            }
            work.spend();
            improved |= improve_one(state, snapshot, actor);
        }
        if !improved {
            return true;
        }
    }
}

/// Moves the actor to where it is cheapest, or gives it a place if it has none; false when nothing changed.
fn improve_one(state: &mut State, snapshot: &Snapshot, actor: usize) -> bool {
    let Some(home) = state.take(actor) else {
        place(state, snapshot, actor);
        return state.assignment[actor].is_some();
    };
    let stay = state.price(actor, home);
    if let Some((price, unit)) = cheapest(state, snapshot, actor)
        && price < stay
    {
        state.put(actor, unit);
        return true;
    }
    state.put(actor, home);
    false
}
