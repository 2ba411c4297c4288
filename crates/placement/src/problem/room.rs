//! Headroom: what fixed actors leave of every limit, and the total demand of movable actors.

use std::collections::BTreeMap;

use crate::Problem;
use crate::ix::{ActorIx, IxVec, NodeIx, ResourceIx, UnitIx};

/// One limit: its remaining quantity, and the total demand of all candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What fixed actors leave.
    pub left: i64,
    /// The demand if every candidate were placed there.
    pub wanted: i64,
}

impl Room {
    /// Whether the candidates together could exceed it; if not, it need not be stated.
    pub fn binds(&self) -> bool {
        self.wanted > self.left
    }

    /// The largest sum that decides whether it is satisfied.
    pub fn size(&self) -> i64 {
        self.wanted.saturating_add(self.left.saturating_abs())
    }

    /// The remaining quantity of a limit that can be exceeded.
    pub fn binding(&self) -> Option<i64> {
        self.binds().then_some(self.left)
    }
}

/// The headroom of every limit of a problem.
#[derive(Clone, Debug)]
pub struct Rooms {
    /// By unit: work; below 0 where fixed actors overload it.
    pub work: IxVec<UnitIx, Room>,
    /// By unit: slots, if limited; never below 0.
    pub slots: IxVec<UnitIx, Option<Room>>,
    /// By unit and resource; never below 0: overcommitted resources accept nothing more.
    pub units: IxVec<UnitIx, IxVec<ResourceIx, Room>>,
    /// By node and resource; never below 0.
    pub nodes: IxVec<NodeIx, IxVec<ResourceIx, Room>>,
    /// By unit: whether it hosts a fixed actor.
    pub hosts_fixed: IxVec<UnitIx, bool>,
    /// Σ over movable actors of their largest work on any candidate.
    most_work: i64,
}

impl Rooms {
    /// Subtracts the demand of fixed actors from all limits.
    pub fn new(problem: &Problem) -> Self {
        Self::counting(problem, problem.current.positions())
    }

    /// The same without the total demand, which is expensive with many actors and candidates.
    pub fn beside_fixed(problem: &Problem) -> Self {
        Self::counting(problem, problem.residents().map(|(actor, _)| actor))
    }

    fn counting(problem: &Problem, actors: impl Iterator<Item = ActorIx>) -> Self {
        let room = |left: &i64| Room { left: *left, wanted: 0 };
        let resources = |left: &IxVec<ResourceIx, i64>| left.iter().map(room).collect();
        let mut rooms = Self {
            work: problem.capacity.iter().map(room).collect(),
            slots: problem.slots.iter().map(|slots| slots.as_ref().map(room)).collect(),
            units: problem.unit_provides.iter().map(resources).collect(),
            nodes: problem.node_provides.iter().map(resources).collect(),
            hosts_fixed: IxVec::of(false, problem.capacity.len()),
            most_work: 0,
        };
        // Actors with equal candidates and requirements are counted together.
        let mut alike: BTreeMap<_, (ActorIx, i64)> = BTreeMap::new();
        for actor in actors {
            let is = (problem.fixed[actor], problem.candidate_set[actor], &problem.implementations[actor]);
            alike.entry(is).or_insert((actor, 0)).1 += 1;
        }
        for (actor, many) in alike.into_values() {
            rooms.count(problem, actor, many);
        }
        let limits = rooms.units.iter_mut().flatten().chain(rooms.nodes.iter_mut().flatten());
        for limit in limits.chain(rooms.slots.iter_mut().flatten()) {
            limit.left = limit.left.max(0);
        }
        rooms
    }

    /// Counts `many` actors like this one.
    fn count(&mut self, problem: &Problem, actor: ActorIx, many: i64) {
        let fixed = problem.fixed[actor];
        let add = |room: &mut Room, quantity: i64| {
            let quantity = quantity * many;
            if fixed {
                room.left -= quantity;
            } else {
                room.wanted += quantity;
            }
        };
        let mut most_work = 0;
        // On a node an actor counts once, with its largest requirement on any unit there.
        let mut of_node: Vec<(NodeIx, ResourceIx, i64)> = Vec::new();
        for &unit in problem.candidates(actor) {
            self.hosts_fixed[unit] |= fixed;
            // A fixed actor that cannot run on its unit causes no load there, but takes a slot.
            if let Some(slots) = &mut self.slots[unit] {
                add(slots, 1);
            }
            let Some(needs) = problem.implementation(actor, unit) else { continue };
            most_work = most_work.max(needs.work);
            add(&mut self.work[unit], needs.work);
            for &(resource, quantity) in &needs.requires {
                add(&mut self.units[unit][resource], quantity);
            }
            let node = problem.unit_node[unit];
            of_node
                .extend(needs.node_requires.iter().map(|&(resource, quantity)| (node, resource, quantity)));
        }
        of_node.sort_unstable();
        for (position, &(node, resource, quantity)) in of_node.iter().enumerate() {
            let next = of_node.get(position + 1);
            if next.is_none_or(|&(other, of, _)| (other, of) != (node, resource)) {
                add(&mut self.nodes[node][resource], quantity);
            }
        }
        if !fixed {
            self.most_work += most_work * many;
        }
    }

    /// The work of all possible actors of a unit.
    pub fn most_load(&self, problem: &Problem, unit: UnitIx) -> i64 {
        self.fixed_load(problem, unit) + self.work[unit].wanted
    }

    /// The work of the fixed actors of a unit.
    pub fn fixed_load(&self, problem: &Problem, unit: UnitIx) -> i64 {
        problem.capacity[unit] - self.work[unit].left
    }

    /// The parameters of a unit's power: capacity, remaining capacity, whether it hosts fixed actors, idle and full
    /// power.
    pub fn of_unit(&self, problem: &Problem, unit: UnitIx) -> Vec<Option<i64>> {
        let (idle, full) = problem.watts[unit];
        let hosts = i64::from(self.hosts_fixed[unit]);
        [problem.capacity[unit], self.work[unit].left, hosts, idle, full].map(Some).to_vec()
    }

    /// The largest overload that a unit can reach; 0 if none can be overloaded.
    pub fn most_overload(&self) -> i64 {
        self.work.iter().map(|room| room.wanted - room.left).max().unwrap_or(0).max(0)
    }

    /// The largest possible value of the smallest overload: 0 unless all units can be overloaded at once.
    pub fn least_overload(&self) -> i64 {
        // The capacities of unlimited units would overflow 64 bits in a sum.
        let room: i128 = self.work.iter().map(|room| i128::from((room.left + 1).max(0))).sum();
        let least = self.work.iter().map(|room| room.wanted - room.left).min().unwrap_or(0).max(0);
        if room <= i128::from(self.most_work) { least } else { 0 }
    }
}
