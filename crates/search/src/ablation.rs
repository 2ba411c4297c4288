//! Components of the search that can be left out to measure their contribution.

/// A component of the native search that can be left out. The rest still finds feasible answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// Unplaced items evict others, which look for another place.
    Ejection,
    /// Moves of groups and of whole nodes.
    CompoundMoves,
    /// Swaps for which other items make room.
    Trades,
    /// Cyclic exchanges of three and four items on full units where no two can swap.
    Rotations,
    /// Excess is cheap in the first part of an annealing run.
    PenaltySchedule,
    /// Compound moves are tried only at low temperatures.
    CompoundMoveCutoff,
    /// Runs that keep some nodes closed.
    OpenNodeRestriction,
    /// Runs that reheat from the best.
    Reheats,
    /// Runs that restart from a placement around one node.
    HubRestarts,
}

impl Ablation {
    /// Every component.
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
