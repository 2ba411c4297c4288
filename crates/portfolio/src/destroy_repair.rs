//! Destroy and repair: whole units are emptied and filled anew, as well as can be. These are the neighbourhoods of branch
//! and bound, which places a dozen or two of actors in about the time that the solver takes to read them.

use std::collections::{BTreeMap, BTreeSet};

use asp::vector;
use exact::branch;
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Snapshot};

use crate::run::Search;
use crate::subproblem::Solution;
use crate::whole::usable;

/// Actors that are freed at first, at most, and at most after many samples: first all that is quick is tried.
const SIZE: (usize, usize, usize) = (16, 22, 30);

/// Steps of branch and bound for one: some milliseconds, seldom a hundred.
const WORK: u64 = 1 << 24;

/// Repairs in a row that improve nothing, for each unit, after which more actors are freed.
const PATIENCE: usize = 2;

/// What one repair is thought to take at least: to cut the small world out of the large one takes time, too.
const LEAST_WORK: u64 = 1 << 15;

/// Actors that can move above which the native search gains more in the same time.
const MOST_ACTORS: usize = 200;

/// Nodes above which it does, as it has compound moves between them.
const MOST_NODES: usize = 3;

/// What came of some repairs.
pub(crate) struct Round {
    /// How many there were.
    pub done: u64,
    /// What was better than where it began, and after how many.
    pub found: Vec<(u64, Assignment)>,
    /// The clock did not cut it short.
    pub is_whole: bool,
}

/// What came of one.
enum One {
    Done { work: u64, improved: bool },
    Stopped,
}

/// Repairs of one placement after the other: of the best, and once nothing more is found there of samples.
pub(crate) struct DestroyRepair<'a> {
    solution: Solution<'a>,
    /// Where everything is, and what that costs.
    at: Assignment,
    vector: Vec<i64>,
    rng: fastrand::Rng,
    size: usize,
    most: usize,
    idle: usize,
    /// Nothing more is expected of where everything is.
    is_done: bool,
    /// The world is not for branch and bound.
    is_unsuited: bool,
    samples: usize,
}

impl<'a> DestroyRepair<'a> {
    pub fn new(search: &Search<'a>) -> Self {
        let (size, most, _) = SIZE;
        Self {
            solution: Solution::new(search.snapshot, &search.best.assignment),
            at: search.best.assignment.clone(),
            vector: search.best.vector.clone(),
            rng: fastrand::Rng::with_seed(search.seed()),
            size,
            most,
            idle: 0,
            is_done: true,
            is_unsuited: search.snapshot.problem().channels.are_whole()
                || movable(search.snapshot) > MOST_ACTORS
                || nodes(search.snapshot) > MOST_NODES,
            samples: 0,
        }
    }

    /// Does none of them.
    pub fn leave_out(&mut self) {
        self.is_unsuited = true;
    }

    /// Begins anew where the best is, or, once nothing more is found there, from a sample of the native search.
    pub fn begin(&mut self, search: &Search, is_new: bool, native: &search::Search) {
        if is_new {
            self.start(search.best.assignment.clone());
        } else if self.is_done && !self.is_unsuited {
            self.samples += 1;
            if let Some(sample) = native.sample(self.samples) {
                self.start(sample);
            }
        }
    }

    /// Whether there is anything to be expected of the next one.
    pub fn is_worth_while(&self) -> bool {
        !self.is_done && !self.is_unsuited
    }

    /// Whether the world is for branch and bound, as far as is known.
    pub fn is_suited(&self) -> bool {
        !self.is_unsuited
    }

    fn start(&mut self, assignment: Assignment) {
        self.solution.settle(&assignment);
        self.vector = vector(self.solution.snapshot(), &assignment);
        self.at = assignment;
        let (least, first, most) = SIZE;
        self.size = least;
        self.most = (first + self.samples / 2).min(most);
        (self.idle, self.is_done) = (0, false);
    }

    /// Empties some units and has branch and bound fill them, at most `most` times and for so much work.
    pub fn run(&mut self, most: u64, work: u64, stop: &dyn Fn() -> bool) -> Round {
        let mut round = Round { done: 0, found: Vec::new(), is_whole: true };
        let mut left = work;
        while left > 0 && round.done < most && self.is_worth_while() {
            match self.one(stop) {
                Some(One::Done { work, improved }) => {
                    left = left.saturating_sub(work.max(LEAST_WORK));
                    round.done += 1;
                    if improved {
                        round.found.push((round.done, self.at.clone()));
                    }
                }
                // What a clock cut short counts for nothing, or it could not be done again.
                Some(One::Stopped) => {
                    round.is_whole = false;
                    break;
                }
                None => self.is_done = true,
            }
        }
        round
    }

    /// `None` where the world is not for branch and bound.
    fn one(&mut self, stop: &dyn Fn() -> bool) -> Option<One> {
        let (freed, targets) = self.draw()?;
        let subproblem = usable(self.solution.cut(&freed, &targets))?;
        let mut better = None;
        let limits = branch::Limits { work: WORK, stop };
        let solved = branch::solve(&subproblem.world, &subproblem.start, &limits, &mut |small| {
            better = Some(small);
            true
        });
        let Some(branch::Solved { verdict, work }) = solved else {
            // Where something is overloaded another placement may be better suited.
            self.is_unsuited = self.vector.iter().take(2).all(|value| *value == 0);
            return None;
        };
        if verdict == branch::Verdict::Stopped {
            return Some(One::Stopped);
        }
        let improved = better.is_some_and(|small| self.take(subproblem.widen(&self.at, &small)));
        self.learn(verdict == branch::Verdict::Proven, improved);
        Some(One::Done { work, improved })
    }

    /// Goes on from what is better; in the whole it may not be.
    fn take(&mut self, wide: Assignment) -> bool {
        let vector = vector(self.solution.snapshot(), &wide);
        if vector >= self.vector {
            return false;
        }
        self.solution.settle(&wide);
        (self.at, self.vector) = (wide, vector);
        true
    }

    fn learn(&mut self, was_proven: bool, improved: bool) {
        let (least, _, _) = SIZE;
        if improved {
            self.idle = 0;
            return;
        }
        if !was_proven {
            self.size = (self.size - 1).max(least);
        }
        self.idle += 1;
        if self.idle >= PATIENCE * self.solution.snapshot().units() {
            self.is_done = self.size >= self.most;
            self.size = (self.size + 2).min(self.most);
            self.idle = 0;
        }
    }

    /// Units to empty, and who is on them; `None` where nobody can be moved.
    fn draw(&mut self) -> Option<(BTreeSet<ActorIx>, BTreeSet<UnitIx>)> {
        let (solution, problem) = (&self.solution, self.solution.problem());
        let all = problem.capacity.len();
        let movable =
            |unit: UnitIx| solution.hosted(unit).iter().copied().filter(|&actor| !problem.fixed[actor]);
        let first = UnitIx::new(self.rng.usize(..all));
        let (mut units, mut freed) = (BTreeSet::from([first]), movable(first).collect::<BTreeSet<ActorIx>>());
        let mut pull: BTreeMap<UnitIx, u64> = BTreeMap::new();
        let mut newest: Vec<ActorIx> = freed.iter().copied().collect();
        while units.len() < all {
            for &actor in &newest {
                add_pull(solution, actor, &mut pull);
            }
            pull.retain(|unit, _| !units.contains(unit));
            let next = match drawn(&mut self.rng, &pull) {
                // Every now and then somewhere that nobody asks for: there may be room.
                Some(unit) if self.rng.usize(..4) > 0 => unit,
                _ => UnitIx::new(self.rng.usize(..all)),
            };
            newest = movable(next).collect();
            if freed.len() + newest.len() > self.size {
                break;
            }
            units.insert(next);
            freed.extend(&newest);
        }
        (!freed.is_empty()).then_some((freed, units))
    }
}

/// Actors that can move.
pub(crate) fn movable(snapshot: &Snapshot) -> usize {
    snapshot.problem().movable.len()
}

/// Nodes that have units.
fn nodes(snapshot: &Snapshot) -> usize {
    snapshot.problem().units_of_node.iter().filter(|units| !units.is_empty()).count()
}

/// One of the keys, each as likely as its weight.
pub(crate) fn drawn<K: Copy>(rng: &mut fastrand::Rng, weights: &BTreeMap<K, u64>) -> Option<K> {
    let all = weights.values().fold(0u64, |all, weight| all.saturating_add(*weight));
    let mut at = if all == 0 { return None } else { rng.u64(..all) };
    weights.iter().find_map(|(&unit, &weight)| {
        let is_here = at < weight;
        at = at.saturating_sub(weight);
        is_here.then_some(unit)
    })
}

/// Adds how much an actor is drawn to the units of its peers.
fn add_pull(solution: &Solution, actor: ActorIx, pull: &mut BTreeMap<UnitIx, u64>) {
    let problem = solution.problem();
    let Some(home) = solution.place(actor) else { return };
    for edge in &problem.edges[actor] {
        let Some(unit) = solution.place(edge.peer).filter(|unit| *unit != home) else { continue };
        let paid = edge.rate.saturating_mul(problem.exchange_cost(home, unit)).saturating_add(edge.annoyance);
        let sum = pull.entry(unit).or_default();
        *sum = sum.saturating_add(paid.unsigned_abs());
    }
}
