//! A chain and the annealing runs that it goes through.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::anneal::annealer::Annealer;
use crate::anneal::schedule::{RunSchedule, RunSequence};
use crate::evaluation::rank::Rank;
use crate::model::Model;

/// Steps of quenching when the search is stopped in the middle of a run: per item, and at most on a sparse snapshot.
const QUENCH_STEPS: u64 = 300;
const MAX_QUENCH_STEPS: u64 = 1_000_000;

/// Steps of quenching a chain.
pub(crate) fn quench_steps(model: &Model) -> u64 {
    (QUENCH_STEPS * model.free as u64).min(MAX_QUENCH_STEPS / model.relative_step_time)
}

/// A chain in the middle of an annealing run.
pub(crate) struct AnnealingChain<'t> {
    pub annealer: Annealer<'t>,
    pub sequence: RunSequence,
    pub run: RunSchedule,
    /// Batches of the run that are done.
    done: u64,
    /// The rank of the best when the last reheated run started.
    rank_at_reheat: Rank,
    /// The rank at the end of the last long run that did not start from the best.
    last_independent_rank: Option<Rank>,
}

impl<'t> AnnealingChain<'t> {
    pub fn new(annealer: Annealer<'t>, mut sequence: RunSequence) -> Self {
        let run = sequence.next();
        let rank_at_reheat = annealer.best_rank();
        Self { annealer, sequence, run, done: 0, rank_at_reheat, last_independent_rank: None }
    }

    /// Batches until the end of the run.
    pub fn batches_left(&self) -> u64 {
        self.run.length - self.done
    }

    /// Starts the next run of the sequence.
    pub fn start_next_run(&mut self) {
        let next = self.sequence.next();
        self.start_run(next);
    }

    /// Records the end of the run.
    pub fn record_end(&mut self) {
        let run = &self.run;
        if (!run.from_best || run.is_trial) && self.sequence.is_comparable(run) {
            self.last_independent_rank = Some(self.annealer.best_rank());
        }
    }

    /// The rank at the end of the last long run that did not start from the best, if there was one.
    pub fn last_independent_rank(&self) -> Option<Rank> {
        self.last_independent_rank
    }

    /// Starts the next run reheated from the best, with some nodes closed.
    pub fn reheat_from_best(&mut self, best: &IxVec<ItemIx, UnitIx>, empty: &[NodeIx]) {
        let run = &self.run;
        let was_reheated = run.from_best && !run.is_trial;
        let was_better = was_reheated.then(|| self.annealer.best_rank() < self.rank_at_reheat);
        let next = self.sequence.next_reheated(was_better);
        self.start_run(next);
        self.annealer.restart_from(best);
        self.annealer.close_nodes(empty);
        self.rank_at_reheat = self.annealer.best_rank();
    }

    /// Starts a run.
    pub fn start_run(&mut self, run: RunSchedule) {
        self.run = run;
        self.done = run.skipped;
    }

    /// Runs so many batches of the run.
    pub fn run_batches(&mut self, batches: u64) {
        let Self { annealer, run, done, .. } = self;
        let steps = annealer.solution.model.steps();
        for _ in 0..batches {
            let (from, to) = (run.fraction(*done), run.fraction(*done + 1));
            annealer.set_penalties(run.excess_penalty(from), run.violation_penalty(from));
            let scales = annealer.loss_scales();
            annealer.run(steps, run.temperature(from, scales), run.temperature(to, scales));
            *done += 1;
        }
    }

    /// Where a quenched copy of the chain ends; `None` at the beginning of a run, or where `is_abandoned` ends it after a
    /// fraction of the steps.
    pub fn quenched(&self, is_abandoned: &dyn Fn(f64) -> bool) -> Option<IxVec<ItemIx, UnitIx>> {
        const CHUNKS: u64 = 20;
        if self.done == 0 {
            return None;
        }
        let (scales, run) = (self.annealer.loss_scales(), self.run);
        let start = run.fraction(self.done);
        let mut annealer = self.annealer.clone();
        annealer.reset_best();
        let steps = quench_steps(annealer.solution.model) / CHUNKS;
        let fraction = |chunk: u64| start + (1.0 - start) * chunk as f64 / CHUNKS as f64;
        let temperature = |chunk: u64| run.temperature(fraction(chunk), scales);
        for chunk in 0..CHUNKS {
            annealer
                .set_penalties(run.excess_penalty(fraction(chunk)), run.violation_penalty(fraction(chunk)));
            let temperatures = (temperature(chunk), temperature(chunk + 1));
            if !annealer.run_until(steps, temperatures, &|| is_abandoned(chunk as f64 / CHUNKS as f64)) {
                return None;
            }
        }
        annealer.has_best().then(|| annealer.best_places())
    }
}
