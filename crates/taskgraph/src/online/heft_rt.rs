//! `HEFT_RT`: heterogeneous earliest finish time, with mean estimates instead of upward ranks.

use super::classes::NEVER;
use super::round::{Ready, Round, Scheduler};

/// The queue sorted by mean estimate, descending; each task to the minimum of max(now, available) + estimate; ties: the first.
#[derive(Debug, Default)]
pub struct HeftRt;

impl Scheduler for HeftRt {
    fn name(&self) -> &'static str {
        "HEFT_RT"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        let ready = sort(round);
        // R⌈log2 R⌉ comparisons are charged, whatever the sort does.
        let levels = usize::BITS - ready.len().saturating_sub(1).leading_zeros();
        round.compare(ready.len() as u64 * u64::from(levels));
        let sorted = round.now;
        for position in ready {
            round.charge_evaluations(round.pes() as u64);
            let estimates = &round.class(position).on;
            let available = &round.pool.available;
            let least = (0..available.len())
                .filter(|pe| estimates[*pe] != NEVER)
                .min_by_key(|pe| available[*pe].max(sorted).saturating_add(estimates[*pe]));
            round.dispatch(position, least.expect("every class runs on something in the pool"));
        }
    }
}

/// Sorts the remaining queue in place and returns it.
fn sort(round: &mut Round<'_>) -> Vec<usize> {
    let places = round.left();
    let mut tasks: Vec<Ready> = places.iter().map(|position| round.queue[*position]).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(round.classes.all()[task.class as usize].mean));
    for (place, task) in places.iter().zip(tasks) {
        round.queue[*place] = task;
    }
    places
}
