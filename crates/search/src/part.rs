//! What the search is made of, so that each can be left out to see what it earns.

/// A part of the native search that can be left out: the rest finds feasible answers all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Who has no place takes that of others, who look for another.
    Ejection,
    /// Steps of groups and of whole nodes.
    CompoundMoves,
    /// Exchanges of two items for which others have to make room.
    Trades,
    /// Exchanges of three and four items on full units, where two cannot change places.
    Rotations,
    /// What is too much is cheap in the first part of an annealing run.
    Forgiveness,
    /// Compound moves are for where it is cool.
    CoolMoves,
    /// Runs that keep out of some nodes.
    Footprints,
    /// Runs that begin late, with the best.
    LateRuns,
    /// Runs that begin with a placement around one node.
    Starts,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 9] = [
        Self::Ejection,
        Self::CompoundMoves,
        Self::Trades,
        Self::Rotations,
        Self::Forgiveness,
        Self::CoolMoves,
        Self::Footprints,
        Self::LateRuns,
        Self::Starts,
    ];
}
