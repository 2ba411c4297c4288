//! MET: minimum execution time.

use super::round::{Round, Scheduler};

/// The kind with the smallest estimate, then a cursor over all processing elements, advanced to the next of that kind.
#[derive(Debug, Default)]
pub struct Met {
    cursor: usize,
}

impl Scheduler for Met {
    fn name(&self) -> &'static str {
        "MET"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        let pes = round.pes();
        for position in round.left() {
            if round.full() {
                return;
            }
            let class = round.class(position);
            round.charge_evaluations(class.kinds);
            for _ in 0..pes {
                let pe = self.cursor;
                self.cursor = (pe + 1) % pes;
                round.charge_evaluations(1);
                if round.classes.of[pe] == class.quickest && round.dispatch(position, pe) {
                    break;
                }
            }
        }
    }
}
