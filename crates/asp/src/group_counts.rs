//! Channels between whole groups when a finished placement is verified: the members of a group on one unit are counted
//! together (`policies/group-counts.lp`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use placement::criteria::Encoding;
use placement::ix::{EndIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot};

use crate::scale::LARGEST_SUM;
use crate::writer::Writer;

/// The movable or the fixed members of a group; its number in facts.
type Side = i64;

/// At least this many rows with explicit rates fit one run.
const SHARE: i64 = 16;

/// The part of the costs that one of several runs sums.
#[derive(Clone, Debug)]
pub(crate) struct JudgingBatch {
    /// A range of pairs.
    pub pairs: Range<usize>,
    /// A range of rows of group channels.
    pub rows: Vec<Row>,
    /// The multiplier of its sums.
    pub times: i64,
}

/// The number of members of each group on each unit; empty if all channels are explicit edges.
#[derive(Debug, Default)]
pub(crate) struct GroupUnitCounts(BTreeMap<Side, BTreeMap<UnitIx, i64>>);

/// What the members of a group on one unit exchange with the members of another group, or of their own, on all units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    fact: &'static str,
    of: Side,
    unit: UnitIx,
    to: Side,
    /// Messages, or drag, of each pair of members.
    each: i64,
    /// The multiplier of clingo's result for this row.
    pub times: i64,
    /// The number of units with members of the other group.
    pub peer_units: usize,
    /// The largest sum that can be formed of this row.
    pub most: i64,
}

impl GroupUnitCounts {
    /// The counts of a placement.
    pub fn of(world: &Snapshot, assignment: &Assignment) -> Self {
        let (problem, mut counts) = (world.problem(), BTreeMap::<Side, BTreeMap<UnitIx, i64>>::new());
        if !problem.channels.are_whole() {
            return Self::default();
        }
        for (end, members) in problem.channels.members.enumerate() {
            for &actor in members {
                if let Some(unit) = assignment[actor] {
                    let side = counts.entry(side(end, problem.fixed[actor])).or_default();
                    *side.entry(unit).or_default() += 1;
                }
            }
        }
        Self(counts)
    }

    /// The rows of all channels, if a level prices them; `None` if a sum exceeds the limit.
    ///
    /// Pairs of fixed actors are constant and are left out.
    pub fn rows(&self, encoding: &Encoding) -> Option<Vec<Row>> {
        if self.0.is_empty() {
            return Some(Vec::new());
        }
        let (world, channels) = (encoding.snapshot, &encoding.problem().channels);
        let message = encoding.most_message().max(1);
        let is_named =
            |criterion: Criterion| world.objectives().levels().iter().any(|level| level.contains(&criterion));
        let (sends, drags) = (is_named(Criterion::Communication), is_named(Criterion::Annoyance));
        let mut rows = Vec::new();
        for (end, of) in channels.of.enumerate() {
            for channel in of.iter().filter(|channel| channel.peer >= end) {
                for (one, other) in open_sides(end, channel.peer) {
                    if sends && channel.rate > 0 {
                        self.add_rows("group_sends", (one, other), channel.rate, message, &mut rows)?;
                    }
                    if drags && channel.apart > 0 {
                        self.add_rows("group_drags", (one, other), channel.apart, 1, &mut rows)?;
                    }
                }
            }
        }
        Some(rows)
    }

    /// Adds a row for each unit with members of the group; `price` is the highest cost of one message.
    fn add_rows(
        &self,
        fact: &'static str,
        (of, to): (Side, Side),
        each: i64,
        price: i64,
        rows: &mut Vec<Row>,
    ) -> Option<()> {
        let (Some(own), Some(reached)) = (self.0.get(&of), self.0.get(&to)) else { return Some(()) };
        let many: i64 = reached.values().sum();
        for (&unit, &count) in own {
            let once = count.checked_mul(many)?.checked_mul(price).filter(|once| *once <= LARGEST_SUM)?;
            let all = once.saturating_mul(each);
            // A large rate is stated for one message, and multiplied by the number of messages.
            let (each, times, most) =
                if all <= LARGEST_SUM / SHARE { (each, 1, all) } else { (1, each, once) };
            rows.push(Row { fact, of, unit, to, each, times, peer_units: reached.len(), most });
        }
        Some(())
    }
}

impl Writer<'_> {
    /// Writes the members of the groups, and their number per unit.
    pub fn counted(&mut self, counts: &GroupUnitCounts) {
        if counts.0.is_empty() {
            return;
        }
        let problem = self.problem;
        for (end, members) in problem.channels.members.enumerate() {
            for &actor in members {
                self.say("member_of", &[actor.into(), side(end, problem.fixed[actor]).into()]);
            }
        }
        for (&of, on) in &counts.0 {
            for (&unit, &count) in on {
                self.say("group_count", &[of.into(), unit.into(), count.into()]);
            }
        }
    }

    /// Writes rows with the counts that they refer to; returns the units of these counts.
    pub fn rows(&mut self, counts: &GroupUnitCounts, rows: &[Row]) -> BTreeSet<UnitIx> {
        let mut sides = BTreeSet::new();
        for row in rows {
            self.say(row.fact, &[row.of.into(), row.unit.into(), row.to.into(), row.each.into()]);
            sides.extend([row.of, row.to]);
        }
        let mut units = BTreeSet::new();
        for side in sides {
            for (&unit, &count) in counts.0.get(&side).into_iter().flatten() {
                self.say("group_count", &[side.into(), unit.into(), count.into()]);
                units.insert(unit);
            }
        }
        units
    }
}

fn side(end: EndIx, is_fixed: bool) -> Side {
    2 * Side::from(end.raw()) + Side::from(is_fixed)
}

/// The sides of two groups, or of one with itself, that are not both fixed: each pair once.
fn open_sides(a: EndIx, b: EndIx) -> impl Iterator<Item = (Side, Side)> {
    let fixed_to_open = (a != b).then(|| (side(a, true), side(b, false)));
    [(side(a, false), side(b, false)), (side(a, false), side(b, true))].into_iter().chain(fixed_to_open)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use crate::engine::{self, Aim, EngineTask};
    use crate::program;

    /// The sums of the verifying program over facts, each with its constant 1; `None` if infeasible.
    fn judged(facts: &str) -> Option<Vec<i64>> {
        let (program, mut sums) = (program::judge(facts), None);
        let task =
            EngineTask { program: &program, seed: 0, conflicts: 1_000, aim: Aim::Improve, at_most: &[] };
        engine::run(&task, |model| {
            sums = Some(model.cost);
            ControlFlow::Continue(())
        })
        .unwrap();
        sums
    }

    const UNITS: &str = "level(unplaced,3). level(communication,2). level(annoyance,1). kind_cost(k,k,3).
        cu(u). cu_kind(u,k). cu_node(u,m). cu(v). cu_kind(v,k). cu_node(v,n).";

    #[test]
    fn group_counts_cost_what_their_pairs_cost() {
        let counts = "group_count(0,u,2). group_count(0,v,3). group_count(2,u,5). group_count(2,v,1).";
        let sums = |rows: &str| judged(&format!("{UNITS} {counts} {rows}")).unwrap();
        assert_eq!(sums("group_sends(0,u,2,10)."), [1, 1 + 10 * 2 * 3, 1], "to the one on the other unit");
        assert_eq!(sums("group_sends(0,v,2,1). group_drags(0,v,2,4)."), [1, 1 + 3 * 5 * 3, 1 + 3 * 5 * 4]);
        let own = "group_sends(0,u,0,1). group_sends(0,v,0,1). group_drags(0,u,0,1). group_drags(0,v,0,1).";
        assert_eq!(sums(own), [1, 1 + 2 * 3 * 3, 1 + 2 * 3], "each pair of a group once");
    }

    #[test]
    fn counts_must_match_the_members() {
        let actors =
            "of_set(a,0). of_set(b,0). candidate(0,u). candidate(0,v). judged(a,u). judged(b,u). fixed(c,v).
            member_of(a,0). member_of(b,0). member_of(c,1).";
        let sums = |counts: &str| judged(&format!("{UNITS} {actors} {counts}"));
        assert_eq!(sums("group_count(0,u,2). group_count(1,v,1)."), Some(vec![1, 1, 1]));
        for wrong in [
            "group_count(0,u,1). group_count(1,v,1).",
            "group_count(0,u,3). group_count(1,v,1).",
            "group_count(0,u,2). group_count(0,v,1). group_count(1,v,1).",
            "group_count(0,u,2).",
        ] {
            assert_eq!(sums(wrong), None, "{wrong}");
        }
    }
}
