//! How much a search may spend, and what ended it.

/// How much a search may spend. Effort and seed replay what a deadline ended.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Pieces of work that may be finished (what a piece is, the mapper says); `None` leaves it to the mapper.
    pub effort: Option<u64>,
    /// Decides between equals, and every draw.
    pub seed: u64,
    /// Asked between pieces; true ends the search with the best answer so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Budget<'static> {
    /// A budget that only effort ends.
    pub fn effort(effort: Option<u64>, seed: u64) -> Self {
        Self { effort, seed, stop: &|| false }
    }
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// It came to its own end.
    Converged,
    /// It had done all that it was allowed.
    Effort,
    /// `stop` said so.
    Deadline,
}
