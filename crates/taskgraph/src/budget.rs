//! Search budgets and stop reasons.

/// A search budget. Effort and seed reproduce a search that a deadline ended.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Limit on units of effort, as defined by the mapper; `None` leaves it to the mapper.
    pub effort: Option<u64>,
    /// Seed of random draws and tie-breaks.
    pub seed: u64,
    /// Polled between units of effort; true ends the search with the best answer so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Budget<'static> {
    /// A budget limited by effort only.
    pub fn effort(effort: Option<u64>, seed: u64) -> Self {
        Self { effort, seed, stop: &|| false }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// The search converged.
    Converged,
    /// The effort was used up.
    Effort,
    /// `stop` returned true.
    Deadline,
}
