//! A chain and the course that it takes.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::anneal::Chain;
use crate::model::Model;
use crate::schedule::{Annealing, Schedule};

/// Steps that a chain takes to come to rest when the search is stopped in the middle of its course: per item, and at
/// most, on a sparse world.
const DESCENT: u64 = 300;
const LONGEST_DESCENT: u64 = 1_000_000;

/// Steps of a descent.
pub(crate) fn steps_of_descent(model: &Model) -> u64 {
    (DESCENT * model.free as u64).min(LONGEST_DESCENT / model.density)
}

/// A chain on its course.
pub(crate) struct Replica<'t> {
    pub chain: Chain<'t>,
    pub course: Course,
}

/// What temperatures a chain goes through.
pub(crate) enum Course {
    /// Runs by a schedule.
    Annealing(Descent),
    /// Always the same one, in the objective, among those that are exchanged.
    Steady(f64),
}

/// An annealing run under way.
pub(crate) struct Descent {
    pub schedule: Schedule,
    pub annealing: Annealing,
    /// Pieces of the run that are done.
    pub done: u64,
}

impl Descent {
    pub fn new(mut schedule: Schedule) -> Self {
        let annealing = schedule.next();
        Self { schedule, annealing, done: 0 }
    }

    /// Pieces up to the end of the run.
    pub fn left(&self) -> u64 {
        self.annealing.length - self.done
    }

    /// Begins the next run.
    pub fn begin_next(&mut self) {
        self.annealing = self.schedule.next();
        self.done = 0;
    }
}

impl Replica<'_> {
    /// The run under way, if it is on one.
    pub fn descent(&self) -> Option<&Descent> {
        match &self.course {
            Course::Annealing(descent) => Some(descent),
            Course::Steady(_) => None,
        }
    }

    pub fn descent_mut(&mut self) -> Option<&mut Descent> {
        match &mut self.course {
            Course::Annealing(descent) => Some(descent),
            Course::Steady(_) => None,
        }
    }

    /// Runs so many pieces of its course.
    pub fn run(&mut self, pieces: u64) {
        let chain = &mut self.chain;
        let steps = chain.solution.model.steps();
        match &mut self.course {
            Course::Steady(temperature) => chain.run(pieces * steps, *temperature, *temperature),
            Course::Annealing(descent) => {
                for _ in 0..pieces {
                    let annealing = &descent.annealing;
                    let (from, to) = (annealing.part(descent.done), annealing.part(descent.done + 1));
                    chain.set_prices(annealing.price(from), annealing.price_of_breach(from));
                    let scales = chain.scales();
                    chain.run(steps, annealing.temperature(from, scales), annealing.temperature(to, scales));
                    descent.done += 1;
                }
            }
        }
    }

    /// Where a copy of the chain ends that cools quickly from here; `None` if it has hardly begun, or where `stop` said so in the
    /// first half of its way.
    pub fn descended(&self, stop: &dyn Fn() -> bool) -> Option<IxVec<ItemIx, UnitIx>> {
        const CHUNKS: u64 = 20;
        let (mean, median) = self.chain.scales();
        let (begun, annealing) = match &self.course {
            Course::Annealing(descent) if descent.done == 0 => return None,
            Course::Annealing(descent) => (descent.annealing.part(descent.done), descent.annealing),
            Course::Steady(temperature) => {
                (0.0, Annealing::at_temperature(*temperature / median, self.chain.price_of_excess()))
            }
        };
        let mut chain = self.chain.clone();
        chain.forget_best();
        let steps = steps_of_descent(chain.solution.model) / CHUNKS;
        let part = |chunk: u64| begun + (1.0 - begun) * chunk as f64 / CHUNKS as f64;
        let temperature = |chunk: u64| annealing.temperature(part(chunk), (mean, median));
        for chunk in 0..CHUNKS {
            chain.set_prices(annealing.price(part(chunk)), annealing.price_of_breach(part(chunk)));
            let temperatures = (temperature(chunk), temperature(chunk + 1));
            if !chain.run_until(steps, temperatures, &|| chunk < CHUNKS / 2 && stop()) {
                return None;
            }
        }
        chain.has_best().then(|| chain.best_places())
    }
}
