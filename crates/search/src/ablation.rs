//! What the search is made of, so that each can be left out to see what it earns.

/// A part of the native search that can be left out: the rest finds feasible answers all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// Who has no place takes that of others, who look for another.
    Ejection,
    /// Steps of groups and of whole nodes.
    CompoundMoves,
    /// Exchanges of two items for which others have to make room.
    Trades,
    /// Exchanges of three and four items on full units, where two cannot change places.
    Rotations,
    /// What is too much is cheap in the first part of an annealing run.
    PenaltySchedule,
    /// Compound moves are for where it is cool.
    CompoundMoveCutoff,
    /// Runs that keep out of some nodes.
    OpenNodeRestriction,
    /// Runs that begin late, with the best.
    Reheats,
    /// Runs that begin with a placement around one node.
    HubRestarts,
}

impl Ablation {
    /// Every part.
    pub const ALL: [Self; 9] = [
        Self::Ejection,
        Self::CompoundMoves,
        Self::Trades,
        Self::Rotations,
        Self::PenaltySchedule,
        Self::CompoundMoveCutoff,
        Self::OpenNodeRestriction,
        Self::Reheats,
        Self::HubRestarts,
    ];
}
