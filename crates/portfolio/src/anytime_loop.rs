//! The anytime loop for snapshots too large for a proof: native search until the budget ends, and a lower bound in
//! parallel.

use std::collections::BTreeMap;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use exact::bound;
use placement::{Answer, FoundBy, Snapshot, Stage, StoppedBy};
use search::SearchInstance;

use crate::ablation::Ablation;
use crate::search_state::SearchState;

/// Batches of native search in the first iteration: at least so many, and one for so many actors, as a probe takes time
/// for each actor. Each iteration has twice as many as the one before.
const FIRST_EFFORT: (usize, usize) = (160, 2);

/// Effort after which a bound is worth while: some seconds.
const MIN_EFFORT_FOR_BOUND: u64 = 20_000;

/// Numbers that the native search reads in a batch, roughly: fifty in each of two thousand steps. A bound starts once the
/// search has read as many numbers as the bound needs for a first result, and only if as much time is left again. In a
/// shorter search it would only compete for processors.
const NUMBERS_PER_BATCH: u64 = 100_000;

/// Searches until the budget ends, in a prepared instance if there is one.
///
/// The sequence of batches depends only on what they find, so an interrupted search is a prefix of a longer one.
pub(crate) fn improve_until_stopped(
    mut search: SearchState,
    instance: Option<SearchInstance>,
    without: Option<Ablation>,
) -> Answer {
    if let Some(reason) = search.stop_reason() {
        return search.answer(reason);
    }
    let budget = search.budget();
    let instance = instance.unwrap_or_else(|| SearchInstance::new(search.snapshot, budget.stop));
    let instance = instance.without(without.and_then(Ablation::native));
    // What runs is worth keeping; what greedy placed only has to be beaten.
    let start = search.snapshot.incumbent();
    let mut native = search::AnnealingSearch::new(&instance, &start, budget.seed, budget.stop);
    native.offer(&search.best.assignment);
    let (least, actors) = FIRST_EFFORT;
    let mut effort = least.max(movable(search.snapshot) / actors) as u64;
    let begun = Instant::now();
    thread::scope(|scope| {
        let mut bounds: Option<ScopedJoinHandle<BTreeMap<String, i64>>> = None;
        let reason = loop {
            let wanted = effort.min(search.left());
            let done = native.run(wanted, budget);
            search.spend(done);
            // What a clock cut short before the first batch could not be replayed.
            if done > 0 {
                search.offer(native.best(budget), Stage::Local, FoundBy::Search);
            }
            // The native search ends early enough for a last probe.
            let is_out_of_time = (done < wanted).then_some(StoppedBy::Deadline);
            if let Some(reason) = search.stop_reason().or(is_out_of_time) {
                break reason;
            }
            let has_time = budget.left.is_none_or(|left| left() >= begun.elapsed());
            // A bound assumes the levels above as the answer has them; a better answer violates fewer rules first.
            let is_bound_due = bounds.is_none()
                && search.spent() >= MIN_EFFORT_FOR_BOUND
                && has_time
                && search.best.violation == 0;
            let work = is_bound_due.then(|| bound::estimated_work(search.snapshot)).flatten();
            if work.is_some_and(|work| work <= search.spent().saturating_mul(NUMBERS_PER_BATCH)) {
                let (snapshot, best, stop) = (search.snapshot, search.best.vector.clone(), search.stop());
                bounds = Some(scope.spawn(move || {
                    lower_priority();
                    bound::lower_bounds(snapshot, &best, stop)
                }));
            }
            effort = effort.saturating_mul(2);
        };
        // Without a clock the search waits for the bound, to be deterministic.
        match bounds.map(ScopedJoinHandle::join) {
            Some(Ok(bounds)) => search.add_bounds(bounds),
            Some(Err(_)) => tracing::error!(
                "the search for lower bounds panicked, which is a defect; the answer has none"
            ),
            None => {}
        }
        search.answer(reason)
    })
}

/// Lowers the priority of this thread: a bound does not improve the answer.
fn lower_priority() {
    const NICE: i32 = 10;
    if let Err(problem) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%problem, "cannot lower the priority of the bound");
    }
}

/// Number of movable actors.
fn movable(snapshot: &Snapshot) -> usize {
    snapshot.problem().movable.len()
}
