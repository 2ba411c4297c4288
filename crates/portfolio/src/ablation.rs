//! Components of `asp` that can be left out to measure their contribution.

/// A component of [`Asp`](crate::Asp) that can be left out. The rest still finds feasible answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// Proofs of optimality, by branch and bound and by clingo.
    Proofs,
    /// A component of the native search.
    Native(search::Ablation),
}

impl Ablation {
    /// Every component.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Proofs].into_iter().chain(search::Ablation::ALL.map(Self::Native))
    }

    /// The name of the strategy without it.
    pub(crate) fn strategy_name(self) -> &'static str {
        match self {
            Self::Proofs => "asp-without-proofs",
            Self::Native(search::Ablation::Ejection) => "asp-without-ejection",
            Self::Native(search::Ablation::CompoundMoves) => "asp-without-compound-moves",
            Self::Native(search::Ablation::Trades) => "asp-without-trades",
            Self::Native(search::Ablation::Rotations) => "asp-without-rotations",
            Self::Native(search::Ablation::PenaltySchedule) => "asp-without-forgiveness",
            Self::Native(search::Ablation::CompoundMoveCutoff) => "asp-without-cool-moves",
            Self::Native(search::Ablation::OpenNodeRestriction) => "asp-without-footprints",
            Self::Native(search::Ablation::Reheats) => "asp-without-late-runs",
            Self::Native(search::Ablation::HubRestarts) => "asp-without-starts",
        }
    }

    /// The component of the native search, if it is one.
    pub(crate) fn native(self) -> Option<search::Ablation> {
        if let Self::Native(part) = self { Some(part) } else { None }
    }
}
