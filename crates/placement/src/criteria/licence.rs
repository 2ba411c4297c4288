//! `licence`: the price of nodes that host anything.

use std::collections::BTreeSet;

use super::{
    Amounts, CriterionClass, Encoding, Facts, FileSums, IncrementalTerm, Measure, Placed, SUMS_FIT, Step, add,
};
use crate::file::format::SnapshotFile;
use crate::ix::{IxVec, NodeIx, UnitIx};
use crate::problem::room::Rooms;
use crate::{Problem, Snapshot};

/// Σ `licenceCost` of the nodes that host anything.
pub(super) struct Licence;

impl Measure for Licence {
    fn class(&self) -> CriterionClass {
        CriterionClass::Places
    }

    fn value(&self, placed: &Placed) -> i64 {
        let problem = placed.snapshot.problem();
        let units = placed.in_use.enumerate().filter(|(_, in_use)| **in_use);
        let nodes: BTreeSet<NodeIx> = units.map(|(unit, _)| problem.unit_node[unit]).collect();
        nodes.iter().map(|node| problem.licence_cost[*node]).fold(0, add)
    }

    fn most(&self, amounts: &Amounts) -> i128 {
        amounts.snapshot.problem().licence_cost.iter().map(|cost| i128::from(*cost)).sum()
    }

    fn largest(&self, file: &SnapshotFile, _: &FileSums) -> Option<(&'static str, &'static str, u128)> {
        let costs = file.nodes.iter().filter_map(|node| node.licence_cost);
        Some(("nodes", "licence", costs.map(u128::from).sum()))
    }

    fn incremental_term(&self, snapshot: &Snapshot) -> Option<Box<dyn IncrementalTerm>> {
        Some(Box::new(Paid { hosted: IxVec::of(0, snapshot.nodes().len()), sum: 0 }))
    }

    fn symmetry_key(&self, snapshot: &Snapshot, rooms: &Rooms, unit: UnitIx) -> Vec<Option<i64>> {
        let problem = snapshot.problem();
        let node = problem.unit_node[unit];
        let cost = if is_paid(problem, rooms, node) { 0 } else { problem.licence_cost[node] };
        // The first actor on a node pays for all.
        let shared = cost > 0 && problem.units_of_node[node].len() > 1;
        vec![Some(cost), shared.then_some(i64::from(node.raw()))]
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        for (node, cost) in unpaid(problem, world.rooms) {
            let number = i64::from(node.raw());
            facts.say("licence", [number.into(), cost.into()]);
            for &unit in problem.units_of_node[node].iter().filter(|unit| world.can_host(**unit)) {
                facts.say("licensed", [unit.into(), number.into()]);
            }
        }
    }

    fn most_sum(&self, world: &Encoding) -> i64 {
        unpaid(world.problem(), world.rooms).fold(0, |sum, (_, cost)| sum.saturating_add(cost))
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/licence.lp")
    }
}

/// Whether a node hosts fixed actors: it is paid for anyway.
fn is_paid(problem: &Problem, rooms: &Rooms, node: NodeIx) -> bool {
    problem.units_of_node[node].iter().any(|unit| rooms.hosts_fixed[*unit])
}

/// Nodes that have a price as soon as they host an actor, with the price.
fn unpaid(problem: &Problem, rooms: &Rooms) -> impl Iterator<Item = (NodeIx, i64)> {
    let costs = problem.licence_cost.enumerate().map(|(node, cost)| (node, *cost));
    costs.filter(move |(node, cost)| *cost > 0 && !is_paid(problem, rooms, *node))
}

/// By node: the number of its actors; and the total price of nodes in use.
#[derive(Clone)]
struct Paid {
    hosted: IxVec<NodeIx, i64>,
    sum: i64,
}

impl Paid {
    /// The node of a step, its number of actors afterwards, and the change of the price.
    fn after(&self, snapshot: &Snapshot, step: &Step) -> (NodeIx, i64, i64) {
        let problem = snapshot.problem();
        let node = problem.unit_node[step.unit];
        let hosted = self.hosted[node].checked_add(step.sign()).expect(SUMS_FIT);
        let begins = i64::from(hosted > 0) - i64::from(self.hosted[node] > 0);
        (node, hosted, begins * problem.licence_cost[node])
    }
}

impl IncrementalTerm for Paid {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        let (node, hosted, more) = self.after(snapshot, step);
        self.hosted[node] = hosted;
        self.sum += more;
    }

    fn value(&self, _: &Snapshot) -> i64 {
        self.sum
    }

    fn with(&self, snapshot: &Snapshot, step: &Step) -> i64 {
        self.sum + self.after(snapshot, step).2
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}
