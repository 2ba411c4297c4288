//! Units and nodes give no more of a resource than they have left.

use std::collections::BTreeMap;

use super::Limit;
use crate::checked::{Checked, Rule, Violation};
use crate::ix::{ActorIx, IxVec, NodeIx, ResourceIx, UnitIx};
use crate::problem::Problem;
use crate::reading::number;

/// What is required of units and nodes is there.
pub(super) struct Resources;

/// What units and nodes have left of each resource.
pub(crate) struct Remaining {
    pub unit: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    pub node: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
}

impl Remaining {
    /// Nobody has taken anything.
    pub fn new(problem: &Problem) -> Self {
        Self { unit: problem.unit_provides.clone(), node: problem.node_provides.clone() }
    }

    /// An actor comes to a unit or, below 0, leaves it.
    pub fn count(&mut self, problem: &Problem, actor: ActorIx, unit: UnitIx, sign: i64) {
        let Some(needs) = problem.implementation(actor, unit) else { return };
        for &(resource, quantity) in &needs.requires {
            self.unit[unit][resource] -= sign * quantity;
        }
        for &(resource, quantity) in &needs.node_requires {
            self.node[problem.unit_node[unit]][resource] -= sign * quantity;
        }
    }

    /// Every resource that the actor needs more of than is left: whether it is the node's, which, how much is needed,
    /// how much is left; those of the unit first.
    pub fn missing<'a>(
        &'a self,
        problem: &'a Problem,
        actor: ActorIx,
        unit: UnitIx,
    ) -> impl Iterator<Item = (bool, ResourceIx, i64, i64)> + 'a {
        let needs = problem.implementation(actor, unit);
        let node = problem.unit_node[unit];
        let of_unit = needs.into_iter().flat_map(|needs| needs.requires.iter().copied());
        let of_node = needs.into_iter().flat_map(|needs| needs.node_requires.iter().copied());
        let unit = of_unit.map(move |(r, needed)| (false, r, needed, self.unit[unit][r]));
        let node = of_node.map(move |(r, needed)| (true, r, needed, self.node[node][r]));
        unit.chain(node).filter(|(_, _, needed, left)| needed > left)
    }
}

/// How much is wanted of each resource at one place, and whether anybody who is not fixed wants some.
type Wanted<'a> = BTreeMap<&'a str, (i64, bool)>;

impl Limit for Resources {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let (file, reading) = (checked.file, checked.reading);
        let mut of_units: IxVec<UnitIx, Wanted> = IxVec::of(BTreeMap::new(), file.units.len());
        let mut of_nodes: BTreeMap<&str, Wanted> = BTreeMap::new();
        for (actor, unit) in checked.placed() {
            let (given, at, is_free) = (checked.actor(actor), checked.unit(unit), !checked.is_fixed(actor));
            if let Some(way) = given.runs_on.get(&at.kind) {
                want(&mut of_units[unit], &given.requires, is_free);
                want(&mut of_units[unit], &way.requires, is_free);
                want(of_nodes.entry(&at.node).or_default(), &way.node_requires, is_free);
            }
        }
        for (unit, wanted) in of_units.enumerate() {
            let given = checked.unit(unit);
            let reserved = reading.reserved.get(&unit);
            let left = |resource: &str| {
                let provided = given.provides.get(resource).map_or(0, |quantity| number(*quantity));
                provided - reserved.and_then(|all| all.get(resource)).copied().unwrap_or(0)
            };
            compare(&given.id, wanted, left, found);
        }
        for (node, wanted) in &of_nodes {
            let provides = reading.listed.get(*node).map(|position| &file.nodes[*position].provides);
            let left = |resource: &str| {
                provides.and_then(|provides| provides.get(resource)).map_or(0, |quantity| number(*quantity))
            };
            compare(node, wanted, left, found);
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/limits.lp")
    }
}

/// What only fixed actors want is not held against anybody.
fn compare(place: &str, wanted: &Wanted, left: impl Fn(&str) -> i64, found: &mut Vec<Violation>) {
    for (resource, (sum, takes_part)) in wanted {
        let left = left(resource);
        if *takes_part && *sum > left {
            let says = format!("{place}: {sum} of {resource} wanted, {left} left");
            found.push(Violation { rule: Rule::Resource, says });
        }
    }
}

/// Adds what somebody wants.
fn want<'a>(wanted: &mut Wanted<'a>, of: &'a BTreeMap<String, u64>, is_free: bool) {
    for (resource, quantity) in of.iter().filter(|(_, quantity)| **quantity > 0) {
        let entry = wanted.entry(resource).or_default();
        *entry = (entry.0 + number(*quantity), entry.1 | is_free);
    }
}
