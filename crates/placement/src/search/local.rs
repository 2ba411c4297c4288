//! The strategy `local`, and the same search from any start.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use std::collections::BTreeMap;

use super::anneal::Walk;
use super::balance::balance;
use super::construct::place_the_rest;
use super::exchange::small;
use super::layout::Layout;
use super::model::Model;
use crate::{
    Answer, Assignment, Budget, Criterion, Greedy, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};

/// Steps of one piece of effort.
const STEPS: u64 = 10_000;

/// Temperatures of a cooling, in mean losses of a random step.
const HOT: f64 = 2.0;
const COLD: f64 = 0.01;

/// What a piece of work above a limit costs at first and at the end of a cooling, in mean losses over mean works.
const CHEAP_EXCESS: f64 = 2.0;
const DEAR_EXCESS: f64 = 1000.0;

/// The part of a cooling in which excess stays cheap.
const FORGIVING: f64 = 0.5;

/// Starts from what runs, or a quick placement of what does not, and anneals: coolings of growing length.
///
/// A piece of effort is ten thousand steps tried; placing everything, and bringing loads within capacities, come
/// before the first and are always finished.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Strategy for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn summary(&self) -> &'static str {
        "starts from what runs and a quick placement of the rest, then anneals by moves and swaps"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        Ok(improve(snapshot, &snapshot.incumbent(), budget))
    }
}

/// Looks for a placement that is better than `start`, whose actors without a place are given one first.
///
/// The answer is lawful. It is never worse than `start` where that is lawful; where it is not, whoever stands against
/// a limit there is placed anew.
pub fn improve(snapshot: &Snapshot, start: &Assignment, budget: &Budget) -> Answer {
    let first = shortest_cooling(snapshot);
    search(snapshot, start, (0..).map(|times| first << times), budget)
}

/// Cools once, over `length` pieces of effort, of which the budget may leave some out at the end.
///
/// For whoever does something else between coolings; as [`improve`] in all else.
pub fn cool(snapshot: &Snapshot, start: &Assignment, length: u64, budget: &Budget) -> Answer {
    search(snapshot, start, std::iter::once(length), budget)
}

/// Pieces of effort of the shortest cooling that is worth while.
pub fn shortest_cooling(snapshot: &Snapshot) -> u64 {
    let free = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).count() as u64;
    (200 * free).div_ceil(STEPS).max(1)
}

fn search(
    snapshot: &Snapshot,
    start: &Assignment,
    lengths: impl IntoIterator<Item = u64>,
    budget: &Budget,
) -> Answer {
    let model = Model::new(snapshot, |criterion| criterion == Criterion::Overload);
    let mut layout = Layout::new(&model);
    layout.adopt(&model.places(start));
    place_the_rest(&mut layout);
    let mut best = Found::new(snapshot, start);
    if is_blind_to(snapshot)
        && let Ok(answer) = Greedy.solve(snapshot, &Budget { effort: Some(0), ..*budget })
    {
        best.offer(answer.assignment);
    }
    best.offer(model.assignment(&layout.place));
    let mut dice = fastrand::Rng::with_seed(budget.seed);
    balance(&mut layout, &mut dice, budget.stop);
    layout.set_slack(layout.overloads().0);
    best.offer(model.assignment(&layout.place));
    let mut walk = Walk::new(layout, dice.u64(..));
    let pieces = budget.effort.unwrap_or_else(|| enough(model.free));
    let (done, stopped_by) = anneal(&mut walk, lengths, pieces, budget);
    best.offer(model.assignment(&walk.best_places()));
    Answer {
        assignment: best.assignment,
        bound: BTreeMap::new(),
        optimal: false,
        effort: done,
        stage: Stage::Local,
        stopped_by,
    }
}

/// Whether steps are judged without something that the snapshot asks for: a first answer then comes from greedy, which
/// knows all of it.
fn is_blind_to(snapshot: &Snapshot) -> bool {
    use Criterion::{Bottleneck, Consolidate, Energy, Latency, Spread};
    let unseen = [Bottleneck, Consolidate, Energy, Latency, Spread];
    !snapshot.index.caps.is_empty() || unseen.iter().any(|criterion| snapshot.objectives().names(*criterion))
}

/// Pieces of effort after which more is not worth while, where nobody says how many.
fn enough(items: usize) -> u64 {
    let items = u64::from(small(items));
    (8 * items.pow(4)).min(2_000_000 * items).div_ceil(STEPS)
}

/// Cools again and again; says how many pieces were finished.
fn anneal(
    walk: &mut Walk,
    lengths: impl IntoIterator<Item = u64>,
    pieces: u64,
    budget: &Budget,
) -> (u64, StoppedBy) {
    let scale = walk.mean_loss();
    let mut done = 0;
    for length in lengths {
        for piece in 0..length {
            if done == pieces {
                return (done, StoppedBy::Effort);
            }
            if (budget.stop)() {
                return (done, StoppedBy::Deadline);
            }
            let part = |piece: u64| piece as f64 / length as f64;
            let temperature = |piece: u64| scale * HOT * (COLD / HOT).powf(part(piece));
            let dear = ((part(piece) - FORGIVING) / (1.0 - FORGIVING)).max(0.0);
            let price = CHEAP_EXCESS * (DEAR_EXCESS / CHEAP_EXCESS).powf(dear);
            walk.price_of_excess = price * scale / walk.mean_work();
            walk.run(STEPS, temperature(piece), temperature(piece + 1));
            done += 1;
        }
    }
    (done, StoppedBy::Effort)
}

/// The best lawful answer so far.
struct Found<'a> {
    snapshot: &'a Snapshot,
    assignment: Assignment,
    vector: Option<Vec<i64>>,
}

impl<'a> Found<'a> {
    fn new(snapshot: &'a Snapshot, start: &Assignment) -> Self {
        let vector = snapshot.violations(start).is_empty().then(|| vector(snapshot, start));
        Self { snapshot, assignment: start.clone(), vector }
    }

    /// Takes an assignment if it is lawful and better, or if there is no lawful one yet.
    fn offer(&mut self, assignment: Assignment) {
        let offered = vector(self.snapshot, &assignment);
        if self.vector.as_ref().is_some_and(|best| offered >= *best) {
            return;
        }
        if self.snapshot.violations(&assignment).is_empty() {
            (self.assignment, self.vector) = (assignment, Some(offered));
        } else if self.vector.is_none() {
            self.assignment = assignment;
        }
    }
}

/// The vector with the penalties of policies and preferences in it.
fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    crate::Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}
