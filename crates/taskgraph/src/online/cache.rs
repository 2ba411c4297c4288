//! The schedule cache: reuses earlier decisions.

/// (Application, task) → processing element; the last decision wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    decisions: Vec<Option<usize>>,
}

impl Cache {
    /// Records a scheduler's decision.
    pub(super) fn learn(&mut self, origin: u32, pe: usize) {
        let origin = origin as usize;
        if self.decisions.len() <= origin {
            self.decisions.resize(origin + 1, None);
        }
        self.decisions[origin] = Some(pe);
    }

    /// Last decision for a task of this origin.
    pub(super) fn decision(&self, origin: u32) -> Option<usize> {
        self.decisions.get(origin as usize).copied().flatten()
    }
}
