//! What the search is made of, so that each can be left out to see what it earns.

/// A part of [`Asp`](crate::Asp) that can be left out: the rest finds feasible answers all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Proofs of the world as a whole, by branch and bound and by clingo.
    Proofs,
    /// A part of the native search.
    Native(search::Part),
}

impl Part {
    /// Every part.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Proofs].into_iter().chain(search::Part::ALL.map(Self::Native))
    }

    /// The name of the strategy that does without it.
    pub(crate) fn absent(self) -> &'static str {
        match self {
            Self::Proofs => "asp-without-proofs",
            Self::Native(search::Part::Ejection) => "asp-without-ejection",
            Self::Native(search::Part::CompoundMoves) => "asp-without-compound-moves",
            Self::Native(search::Part::Trades) => "asp-without-trades",
            Self::Native(search::Part::Rotations) => "asp-without-rotations",
            Self::Native(search::Part::Forgiveness) => "asp-without-forgiveness",
            Self::Native(search::Part::CoolMoves) => "asp-without-cool-moves",
            Self::Native(search::Part::Footprints) => "asp-without-footprints",
            Self::Native(search::Part::LateRuns) => "asp-without-late-runs",
            Self::Native(search::Part::Starts) => "asp-without-starts",
        }
    }

    /// Which part of the native search it is.
    pub(crate) fn native(self) -> Option<search::Part> {
        if let Self::Native(part) = self { Some(part) } else { None }
    }
}
