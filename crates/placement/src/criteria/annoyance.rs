//! `annoyance`: drag of pairs that are apart.

use super::{Amounts, Class, Encoding, Facts, Measure, PairSums, Placed};
use crate::file::SnapshotFile;

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

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        world.say_edges(facts, "mutual_annoyance", |edge| edge.annoyance);
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        file.annoyance.iter_mut().for_each(|pair| pair.drag = divide(pair.drag));
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/annoyance.lp")
    }
}
