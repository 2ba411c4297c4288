//! Which part of the world is solved next while the rest stands still: large neighbourhood search (Shaw 1998).

use std::collections::{BTreeMap, BTreeSet};

use asp::{Aim, Ended, Rounding, Scale, Task};
use placement::ix::{ActorIx, UnitIx};
use placement::{FoundBy, Snapshot, SolveError, Stage};

use crate::destroy_repair::drawn;
use crate::run::{Search, is_exhausted};
use crate::subproblem::{Solution, Subproblem};
use crate::whole::usable;

/// Actors that are freed at first, at least and at most: what is still proven within the conflicts of one
/// neighbourhood decides where between them.
const SIZE: (usize, usize, usize) = (12, 4, 40);

/// Units of a neighbourhood at most.
const MOST_TARGETS: usize = 8;

/// Actors that are freed together because they must be together, at most.
const MOST_BOUND: usize = 8;

/// Some actors, and units for them beside those that they are on.
type Neighbourhood = (BTreeSet<ActorIx>, BTreeSet<UnitIx>);

/// Conflicts of the search of one neighbourhood.
const CONFLICTS: u64 = 3_000;

/// The neighbourhoods of the best answer, one after the other.
pub(crate) struct Neighbourhoods<'a> {
    solution: Solution<'a>,
    chooser: Chooser,
}

impl<'a> Neighbourhoods<'a> {
    pub fn new(search: &Search<'a>) -> Self {
        Self {
            solution: Solution::new(search.snapshot, &search.best.assignment),
            chooser: Chooser::new(search.snapshot, search.seed()),
        }
    }

    /// Goes on from the best answer, whoever found it.
    pub fn settle(&mut self, search: &Search) {
        self.solution.settle(&search.best.assignment);
    }

    /// Solves the next one, an effort unit; false if there are none, or nobody to solve them.
    pub fn search(&mut self, search: &mut Search) -> Result<bool, SolveError> {
        if !search.has_solver() {
            return Ok(false);
        }
        let Some((freed, targets)) = self.chooser.next(&self.solution) else { return Ok(false) };
        let Some((subproblem, world, no_worse)) = self.fitting(&freed, &targets) else {
            search.spend(1);
            return Ok(true);
        };
        let mut last = None;
        let task = Task { conflicts: CONFLICTS, aim: Aim::Improve, models: u64::MAX, no_worse };
        let ended =
            search.ask(&world, &subproblem.start, &task, |_, assignment, _| last = Some(assignment))?;
        // What a clock cut short counts for nothing, or it could not be done again.
        if ended == Ended::Stopped {
            return Ok(true);
        }
        search.spend(1);
        let small = last.filter(|_| matches!(ended, Ended::Finished(_)));
        let wide = small.map(|small| subproblem.widen(&search.best.assignment, &small));
        let is_better = wide.is_some_and(|wide| search.offer(wide, Stage::Neighbourhood, FoundBy::Clingo));
        if is_better {
            self.solution.settle(&search.best.assignment);
        }
        self.chooser.learn(is_exhausted(&ended), is_better);
        Ok(true)
    }

    /// The subproblem, and the world to solve in its stead where its numbers are too large.
    fn fitting(
        &self,
        freed: &BTreeSet<ActorIx>,
        targets: &BTreeSet<UnitIx>,
    ) -> Option<(Subproblem, Snapshot, bool)> {
        let subproblem = usable(self.solution.cut(freed, targets))?;
        let scale = usable(Scale::of(&subproblem.world))?;
        let world = if scale.is_exact() {
            subproblem.world.clone()
        } else {
            usable(scale.apply(&subproblem.world, Rounding::Cautious))?
        };
        let is_feasible = || subproblem.world.violations(&subproblem.start).is_empty();
        let no_worse = scale.is_exact() && is_feasible();
        Some((subproblem, world, no_worse))
    }
}

/// Draws neighbourhoods, and learns how large they may be.
struct Chooser {
    rng: fastrand::Rng,
    size: usize,
    /// Neighbourhoods that were searched to the end without gain, one after the other.
    idle: usize,
    /// Actors that have a choice.
    free: Vec<ActorIx>,
}

impl Chooser {
    pub fn new(snapshot: &Snapshot, seed: u64) -> Self {
        let problem = snapshot.problem();
        let has_choice = |actor: &ActorIx| problem.candidates(*actor).len() > 1;
        let (size, _, _) = SIZE;
        Self {
            rng: fastrand::Rng::with_seed(seed),
            size,
            idle: 0,
            free: problem.movable.iter().copied().filter(has_choice).collect(),
        }
    }

    /// The next neighbourhood, or none where nobody has a choice.
    pub fn next(&mut self, solution: &Solution) -> Option<Neighbourhood> {
        let seed = self.seed(solution)?;
        let (mut freed, mut targets) = if self.rng.bool() {
            self.some_units(solution, seed)
        } else {
            self.some_neighbours(solution, seed)
        };
        // Those who must be together move together, or not at all.
        let bound: Vec<ActorIx> = freed.iter().flat_map(|&actor| solution.bound(actor, MOST_BOUND)).collect();
        freed.extend(bound.into_iter().filter(|&actor| !solution.problem().fixed[actor]));
        targets.extend(freed.iter().filter_map(|&actor| solution.place(actor)));
        Some((freed, targets))
    }

    /// Takes note of how the last one went.
    pub fn learn(&mut self, was_proven: bool, was_better: bool) {
        let (_, least, most) = SIZE;
        if !was_proven {
            self.size = (self.size - self.size / 8 - 1).max(least);
            self.idle = 0;
        } else if was_better {
            self.idle = 0;
        } else {
            self.idle += 1;
            if self.idle.is_multiple_of(4) {
                self.size = (self.size + 1).min(most);
            }
        }
    }

    /// Where to begin: with who breaks the policy's rules, what has no place, or a unit with too much work, every other
    /// time; else anywhere.
    fn seed(&mut self, solution: &Solution) -> Option<ActorIx> {
        if self.rng.bool() {
            let in_conflict: Vec<ActorIx> = solution
                .in_conflict()
                .iter()
                .copied()
                .filter(|actor| self.free.binary_search(actor).is_ok())
                .collect();
            if let Some(actor) = self.rng.choice(in_conflict) {
                return Some(actor);
            }
            let without: Vec<ActorIx> =
                self.free.iter().copied().filter(|&actor| solution.place(actor).is_none()).collect();
            if let Some(actor) = self.rng.choice(without) {
                return Some(actor);
            }
            let units = solution.problem().capacity.positions();
            let overloaded = units.max_by_key(|&unit| solution.overload(unit));
            if let Some(unit) = overloaded.filter(|&unit| solution.overload(unit) > 0) {
                let there: Vec<ActorIx> = self.free_on(solution, unit).collect();
                if let Some(actor) = self.rng.choice(there) {
                    return Some(actor);
                }
            }
        }
        self.rng.choice(&self.free).copied()
    }

    fn free_on<'a>(&'a self, solution: &'a Solution, unit: UnitIx) -> impl Iterator<Item = ActorIx> + 'a {
        solution.hosted(unit).iter().copied().filter(|actor| self.free.binary_search(actor).is_ok())
    }

    /// Everybody on two to four units that have much to do with each other.
    fn some_units(&mut self, solution: &Solution, seed: ActorIx) -> Neighbourhood {
        let first =
            solution.place(seed).or_else(|| self.rng.choice(solution.problem().candidates(seed)).copied());
        let mut units: Vec<UnitIx> = first.into_iter().collect();
        let wanted = 2 + self.rng.usize(..3);
        while units.len() < wanted {
            let mut pull: BTreeMap<UnitIx, u64> = BTreeMap::new();
            for actor in units.iter().flat_map(|&unit| self.free_on(solution, unit)) {
                add_pull(solution, actor, &mut pull);
            }
            pull.retain(|unit, _| !units.contains(unit));
            let next = match drawn(&mut self.rng, &pull) {
                // Every now and then somewhere that nobody asks for: there may be room.
                Some(unit) if self.rng.usize(..4) > 0 => Some(unit),
                _ => self.rng.choice(solution.problem().candidates(seed)).copied(),
            };
            match next.filter(|unit| !units.contains(unit)) {
                Some(unit) => units.push(unit),
                None => break,
            }
        }
        let mut there: Vec<ActorIx> = units.iter().flat_map(|&unit| self.free_on(solution, unit)).collect();
        there.retain(|&actor| actor != seed);
        self.rng.shuffle(&mut there);
        there.truncate(self.size - 1);
        (there.into_iter().chain([seed]).collect(), units.into_iter().collect())
    }

    /// Actors that have to do with each other, wherever they are, and where those are that they have to do with.
    fn some_neighbours(&mut self, solution: &Solution, seed: ActorIx) -> Neighbourhood {
        let problem = solution.problem();
        let mut freed = BTreeSet::from([seed]);
        let wanted = (self.size / 2).max(2);
        let mut pull: BTreeMap<ActorIx, u64> = BTreeMap::new();
        let mut newest = seed;
        while freed.len() < wanted {
            for edge in &problem.edges[newest] {
                if self.free.binary_search(&edge.peer).is_ok() {
                    *pull.entry(edge.peer).or_default() += strength(edge);
                }
            }
            pull.retain(|actor, _| !freed.contains(actor));
            let Some(next) = drawn(&mut self.rng, &pull).or_else(|| self.rng.choice(&self.free).copied())
            else {
                break;
            };
            if !freed.insert(next) {
                break;
            }
            newest = next;
        }
        let mut targets: BTreeSet<UnitIx> = freed.iter().filter_map(|&actor| solution.place(actor)).collect();
        let mut pull = BTreeMap::new();
        for &actor in &freed {
            add_pull(solution, actor, &mut pull);
        }
        while targets.len() < MOST_TARGETS {
            pull.retain(|unit, _| !targets.contains(unit));
            let Some(next) = drawn(&mut self.rng, &pull) else { break };
            targets.insert(next);
        }
        // Who has no place is not held to where others are.
        for &actor in freed.iter().filter(|&&actor| solution.place(actor).is_none()) {
            targets.extend((0..4).filter_map(|_| self.rng.choice(problem.candidates(actor)).copied()));
        }
        (freed, targets)
    }
}

fn strength(edge: &placement::Edge) -> u64 {
    [edge.rate, edge.annoyance, edge.interference]
        .iter()
        .fold(0, |all, value| all.saturating_add(value.unsigned_abs()))
}

/// Adds how much an actor is drawn to other units.
fn add_pull(solution: &Solution, actor: ActorIx, pull: &mut BTreeMap<UnitIx, u64>) {
    let (problem, home) = (solution.problem(), solution.place(actor));
    for edge in &problem.edges[actor] {
        if let Some(unit) = solution.place(edge.peer).filter(|unit| Some(*unit) != home) {
            let sum = pull.entry(unit).or_default();
            *sum = sum.saturating_add(strength(edge));
        }
    }
    if let Some(before) = problem.current[actor].filter(|unit| Some(*unit) != home) {
        *pull.entry(before).or_default() += problem.move_cost[actor].unsigned_abs();
    }
}
