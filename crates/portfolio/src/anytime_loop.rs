//! What is too large for a proof, until the budget ends: the native search, and a bound beside it.

use std::collections::BTreeMap;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use exact::bound;
use placement::{Answer, FoundBy, Snapshot, Stage, StoppedBy};
use search::SearchInstance;

use crate::ablation::Ablation;
use crate::search_state::SearchState;

/// Effort units of the native search in the first round, at least, and one for so many actors: looking at what it has found
/// costs some for each of them. Each round has twice as many as the one before.
const FIRST: (usize, usize) = (160, 2);

/// Effort units after which it is worth while to ask how much better there could be: some seconds.
const LONG: u64 = 20_000;

/// Numbers that the native search looks at in an effort unit, roughly: at fifty in each of two thousand steps. A bound is asked for when
/// the search has looked at as many as that takes until it has an idea, and has as long again: in a search that ends before, it
/// would only be in the way.
const NUMBERS: u64 = 100_000;

/// Searches until the budget ends, in what is laid out already where it is.
///
/// The order of the effort units depends on nothing but what they find, so a search that is cut short is the beginning of
/// one that is not.
pub(crate) fn run(
    mut search: SearchState,
    instance: Option<SearchInstance>,
    without: Option<Ablation>,
) -> Answer {
    if let Some(why) = search.over() {
        return search.answer(why);
    }
    let budget = search.budget();
    let instance = instance.unwrap_or_else(|| SearchInstance::new(search.snapshot, budget.stop));
    let instance = instance.without(without.and_then(Ablation::native));
    // What runs is worth keeping; what greedy put somewhere is not, and only has to be beaten.
    let start = search.snapshot.incumbent();
    let mut native = search::AnnealingSearch::new(&instance, &start, budget.seed, budget.stop);
    native.offer(&search.best.assignment);
    let (least, actors) = FIRST;
    let mut effort = least.max(movable(search.snapshot) / actors) as u64;
    let begun = Instant::now();
    thread::scope(|scope| {
        let mut bounds: Option<ScopedJoinHandle<BTreeMap<String, i64>>> = None;
        let why = loop {
            let wanted = effort.min(search.left());
            let done = native.run(wanted, budget);
            search.spend(done);
            // What a clock cut short before the first effort unit could not be done again.
            if done > 0 {
                search.offer(native.best(budget), Stage::Local, FoundBy::Search);
            }
            // The native search ends as long before the clock does as it takes to tell what it has found.
            let is_out_of_time = (done < wanted).then_some(StoppedBy::Deadline);
            if let Some(why) = search.over().or(is_out_of_time) {
                break why;
            }
            let has_time = budget.left.is_none_or(|left| left() >= begun.elapsed());
            // A bound takes the levels above as the answer has them, and a better one breaks fewer rules first.
            let is_long = bounds.is_none() && search.spent() >= LONG && has_time && search.best.broken == 0;
            let work = is_long.then(|| bound::estimated_work(search.snapshot)).flatten();
            if work.is_some_and(|work| work <= search.spent().saturating_mul(NUMBERS)) {
                let (snapshot, best, stop) = (search.snapshot, search.best.vector.clone(), search.stop());
                bounds = Some(scope.spawn(move || {
                    yield_to_others();
                    bound::lower_bounds(snapshot, &best, stop)
                }));
            }
            effort = effort.saturating_mul(2);
        };
        // Without a clock the bound is waited for, or equal runs would not say the same.
        if let Some(bounds) = bounds.map(ScopedJoinHandle::join) {
            search.take_bounds(bounds.unwrap_or_default());
        }
        search.answer(why)
    })
}

/// Has this thread run where the search leaves a processor idle, or little else: a bound says how good the answer is and
/// makes it no better.
fn yield_to_others() {
    const NICE: i32 = 10;
    if let Err(problem) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%problem, "the bound takes as much of a processor as the search");
    }
}

/// Actors that can move.
fn movable(snapshot: &Snapshot) -> usize {
    snapshot.problem().movable.len()
}
