//! Answers to feasibility questions, and the effort they may take.

use placement::Assignment;

/// The answer to a feasibility question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Feasibility {
    /// A feasible assignment that places all actors.
    Fits(Assignment),
    /// There is none.
    Never,
    /// The effort ended first.
    Unknown,
}

/// The remaining effort, in visited pairs of actor and unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub left: u64,
}

impl Effort {
    /// Spends some; false if none is left.
    pub fn spend(&mut self, pieces: usize) -> bool {
        self.left = self.left.saturating_sub(pieces as u64);
        self.left > 0
    }

    /// Runs `work` with at most `most` of the effort; what it does not spend is returned.
    pub fn lend<T>(&mut self, most: u64, work: impl FnOnce(&mut Effort) -> T) -> T {
        let lent = self.left.min(most);
        let mut part = Effort { left: lent };
        let result = work(&mut part);
        self.left -= lent - part.left;
        result
    }
}
