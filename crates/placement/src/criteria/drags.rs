//! Criteria that are sums of drags over pairs of actors; each only defines which drags and which pairs count.

use super::{Amounts, CriterionClass, Encoding, Facts, Measure, PairSums, Placed};
use crate::file::format::{Drag, GroupMessage, SnapshotFile};
use crate::problem::dense::Edge;

/// The parameters of such a criterion.
pub(super) struct DragSum {
    /// The drags of a file.
    pub of_file: fn(&mut SnapshotFile) -> &mut Vec<Drag>,
    /// The drag of a channel between groups.
    pub of_channel: Option<fn(&mut GroupMessage) -> &mut u64>,
    /// The drag of one pair.
    pub of_edge: fn(&Edge) -> i64,
    /// The relevant one of the sums over pairs.
    pub of_pairs: fn(&PairSums) -> i64,
    /// The sum over all pairs.
    pub most: fn(&Amounts) -> i128,
    /// The name of its fact.
    pub fact: &'static str,
    /// Its program for clingo.
    pub program: &'static str,
}

/// A criterion that is a sum of drags.
pub(super) trait Drags: Sync {
    /// Its parameters.
    const SUM: DragSum;
}

impl<C: Drags> Measure for C {
    fn class(&self) -> CriterionClass {
        CriterionClass::Pairs
    }

    fn is_always_reported(&self) -> bool {
        true
    }

    fn value(&self, placed: &Placed) -> i64 {
        self.of_pairs(&placed.pairs)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        (C::SUM.most)(amounts)
    }

    fn of_pairs(&self, pairs: &PairSums) -> i64 {
        (C::SUM.of_pairs)(pairs)
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        world.say_edges(facts, C::SUM.fact, C::SUM.of_edge);
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        for pair in (C::SUM.of_file)(file) {
            pair.drag = divide(pair.drag);
        }
        let Some(of_channel) = C::SUM.of_channel else { return };
        for channel in &mut file.group_messages {
            let drag = of_channel(channel);
            *drag = divide(*drag);
        }
    }

    fn program(&self) -> &'static str {
        C::SUM.program
    }
}
