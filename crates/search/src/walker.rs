//! A walk and the course that it takes.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::anneal::Walk;
use crate::schedule::{Cooling, STEPS, Schedule};

/// Steps that a walk takes to come to rest when the search is stopped in the middle of its course: per item, and at
/// most.
const QUENCH: u64 = 300;
const LONGEST_QUENCH: u64 = 1_000_000;

/// A walk on its course.
pub(crate) struct Walker<'t> {
    pub walk: Walk<'t>,
    pub course: Course,
}

/// What temperatures a walk goes through.
pub(crate) enum Course {
    /// Coolings by a schedule.
    Cooling(Descent),
    /// Always the same one, in energy, on a rung of a ladder.
    Steady(f64),
}

/// A cooling under way.
pub(crate) struct Descent {
    pub schedule: Schedule,
    pub cooling: Cooling,
    /// Pieces of the cooling that are done.
    pub done: u64,
}

impl Descent {
    pub fn new(mut schedule: Schedule) -> Self {
        let cooling = schedule.next(false);
        Self { schedule, cooling, done: 0 }
    }

    /// Pieces up to the end of the cooling.
    pub fn left(&self) -> u64 {
        self.cooling.length - self.done
    }

    /// Begins the next cooling, told whether this one has found a new best.
    pub fn begin_next(&mut self, gained: bool) {
        self.cooling = self.schedule.next(gained);
        self.done = 0;
    }
}

impl Walker<'_> {
    /// The cooling under way, if it is on one.
    pub fn descent(&self) -> Option<&Descent> {
        match &self.course {
            Course::Cooling(descent) => Some(descent),
            Course::Steady(_) => None,
        }
    }

    pub fn descent_mut(&mut self) -> Option<&mut Descent> {
        match &mut self.course {
            Course::Cooling(descent) => Some(descent),
            Course::Steady(_) => None,
        }
    }

    /// Runs so many pieces of its course.
    pub fn run(&mut self, pieces: u64) {
        let walk = &mut self.walk;
        match &mut self.course {
            Course::Steady(temperature) => walk.run(pieces * STEPS, *temperature, *temperature),
            Course::Cooling(descent) => {
                for _ in 0..pieces {
                    let cooling = &descent.cooling;
                    let (from, to) = (cooling.part(descent.done), cooling.part(descent.done + 1));
                    walk.set_prices(cooling.price(from), cooling.price_of_breach(from));
                    let scales = walk.scales();
                    walk.run(STEPS, cooling.temperature(from, scales), cooling.temperature(to, scales));
                    descent.done += 1;
                }
            }
        }
    }

    /// Where a copy of the walk ends that cools quickly from here; `None` if it has hardly begun.
    pub fn quenched(&self) -> Option<IxVec<ItemIx, UnitIx>> {
        const CHUNKS: u64 = 20;
        let (mean, median) = self.walk.scales();
        let (begun, cooling) = match &self.course {
            Course::Cooling(descent) if descent.done == 0 => return None,
            Course::Cooling(descent) => (descent.cooling.part(descent.done), descent.cooling),
            Course::Steady(temperature) => {
                (0.0, Cooling::from_rung(*temperature / median, self.walk.price_of_excess()))
            }
        };
        let mut walk = self.walk.clone();
        walk.forget_best();
        let steps = (QUENCH * walk.layout.model.free as u64).min(LONGEST_QUENCH) / CHUNKS;
        let part = |chunk: u64| begun + (1.0 - begun) * chunk as f64 / CHUNKS as f64;
        let temperature = |chunk: u64| cooling.temperature(part(chunk), (mean, median));
        for chunk in 0..CHUNKS {
            walk.set_prices(cooling.price(part(chunk)), cooling.price_of_breach(part(chunk)));
            walk.run(steps, temperature(chunk), temperature(chunk + 1));
        }
        walk.has_best().then(|| walk.best_places())
    }
}
