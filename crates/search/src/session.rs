//! A search that can be run for a while, looked at, told of something better, and run on.

use std::thread;

use crate::anneal::Walk;
use crate::balance::balance;
use crate::companion::{Companion, WORTH_A_THREAD, run_all};
use crate::construct::place_the_rest;
use crate::ladder::Ladder;
use crate::layout::{Layout, NO_LIMIT};
use crate::model::Model;
use crate::schedule::{ROUND, Schedule};
use crate::walker::{Course, Descent, Walker};
use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;
use placement::{Assignment, Cost, Ruling, Snapshot};

/// How many walks there are that cool, and threads of all walks. What is found does not depend on how many processors
/// there are.
const WALKS: u32 = 2;

/// Walks on a ladder that are followed to where they would come to rest.
const FOLLOWED: usize = 2;

/// A walk does clearly worse than another if its energy is higher by one part in so many.
const CLEARLY: i64 = 50;

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

/// A search under way: walks that anneal, each by a schedule of its own or all on one ladder, and the best that was
/// found.
///
/// It is decided by the start, the seed, and how many pieces were run between two calls of [`Search::offer`].
pub struct Search<'t> {
    walkers: Vec<Walker<'t>>,
    /// What the walkers have in common once they are on a ladder.
    ladder: Option<Ladder>,
    best: Found<'t>,
    /// The best as the walks know it.
    best_places: IxVec<ItemIx, UnitIx>,
    best_rank: (usize, i64, i64),
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
        let kept = layout.place.raw()[..model.free].iter().filter(|place| **place != NOWHERE).count();
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
            let descent = Descent::new(Schedule::new(model.free, walk, is_warm));
            Walker { walk: Walk::new(begin.clone(), dice.u64(..)), course: Course::Cooling(descent) }
        });
        let best_rank = if layout.broken() == 0 { rank(&layout) } else { (usize::MAX, i64::MAX, i64::MAX) };
        let mut search =
            Self { walkers: walkers.collect(), ladder: None, best, best_places: IxVec::new(), best_rank };
        search.best_places.clone_from(&layout.place);
        search
    }

    /// Runs so many pieces on every walk, or fewer if `stop` says so; says how many.
    pub fn run(&mut self, pieces: u64, stop: &dyn Fn() -> bool) -> u64 {
        thread::scope(|scope| {
            let companions = if pieces < WORTH_A_THREAD { 0 } else { WALKS - 1 };
            let companions: Vec<_> = (0..companions).map(|_| Companion::new(scope)).collect();
            let mut done = 0;
            while done < pieces && !stop() {
                done += match &mut self.ladder {
                    Some(ladder) => ladder.run(&mut self.walkers, pieces - done, &companions),
                    None => self.cool(pieces - done, &companions),
                };
                if self.ladder.is_some() {
                    self.note_best();
                } else {
                    self.exchange();
                }
            }
            done
        })
    }

    /// Cools so many pieces, at most up to where a walk may look at what the others have found.
    fn cool(&mut self, pieces: u64, companions: &[Companion<'t>]) -> u64 {
        let left = self.walkers.iter().filter_map(Walker::descent).map(Descent::left).min();
        let round = left.unwrap_or(ROUND).min(ROUND).min(pieces);
        run_all(&mut self.walkers, &[round; WALKS as usize], companions);
        round
    }

    /// Takes what the walks have found, where it is better.
    fn note_best(&mut self) {
        for walker in self.walkers.iter().filter(|walker| walker.walk.has_best()) {
            let rank = walker.walk.best_rank();
            if rank < self.best_rank {
                self.best_rank = rank;
                self.best_places = walker.walk.best_places();
            }
        }
    }

    /// Has walks that have finished a cooling tell what they found, and begin the next.
    fn exchange(&mut self) {
        let is_trial = |walker: &Walker| {
            walker.descent().is_some_and(|descent| descent.left() == 0 && descent.schedule.is_trial())
        };
        if self.walkers.iter().all(is_trial) {
            self.compare_styles();
            if Ladder::suits(&self.walkers[0].walk) {
                self.note_best();
                self.climb();
                return;
            }
        }
        let (best_rank, mut begun) = (self.best_rank, Vec::new());
        for (position, walker) in self.walkers.iter().enumerate() {
            if walker.descent().is_some_and(|descent| descent.left() == 0) {
                begun.push((position, walker.walk.has_best() && walker.walk.best_rank() < best_rank));
            }
        }
        for (position, _) in begun.iter().filter(|(_, gained)| *gained) {
            let walk = &self.walkers[*position].walk;
            if walk.best_rank() < self.best_rank {
                self.best_rank = walk.best_rank();
                self.best_places = walk.best_places();
            }
        }
        for (position, gained) in begun {
            let Walker { walk, course: Course::Cooling(descent) } = &mut self.walkers[position] else {
                continue;
            };
            descent.begin_next(gained);
            if descent.cooling.from_best {
                walk.go_to(&self.best_places);
            }
        }
    }

    /// Puts walks on a ladder, from where the one stands that did best.
    fn climb(&mut self) {
        let best = self.walkers.iter_mut().min_by_key(|walker| walker.walk.best_rank());
        let Some(best) = best else { return };
        let (ladder, rungs) = Ladder::new(&mut best.walk, u64::from(WALKS));
        (self.ladder, self.walkers) = (Some(ladder), rungs);
    }

    /// Has walks that did clearly worse than another go its way from now on.
    fn compare_styles(&mut self) {
        let found = |walker: &Walker| walker.walk.has_best().then(|| walker.walk.best_rank());
        let styles = self.walkers.iter().filter_map(|walker| {
            let style = walker.descent()?.schedule.style();
            Some((found(walker)?, style))
        });
        let Some(((unplaced, slack, energy), style)) = styles.min_by_key(|(rank, _)| *rank) else { return };
        for walker in &mut self.walkers {
            let is_near = found(walker).is_some_and(|(others, same_slack, found)| {
                (others, same_slack) == (unplaced, slack) && found - energy <= energy.abs() / CLEARLY
            });
            if let Some(descent) = walker.descent_mut().filter(|_| !is_near) {
                descent.schedule.take_up(style);
            }
        }
    }

    /// The best so far. Walks in the middle of a cooling are followed to where they would come to rest in a hurry; they
    /// themselves stay where they are.
    pub fn best(&mut self) -> Assignment {
        let mut resting: Vec<(&Walker, Option<IxVec<ItemIx, UnitIx>>)> =
            self.walkers.iter().take(FOLLOWED).map(|walker| (walker, None)).collect();
        in_parallel(&mut resting, |(walker, found)| *found = walker.quenched());
        let mut found: Vec<IxVec<ItemIx, UnitIx>> =
            resting.into_iter().filter_map(|(_, found)| found).collect();
        let walks = self.walkers.iter().map(|walker| &walker.walk).filter(|walk| walk.has_best());
        found.extend(walks.min_by_key(|walk| walk.best_rank()).map(Walk::best_places));
        let model = self.walkers[0].walk.layout.model;
        for places in found.iter().chain([&self.best_places]) {
            self.best.offer(model.assignment(places));
        }
        if self.best.vector.is_none() && model.snapshot.rules().is_some() {
            let places = &self.walkers[0].walk.layout.place;
            self.best.offer(without_what_breaks_rules(model.snapshot, model.assignment(places)));
        }
        self.best.assignment.clone()
    }

    /// Where one of the walks would come to rest in a hurry, if that is lawful: the walks that this number counts through
    /// are those that look for the best from different sides.
    pub fn sample(&self, number: usize) -> Option<Assignment> {
        let various = if self.ladder.is_some() { self.walkers.len().div_ceil(2) } else { self.walkers.len() };
        let walker = &self.walkers[number % various];
        let places = walker.quenched()?;
        let model = walker.walk.layout.model;
        let found = model.assignment(&places);
        model.snapshot.violations(&found).is_empty().then_some(found)
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
            if self.ladder.is_some() {
                self.walkers[0].walk.go_to(&self.best_places);
            }
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
