//! A probe: what the chains would come to if the search ended now.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::{Assignment, Budget};

use crate::anneal::annealer::Annealer;
use crate::anneal::annealing_chain::AnnealingChain;
use crate::driver::drop_violators::drop_violators;
use crate::driver::search::{AnnealingSearch, QUENCHED_CHAINS};
use crate::evaluation::solution::Solution;
use crate::model::Model;
use crate::moves::load_balancing::balance_loads;

/// How late a probe may end before it is abandoned. A replay of the effort finishes the probe, so a little delay is better
/// than another answer.
const GRACE_PERIOD: Duration = Duration::from_millis(50);

/// The clock of a probe. A budget without a known clock grants unlimited time, as a replay does.
struct ProbeClock<'b> {
    budget: &'b Budget<'b>,
    begun: Instant,
    /// Whether the probe would end far too late.
    is_hopeless: bool,
}

impl<'b> ProbeClock<'b> {
    fn new(budget: &'b Budget<'b>, expected: Duration) -> Self {
        let mut clock = Self { budget, begun: Instant::now(), is_hopeless: false };
        clock.is_hopeless = clock.is_out_of_time() && expected > GRACE_PERIOD * 2;
        clock
    }

    fn is_out_of_time(&self) -> bool {
        self.budget.left.is_some_and(|left| left().is_zero())
    }

    /// Whether the grace period is over.
    fn is_too_late(&self) -> bool {
        self.is_out_of_time() && self.begun.elapsed() >= GRACE_PERIOD
    }

    fn is_over(&self) -> bool {
        self.is_hopeless || self.is_too_late()
    }

    /// Whether to abandon what is done to this fraction. The second half is finished if that takes no longer than the grace
    /// period.
    fn abandons(&self, fraction: f64) -> bool {
        let takes_long =
            || fraction < 0.5 || self.begun.elapsed().mul_f64((1.0 - fraction) / fraction) > GRACE_PERIOD;
        self.is_over() && takes_long()
    }
}

impl AnnealingSearch<'_> {
    /// Offers to the incumbent where quenched chains end, the best of the chains, and the balanced end of the last run.
    pub(super) fn best_after_quench(&mut self, budget: &Budget) -> Assignment {
        let clock = ProbeClock::new(budget, self.time_with_probe(0));
        // In large snapshots it takes long until a run ends within the limits. Balancing its end is cheap by comparison.
        let model = self.model;
        let unfinished = self.unfinished_places.take();
        let balanced = unfinished.and_then(|places| balanced(model, &places, &|| clock.is_too_late()));
        let mut found = quench_all(&self.chains, &clock);
        let annealers =
            self.chains.iter().map(|chain| &chain.annealer).filter(|annealer| annealer.has_best());
        found.extend(annealers.min_by_key(|annealer| annealer.best_rank()).map(Annealer::best_places));
        found.extend(balanced);
        for places in found.iter().chain([&self.best_places]) {
            self.incumbent.offer(model.assignment(places));
        }
        if self.incumbent.vector.is_none() && model.snapshot.rules().is_some() {
            let first = self.chains.first();
            let places = first.map_or(&self.best_places, |chain| &chain.annealer.solution.place);
            let feasible = drop_violators(model.snapshot, model.assignment(places), &|| clock.is_over());
            self.incumbent.offer(feasible);
        }
        self.incumbent.assignment.clone()
    }
}

/// Where quenched copies of the chains end: all of them, or none if the clock ended it, as a replay finishes all.
fn quench_all(chains: &[AnnealingChain], clock: &ProbeClock) -> Vec<IxVec<ItemIx, UnitIx>> {
    let is_abandoned = AtomicBool::new(false);
    let abandons = |fraction: f64| {
        let abandons = clock.abandons(fraction);
        is_abandoned.fetch_or(abandons, Ordering::Relaxed) || abandons
    };
    let mut quenched: Vec<(&AnnealingChain, Option<IxVec<ItemIx, UnitIx>>)> =
        chains.iter().take(QUENCHED_CHAINS).map(|chain| (chain, None)).collect();
    in_parallel(&mut quenched, |(chain, found)| *found = chain.quenched(&abandons));
    let is_whole = !is_abandoned.into_inner();
    quenched.into_iter().filter_map(|(_, found)| found.filter(|_| is_whole)).collect()
}

/// Places after load balancing; `None` where `stop` ended it.
fn balanced(
    model: &Model,
    places: &IxVec<ItemIx, UnitIx>,
    stop: &dyn Fn() -> bool,
) -> Option<IxVec<ItemIx, UnitIx>> {
    let mut solution = Solution::new(model);
    solution.adopt(places);
    // A constant seed makes probes repeatable.
    balance_loads(&mut solution, &mut fastrand::Rng::with_seed(0), stop)?;
    Some(solution.place)
}

/// Applies `work` to each element, on as many threads.
fn in_parallel<T: Send>(each: &mut [T], work: impl Fn(&mut T) + Sync) {
    let Some((first, others)) = each.split_first_mut() else { return };
    thread::scope(|scope| {
        for other in others {
            scope.spawn(|| work(other));
        }
        work(first);
    });
}
