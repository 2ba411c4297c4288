//! EFT: earliest finish time, task by task.

use super::classes::NEVER;
use super::round::{Round, Scheduler};

/// First in, first out; each task to the minimum of available + estimate, independent of the current time; ties: the last.
#[derive(Debug, Default)]
pub struct Eft;

impl Scheduler for Eft {
    fn name(&self) -> &'static str {
        "EFT"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        for position in round.left() {
            if round.full() {
                return;
            }
            round.charge_evaluations(round.pes() as u64);
            let estimates = &round.class(position).on;
            let available = &round.pool.available;
            let least = (0..available.len())
                .rev()
                .filter(|pe| estimates[*pe] != NEVER)
                .min_by_key(|pe| available[*pe].saturating_add(estimates[*pe]));
            round.dispatch(position, least.expect("every class runs on something in the pool"));
        }
    }
}
