//! The schedule cache: earlier decisions, taken again.

/// (Application, task) → processing element; the last decision wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    decisions: Vec<Option<usize>>,
}

impl Cache {
    /// Keeps a scheduler's decision.
    pub(super) fn learn(&mut self, origin: u32, pe: usize) {
        let origin = origin as usize;
        if self.decisions.len() <= origin {
            self.decisions.resize(origin + 1, None);
        }
        self.decisions[origin] = Some(pe);
    }

    /// Where a task of this origin went last.
    pub(super) fn decision(&self, origin: u32) -> Option<usize> {
        self.decisions.get(origin as usize).copied().flatten()
    }
}
