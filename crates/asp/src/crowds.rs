//! Channels between whole groups where a finished placement is judged: those of a group who are on one unit, taken together
//! (`policies/crowds.lp`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use placement::criteria::Encoding;
use placement::ix::{EndIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot};

use crate::scale::LARGEST_SUM;
use crate::writer::Writer;

/// Of a group those who can be elsewhere, or those who cannot; its number in facts.
type Side = i64;

/// At least so many rows that are said with their rates fit one run.
const SHARE: i64 = 16;

/// What one of several runs adds up.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Which ties, in their order.
    pub ties: Range<usize>,
    /// What of channels between whole groups.
    pub rows: Vec<Row>,
    /// How often its sums count.
    pub times: i64,
}

/// How many of each group are on each unit; empty where edges stand for all channels.
#[derive(Debug, Default)]
pub(crate) struct Crowds(BTreeMap<Side, BTreeMap<UnitIx, i64>>);

/// What those of a group who are on one unit have to do with those of another one, or of their own, wherever these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    fact: &'static str,
    of: Side,
    unit: UnitIx,
    to: Side,
    /// Messages, or the drag, between each and each.
    each: i64,
    /// How often what clingo says of it counts.
    pub times: i64,
    /// How many crowds there are of those whom it reaches.
    pub crowds: usize,
    /// The largest sum that can be formed of it.
    pub most: i64,
}

impl Crowds {
    /// Those of a placement.
    pub fn of(world: &Snapshot, assignment: &Assignment) -> Self {
        let (problem, mut crowds) = (world.problem(), BTreeMap::<Side, BTreeMap<UnitIx, i64>>::new());
        if !problem.channels.are_whole() {
            return Self::default();
        }
        for (end, members) in problem.channels.members.enumerate() {
            for &actor in members {
                if let Some(unit) = assignment[actor] {
                    let side = crowds.entry(side(end, problem.fixed[actor])).or_default();
                    *side.entry(unit).or_default() += 1;
                }
            }
        }
        Self(crowds)
    }

    /// What the channels of a world come to for them, where a level asks; none where a sum does not fit.
    ///
    /// Pairs that cannot be elsewhere are settled, and left out.
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
                        self.add_rows("crowd_sends", (one, other), channel.rate, message, &mut rows)?;
                    }
                    if drags && channel.apart > 0 {
                        self.add_rows("crowd_drags", (one, other), channel.apart, 1, &mut rows)?;
                    }
                }
            }
        }
        Some(rows)
    }

    /// Adds a row for each crowd of a side; `price` is the most that one message costs.
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
            // What is large is said of one message, and counts as often as there are messages.
            let (each, times, most) =
                if all <= LARGEST_SUM / SHARE { (each, 1, all) } else { (1, each, once) };
            rows.push(Row { fact, of, unit, to, each, times, crowds: reached.len(), most });
        }
        Some(())
    }
}

impl Writer<'_> {
    /// Writes who is in the crowds, and how many they are.
    pub fn counted(&mut self, crowds: &Crowds) {
        if crowds.0.is_empty() {
            return;
        }
        let problem = self.problem;
        for (end, members) in problem.channels.members.enumerate() {
            for &actor in members {
                self.say("among", &[actor.into(), side(end, problem.fixed[actor]).into()]);
            }
        }
        for (&of, on) in &crowds.0 {
            for (&unit, &count) in on {
                self.say("crowd", &[of.into(), unit.into(), count.into()]);
            }
        }
    }

    /// Writes rows, and the crowds that they are of and reach; says where these are.
    pub fn rows(&mut self, crowds: &Crowds, rows: &[Row]) -> BTreeSet<UnitIx> {
        let mut sides = BTreeSet::new();
        for row in rows {
            self.say(row.fact, &[row.of.into(), row.unit.into(), row.to.into(), row.each.into()]);
            sides.extend([row.of, row.to]);
        }
        let mut units = BTreeSet::new();
        for side in sides {
            for (&unit, &count) in crowds.0.get(&side).into_iter().flatten() {
                self.say("crowd", &[side.into(), unit.into(), count.into()]);
                units.insert(unit);
            }
        }
        units
    }
}

fn side(end: EndIx, is_fixed: bool) -> Side {
    2 * Side::from(end.raw()) + Side::from(is_fixed)
}

/// The sides of two groups, or of one with itself, of which not both are fixed: each pair of them once.
fn open_sides(a: EndIx, b: EndIx) -> impl Iterator<Item = (Side, Side)> {
    let fixed_to_open = (a != b).then(|| (side(a, true), side(b, false)));
    [(side(a, false), side(b, false)), (side(a, false), side(b, true))].into_iter().chain(fixed_to_open)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use crate::engine::{self, Aim, Task};
    use crate::program;

    /// The sums of the judge's program over facts, each with its point; none where they are refused.
    fn judged(facts: &str) -> Option<Vec<i64>> {
        let (program, mut sums) = (program::judge(facts), None);
        let task = Task { program: &program, seed: 0, conflicts: 1_000, aim: Aim::Improve, at_most: &[] };
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
    fn crowds_cost_what_their_pairs_cost() {
        let crowds = "crowd(0,u,2). crowd(0,v,3). crowd(2,u,5). crowd(2,v,1).";
        let sums = |rows: &str| judged(&format!("{UNITS} {crowds} {rows}")).unwrap();
        assert_eq!(sums("crowd_sends(0,u,2,10)."), [1, 1 + 10 * 2 * 3, 1], "to the one on the other unit");
        assert_eq!(sums("crowd_sends(0,v,2,1). crowd_drags(0,v,2,4)."), [1, 1 + 3 * 5 * 3, 1 + 3 * 5 * 4]);
        let own = "crowd_sends(0,u,0,1). crowd_sends(0,v,0,1). crowd_drags(0,u,0,1). crowd_drags(0,v,0,1).";
        assert_eq!(sums(own), [1, 1 + 2 * 3 * 3, 1 + 2 * 3], "each pair of a group once");
    }

    #[test]
    fn crowds_are_counted() {
        let actors =
            "of_set(a,0). of_set(b,0). candidate(0,u). candidate(0,v). judged(a,u). judged(b,u). fixed(c,v).
            among(a,0). among(b,0). among(c,1).";
        let sums = |crowds: &str| judged(&format!("{UNITS} {actors} {crowds}"));
        assert_eq!(sums("crowd(0,u,2). crowd(1,v,1)."), Some(vec![1, 1, 1]));
        for wrong in [
            "crowd(0,u,1). crowd(1,v,1).",
            "crowd(0,u,3). crowd(1,v,1).",
            "crowd(0,u,2). crowd(0,v,1). crowd(1,v,1).",
            "crowd(0,u,2).",
        ] {
            assert_eq!(sums(wrong), None, "{wrong}");
        }
    }
}
