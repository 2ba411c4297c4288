//! EFT: earliest finish time, task by task.

use super::classes::NEVER;
use super::round::{Round, Scheduler};

/// First in, first out; each to the least available + estimate, whatever the time is; ties: the last.
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
            round.look(round.pes() as u64);
            let estimates = &round.class(position).on;
            let available = &round.pool.available;
            let least = (0..available.len())
                .rev()
                .filter(|pe| estimates[*pe] != NEVER)
                .min_by_key(|pe| available[*pe].saturating_add(estimates[*pe]));
            round.hand_over(position, least.expect("every class runs on something in the pool"));
        }
    }
}
