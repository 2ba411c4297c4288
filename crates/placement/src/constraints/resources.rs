//! Resources of units and nodes are not overcommitted.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use super::ConstraintKind;
use crate::Assignment;
use crate::checker::checked::{Checked, Rule, Used, Violation};
use crate::checker::index::number;
use crate::file::format::{Constraint, SnapshotFile};
use crate::ix::{ActorIx, IxVec, NodeIx, ResourceIx, UnitIx};
use crate::problem::dense::Problem;
use crate::rules::circuit::{CurrentPlacement, UNLIMITED, Writer};
use crate::rules::suspended_limits::{SuspendedLimit, SuspendedLimits};

/// The requirements of actors fit into units and nodes.
pub(super) struct Resources;

/// The remaining resources of units and nodes.
pub(crate) struct Remaining {
    pub unit: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    pub node: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
}

impl Remaining {
    /// With no actor placed.
    pub fn new(problem: &Problem) -> Self {
        Self { unit: problem.unit_provides.clone(), node: problem.node_provides.clone() }
    }

    /// Adds an actor to a unit or, with a negative sign, removes it.
    pub fn count(&mut self, problem: &Problem, actor: ActorIx, unit: UnitIx, sign: i64) {
        let Some(needs) = problem.implementation(actor, unit) else { return };
        for &(resource, quantity) in &needs.requires {
            self.unit[unit][resource] -= sign * quantity;
        }
        for &(resource, quantity) in &needs.node_requires {
            self.node[problem.unit_node[unit]][resource] -= sign * quantity;
        }
    }

    /// Every resource that is insufficient for the actor: whether it is the node's, which, the requirement, and
    /// the remainder; those of the unit first.
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

/// The demand of each resource in one place, with the actors.
type ResourceDemand<'a> = BTreeMap<&'a str, Used>;

/// The names of suspended limits: a resource of a unit, and one of a node.
const OF_UNIT: &str = "unit";
const OF_NODE: &str = "node";

impl ConstraintKind for Resources {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let (file, index) = (checked.file, checked.index);
        let (of_units, of_nodes) = all_wanted(checked, checked.assignment);
        let now = LazyCell::new(|| all_wanted(checked, checked.now));
        for (unit, wanted) in of_units.enumerate() {
            let given = checked.unit(unit);
            let reserved = index.reserved.get(&unit);
            let left = |resource: &str| {
                let provided = given.provides.get(resource).map_or(0, |quantity| number(*quantity));
                provided - reserved.and_then(|all| all.get(resource)).copied().unwrap_or(0)
            };
            for (resource, says) in passed(&given.id, wanted, left) {
                let known = checked.is_suspended(OF_UNIT, &given.id, resource);
                let is_grounded = checked.is_grounded((OF_UNIT, &given.id, resource));
                let before = now.0[unit].get(resource).filter(|_| is_grounded);
                if !known && !before.is_some_and(|now| wanted[resource].is_excused_by(now)) {
                    let rule = checked.kind((OF_UNIT, &given.id, resource), Rule::Resource);
                    found.push(Violation { rule, says });
                }
            }
        }
        for (node, wanted) in &of_nodes {
            let provides = index.listed.get(*node).map(|position| &file.nodes[*position].provides);
            let left = |resource: &str| {
                provides.and_then(|provides| provides.get(resource)).map_or(0, |quantity| number(*quantity))
            };
            for (resource, says) in passed(node, wanted, left) {
                let known = checked.is_suspended(OF_NODE, node, resource);
                let is_grounded = checked.is_grounded((OF_NODE, node, resource));
                let before = now.1.get(*node).and_then(|now| now.get(resource)).filter(|_| is_grounded);
                if !known && !before.is_some_and(|now| wanted[resource].is_excused_by(now)) {
                    let rule = checked.kind((OF_NODE, node, resource), Rule::Resource);
                    found.push(Violation { rule, says });
                }
            }
        }
    }

    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        let problem = now.problem;
        for (unit, left) in
            problem.unit_provides.enumerate().filter(|(unit, _)| !now.on_unit[*unit].is_empty())
        {
            for (resource, left) in left.enumerate() {
                let here = now.on_unit[unit].iter();
                let uses = here.map(|actor| (*actor, need(problem, false, *actor, unit, resource)));
                if now.is_broken(uses, *left) && now.affords(now.visitors(unit)) {
                    found.insert(OF_UNIT, &now.file.units[unit.at()].id, &problem.resources[resource]);
                }
            }
        }
        for (node, left) in
            problem.node_provides.enumerate().filter(|(node, _)| !now.on_node[*node].is_empty())
        {
            for (resource, left) in left.enumerate() {
                let here = now.on_node[node].iter();
                let uses = here.map(|(actor, unit)| (*actor, need(problem, true, *actor, *unit, resource)));
                let visitors = || problem.units_of_node[node].iter().map(|unit| now.visitors(*unit)).sum();
                if now.is_broken(uses, *left) && now.affords(visitors()) {
                    found.insert(OF_NODE, &problem.nodes[node], &problem.resources[resource]);
                }
            }
        }
    }

    fn suspend(&self, suspended: &SuspendedLimits, _: &SnapshotFile, problem: &mut Problem) {
        let position = |names: &IxVec<ResourceIx, String>, name: &str| {
            names.enumerate().find(|(_, known)| *known == name).map(|(resource, _)| resource)
        };
        for (id, name) in suspended.of(OF_UNIT) {
            let resource = position(&problem.resources, name);
            if let Some((unit, resource)) = problem.unit_by_id.get(id).zip(resource) {
                let unit = *unit;
                let given = std::mem::replace(&mut problem.unit_provides[unit][resource], UNLIMITED);
                problem.suspended_of_units.insert((unit, resource), given);
            }
        }
        for (id, name) in suspended.of(OF_NODE) {
            let node = problem.nodes.enumerate().find(|(_, known)| *known == id).map(|(node, _)| node);
            if let Some((node, resource)) = node.zip(position(&problem.resources, name)) {
                let given = std::mem::replace(&mut problem.node_provides[node][resource], UNLIMITED);
                problem.suspended_of_nodes.insert((node, resource), given);
            }
        }
    }

    fn ground(&self, writer: &mut Writer) {
        let (file, problem) = (writer.file, writer.problem);
        for (id, name) in writer.suspended.of(OF_UNIT) {
            let (unit, resource) = (problem.unit_by_id[id], problem.resource(&name.to_owned()));
            let provided = file.units[unit.at()].provides.get(name).map_or(0, |quantity| number(*quantity));
            let takes = file.constraints.iter().map(|given| match given {
                Constraint::Reserve { unit, resource, quantity } if unit == id && resource == name => {
                    number(*quantity)
                }
                _ => 0,
            });
            let left = (provided - takes.sum::<i64>()).max(0);
            let limit = SuspendedLimit::OfUnit(unit, resource);
            writer.everywhere_if(file.actors.len(), |writer| {
                let uses = uses(writer, false, &[unit], resource);
                writer.at_most(&uses, left, limit, format!("{id}: at most {left} of {name}"));
            });
        }
        for (id, name) in writer.suspended.of(OF_NODE) {
            let resource = problem.resource(&name.to_owned());
            let provides = file.nodes.iter().find(|node| node.id == id).map(|node| &node.provides);
            let left = provides.and_then(|all| all.get(name)).map_or(0, |quantity| number(*quantity));
            let Some((node, _)) = problem.nodes.enumerate().find(|(_, known)| *known == id) else { continue };
            let (units, limit) = (&problem.units_of_node[node], SuspendedLimit::OfNode(node, resource));
            writer.everywhere_if(file.actors.len().saturating_mul(units.len()), |writer| {
                let uses = uses(writer, true, units, resource);
                writer.at_most(&uses, left, limit, format!("{id}: at most {left} of {name}"));
            });
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/limits.lp")
    }
}

/// The demand on each unit and each node.
fn all_wanted<'a>(
    checked: &Checked<'a>,
    places: &Assignment,
) -> (IxVec<UnitIx, ResourceDemand<'a>>, BTreeMap<&'a str, ResourceDemand<'a>>) {
    let mut of_units: IxVec<UnitIx, ResourceDemand> = IxVec::of(BTreeMap::new(), checked.file.units.len());
    let mut of_nodes: BTreeMap<&str, ResourceDemand> = BTreeMap::new();
    for (actor, unit) in Checked::at(places) {
        let (given, at) = (checked.actor(actor), checked.unit(unit));
        if let Some(way) = given.runs_on.get(&at.kind) {
            want(checked, &mut of_units[unit], &given.requires, actor);
            want(checked, &mut of_units[unit], &way.requires, actor);
            want(checked, of_nodes.entry(&at.node).or_default(), &way.node_requires, actor);
        }
    }
    (of_units, of_nodes)
}

/// The excess demand in a place, as sentences. Demand of fixed actors alone is no violation.
fn passed<'a>(
    place: &str,
    wanted: &ResourceDemand<'a>,
    left: impl Fn(&str) -> i64,
) -> impl Iterator<Item = (&'a str, String)> {
    wanted.iter().filter_map(move |(resource, used)| {
        let left = left(resource);
        let says = || format!("{place}: {} of {resource} wanted, {left} left", used.sum);
        used.passes(left).then(|| (*resource, says()))
    })
}

/// Adds an actor's demand.
fn want<'a>(
    checked: &Checked,
    wanted: &mut ResourceDemand<'a>,
    of: &'a BTreeMap<String, u64>,
    actor: ActorIx,
) {
    for (resource, quantity) in of.iter().filter(|(_, quantity)| **quantity > 0) {
        wanted.entry(resource).or_default().add(checked, actor, number(*quantity));
    }
}

/// The requirement of an actor on a unit, of a resource of the unit or of its node.
fn need(problem: &Problem, of_node: bool, actor: ActorIx, unit: UnitIx, resource: ResourceIx) -> i64 {
    let needs = problem.implementation(actor, unit);
    let needs = needs.map(|needs| if of_node { &needs.node_requires } else { &needs.requires });
    needs.into_iter().flatten().find(|(of, _)| *of == resource).map_or(0, |(_, quantity)| *quantity)
}

/// The demand of all possible actors of some units, and the supply.
fn uses(
    writer: &Writer,
    of_node: bool,
    units: &[UnitIx],
    resource: ResourceIx,
) -> Vec<(ActorIx, UnitIx, i64)> {
    let all = writer.problem.current.positions().flat_map(|actor| {
        let there = units.iter().copied().filter(move |unit| writer.is_place(actor, *unit));
        there.map(move |unit| {
            let could_run = writer.problem.implementation(actor, unit).is_some();
            let amount = if could_run || of_node || writer.problem.running[actor] == Some(unit) {
                need(writer.problem, of_node, actor, unit, resource)
            } else {
                // The actor itself requires this on every kind.
                let own = &writer.file.actors[actor.at()].requires;
                own.get(&writer.problem.resources[resource]).map_or(0, |quantity| number(*quantity))
            };
            (actor, unit, amount)
        })
    });
    all.collect()
}
