//! The complete search of everything that the placement of the actors in question can depend on.
//!
//! The closure: the actors on units that are candidates, the candidates of those, and so on, with all actors that share a
//! limit or a rule. All other actors stay. States that differ only in interchangeable units or actors are visited
//! once.

use std::collections::{BTreeMap, BTreeSet};

use crate::feasibility::{Effort, Feasibility};
use crate::kept_rules::PartialAssignment;
use crate::relaxations::{Relaxations, has_running_totals};
use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, NodeIx, PlaceIx, UnitIx};
use placement::{Assignment, Snapshot};

/// With more actors than this there is no search: the effort would end first.
const MOST_ACTORS: usize = 300;

/// The symmetry class of a unit, and the classes of the members on it.
type Role = (usize, Vec<usize>);

/// The search for one question.
pub(crate) struct CompleteSearch<'a> {
    relaxations: &'a Relaxations<'a>,
    world: &'a Snapshot,
    /// The actors that are placed anew, ascending.
    members: Vec<ActorIx>,
    /// Their candidates, ascending.
    units: Vec<UnitIx>,
    /// By unit: units with equal numbers are interchangeable if they host the same classes.
    unit_kind: IxVec<UnitIx, usize>,
    /// By node: the same.
    node_kind: IxVec<NodeIx, usize>,
    /// By unit: classes of the members on it, ascending.
    content: IxVec<UnitIx, Vec<usize>>,
    /// States without a solution.
    dead: BTreeSet<Vec<usize>>,
}

impl<'a> CompleteSearch<'a> {
    pub fn new(relaxations: &'a Relaxations<'a>) -> Self {
        let (members, units) = closure(relaxations);
        let mut search = Self {
            relaxations,
            world: relaxations.world,
            unit_kind: IxVec::new(),
            node_kind: IxVec::new(),
            content: IxVec::of(Vec::new(), relaxations.world.units()),
            dead: BTreeSet::new(),
            members,
            units,
        };
        search.find_symmetries();
        search
    }

    pub fn run(mut self, effort: &mut Effort) -> Feasibility {
        if self.members.len() > MOST_ACTORS {
            return Feasibility::Unknown;
        }
        let mut partial = PartialAssignment::new(self.world, self.relaxations.kept);
        // Actors outside of the closure take no room of the members', but rules may depend on them.
        for (actor, place) in self.relaxations.base.enumerate() {
            if let Some(unit) = *place
                && !self.world.is_fixed(actor)
                && self.members.binary_search(&actor).is_err()
            {
                partial.take_in(actor, unit);
            }
        }
        let mut waiting = self.members.clone();
        match self.place(&mut partial, &mut waiting, effort) {
            Some(false) => Feasibility::Never,
            None => Feasibility::Unknown,
            Some(true) => self.with_the_others(&partial),
        }
    }

    /// The solution together with all actors that stay.
    fn with_the_others(&self, partial: &PartialAssignment) -> Feasibility {
        let mut whole: Assignment = self.relaxations.base.clone();
        for &member in &self.members {
            whole[member] = partial.state.assignment[member];
        }
        // Actors that stay are not bound by the members' rules; the checker verifies the whole.
        let obeys = PartialAssignment::of(self.world, self.relaxations.kept, &whole).obeys();
        if obeys && self.world.violations(&whole).is_empty() {
            Feasibility::Fits(whole)
        } else {
            Feasibility::Unknown
        }
    }

    /// Places the waiting actors; `None` if the effort ends first.
    fn place(
        &mut self,
        partial: &mut PartialAssignment,
        waiting: &mut Vec<ActorIx>,
        effort: &mut Effort,
    ) -> Option<bool> {
        if waiting.is_empty() {
            return Some(partial.obeys());
        }
        let key = self.key(waiting);
        if !effort.spend(key.len()) {
            return None;
        }
        if self.dead.contains(&key) {
            return Some(false);
        }
        let position = self.choosiest(partial, waiting, effort)?;
        let actor = waiting.swap_remove(position);
        let mut tried = BTreeSet::new();
        let home = self.relaxations.base[actor];
        let domain = self.relaxations.domain_of(actor).iter().copied();
        let mut places: Vec<UnitIx> = domain.filter(|unit| partial.admits(actor, *unit)).collect();
        places.sort_by_key(|&unit| (Some(unit) != home, unit));
        for unit in places {
            if !tried.insert(self.role(unit)) {
                continue;
            }
            partial.put(actor, unit);
            self.enter(actor, unit);
            let found = self.place(partial, waiting, effort);
            if found == Some(true) {
                return found;
            }
            self.leave(actor, unit);
            partial.take(actor);
            found?;
        }
        waiting.push(actor);
        waiting.sort_unstable();
        self.dead.insert(key);
        Some(false)
    }

    /// The waiting actor with the fewest candidates left (first-fail).
    fn choosiest(
        &self,
        partial: &mut PartialAssignment,
        waiting: &[ActorIx],
        effort: &mut Effort,
    ) -> Option<usize> {
        let mut best = (usize::MAX, 0);
        let mut seen = BTreeSet::new();
        for (position, &actor) in waiting.iter().enumerate() {
            // Actors of one class have equally many.
            if !seen.insert(self.relaxations.class[actor]) {
                continue;
            }
            let domain = self.relaxations.domain_of(actor);
            if !effort.spend(domain.len()) {
                return None;
            }
            let places = domain.iter().filter(|unit| partial.admits(actor, **unit)).take(best.0).count();
            if places < best.0 {
                best = (places, position);
            }
            if places == 0 {
                break;
            }
        }
        Some(best.1)
    }

    fn enter(&mut self, actor: ActorIx, unit: UnitIx) {
        let class = self.relaxations.class[actor];
        let at = self.content[unit].partition_point(|other| *other < class);
        self.content[unit].insert(at, class);
    }

    fn leave(&mut self, actor: ActorIx, unit: UnitIx) {
        let class = self.relaxations.class[actor];
        let at = self.content[unit].partition_point(|other| *other < class);
        self.content[unit].remove(at);
    }

    /// The state of a unit, up to symmetry.
    fn role(&self, unit: UnitIx) -> (Role, usize, Vec<Role>) {
        let node = self.world.node_of(unit);
        let neighbours = self.units.iter().filter(|other| self.world.node_of(**other) == node);
        let mut around: Vec<Role> =
            neighbours.map(|&other| (self.unit_kind[other], self.content[other].clone())).collect();
        around.sort_unstable();
        ((self.unit_kind[unit], self.content[unit].clone()), self.node_kind[node], around)
    }

    /// The state, up to symmetry: the waiting actors, and the content of each node.
    fn key(&self, waiting: &[ActorIx]) -> Vec<usize> {
        let mut nodes: BTreeMap<NodeIx, Vec<(usize, &[usize])>> = BTreeMap::new();
        for &unit in &self.units {
            let entry = (self.unit_kind[unit], self.content[unit].as_slice());
            nodes.entry(self.world.node_of(unit)).or_default().push(entry);
        }
        let mut roles: Vec<(usize, Vec<_>)> = nodes
            .into_iter()
            .map(|(node, mut units)| {
                units.sort_unstable();
                (self.node_kind[node], units)
            })
            .collect();
        roles.sort_unstable();
        let mut classes: Vec<usize> = waiting.iter().map(|&actor| self.relaxations.class[actor]).collect();
        classes.sort_unstable();
        // Numbers are offset by one to distinguish them from separators.
        let mut key: Vec<usize> = classes.into_iter().map(|class| class + 1).collect();
        for (kind, units) in roles {
            key.extend([0, kind + 1]);
            for (kind, content) in units {
                key.extend([0, kind + 1]);
                key.extend(content.iter().map(|class| class + 1));
            }
        }
        key
    }

    /// Numbers units and nodes so that equal numbers mean equal in everything relevant to the members.
    fn find_symmetries(&mut self) {
        let (world, relaxations) = (self.world, self.relaxations);
        let problem = world.problem();
        let member_classes: BTreeSet<usize> = self.members.iter().map(|&a| relaxations.class[a]).collect();
        let of_class: BTreeMap<usize, ActorIx> =
            self.members.iter().map(|&a| (relaxations.class[a], a)).collect();
        let scopes: BTreeSet<Scope> = self
            .members
            .iter()
            .flat_map(|&actor| &problem.relations_of[actor])
            .map(|&relation| problem.relations[relation].scope)
            .collect();
        // A unit's contribution to a limit over several units, as its watts to a power cap, is not compared here.
        let all_differ = has_running_totals(world);
        let mut known = BTreeMap::new();
        self.unit_kind = IxVec::of(usize::MAX, world.units());
        for &unit in &self.units {
            let takes: Vec<usize> = member_classes
                .iter()
                .copied()
                .filter(|c| relaxations.domain[*c].binary_search(&unit).is_ok())
                .collect();
            let numa = scopes.contains(&Scope::Numa).then(|| world.place(Scope::Numa, unit));
            let ruled: Vec<_> =
                of_class.values().map(|&actor| relaxations.kept.effects(actor, unit)).collect();
            let alike = (
                all_differ.then_some(unit),
                problem.unit_kind[unit],
                relaxations.slots_left[unit],
                relaxations.unit_left[unit].clone(),
                numa,
                takes,
                ruled,
            );
            let next = known.len();
            self.unit_kind[unit] = *known.entry(alike).or_insert(next);
        }
        let mut units_of: BTreeMap<NodeIx, Vec<(usize, Option<PlaceIx>)>> = BTreeMap::new();
        for &unit in &self.units {
            let zone = scopes.contains(&Scope::Zone).then(|| world.place(Scope::Zone, unit));
            units_of.entry(world.node_of(unit)).or_default().push((self.unit_kind[unit], zone));
        }
        let mut known = BTreeMap::new();
        self.node_kind = IxVec::of(usize::MAX, world.nodes().len());
        for (node, mut units) in units_of {
            units.sort_unstable();
            let next = known.len();
            self.node_kind[node] = *known.entry((relaxations.node_left[node].clone(), units)).or_insert(next);
        }
    }
}

/// The actors whose placement those in question can depend on, including them, and their candidates.
fn closure(relaxations: &Relaxations) -> (Vec<ActorIx>, Vec<UnitIx>) {
    let world = relaxations.world;
    let problem = world.problem();
    let mut on_node: BTreeMap<NodeIx, Vec<ActorIx>> = BTreeMap::new();
    for (actor, place) in relaxations.base.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
        if let Some(unit) = *place {
            on_node.entry(world.node_of(unit)).or_default().push(actor);
        }
    }
    let ties = relaxations.kept.ties(world.actors());
    let mut bound_by: BTreeMap<usize, Vec<ActorIx>> = BTreeMap::new();
    for (actor, tie) in ties.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
        if let Some(tie) = *tie {
            bound_by.entry(tie).or_default().push(actor);
        }
    }
    let mut members: BTreeSet<ActorIx> = relaxations.unplaced.iter().copied().collect();
    let mut queue = relaxations.unplaced.to_vec();
    if has_running_totals(world) {
        // A cap may span nodes: all actors draw from what is left of it.
        queue.extend(on_node.values().flatten().copied().filter(|&actor| members.insert(actor)));
    }
    let mut units = BTreeSet::new();
    let mut classes = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    while let Some(actor) = queue.pop() {
        let bound =
            problem.relations_of[actor].iter().flat_map(|&relation| &problem.relations[relation].actors);
        let mut found: Vec<ActorIx> = bound.copied().filter(|other| !world.is_fixed(*other)).collect();
        found.extend(ties[actor].and_then(|tie| bound_by.remove(&tie)).into_iter().flatten());
        if classes.insert(relaxations.class[actor]) {
            for &unit in relaxations.domain_of(actor) {
                units.insert(unit);
                // The whole node: its units share its resources.
                if nodes.insert(world.node_of(unit)) {
                    found.extend(on_node.get(&world.node_of(unit)).into_iter().flatten());
                }
            }
        }
        queue.extend(found.into_iter().filter(|other| members.insert(*other)));
    }
    (members.into_iter().collect(), units.into_iter().collect())
}
