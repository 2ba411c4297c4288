//! What is noted while changes of many places are judged.

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

/// What is noted while changes are judged; empty in between.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    /// By free item: where it was, if it is among the changes.
    pub was: IxVec<ItemIx, UnitIx>,
    /// Units that something leaves or comes to.
    pub touched: Vec<UnitIx>,
    pub is_touched: IxVec<UnitIx, bool>,
}

impl Notes {
    pub fn new(free: usize, units: usize) -> Self {
        Self { was: IxVec::of(NOWHERE, free), touched: Vec::new(), is_touched: IxVec::of(false, units) }
    }
}
