//! `communication`: messages between units.

use super::{Amounts, CriterionClass, Encoding, Facts, Measure, PairSums, Placed};
use crate::file::format::SnapshotFile;

/// Σ messages × exchange cost over pairs on different units (APO III-B, M2).
pub(super) struct Communication;

impl Measure for Communication {
    fn class(&self) -> CriterionClass {
        CriterionClass::Pairs
    }

    fn is_always_reported(&self) -> bool {
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

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        facts.exchange_costs = true;
        world.say_edges(facts, "msg_exch_rate", |edge| edge.rate);
    }

    fn counts_exchange(&self) -> bool {
        true
    }

    fn divide(&self, file: &mut SnapshotFile, divide: &dyn Fn(u64) -> u64) {
        let of_groups = file.group_messages.iter_mut().map(|channel| &mut channel.count);
        let counts = file.messages.iter_mut().map(|message| &mut message.count).chain(of_groups);
        counts.for_each(|count| *count = divide(*count));
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/communication.lp")
    }
}
