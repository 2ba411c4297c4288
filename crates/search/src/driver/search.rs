//! A search as a session: run for a while, probed, offered better placements, and run on.

use std::thread;
use std::time::Duration;

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;
use placement::{Assignment, Budget, Snapshot};

use crate::ablation::Ablation;
use crate::anneal::annealer::Annealer;
use crate::anneal::annealing_chain::{AnnealingChain, quench_steps};
use crate::anneal::schedule::RunSequence;
use crate::anneal::worker::{WORTH_A_THREAD, Worker, run_all};
use crate::construction::initial_placement::place_remaining;
use crate::driver::deadline::DeadlineEstimator;
use crate::driver::feasibility_probe::build_model;
use crate::driver::hub_restarts::HubRestarts;
use crate::driver::incumbent::Incumbent;
use crate::driver::open_nodes::OpenNodeRestriction;
use crate::driver::start::{Start, adopted};
use crate::evaluation::rank::{Rank, is_significantly_better, rank};
use crate::evaluation::solution::Solution;
use crate::model::{Model, ROUND};

/// Number of chains, and of threads. Results do not depend on the number of processors.
const CHAINS: u32 = 2;

/// Chains that a probe quenches.
pub(super) const QUENCHED_CHAINS: usize = 2;

/// A snapshot prepared for searching.
pub struct SearchInstance<'a> {
    model: Model<'a>,
    /// Whether the clock ended the preparation; then there is no search.
    is_cut: bool,
}

impl<'a> SearchInstance<'a> {
    /// Prepares a snapshot, which takes about a second for 20,000 actors on 4,000 units and milliseconds for 1,000.
    /// Where `stop` ends that, a search of it ends with a first placement.
    pub fn new(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> Self {
        let (model, is_cut) = build_model(snapshot, stop);
        Self { model, is_cut }
    }

    /// The same without a component of the search.
    #[must_use]
    pub fn without(mut self, ablation: Option<Ablation>) -> Self {
        self.model.without = ablation;
        self
    }
}

/// A search in progress: annealing chains, each with its own sequence of runs, and the incumbent.
///
/// The start, the seed, and the batches run between two calls of [`AnnealingSearch::offer`] determine it.
pub struct AnnealingSearch<'t> {
    pub(super) model: &'t Model<'t>,
    /// Where chains will start, until they do.
    start: Option<Start<'t>>,
    /// Better placements offered before chains started.
    offered: Vec<Assignment>,
    /// Empty until chains have started.
    pub(super) chains: Vec<AnnealingChain<'t>>,
    pub(super) incumbent: Incumbent<'t>,
    /// The incumbent of the chains.
    pub(super) best_places: IxVec<ItemIx, UnitIx>,
    best_rank: Rank,
    /// Whether a run has improved on its start within the limits.
    pub(super) has_improved: bool,
    /// Where the last run ended, until one has improved or a probe has used it.
    pub(super) unfinished_places: Option<IxVec<ItemIx, UnitIx>>,
    deadline: DeadlineEstimator,
    /// Which nodes stay empty, where there is a choice.
    open_nodes: Option<OpenNodeRestriction>,
    /// Other starts of runs, for cold starts.
    hub_restarts: Option<HubRestarts>,
}

impl<'t> AnnealingSearch<'t> {
    /// Begins with `start`, whose unplaced actors are placed first; actors that violate a limit there are placed anew.
    /// Where `stop` ends that, the search has ended.
    pub fn new(instance: &'t SearchInstance, start: &Assignment, seed: u64, stop: &dyn Fn() -> bool) -> Self {
        let model = &instance.model;
        let mut solution = Solution::new(model);
        let mut is_adopted = solution.adopt_until(&model.places(start), stop);
        if solution.violation() > 0 {
            solution = Solution::new(model);
            is_adopted = solution.adopt_without_violations(&model.places(start), stop);
        }
        let kept = solution.place.raw()[..model.free].iter().filter(|place| **place != NOWHERE).count();
        let is_whole = place_remaining(&mut solution, stop) && is_adopted && !instance.is_cut;
        let mut incumbent = Incumbent::new(model.snapshot, start);
        incumbent.offer(model.assignment(&solution.place));
        Self {
            model,
            offered: Vec::new(),
            chains: Vec::new(),
            incumbent,
            best_places: solution.place.clone(),
            best_rank: (usize::MAX, i64::MAX, i64::MAX),
            has_improved: false,
            unfinished_places: None,
            // Running actors are not moved just for overload; chains do that where it costs least.
            start: is_whole.then(|| Start {
                solution,
                is_warm: kept * 2 > model.free,
                rng: fastrand::Rng::with_seed(seed),
            }),
            deadline: DeadlineEstimator::default(),
            open_nodes: None,
            hub_restarts: None,
        }
    }

    /// Starts the chains after ejection and load balancing; otherwise the first batch does. False where `stop` ended
    /// it: then nothing has changed, and the search has ended.
    pub fn start_chains(&mut self, budget: &Budget) -> bool {
        if let Some(start) = self.start.take() {
            _ = self.start_chains_from(start, budget);
        }
        !self.chains.is_empty()
    }

    fn start_chains_from(&mut self, start: Start<'t>, budget: &Budget) -> Option<()> {
        let (model, is_warm) = (self.model, start.is_warm);
        let (unbalanced, solution, mut rng) = start.balanced(&self.offered, budget.stop)?;
        let has_hubs =
            model.node_classes.has_nodes && !is_warm && model.without != Some(Ablation::HubRestarts);
        let restarts = || HubRestarts::new(model, solution.overload_allowance, budget.stop);
        let hub_restarts = if has_hubs { Some(restarts()?) } else { None };
        let ((), took) = DeadlineEstimator::timed(budget, || {
            self.incumbent.offer(model.assignment(&unbalanced.place));
            self.incumbent.offer(model.assignment(&solution.place));
        });
        self.deadline.record_offers(2, took);
        let mut begin = if is_warm { unbalanced } else { solution.clone() };
        begin.set_overload_allowance(solution.overload_allowance);
        let chains = (0..CHAINS).map(|chain| {
            let sequence = RunSequence::new((model.free, model.steps()), chain, is_warm, model.without);
            AnnealingChain::new(Annealer::new(begin.clone(), rng.u64(..)), sequence)
        });
        self.chains = chains.collect();
        let has_choice =
            model.node_classes.has_nodes && model.has_limit && solution.overload_allowance == 0 && !is_warm;
        if has_choice && model.without != Some(Ablation::OpenNodeRestriction) {
            let trial = self.chains.last().map(|chain| chain.sequence.trial());
            self.open_nodes = trial.map(|trial| OpenNodeRestriction::new(model, trial));
        }
        self.hub_restarts = hub_restarts;
        if solution.violation() == 0 {
            self.best_rank = rank(&solution);
        }
        self.best_places.clone_from(&solution.place);
        for offered in std::mem::take(&mut self.offered) {
            self.offer_to_chains(&offered);
        }
        Some(())
    }

    /// Runs so many batches on every chain, or fewer if the budget's clock leaves time for a probe only. Returns how many.
    pub fn run(&mut self, batches: u64, budget: &Budget) -> u64 {
        // Starting the chains counts with their first round alone.
        let is_first = self.start.is_some();
        if batches == 0 || !self.start_chains(budget) {
            return 0;
        }
        thread::scope(|scope| {
            let workers = if batches < WORTH_A_THREAD { 0 } else { CHAINS - 1 };
            let workers: Vec<_> = (0..workers).map(|_| Worker::new(scope)).collect();
            let mut done = 0;
            while done < batches && (done == 0 && is_first || !self.is_over(batches - done, budget)) {
                // Short rounds first, until the duration of a batch is known.
                let is_calibrated = budget.left.is_none() || self.deadline.is_calibrated();
                let most = if is_calibrated { u64::MAX } else { WORTH_A_THREAD };
                let round = self.next_round((batches - done).min(most));
                let ((), took) = DeadlineEstimator::timed(budget, || {
                    run_all(&mut self.chains, &[round; CHAINS as usize], &workers);
                });
                self.deadline.record_round(round, took);
                done += round;
                self.finish_runs(budget.stop);
            }
            done
        })
    }

    /// Whether the clock says stop, or leaves no time for another round and a probe after it.
    fn is_over(&self, batches: u64, budget: &Budget) -> bool {
        (budget.stop)() || !self.has_time_for(1, self.next_round(batches), budget)
    }

    /// Whether there is time for so many probes after so many batches; true without a known clock.
    pub(crate) fn has_time_for(&self, probes: u32, batches: u64, budget: &Budget) -> bool {
        let one = || {
            if self.deadline.is_calibrated() { self.time_with_probe(batches) } else { Duration::ZERO }
        };
        budget.left.is_none_or(|left| left() > one() * probes)
    }

    /// Estimated duration of so many batches and a probe after them.
    pub(super) fn time_with_probe(&self, batches: u64) -> Duration {
        let quenched = quench_steps(self.model) / self.model.steps();
        self.deadline.estimate(batches, quenched, QUENCHED_CHAINS as u64 + 2)
    }

    /// Batches of the next round, of so many that are left. No run ends within a round.
    fn next_round(&self, batches: u64) -> u64 {
        let left = self.chains.iter().map(AnnealingChain::batches_left).min();
        // Long batches make shorter rounds, so that the clock is checked as often.
        let most = (ROUND / self.model.relative_batch_time()).max(1);
        left.unwrap_or(most).min(most).min(batches)
    }

    /// Collects the results of chains that have finished a run, and starts their next runs.
    fn finish_runs(&mut self, stop: &dyn Fn() -> bool) {
        let mut ended: Vec<usize> = (0..self.chains.len()).collect();
        ended.retain(|chain| self.chains[*chain].batches_left() == 0);
        for chain in &ended {
            self.collect_result(*chain);
        }
        for chain in ended {
            self.start_next_run(chain, stop);
        }
    }

    /// Collects what a chain has found in the run that it has finished.
    pub(super) fn collect_result(&mut self, chain: usize) {
        self.chains[chain].record_end();
        let AnnealingChain { annealer, run, .. } = &self.chains[chain];
        let found = annealer.has_best().then(|| (annealer.best_rank(), annealer.best_places()));
        if let Some((rank, places)) = found.as_ref().filter(|(rank, _)| *rank < self.best_rank) {
            self.best_rank = *rank;
            self.best_places.clone_from(places);
            self.has_improved = true;
        }
        self.unfinished_places = (!self.has_improved).then(|| annealer.solution.place.clone());
        if let Some(open_nodes) = &mut self.open_nodes {
            open_nodes.record_run(run, found);
        }
    }

    /// Starts the next run of a chain. Trials are made by the last chain.
    fn start_next_run(&mut self, chain: usize, stop: &dyn Fn() -> bool) {
        let is_last = chain + 1 == self.chains.len();
        if is_last && self.start_trial(stop) {
            return;
        }
        let reheats = self.reheats(chain, is_last);
        let chain = &mut self.chains[chain];
        let closed = self.open_nodes.as_ref().map(OpenNodeRestriction::closed);
        if reheats {
            chain.reheat_from_best(&self.best_places, closed.unwrap_or_default());
            return;
        }
        if let Some(closed) = closed {
            chain.annealer.close_nodes(closed);
        }
        chain.start_next_run();
        if chain.run.from_best {
            chain.annealer.restart_from(&self.best_places);
        }
    }

    /// Starts a trial on the last chain, if one is due.
    fn start_trial(&mut self, stop: &dyn Fn() -> bool) -> bool {
        let Some(chain) = self.chains.last_mut() else { return false };
        if let Some(open_nodes) = &mut self.open_nodes
            && let Some((trial, nodes)) = open_nodes.next_trial(self.model, &chain.run)
        {
            chain.annealer.close_nodes(nodes);
            chain.start_run(trial);
            return true;
        }
        if chain.run.length >= chain.sequence.trial().length / 2
            && let Some(restarts) = &mut self.hub_restarts
            && let Some(places) = restarts.next_placement(self.model, stop)
        {
            chain.start_run(chain.sequence.trial_from_placement());
            chain.annealer.restart_from(&places);
            return true;
        }
        false
    }

    /// Whether the next run reheats the best: on the last chain after a long run, on others where theirs ended
    /// significantly above the best.
    fn reheats(&self, chain: usize, is_last: bool) -> bool {
        let (best, last) = (self.best_rank, self.chains[chain].last_independent_rank());
        self.model.without != Some(Ablation::Reheats)
            && best.0 < usize::MAX
            && last.is_some_and(|last| is_last || is_significantly_better(best, last))
    }

    /// The best so far. Copies of chains in the middle of a run are quenched for it, unless time has run out; the
    /// chains themselves are unchanged.
    pub fn best(&mut self, budget: &Budget) -> Assignment {
        let (best, took) = DeadlineEstimator::timed(budget, || self.best_after_quench(budget));
        self.deadline.record_probe(took);
        best
    }

    /// Offers a placement found elsewhere, which chains may start from.
    pub fn offer(&mut self, assignment: &Assignment) {
        self.incumbent.offer(assignment.clone());
        if self.chains.is_empty() {
            self.offered.push(assignment.clone());
        } else {
            self.offer_to_chains(assignment);
        }
    }

    fn offer_to_chains(&mut self, assignment: &Assignment) {
        let allowance = self.chains[0].annealer.solution.overload_allowance;
        let solution = adopted(self.model, assignment, allowance);
        let rank = rank(&solution);
        if solution.total_excess() == 0 && solution.violation() == 0 && rank < self.best_rank {
            self.best_rank = rank;
            self.best_places.clone_from(&solution.place);
        }
    }
}
