//! A chain and the annealing runs that it goes through.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::anneal::annealer::Chain;
use crate::anneal::schedule::{Annealing, Schedule};
use crate::evaluation::rank::Rank;
use crate::model::Model;

/// Steps that a chain takes to come to rest when the search is stopped in the middle of its course: per item, and at
/// most, on a sparse world.
const DESCENT: u64 = 300;
const LONGEST_DESCENT: u64 = 1_000_000;

/// Steps of a descent.
pub(crate) fn quench_steps(model: &Model) -> u64 {
    (DESCENT * model.free as u64).min(LONGEST_DESCENT / model.density)
}

/// A chain on an annealing run.
pub(crate) struct AnnealingChain<'t> {
    pub chain: Chain<'t>,
    pub schedule: Schedule,
    pub annealing: Annealing,
    /// Pieces of the run that are done.
    done: u64,
    /// How good the best was that the last run began with which began late.
    before: Rank,
    /// How good the best was at the end of the last long run that did not begin with the best.
    elsewhere: Option<Rank>,
}

impl<'t> AnnealingChain<'t> {
    pub fn new(chain: Chain<'t>, mut schedule: Schedule) -> Self {
        let annealing = schedule.next();
        let before = chain.best_rank();
        Self { chain, schedule, annealing, done: 0, before, elsewhere: None }
    }

    /// Pieces up to the end of the run.
    pub fn left(&self) -> u64 {
        self.annealing.length - self.done
    }

    /// Begins the next run of its schedule.
    pub fn begin_next(&mut self) {
        let next = self.schedule.next();
        self.begin(next);
    }

    /// Notes how the run has ended.
    pub fn note_end(&mut self) {
        let run = &self.annealing;
        if (!run.from_best || run.is_trial) && self.schedule.is_telling(run) {
            self.elsewhere = Some(self.chain.best_rank());
        }
    }

    /// How good the best was at the end of the last long run that did not begin with the best of all, once there is one.
    pub fn elsewhere(&self) -> Option<Rank> {
        self.elsewhere
    }

    /// Begins the next run of its schedule late, with what is the best of all; it keeps out of some nodes.
    pub fn reheat_from_best(&mut self, best: &IxVec<ItemIx, UnitIx>, empty: &[NodeIx]) {
        let run = &self.annealing;
        let was_late = run.from_best && !run.is_trial;
        let was_better = was_late.then(|| self.chain.best_rank() < self.before);
        let next = self.schedule.next_late(was_better);
        self.begin(next);
        self.chain.go_to(best);
        self.chain.keep_out_of(empty);
        self.before = self.chain.best_rank();
    }

    /// Begins a run.
    pub fn begin(&mut self, annealing: Annealing) {
        self.annealing = annealing;
        self.done = annealing.begun;
    }

    /// Runs so many pieces of its run.
    pub fn run(&mut self, pieces: u64) {
        let Self { chain, annealing, done, .. } = self;
        let steps = chain.solution.model.steps();
        for _ in 0..pieces {
            let (from, to) = (annealing.part(*done), annealing.part(*done + 1));
            chain.set_prices(annealing.price(from), annealing.price_of_breach(from));
            let scales = chain.scales();
            chain.run(steps, annealing.temperature(from, scales), annealing.temperature(to, scales));
            *done += 1;
        }
    }

    /// Where a copy of the chain ends that cools quickly from here; `None` if it has hardly begun, or where `is_given_up` said so after
    /// some part of its way.
    pub fn quenched(&self, is_given_up: &dyn Fn(f64) -> bool) -> Option<IxVec<ItemIx, UnitIx>> {
        const CHUNKS: u64 = 20;
        if self.done == 0 {
            return None;
        }
        let (scales, annealing) = (self.chain.scales(), self.annealing);
        let begun = annealing.part(self.done);
        let mut chain = self.chain.clone();
        chain.forget_best();
        let steps = quench_steps(chain.solution.model) / CHUNKS;
        let part = |chunk: u64| begun + (1.0 - begun) * chunk as f64 / CHUNKS as f64;
        let temperature = |chunk: u64| annealing.temperature(part(chunk), scales);
        for chunk in 0..CHUNKS {
            chain.set_prices(annealing.price(part(chunk)), annealing.price_of_breach(part(chunk)));
            let temperatures = (temperature(chunk), temperature(chunk + 1));
            if !chain.run_until(steps, temperatures, &|| is_given_up(chunk as f64 / CHUNKS as f64)) {
                return None;
            }
        }
        chain.has_best().then(|| chain.best_places())
    }
}
