//! The strategies `annealing-standard` and `annealing-next-state`: simulated annealing from a paper on task graphs.

use std::collections::BTreeMap;

use fastrand::Rng;
use placement::ix::{ActorIx, UnitIx};
use placement::{Answer, Assignment, Budget, FoundBy, Snapshot, SolveError, Stage, StoppedBy, Strategy};

use super::repair::repair;

/// Simulated annealing on a weighted sum of a snapshot's levels.
///
/// All actors start on one random unit. A better candidate becomes the current state; a worse one does with probability
/// 1 / (1 + exp(Δ / (C₀ T / 2))), C₀ being the initial cost; the best state is kept separately. As printed, algorithm 1 of
/// the paper accepts only a new best state, so that it never moves uphill; this implements the intent.
/// The temperature falls by a quarter after actors × (units − 1) candidates, from 1 to 0.001 (Orsila et al.). Improving
/// single moves end the search, and violated limits are repaired.
///
/// A candidate is the current state with one actor moved, or with as many as the paper's equation 4 gives: actors × T /
/// (T₀ − T₁), at least 1. A unit of effort is one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annealing {
    by_temperature: bool,
}

impl Annealing {
    /// One actor moves at a time.
    pub const STANDARD: Self = Self { by_temperature: false };
    /// The number of actors per move grows with the temperature.
    pub const NEXT_STATE: Self = Self { by_temperature: true };
}

const HOTTEST: f64 = 1.0;
const COLDEST: f64 = 0.001;
const FALL: f64 = 0.75;

/// Weight of a level relative to the next lower one.
const LEVEL: f64 = 100.0;

/// The levels of a snapshot as one number.
struct Scale {
    units: Vec<f64>,
}

impl Scale {
    /// Normalizes each level by its maximum over the start and some random assignments.
    fn new(snapshot: &Snapshot, movable: &[ActorIx], start: &Assignment, rng: &mut Rng) -> Self {
        const SAMPLES: usize = 8;
        let mut largest = snapshot.cost(start).vector(snapshot);
        let mut sample = start.clone();
        for _ in 0..SAMPLES {
            for &actor in movable {
                let candidates = snapshot.candidates(actor);
                sample[actor] = Some(candidates[rng.usize(..candidates.len())]);
            }
            let vector = snapshot.cost(&sample).vector(snapshot);
            largest.iter_mut().zip(vector).for_each(|(largest, value)| *largest = (*largest).max(value));
        }
        let last = largest.len().saturating_sub(1);
        let weigh = |(level, value): (usize, &i64)| {
            let above = i32::try_from(last - level).expect("levels are few");
            LEVEL.powi(above) / real((*value).max(1))
        };
        Self { units: largest.iter().enumerate().map(weigh).collect() }
    }

    fn of(&self, snapshot: &Snapshot, assignment: &Assignment) -> f64 {
        let vector = snapshot.cost(assignment).vector(snapshot);
        vector.iter().zip(&self.units).map(|(value, unit)| real(*value) * unit).sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "costs are below 2^53")]
fn real(number: i64) -> f64 {
    number as f64
}

/// Remaining candidates.
struct Remaining<'a> {
    budget: &'a Budget<'a>,
    spent: u64,
}

impl Remaining<'_> {
    /// Whether one more candidate may be evaluated.
    fn one_more(&mut self) -> bool {
        let more = self.budget.effort.is_none_or(|most| self.spent < most) && !(self.budget.stop)();
        self.spent += u64::from(more);
        more
    }
}

impl Strategy for Annealing {
    fn name(&self) -> &'static str {
        if self.by_temperature { "annealing-next-state" } else { "annealing-standard" }
    }

    fn summary(&self) -> &'static str {
        if self.by_temperature {
            "simulated annealing in which many actors move while it is hot; a baseline"
        } else {
            "simulated annealing, one actor at a time; a baseline"
        }
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let mut rng = Rng::with_seed(budget.seed);
        let movable: Vec<ActorIx> = ActorIx::first(snapshot.actors())
            .filter(|&actor| !snapshot.is_fixed(actor) && !snapshot.candidates(actor).is_empty())
            .collect();
        let mut left = Remaining { budget, spent: 0 };
        let mut best = start(snapshot, &movable, &mut rng);
        if !movable.is_empty() && snapshot.units() > 1 {
            let scale = Scale::new(snapshot, &movable, &best, &mut rng);
            best = self.anneal(snapshot, &movable, best, &scale, &mut left, &mut rng);
            descend(snapshot, &movable, &mut best, &scale, &mut left);
        }
        let mut assignment = best;
        if !snapshot.violations(&assignment).is_empty() {
            let repaired = repair(snapshot, &assignment, &Budget { effort: None, ..*budget })?;
            let by_cost = |of: &Assignment| snapshot.cost(of).vector(snapshot);
            let [one, other] = repaired;
            assignment = if by_cost(&other) < by_cost(&one) { other } else { one };
        }
        let cut_short = (budget.stop)();
        Ok(Answer {
            assignment,
            bound: BTreeMap::new(),
            optimal: false,
            effort: left.spent.max(1),
            stage: Stage::Local,
            found_by: FoundBy::Search,
            proven_by: None,
            stopped_by: if cut_short { StoppedBy::Deadline } else { StoppedBy::Effort },
        })
    }
}

/// All actors on one random unit; incompatible actors on any feasible one.
fn start(snapshot: &Snapshot, movable: &[ActorIx], rng: &mut Rng) -> Assignment {
    let one = UnitIx::new(if snapshot.units() == 0 { 0 } else { rng.usize(..snapshot.units()) });
    let mut assignment: Assignment = ActorIx::first(snapshot.actors())
        .map(|actor| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor)))
        .collect();
    for &actor in movable {
        let candidates = snapshot.candidates(actor);
        let there = candidates.binary_search(&one).is_ok();
        assignment[actor] = Some(if there { one } else { candidates[rng.usize(..candidates.len())] });
    }
    assignment
}

impl Annealing {
    fn anneal(
        self,
        snapshot: &Snapshot,
        movable: &[ActorIx],
        start: Assignment,
        scale: &Scale,
        left: &mut Remaining,
        rng: &mut Rng,
    ) -> Assignment {
        let first = scale.of(snapshot, &start).max(f64::MIN_POSITIVE);
        let (mut current, mut cost) = (start.clone(), first);
        let (mut best, mut least) = (start, first);
        let at_one_temperature = movable.len() * (snapshot.units() - 1);
        let mut temperature = HOTTEST;
        while temperature > COLDEST {
            for _ in 0..at_one_temperature {
                if !left.one_more() {
                    return best;
                }
                let candidate = self.candidate(snapshot, movable, &current, temperature, rng);
                let new = scale.of(snapshot, &candidate);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a baseline, which is not replayed on other platforms"
                )]
                let accepted = 1.0 / (1.0 + ((new - cost) / (0.5 * first * temperature)).exp());
                if new < cost || rng.f64() < accepted {
                    (current, cost) = (candidate, new);
                    if cost < least {
                        (best, least) = (current.clone(), cost);
                    }
                }
            }
            temperature *= FALL;
        }
        best
    }

    fn candidate(
        self,
        snapshot: &Snapshot,
        movable: &[ActorIx],
        current: &Assignment,
        temperature: f64,
        rng: &mut Rng,
    ) -> Assignment {
        let mut candidate = current.clone();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction of the actors"
        )]
        let moved = if self.by_temperature {
            ((movable.len() as f64 * temperature / (HOTTEST - COLDEST)) as usize).clamp(1, movable.len())
        } else {
            1
        };
        for _ in 0..moved {
            let actor = movable[rng.usize(..movable.len())];
            let candidates = snapshot.candidates(actor);
            candidate[actor] = Some(candidates[rng.usize(..candidates.len())]);
        }
        candidate
    }
}

/// Moves single actors, each to its best unit, until no move improves.
fn descend(
    snapshot: &Snapshot,
    movable: &[ActorIx],
    best: &mut Assignment,
    scale: &Scale,
    left: &mut Remaining,
) {
    let mut least = scale.of(snapshot, best);
    let mut pays = true;
    while pays {
        pays = false;
        for &actor in movable {
            for &unit in snapshot.candidates(actor) {
                let before = best[actor];
                if before == Some(unit) {
                    continue;
                }
                if !left.one_more() {
                    return;
                }
                best[actor] = Some(unit);
                let cost = scale.of(snapshot, best);
                if cost < least {
                    (least, pays) = (cost, true);
                } else {
                    best[actor] = before;
                }
            }
        }
    }
}
