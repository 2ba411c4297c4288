//! What may be said of a question, and how much may be looked at.

use placement::Assignment;

/// What is known of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A feasible arrangement in which everybody has a place.
    Fits(Assignment),
    /// There is none.
    Never,
    /// The effort ended first.
    Unknown,
}

/// How much may be looked at: one piece is one actor looked at on one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub left: u64,
}

impl Effort {
    /// Spends some; false when there is no more.
    pub fn spend(&mut self, pieces: usize) -> bool {
        self.left = self.left.saturating_sub(pieces as u64);
        self.left > 0
    }

    /// A part that may be spent by itself; what of it is not spent stays.
    pub fn lend<T>(&mut self, most: u64, work: impl FnOnce(&mut Effort) -> T) -> T {
        let lent = self.left.min(most);
        let mut part = Effort { left: lent };
        let result = work(&mut part);
        self.left -= lent - part.left;
        result
    }
}
