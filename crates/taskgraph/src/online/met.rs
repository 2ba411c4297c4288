//! MET: minimum execution time.

use super::round::{Round, Scheduler};

/// The kind of least estimate, then a cursor over all processing elements, forward to the next of that kind.
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
            round.look(class.kinds);
            for _ in 0..pes {
                let pe = self.cursor;
                self.cursor = (pe + 1) % pes;
                round.look(1);
                if round.classes.of[pe] == class.quickest && round.hand_over(position, pe) {
                    break;
                }
            }
        }
    }
}
