//! Columns of a set partition.

/// Items that fit on one unit together.
#[derive(Clone, Copy)]
pub(crate) struct Column<N> {
    /// Positions among the items that are partitioned, as bits.
    pub members: u64,
    /// What it saves compared with all of them apart.
    pub value: N,
}
