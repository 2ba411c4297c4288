//! `interference`: drag of pairs that share a unit.

use super::{Amounts, Class, Encoding, Facts, Measure, PairSums, Placed};
use crate::file::SnapshotFile;

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

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        world.say_edges(facts, "interferes", |edge| edge.interference);
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        file.interference.iter_mut().for_each(|pair| pair.drag = divide(pair.drag));
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/interference.lp")
    }
}
