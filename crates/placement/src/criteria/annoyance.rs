//! `annoyance`: drag of pairs that are apart.

use super::{Amounts, Class, Measure, PairSums, Placed};

/// Σ drag of annoyance pairs on different units (APO III-C, M3).
pub(super) struct Annoyance;

impl Measure for Annoyance {
    fn class(&self) -> Class {
        Class::Pairs
    }

    fn is_always_told(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        placed.pairs.apart
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.edges.1
    }

    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        pairs.apart
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/annoyance.lp")
    }
}
