//! The schedule cache: earlier decisions, taken again.

use super::{HandOver, NEVER, Round};

/// (Application, task) → processing element; the last decision wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    decisions: Vec<Option<usize>>,
}

impl Cache {
    /// Keeps a scheduler's decision.
    pub(super) fn learn(&mut self, one: &HandOver) {
        let origin = one.task.origin as usize;
        if self.decisions.len() <= origin {
            self.decisions.resize(origin + 1, None);
        }
        self.decisions[origin] = Some(one.pe);
    }

    /// Hands over every task that has been decided upon before, in the queue's order.
    pub(super) fn serve(&self, round: &mut Round<'_>) {
        for position in 0..round.queue.len() {
            round.look(1);
            let decided = self.decisions.get(round.queue[position].origin as usize).copied().flatten();
            // An application of the same name may have a task of the same name that runs elsewhere.
            if let Some(pe) = decided.filter(|pe| round.class(position).on[*pe] != NEVER) {
                round.hand_over(position, pe);
            }
        }
    }
}
