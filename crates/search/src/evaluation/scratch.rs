//! Scratch space for the evaluation of several moves.

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

/// Scratch space; empty between evaluations.
#[derive(Clone, Default)]
pub(crate) struct Scratch {
    /// By free item: where it was, if it is among the changes.
    pub was: IxVec<ItemIx, UnitIx>,
    /// Units that an item leaves or moves to.
    pub touched: Vec<UnitIx>,
    pub is_touched: IxVec<UnitIx, bool>,
}

impl Scratch {
    pub fn new(free: usize, units: usize) -> Self {
        Self { was: IxVec::of(NOWHERE, free), touched: Vec::new(), is_touched: IxVec::of(false, units) }
    }
}
