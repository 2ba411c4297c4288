//! The world part by part, until the budget ends: the native search and neighbourhoods in turn, and a bound beside them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use exact::bound;
use placement::{Answer, FoundBy, SolveError, Stage, StoppedBy};

use crate::destroy_repair::{DestroyRepair, Round, movable};
use crate::neighbourhood::Neighbourhoods;
use crate::part::Part;
use crate::run::Search;

/// Effort units of the native search in the first round, at least, and one for so many actors: looking at what it has found
/// costs some for each of them. Each round has twice as many as the one before.
const FIRST: (usize, usize) = (160, 2);

/// Effort units of the native search for which there is one neighbourhood, while they gain: so many, and at least one for each
/// actor that can move, since the more there are the less a neighbourhood is of the whole.
const SHARE: u64 = 80;

/// By how much that number grows while neighbourhoods do not gain.
const IDLE: u64 = 8;

/// Work of repairs for each effort unit of the native search: about as long as one of its threads takes.
const REPAIR_WORK: u64 = 15_000;

/// Effort units of a round at most where there are repairs: new samples are wanted.
const LONGEST: u64 = 2_560;

/// Repairs of a round at most.
const MOST_REPAIRS: u64 = 10_000;

/// Effort units after which it is worth while to ask how much better there could be: some seconds.
const LONG: u64 = 20_000;

/// Actors that can move above which a bound is out of reach.
const MOST_BOUNDED: usize = 300;

/// Searches until the budget ends.
///
/// The order of the effort units depends on nothing but what they find, so a search that is cut short is the beginning of
/// one that is not.
pub(crate) fn run(search: Search, without: Option<Part>) -> Result<Answer, SolveError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut bounds: Option<ScopedJoinHandle<BTreeMap<String, i64>>> = None;
        let searched = alternate(search, without, &mut |search| {
            if bounds.is_none() && search.spent() >= LONG && movable(search.snapshot) <= MOST_BOUNDED {
                let (snapshot, best, stop) = (search.snapshot, search.best.vector.clone(), search.stop());
                let over = &over;
                let enough = move || over.load(Ordering::Relaxed) || stop();
                bounds = Some(scope.spawn(move || {
                    yield_to_others();
                    bound::lower(snapshot, &best, &enough)
                }));
            }
        });
        if searched.is_err() {
            over.store(true, Ordering::Relaxed);
        }
        let (mut search, why) = searched?;
        // Without a clock the bound is waited for, or equal runs would not say the same.
        if let Some(bounds) = bounds.map(ScopedJoinHandle::join) {
            search.take_bounds(bounds.unwrap_or_default());
        }
        Ok(search.answer(why))
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

/// Says at the end of every round that it is one.
fn alternate<'a>(
    mut search: Search<'a>,
    without: Option<Part>,
    after_each: &mut dyn FnMut(&Search<'a>),
) -> Result<(Search<'a>, StoppedBy), SolveError> {
    let instance = search::Instance::new(search.snapshot).without(without.and_then(Part::native));
    // What runs is worth keeping; what greedy put somewhere is not, and only has to be beaten.
    let start = search.snapshot.incumbent();
    let mut native = search::Search::new(&instance, &start, search.seed());
    native.offer(&search.best.assignment);
    let (mut neighbourhoods, mut repairs) = (Neighbourhoods::new(&search), DestroyRepair::new(&search));
    if without == Some(Part::Repairs) {
        repairs.leave_out();
    }
    let has_neighbourhoods = without != Some(Part::Neighbourhoods);
    let (least, actors) = FIRST;
    let mut effort = least.max(movable(search.snapshot) / actors) as u64;
    let busy = SHARE.max(movable(search.snapshot) as u64);
    let mut share = busy;
    let mut known = search.best.vector.clone();
    loop {
        let (round, done) = run_beside(&search, &mut native, &mut repairs, effort);
        let before_repairs = search.spent();
        let mut improved = false;
        for (after, found) in round.found {
            search.spend(before_repairs + after - search.spent());
            improved |= search.offer(found, Stage::Neighbourhood, FoundBy::Exact);
        }
        search.spend(before_repairs + round.done - search.spent());
        // Of what a clock cut short only the beginning could be done again: repairs come first.
        if round.is_whole {
            search.spend(done);
            improved |= done > 0 && search.offer(native.best(), Stage::Local, FoundBy::Search);
        }
        neighbourhoods.settle(&search);
        let before = search.best.vector.clone();
        // While the native search gains it is the faster of the two.
        for _ in 0..if improved || repairs.is_suited() { 1 } else { effort.div_ceil(share) } {
            if let Some(why) = search.over() {
                return Ok((search, why));
            }
            if !(has_neighbourhoods && neighbourhoods.search(&mut search)?) {
                break;
            }
        }
        share =
            if search.best.vector < before { (share / 2).max(busy) } else { (share * 2).min(busy * IDLE) };
        native.offer(&search.best.assignment);
        repairs.begin(&search, search.best.vector < known, &native);
        known.clone_from(&search.best.vector);
        after_each(&search);
        if let Some(why) = search.over() {
            return Ok((search, why));
        }
        effort = (effort * 2).min(if repairs.is_suited() { LONGEST } else { u64::MAX });
    }
}

/// Runs so many effort units of the native search, and beside it repairs that take about as long as one of its threads; as if
/// these came first.
fn run_beside(
    search: &Search,
    native: &mut search::Search,
    repairs: &mut DestroyRepair,
    effort: u64,
) -> (Round, u64) {
    let (left, stop) = (search.left(), search.stop());
    if left < effort + MOST_REPAIRS || !repairs.is_worth_while() {
        let round = repairs.run(left.min(MOST_REPAIRS), effort * REPAIR_WORK, stop);
        let done = if round.is_whole { native.run(effort.min(left - round.done), stop) } else { 0 };
        return (round, done);
    }
    thread::scope(|scope| {
        let beside = scope.spawn(|| repairs.run(MOST_REPAIRS, effort * REPAIR_WORK, stop));
        let done = native.run(effort, stop);
        (beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), done)
    })
}
