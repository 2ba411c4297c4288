//! The strategy `tabu`: robust tabu search (Taillard 1991) for snapshots that are quadratic assignment problems.

use std::collections::BTreeMap;

use fastrand::Rng;
use placement::ix::{ActorIx, UnitIx};
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

/// Robust tabu search on communication alone, for units that take exactly one actor, any actor.
///
/// Each iteration evaluates all swaps of two units' actors and applies the best one that is not tabu. A return of swapped
/// actors is tabu for a random tenure, unless it yields a new best (aspiration) or they have been away for long. A
/// unit of effort is a thousand swaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tabu;

/// Swaps per unit of effort.
const PIECE: u64 = 1_000;

/// A quadratic assignment problem: flows between actors, distances between units; equal numbers of actors and units.
struct Quadratic {
    flow: Vec<Vec<i64>>,
    price: Vec<Vec<i64>>,
}

impl Quadratic {
    /// The problem equivalent to a snapshot, or `None`.
    fn of(snapshot: &Snapshot) -> Option<Self> {
        let (problem, file) = (snapshot.problem(), snapshot.file());
        let (actors, units) = (snapshot.actors(), snapshot.units());
        let exclusive = file.units.iter().all(|unit| unit.slots == Some(1));
        let anywhere = ActorIx::first(actors).all(|actor| {
            let fits = |unit| problem.work(actor, unit) <= problem.capacity[unit];
            !snapshot.is_fixed(actor)
                && snapshot.candidates(actor).len() == units
                && UnitIx::first(units).all(fits)
        });
        let no_limits = file.constraints.is_empty() && problem.resources.is_empty();
        if !(exclusive && anywhere && no_limits && actors <= units) || problem.channels.are_whole() {
            return None;
        }
        let mut flow = vec![vec![0; units]; units];
        for (actor, edges) in problem.edges.enumerate() {
            for edge in edges {
                flow[actor.at()][edge.peer.at()] = edge.rate;
            }
        }
        let price_of = |u, v| if u == v { 0 } else { problem.exchange_cost(u, v) };
        let row = |u| UnitIx::first(units).map(|v| price_of(u, v)).collect();
        Some(Self { flow, price: UnitIx::first(units).map(row).collect() })
    }

    fn size(&self) -> usize {
        self.flow.len()
    }

    fn cost(&self, at: &[usize]) -> i64 {
        let pairs = (0..self.size()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| self.flow[a][b] * self.price[at[a]][at[b]]).sum()
    }

    /// Cost change of swapping two actors.
    fn delta(&self, at: &[usize], a: usize, b: usize) -> i64 {
        let others = (0..self.size()).filter(|&c| c != a && c != b);
        let change = |c: usize| {
            (self.flow[a][c] - self.flow[b][c]) * (self.price[at[b]][at[c]] - self.price[at[a]][at[c]])
        };
        others.map(change).sum()
    }

    /// Incremental update after the swap of `u` and `v`, both different from the pair; `known` is the previous value.
    fn delta_after(&self, at: &[usize], (a, b): (usize, usize), (u, v): (usize, usize), known: i64) -> i64 {
        let flow = self.flow[a][u] - self.flow[a][v] + self.flow[b][v] - self.flow[b][u];
        let price = |c: usize, d: usize| self.price[at[c]][at[d]];
        known + flow * (price(b, u) - price(b, v) + price(a, v) - price(a, u))
    }
}

/// Search state: assignment, swap costs and tabu list.
struct Search<'a> {
    of: &'a Quadratic,
    at: Vec<usize>,
    cost: i64,
    /// By pair of actors, smaller first: cost change of their swap.
    deltas: Vec<Vec<i64>>,
    /// By actor and unit: iteration until which a return is tabu.
    until: Vec<Vec<i64>>,
    rng: Rng,
}

impl<'a> Search<'a> {
    fn new(of: &'a Quadratic, mut rng: Rng) -> Self {
        let size = of.size();
        let mut at: Vec<usize> = (0..size).collect();
        rng.shuffle(&mut at);
        let deltas = (0..size).map(|a| (0..size).map(|b| of.delta(&at, a, b)).collect()).collect();
        // Distinct initial values, as the longest absence is decisive.
        let until = (0..size).map(|a| (0..size).map(|u| -number(size * a + u)).collect()).collect();
        Self { cost: of.cost(&at), of, at, deltas, until, rng }
    }

    /// Applies the best admissible swap of iteration `now`.
    fn exchange(&mut self, now: i64, best: i64) {
        let size = self.of.size();
        let patience = 5 * number(size * size);
        let mut chosen: Option<(bool, i64, usize, usize)> = None;
        for a in 0..size {
            for b in a + 1..size {
                let back = [self.until[a][self.at[b]], self.until[b][self.at[a]]];
                let delta = self.deltas[a][b];
                let wanted = self.cost + delta < best || back.iter().all(|until| *until < now - patience);
                let better =
                    chosen.is_none_or(|(other_wanted, other, ..)| (!wanted, delta) < (!other_wanted, other));
                if better && (wanted || back.iter().any(|until| *until < now)) {
                    chosen = Some((wanted, delta, a, b));
                }
            }
        }
        let Some((_, delta, u, v)) = chosen else { return };
        for actor in [u, v] {
            let part = self.rng.f64();
            self.until[actor][self.at[actor]] = now + whole(part * part * part * real(8 * size)) + 1;
        }
        self.at.swap(u, v);
        self.cost += delta;
        for a in 0..size {
            for b in a + 1..size {
                let touches = [u, v].iter().any(|of| [a, b].contains(of));
                self.deltas[a][b] = if touches {
                    self.of.delta(&self.at, a, b)
                } else {
                    self.of.delta_after(&self.at, (a, b), (u, v), self.deltas[a][b])
                };
            }
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a square of units fits")
}

#[expect(clippy::cast_precision_loss, reason = "counts of units are small")]
fn real(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a count of swaps")]
fn whole(number: f64) -> i64 {
    number as i64
}

impl Strategy for Tabu {
    fn name(&self) -> &'static str {
        "tabu"
    }

    fn summary(&self) -> &'static str {
        "robust tabu search, for units that each take one actor and whichever; a baseline"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let Some(quadratic) = Quadratic::of(snapshot) else {
            let problem = "tabu is for worlds in which each unit takes one actor, and whichever";
            return Err(SolveError::Solver(problem.to_owned()));
        };
        let mut search = Search::new(&quadratic, Rng::with_seed(budget.seed));
        let (mut best, mut found_at, mut made) = (search.at.clone(), 0, 0);
        let mut least = search.cost;
        let stopped_by = loop {
            if budget.effort.is_some_and(|effort| made >= effort.saturating_mul(PIECE)) {
                break StoppedBy::Effort;
            }
            if (budget.stop)() {
                break StoppedBy::Deadline;
            }
            made += 1;
            search.exchange(i64::try_from(made).unwrap_or(i64::MAX), least);
            if search.cost < least {
                (least, found_at) = (search.cost, made);
                best.clone_from(&search.at);
            }
        };
        let assignment: Assignment =
            best.into_iter().take(snapshot.actors()).map(|unit| Some(UnitIx::new(unit))).collect();
        Ok(Answer {
            assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort: found_at.div_ceil(PIECE).max(1),
            stage: Stage::Local,
            found_by: FoundBy::Search,
            proven_by: None,
            stopped_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_costs_are_updated_exactly() {
        let world = testkit::grid(3, 12, 1);
        let quadratic = Quadratic::of(&world).expect("a grid of exclusive devices is one");
        let mut search = Search::new(&quadratic, Rng::with_seed(1));
        for now in 1..200 {
            search.exchange(now, i64::MIN);
            assert_eq!(search.cost, quadratic.cost(&search.at));
            for a in 0..9 {
                for b in a + 1..9 {
                    assert_eq!(search.deltas[a][b], quadratic.delta(&search.at, a, b));
                }
            }
        }
    }
}
