//! ETF: earliest task first.

use super::classes::NEVER;
use super::round::{Round, Scheduler};

/// Repeatedly picks the minimum of available + estimate over all ready tasks and processing elements; ties: the first task,
/// then the lowest processing element. O(R²P) for R ready tasks.
#[derive(Debug, Default)]
pub struct Etf;

impl Scheduler for Etf {
    fn name(&self) -> &'static str {
        "ETF"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        let pes = round.pes();
        let with_estimates = |position| (position, round.class(position).on.as_slice());
        let mut left: Vec<(usize, &[u64])> = round.left().into_iter().map(with_estimates).collect();
        while !left.is_empty() && !round.full() {
            round.charge_evaluations((pes * left.len()) as u64);
            let available = round.pool.available.as_slice();
            let mut least = (NEVER, 0, 0);
            for (number, (_, estimates)) in left.iter().enumerate() {
                for (pe, (available, estimate)) in available.iter().zip(*estimates).enumerate() {
                    // Saturates at NEVER, which is never below the minimum.
                    let end = available.saturating_add(*estimate);
                    if end < least.0 {
                        least = (end, number, pe);
                    }
                }
            }
            let (_, number, pe) = least;
            if !round.dispatch(left[number].0, pe) {
                return;
            }
            left.remove(number);
        }
    }
}
