//! SIMPLE: round-robin.

use super::classes::NEVER;
use super::round::{Round, Scheduler};

/// First in, first out; one cursor over all processing elements, advanced after each attempt.
#[derive(Debug, Default)]
pub struct Simple {
    cursor: usize,
}

impl Scheduler for Simple {
    fn name(&self) -> &'static str {
        "SIMPLE"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        let pes = round.pes();
        for position in round.left() {
            if round.full() {
                return;
            }
            for _ in 0..pes {
                let pe = self.cursor;
                self.cursor = (pe + 1) % pes;
                round.charge_evaluations(1);
                if round.class(position).on[pe] != NEVER && round.dispatch(position, pe) {
                    break;
                }
            }
        }
    }
}
