//! The complete search of everything that the places of those without one can depend on.
//!
//! What can depend: the actors on units where they could be, the units where those could be, and so on, with whoever
//! shares a limit or a rule. Everybody else stays. States that differ only by which of several interchangeable units
//! or actors take which part are looked at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruled::Seats;
use crate::verdict::{Effort, Verdict};
use crate::views::{Views, has_excesses};
use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, NodeIx, PlaceIx, UnitIx};
use placement::{Assignment, Snapshot};

/// More actors than this are not searched: the effort would end first.
const MOST_ACTORS: usize = 300;

/// What a unit is to the members, and which classes of them it hosts.
type Role = (usize, Vec<usize>);

/// The search of one question.
pub(crate) struct Search<'a> {
    views: &'a Views<'a>,
    world: &'a Snapshot,
    /// Who is placed anew, ascending.
    members: Vec<ActorIx>,
    /// Where they can be, ascending.
    units: Vec<UnitIx>,
    /// By unit: equal numbers are interchangeable as long as they host the same.
    unit_kind: IxVec<UnitIx, usize>,
    /// By node: the same.
    node_kind: IxVec<NodeIx, usize>,
    /// By unit: classes of the members on it, ascending.
    content: IxVec<UnitIx, Vec<usize>>,
    /// States without a way on.
    dead: BTreeSet<Vec<usize>>,
}

impl<'a> Search<'a> {
    pub fn new(views: &'a Views<'a>) -> Self {
        let (members, units) = closure(views);
        let mut search = Self {
            views,
            world: views.world,
            unit_kind: IxVec::new(),
            node_kind: IxVec::new(),
            content: IxVec::of(Vec::new(), views.world.units()),
            dead: BTreeSet::new(),
            members,
            units,
        };
        search.find_symmetries();
        search
    }

    pub fn run(mut self, effort: &mut Effort) -> Verdict {
        if self.members.len() > MOST_ACTORS {
            return Verdict::Unknown;
        }
        let mut seats = Seats::new(self.world, self.views.kept);
        // Who stays takes no room of the members', but a rule may be about it.
        for (actor, place) in self.views.base.enumerate() {
            if let Some(unit) = *place
                && !self.world.is_fixed(actor)
                && self.members.binary_search(&actor).is_err()
            {
                seats.take_in(actor, unit);
            }
        }
        let mut waiting = self.members.clone();
        match self.place(&mut seats, &mut waiting, effort) {
            Some(false) => Verdict::Never,
            None => Verdict::Unknown,
            Some(true) => self.with_the_others(&seats),
        }
    }

    /// The arrangement that was found beside everybody who stays.
    fn with_the_others(&self, seats: &Seats) -> Verdict {
        let mut whole: Assignment = self.views.base.clone();
        for &member in &self.members {
            whole[member] = seats.state.assignment[member];
        }
        // Who stays is bound to nobody here; the checker has the last word all the same.
        let obeys = Seats::of(self.world, self.views.kept, &whole).obeys();
        if obeys && self.world.violations(&whole).is_empty() {
            Verdict::Fits(whole)
        } else {
            Verdict::Unknown
        }
    }

    /// Places who is waiting; `None` when the effort ends first.
    fn place(&mut self, seats: &mut Seats, waiting: &mut Vec<ActorIx>, effort: &mut Effort) -> Option<bool> {
        if waiting.is_empty() {
            return Some(seats.obeys());
        }
        let key = self.key(waiting);
        if !effort.spend(key.len()) {
            return None;
        }
        if self.dead.contains(&key) {
            return Some(false);
        }
        let position = self.choosiest(seats, waiting, effort)?;
        let actor = waiting.swap_remove(position);
        let mut tried = BTreeSet::new();
        let home = self.views.base[actor];
        let domain = self.views.domain_of(actor).iter().copied();
        let mut places: Vec<UnitIx> = domain.filter(|unit| seats.admits(actor, *unit)).collect();
        places.sort_by_key(|&unit| (Some(unit) != home, unit));
        for unit in places {
            if !tried.insert(self.role(unit)) {
                continue;
            }
            seats.put(actor, unit);
            self.enter(actor, unit);
            let found = self.place(seats, waiting, effort);
            if found == Some(true) {
                return found;
            }
            self.leave(actor, unit);
            seats.take(actor);
            found?;
        }
        waiting.push(actor);
        waiting.sort_unstable();
        self.dead.insert(key);
        Some(false)
    }

    /// Who has the fewest places left, by position among the waiting.
    fn choosiest(&self, seats: &mut Seats, waiting: &[ActorIx], effort: &mut Effort) -> Option<usize> {
        let mut best = (usize::MAX, 0);
        let mut seen = BTreeSet::new();
        for (position, &actor) in waiting.iter().enumerate() {
            // Who is alike has as many.
            if !seen.insert(self.views.class[actor]) {
                continue;
            }
            let domain = self.views.domain_of(actor);
            if !effort.spend(domain.len()) {
                return None;
            }
            let places = domain.iter().filter(|unit| seats.admits(actor, **unit)).take(best.0).count();
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
        let class = self.views.class[actor];
        let at = self.content[unit].partition_point(|other| *other < class);
        self.content[unit].insert(at, class);
    }

    fn leave(&mut self, actor: ActorIx, unit: UnitIx) {
        let class = self.views.class[actor];
        let at = self.content[unit].partition_point(|other| *other < class);
        self.content[unit].remove(at);
    }

    /// What a unit is now, up to exchanging it for one that is the same.
    fn role(&self, unit: UnitIx) -> (Role, usize, Vec<Role>) {
        let node = self.world.node_of(unit);
        let neighbours = self.units.iter().filter(|other| self.world.node_of(**other) == node);
        let mut around: Vec<Role> =
            neighbours.map(|&other| (self.unit_kind[other], self.content[other].clone())).collect();
        around.sort_unstable();
        ((self.unit_kind[unit], self.content[unit].clone()), self.node_kind[node], around)
    }

    /// The state, up to exchanging what is the same: who is waiting, and what each node hosts.
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
        let mut classes: Vec<usize> = waiting.iter().map(|&actor| self.views.class[actor]).collect();
        classes.sort_unstable();
        // Numbers are told from separators by standing one higher.
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

    /// Numbers units and nodes so that equal numbers mean equal in all that matters to the members.
    fn find_symmetries(&mut self) {
        let (world, views) = (self.world, self.views);
        let problem = world.problem();
        let member_classes: BTreeSet<usize> = self.members.iter().map(|&a| views.class[a]).collect();
        let of_class: BTreeMap<usize, ActorIx> = self.members.iter().map(|&a| (views.class[a], a)).collect();
        let scopes: BTreeSet<Scope> = self
            .members
            .iter()
            .flat_map(|&actor| &problem.relations_of[actor])
            .map(|&relation| problem.relations[relation].scope)
            .collect();
        // What a unit adds to an excess, as its watts to a cap, depends on more than what is compared here.
        let all_differ = has_excesses(world);
        let mut known = BTreeMap::new();
        self.unit_kind = IxVec::of(usize::MAX, world.units());
        for &unit in &self.units {
            let takes: Vec<usize> = member_classes
                .iter()
                .copied()
                .filter(|c| views.domain[*c].binary_search(&unit).is_ok())
                .collect();
            let numa = scopes.contains(&Scope::Numa).then(|| world.place(Scope::Numa, unit));
            let ruled: Vec<_> = of_class.values().map(|&actor| views.kept.effects(actor, unit)).collect();
            let alike = (
                all_differ.then_some(unit),
                problem.unit_kind[unit],
                views.slots_left[unit],
                views.unit_left[unit].clone(),
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
            self.node_kind[node] = *known.entry((views.node_left[node].clone(), units)).or_insert(next);
        }
    }
}

/// Everybody whose place those of the actors asked about can depend on, they included, and where they can be.
fn closure(views: &Views) -> (Vec<ActorIx>, Vec<UnitIx>) {
    let world = views.world;
    let problem = world.problem();
    let mut on_node: BTreeMap<NodeIx, Vec<ActorIx>> = BTreeMap::new();
    for (actor, place) in views.base.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
        if let Some(unit) = *place {
            on_node.entry(world.node_of(unit)).or_default().push(actor);
        }
    }
    let ties = views.kept.ties(world.actors());
    let mut bound_by: BTreeMap<usize, Vec<ActorIx>> = BTreeMap::new();
    for (actor, tie) in ties.enumerate().filter(|(actor, _)| !world.is_fixed(*actor)) {
        if let Some(tie) = *tie {
            bound_by.entry(tie).or_default().push(actor);
        }
    }
    let mut members: BTreeSet<ActorIx> = views.whom.iter().copied().collect();
    let mut queue = views.whom.to_vec();
    if has_excesses(world) {
        // A cap may reach over nodes: everybody draws from what is left of it.
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
        if classes.insert(views.class[actor]) {
            for &unit in views.domain_of(actor) {
                units.insert(unit);
                // The whole node: its units share what it has.
                if nodes.insert(world.node_of(unit)) {
                    found.extend(on_node.get(&world.node_of(unit)).into_iter().flatten());
                }
            }
        }
        queue.extend(found.into_iter().filter(|other| members.insert(*other)));
    }
    (members.into_iter().collect(), units.into_iter().collect())
}
