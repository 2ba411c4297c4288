//! A search that can be run for a while, looked at, told of something better, and run on.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use super::anneal::Walk;
use super::balance::balance;
use super::construct::place_the_rest;
use super::layout::{Layout, NO_LIMIT};
use super::model::{Model, NOWHERE};
use super::schedule::{Cooling, ROUND, STEPS, Schedule};
use crate::{Assignment, Cost, Ruling, Snapshot};

/// How many walks there are, each on a thread of its own. What is found does not depend on how many processors there
/// are.
const WALKS: u32 = 2;

/// Pieces below which starting a thread takes longer than they do.
const WORTH_A_THREAD: u64 = 10;

/// A walk does clearly worse than another if its energy is higher by one part in so many.
const CLEARLY: i64 = 50;

/// Steps that a walk takes to come to rest when the search is stopped in the middle of a cooling: per item, and at most.
const QUENCH: u64 = 300;
const LONGEST_QUENCH: u64 = 1_000_000;

/// A snapshot laid out for searching.
pub struct Terrain<'a> {
    model: Model<'a>,
}

impl<'a> Terrain<'a> {
    /// Lays it out; this takes about a second for 20,000 actors on 4,000 units, and milliseconds for 1,000.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { model: Model::new(snapshot) }
    }
}

/// A search under way: walks that anneal, each by a schedule of its own, and the best that was found.
///
/// It is decided by the start, the seed, and how many pieces were run between two calls of [`Search::offer`].
pub struct Search<'t> {
    walkers: Vec<Walker<'t>>,
    best: Found<'t>,
    /// The best as the walks know it.
    best_places: Vec<u32>,
    best_rank: (usize, i64, i64),
}

struct Walker<'t> {
    walk: Walk<'t>,
    schedule: Schedule,
    cooling: Cooling,
    /// Pieces of the cooling that are done.
    done: u64,
    /// Whether the cooling that ended last found a new best.
    gained: bool,
}

impl<'t> Search<'t> {
    /// Starts from `start`, whose actors without a place are given one; whoever stands against a limit there is placed
    /// anew.
    pub fn new(terrain: &'t Terrain, start: &Assignment, seed: u64) -> Self {
        let model = &terrain.model;
        let mut layout = Layout::new(model);
        layout.adopt(&model.places(start));
        if layout.broken() > 0 {
            layout = Layout::new(model);
            layout.adopt_with_care(&model.places(start));
        }
        let kept = layout.place[..model.free].iter().filter(|place| **place != NOWHERE).count();
        place_the_rest(&mut layout);
        let mut best = Found::new(model.snapshot, start);
        best.offer(model.assignment(&layout.place));
        let mut dice = fastrand::Rng::with_seed(seed);
        let before = layout.clone();
        balance(&mut layout, &mut dice);
        layout.set_slack(if model.has_limit { layout.overloads().0 } else { NO_LIMIT });
        best.offer(model.assignment(&layout.place));
        // What runs is not to be torn apart for being overloaded: walks see to that where it costs least.
        let is_warm = kept * 2 > model.free;
        let mut begin = if is_warm { before } else { layout.clone() };
        begin.set_slack(layout.slack);
        let walkers = (0..WALKS).map(|walk| {
            let mut schedule = Schedule::new(model.free, walk, is_warm);
            let cooling = schedule.next(false);
            Walker { walk: Walk::new(begin.clone(), dice.u64(..)), schedule, cooling, done: 0, gained: false }
        });
        let best_rank = if layout.broken() == 0 { rank(&layout) } else { (usize::MAX, i64::MAX, i64::MAX) };
        let mut search = Self { walkers: walkers.collect(), best, best_places: Vec::new(), best_rank };
        search.best_places.clone_from(&layout.place);
        search
    }

    /// Runs so many pieces on every walk, or fewer if `stop` says so; says how many.
    pub fn run(&mut self, pieces: u64, stop: &dyn Fn() -> bool) -> u64 {
        thread::scope(|scope| {
            let companions = if pieces < WORTH_A_THREAD { 0 } else { self.walkers.len() - 1 };
            let companions: Vec<_> = (0..companions).map(|_| Companion::new(scope)).collect();
            let mut done = 0;
            while done < pieces && !stop() {
                // Up to where a walk may look at what the others have found.
                let left = self.walkers.iter().map(|walker| walker.cooling.length - walker.done).min();
                let round = left.unwrap_or(ROUND).min(ROUND).min(pieces - done);
                run_round(&mut self.walkers, round, &companions);
                done += round;
                self.exchange();
            }
            done
        })
    }

    /// Has walks that have finished a cooling tell what they found, and begin the next.
    fn exchange(&mut self) {
        if self.walkers.iter().all(|walker| walker.is_through() && walker.schedule.is_trial()) {
            self.compare_styles();
        }
        for walker in self.walkers.iter_mut().filter(|walker| walker.is_through()) {
            let rank = walker.walk.best_rank();
            walker.gained = walker.walk.has_best() && rank < self.best_rank;
            if walker.gained {
                self.best_rank = rank;
                self.best_places = walker.walk.best_places();
            }
        }
        for walker in self.walkers.iter_mut().filter(|walker| walker.is_through()) {
            walker.cooling = walker.schedule.next(walker.gained);
            walker.done = 0;
            if walker.cooling.from_best {
                walker.walk.go_to(&self.best_places);
            }
        }
    }

    /// Has walks that did clearly worse than another go its way from now on.
    fn compare_styles(&mut self) {
        let found = |walker: &Walker| walker.walk.has_best().then(|| walker.walk.best_rank());
        let best = self.walkers.iter().filter_map(|walker| Some((found(walker)?, walker.schedule.style())));
        let Some(((unplaced, slack, energy), style)) = best.min_by_key(|(rank, _)| *rank) else { return };
        for walker in &mut self.walkers {
            let is_near = found(walker).is_some_and(|(others, same_slack, found)| {
                (others, same_slack) == (unplaced, slack) && found - energy <= energy.abs() / CLEARLY
            });
            if !is_near {
                walker.schedule.take_up(style);
            }
        }
    }

    /// The best so far. Walks in the middle of a cooling are followed to where they would come to rest in a hurry; they
    /// themselves stay where they are.
    pub fn best(&mut self) -> Assignment {
        let mut resting: Vec<(&mut Walker, Vec<Vec<u32>>)> =
            self.walkers.iter_mut().map(|walker| (walker, Vec::new())).collect();
        in_parallel(&mut resting, |(walker, found)| {
            found.extend(walker.walk.has_best().then(|| walker.walk.best_places()));
            found.extend(walker.quenched());
        });
        let model = resting[0].0.walk.layout.model;
        let found: Vec<Vec<u32>> = resting.into_iter().flat_map(|(_, found)| found).collect();
        for places in found.iter().chain([&self.best_places]) {
            self.best.offer(model.assignment(places));
        }
        if self.best.vector.is_none() && model.snapshot.rules().is_some() {
            let places = &self.walkers[0].walk.layout.place;
            self.best.offer(without_what_breaks_rules(model.snapshot, model.assignment(places)));
        }
        self.best.assignment.clone()
    }

    /// Tells the walks of something better, found elsewhere.
    pub fn offer(&mut self, assignment: &Assignment) {
        self.best.offer(assignment.clone());
        let model = self.walkers[0].walk.layout.model;
        let mut layout = Layout::new(model);
        layout.set_slack(self.walkers[0].walk.layout.slack);
        layout.adopt(&model.places(assignment));
        let rank = rank(&layout);
        if layout.total_excess() == 0 && layout.broken() == 0 && rank < self.best_rank {
            self.best_rank = rank;
            self.best_places.clone_from(&layout.place);
        }
    }
}

/// Takes out, one after the other, the actor without whom rules of the policy are broken least, as long as that helps.
fn without_what_breaks_rules(snapshot: &Snapshot, mut assignment: Assignment) -> Assignment {
    let Some(rules) = snapshot.rules() else { return assignment };
    let mut ruling = Ruling::of(rules, &assignment);
    while ruling.degree() > 0 {
        let mut best: Option<(i64, usize, usize)> = None;
        for actor in (0..snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
            let Some(unit) = assignment[actor] else { continue };
            ruling.take(actor, unit);
            let degree = ruling.degree();
            ruling.put(actor, unit);
            if best.is_none_or(|(least, _, _)| degree < least) {
                best = Some((degree, actor, unit));
            }
        }
        match best {
            Some((degree, actor, unit)) if degree < ruling.degree() => {
                ruling.take(actor, unit);
                assignment[actor] = None;
            }
            _ => break,
        }
    }
    assignment
}

/// What layouts are compared by: actors without a place, overload, energy.
fn rank(layout: &Layout) -> (usize, i64, i64) {
    (layout.unplaced, layout.slack, layout.energy)
}

impl Walker<'_> {
    /// Whether its cooling has ended.
    fn is_through(&self) -> bool {
        self.done == self.cooling.length
    }

    fn run(&mut self, pieces: u64) {
        for _ in 0..pieces {
            let (from, to) = (self.cooling.part(self.done), self.cooling.part(self.done + 1));
            self.walk.set_price_of_excess(self.cooling.price(from));
            let scales = self.walk.scales();
            self.walk.run(
                STEPS,
                self.cooling.temperature(from, scales),
                self.cooling.temperature(to, scales),
            );
            self.done += 1;
        }
    }

    /// Where a copy of the walk ends that cools quickly from here; `None` if it has hardly begun.
    fn quenched(&self) -> Option<Vec<u32>> {
        const CHUNKS: u64 = 20;
        let begun = self.cooling.part(self.done);
        if self.done == 0 {
            return None;
        }
        let mut walk = self.walk.clone();
        walk.forget_best();
        let steps = (QUENCH * walk.layout.model.free as u64).min(LONGEST_QUENCH) / CHUNKS;
        let part = |chunk: u64| begun + (1.0 - begun) * chunk as f64 / CHUNKS as f64;
        for chunk in 0..CHUNKS {
            walk.set_price_of_excess(self.cooling.price(part(chunk)));
            let temperature = |chunk: u64| self.cooling.temperature(part(chunk), walk.scales());
            let (from, to) = (temperature(chunk), temperature(chunk + 1));
            walk.run(steps, from, to);
        }
        walk.has_best().then(|| walk.best_places())
    }
}

/// A thread that runs a walk for a while whenever it is sent one, and sends it back.
struct Companion<'t> {
    there: Sender<(Walker<'t>, u64)>,
    back: Receiver<Walker<'t>>,
}

impl<'t> Companion<'t> {
    /// It ends when it is dropped.
    fn new<'scope>(scope: &'scope Scope<'scope, '_>) -> Self
    where
        't: 'scope,
    {
        let (there, sent) = mpsc::channel::<(Walker, u64)>();
        let (finished, back) = mpsc::channel();
        scope.spawn(move || {
            for (mut walker, pieces) in sent {
                walker.run(pieces);
                if finished.send(walker).is_err() {
                    break;
                }
            }
        });
        Self { there, back }
    }
}

/// Has all walks run so many pieces, those but the first on companions where there are any.
fn run_round<'t>(walkers: &mut Vec<Walker<'t>>, pieces: u64, companions: &[Companion<'t>]) {
    const PANICKED: &str = "a companion ends early only if its walk panicked";
    let sent = if pieces < WORTH_A_THREAD { &[] } else { companions };
    for (companion, walker) in sent.iter().zip(walkers.drain(walkers.len() - sent.len()..)) {
        companion.there.send((walker, pieces)).expect(PANICKED);
    }
    for walker in walkers.iter_mut() {
        walker.run(pieces);
    }
    walkers.extend(sent.iter().map(|companion| companion.back.recv().expect(PANICKED)));
}

/// Does the same to each, on as many threads.
fn in_parallel<T: Send>(each: &mut [T], work: impl Fn(&mut T) + Sync) {
    let Some((first, others)) = each.split_first_mut() else { return };
    thread::scope(|scope| {
        for other in others {
            scope.spawn(|| work(other));
        }
        work(first);
    });
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
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}
