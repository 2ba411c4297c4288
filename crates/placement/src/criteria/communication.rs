//! `communication`: messages between units.

use super::{Amounts, Class, Measure, PairSums, Placed};

/// Σ messages × exchange cost over pairs on different units (APO III-B, M2).
pub(super) struct Communication;

impl Measure for Communication {
    fn class(&self) -> Class {
        Class::Pairs
    }

    fn is_always_told(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        placed.pairs.exchanged
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.edges.0 * amounts.message
    }

    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        pairs.exchanged
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/communication.lp")
    }
}
