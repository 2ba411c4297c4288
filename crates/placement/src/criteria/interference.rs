//! `interference`: drag of pairs that share a unit.

use super::{Amounts, Class, Measure, PairSums, Placed};

/// Σ drag of interference pairs that share a unit.
pub(super) struct Interference;

impl Measure for Interference {
    fn class(&self) -> Class {
        Class::Pairs
    }

    fn is_always_told(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        placed.pairs.together
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.edges.2
    }

    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        pairs.together
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/interference.lp")
    }
}
