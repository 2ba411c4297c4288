//! Sentences about limits, in the terms of the manifest.

use std::collections::BTreeSet;

use crate::core::Core;
use crate::limit::{Limit, LimitGroup, actors_of, pool_of, resource_name};
use placement::file::Constraint;
use placement::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};
use placement::{Assignment, Rules, Snapshot, State};

/// The number of names that are listed before the rest is counted.
const MOST_NAMES: usize = 3;

impl Core {
    /// The set as sentences, one for each group. `assignment` is the one in which the actor is unplaced.
    pub fn lines(&self, snapshot: &Snapshot, assignment: &Assignment) -> Vec<String> {
        if self.elements.is_empty() {
            let kinds: Vec<&str> =
                snapshot.file().actors[self.actor.at()].runs_on.keys().map(String::as_str).collect();
            return vec![match kinds.as_slice() {
                [] => "no implementation, and no unit of any kind".to_owned(),
                kinds => format!("runs on {}, and there is no unit of any kind", kinds.join(" and ")),
            }];
        }
        let state = State::of(snapshot, assignment);
        let wording = Wording { snapshot, state: &state, actor: self.actor };
        self.elements.iter().map(|element| wording.describe(element)).collect()
    }
}

/// Describes limits for an actor.
pub(crate) struct Wording<'a> {
    pub snapshot: &'a Snapshot,
    pub state: &'a State<'a>,
    pub actor: ActorIx,
}

impl Wording<'_> {
    pub fn describe(&self, element: &LimitGroup) -> String {
        // The last limit decides: the reservations of an over-committed resource come before it.
        match element.limits[element.limits.len() - 1] {
            Limit::Kinds { actor } => self.kinds(actor),
            Limit::Constraint { .. } => self.constraints(element),
            Limit::Case { .. } => self.cases(element),
            Limit::Slots { .. } => self.slots(element),
            Limit::OfUnit { resource, .. } | Limit::OfNode { resource, .. } => {
                self.resource(element, resource)
            }
        }
    }

    /// The same for some units, ascending: limits of other units, and of other nodes, are left out.
    pub fn describe_for(&self, element: &LimitGroup, units: &[UnitIx]) -> String {
        let nodes: BTreeSet<NodeIx> = units.iter().map(|&unit| self.snapshot.node_of(unit)).collect();
        let concerns = |limit: &Limit| {
            limit.unit().is_none_or(|unit| units.binary_search(&unit).is_ok())
                && limit.node().is_none_or(|n| nodes.contains(&n))
        };
        let limits: Vec<Limit> = element.limits.iter().copied().filter(concerns).collect();
        if limits.is_empty() { self.describe(element) } else { self.describe(&LimitGroup { limits }) }
    }

    fn kinds(&self, actor: ActorIx) -> String {
        let kinds: Vec<&str> =
            self.snapshot.file().actors[actor.at()].runs_on.keys().map(String::as_str).collect();
        let there_is = |kind: &&str| self.snapshot.file().units.iter().any(|unit| unit.kind == **kind);
        match kinds.as_slice() {
            [] => "no implementation".to_owned(),
            [kind] if !there_is(kind) => format!("runs on {kind} only, and there is no unit of that kind"),
            many if !many.iter().any(there_is) => {
                format!("runs on {} only, and there is no unit of these kinds", and(&kinds))
            }
            _ => format!("runs on {} only", and(&kinds)),
        }
    }

    fn cases(&self, element: &LimitGroup) -> String {
        let cases = self.snapshot.rules().map(Rules::cases).unwrap_or_default();
        let all = element.limits.iter().filter_map(Limit::case).map(|demand| cases[demand].says.as_str());
        let says: BTreeSet<&str> = all.collect();
        let (own, others): (BTreeSet<&str>, BTreeSet<&str>) =
            match self.snapshot.file().actors.get(self.actor.at()) {
                Some(actor) => {
                    says.iter().partition(|says| says.split([' ', ',']).any(|name| name == actor.id))
                }
                None => (says, BTreeSet::new()),
            };
        more_like_it(own.into_iter().chain(others))
    }

    fn constraints(&self, element: &LimitGroup) -> String {
        let positions: Vec<usize> = element.limits.iter().filter_map(Limit::constraint).collect();
        let file = self.snapshot.file();
        if let Constraint::Reserve { resource, .. } = &file.constraints[positions[0]] {
            return self.reserved(resource, &positions);
        }
        let says: Vec<String> = positions.iter().map(|&position| self.snapshot.says(position)).collect();
        let others: BTreeSet<ActorIx> =
            positions.iter().flat_map(|&p| actors_of(self.snapshot, &file.constraints[p])).collect();
        let says: BTreeSet<&str> = says.iter().map(String::as_str).collect();
        let said = more_like_it(says.into_iter());
        let is_own = others.contains(&self.actor);
        let relates =
            matches!(file.constraints[positions[0]], Constraint::Apart { .. } | Constraint::Together { .. });
        let others: Vec<&str> =
            others.into_iter().filter(|a| *a != self.actor).map(|a| self.snapshot.short_name(a)).collect();
        match (relates, is_own) {
            _ if others.is_empty() => said,
            (true, true) => format!("{said} (with {})", few(&others)),
            (true, false) => format!("{said} ({})", few(&others)),
            (false, true) => said,
            (false, false) => format!("{}: {said}", few(&others)),
        }
    }

    fn reserved(&self, resource: &str, positions: &[usize]) -> String {
        let constraints = &self.snapshot.file().constraints;
        let reserves = positions.iter().filter_map(|&position| match &constraints[position] {
            Constraint::Reserve { unit, quantity, .. } => {
                Some((self.snapshot.problem().unit_by_id[unit], quantity))
            }
            _ => None,
        });
        let (units, quantities): (BTreeSet<UnitIx>, Vec<u64>) = reserves.unzip();
        let sum: u64 = quantities.iter().sum();
        format!("{sum} {resource} of {} kept free", self.units(&units))
    }

    fn slots(&self, element: &LimitGroup) -> String {
        let units: BTreeSet<UnitIx> = element.limits.iter().filter_map(Limit::unit).collect();
        let slots =
            units.iter().filter_map(|&unit| self.snapshot.file().units[unit.at()].slots).map(u128::from);
        let taken: usize = units.iter().map(|&unit| self.state.hosted_on(unit)).sum();
        format!("{}: {taken} of {} slots taken", self.units(&units), slots.sum::<u128>())
    }

    fn resource(&self, element: &LimitGroup, resource: ResourceIx) -> String {
        let name = &resource_name(&self.snapshot.resources()[resource]);
        let mut sum: (i128, i128, i64) = (0, 0, 0);
        let mut add = |provided: i64, left: i64| {
            sum = (sum.0 + i128::from(provided.max(0)), sum.1 + i128::from(left.max(0)), sum.2.max(left));
        };
        let units: BTreeSet<UnitIx> = element.limits.iter().filter_map(Limit::unit).collect();
        let nodes: BTreeSet<NodeIx> = element.limits.iter().filter_map(Limit::node).collect();
        for &unit in &units {
            add(self.snapshot.provided_on(unit, resource), self.state.left_on(unit, resource));
        }
        for &node in &nodes {
            add(self.snapshot.provided_at(node, resource), self.state.left_at(node, resource));
        }
        let places = if nodes.is_empty() { self.units(&units) } else { self.nodes(&nodes) };
        let of =
            if sum.0 == 0 { format!("no {name}") } else { format!("{} of {} {name} left", sum.1, sum.0) };
        let most = if units.len() + nodes.len() > 1 && sum.2 > 0 {
            format!(", at most {} on one", sum.2)
        } else {
            String::new()
        };
        let needs = match self.needed(resource, &units, &nodes) {
            Some((least, most)) if least == most => format!(", {least} needed"),
            Some((least, most)) => format!(", {least} to {most} needed"),
            None => String::new(),
        };
        format!("{places}: {of}{most}{needs}")
    }

    /// The smallest and largest requirement of the resource there; `None` if the actor requires none.
    fn needed(
        &self,
        resource: ResourceIx,
        units: &BTreeSet<UnitIx>,
        nodes: &BTreeSet<NodeIx>,
    ) -> Option<(i64, i64)> {
        let quantity =
            |needs: &[(ResourceIx, i64)]| needs.iter().find(|(r, _)| *r == resource).map(|(_, q)| *q);
        // A limit that is described without an actor has no requirement.
        let all_units = if self.actor.at() < self.snapshot.actors() { self.snapshot.units() } else { 0 };
        let wanted: Vec<i64> = UnitIx::first(all_units)
            .filter_map(|unit| {
                let needs = self.snapshot.implementation(self.actor, unit)?;
                if units.contains(&unit) {
                    quantity(&needs.requires)
                } else if nodes.contains(&self.snapshot.node_of(unit)) {
                    quantity(&needs.node_requires)
                } else {
                    None
                }
            })
            .collect();
        Some((*wanted.iter().min()?, *wanted.iter().max()?))
    }

    fn units(&self, units: &BTreeSet<UnitIx>) -> String {
        let ids: Vec<&str> = units.iter().map(|&unit| self.snapshot.unit_id(unit)).collect();
        if ids.len() <= 1 {
            return few(&ids);
        }
        let pools: BTreeSet<String> = units.iter().map(|&unit| pool_of(self.snapshot, unit)).collect();
        let pool = pools.first().cloned().unwrap_or_default();
        format!("{} units of {pool}", ids.len())
    }

    fn nodes(&self, nodes: &BTreeSet<NodeIx>) -> String {
        let ids: Vec<&str> = nodes.iter().map(|&node| self.snapshot.nodes()[node].as_str()).collect();
        if ids.len() <= MOST_NAMES {
            return and(&ids);
        }
        let pools: BTreeSet<String> = UnitIx::first(self.snapshot.units())
            .filter(|&unit| nodes.contains(&self.snapshot.node_of(unit)))
            .map(|unit| pool_of(self.snapshot, unit))
            .collect();
        let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
        format!("{} nodes with {}", ids.len(), and(&pools))
    }
}

impl Limit {
    fn constraint(&self) -> Option<usize> {
        if let Limit::Constraint { position } = self { Some(*position) } else { None }
    }

    fn case(&self) -> Option<usize> {
        if let Limit::Case { demand } = self { Some(*demand) } else { None }
    }

    fn unit(&self) -> Option<UnitIx> {
        match self {
            Limit::Slots { unit } | Limit::OfUnit { unit, .. } => Some(*unit),
            _ => None,
        }
    }

    fn node(&self) -> Option<NodeIx> {
        if let Limit::OfNode { node, .. } = self { Some(*node) } else { None }
    }
}

/// The first sentence, and the number of others.
fn more_like_it<'a>(mut says: impl Iterator<Item = &'a str>) -> String {
    let first = says.next().unwrap_or_default();
    match says.count() {
        0 => first.to_owned(),
        more => format!("{first}, and {more} more like it"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The first few names, and the number of others.
pub(crate) fn few(names: &[&str]) -> String {
    if names.len() <= MOST_NAMES + 1 {
        return and(names);
    }
    format!("{} and {} more", names[..MOST_NAMES].join(", "), names.len() - MOST_NAMES)
}
