//! What fixed actors leave of every limit, and what all that can move could ask of it.

use placement::Snapshot;

/// One limit: what is left of it, and what would be asked if every candidate came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    pub left: i64,
    pub wanted: i64,
}

impl Room {
    /// Whether the candidates together could pass it; if not, it need not be stated.
    pub fn binds(&self) -> bool {
        self.wanted > self.left
    }
}

/// Every limit of a snapshot.
pub(crate) struct Rooms {
    /// By unit: work; below 0 where fixed actors overload it.
    pub work: Vec<Room>,
    /// By unit: slots, where they are limited; never below 0.
    pub slots: Vec<Option<Room>>,
    /// By unit and resource; never below 0: what fixed actors overfill takes nothing more.
    pub units: Vec<Vec<Room>>,
    /// By node and resource; never below 0.
    pub nodes: Vec<Vec<Room>>,
    /// Σ over what can move of its largest work on any candidate.
    most_work: i64,
}

impl Rooms {
    pub fn new(snapshot: &Snapshot) -> Self {
        let room = |left: &i64| Room { left: *left, wanted: 0 };
        let units = 0..snapshot.units();
        let slots = |unit: usize| {
            let slots = snapshot.file().units[unit].slots?;
            Some(room(&i64::try_from(slots).expect("numbers above 2^53 are refused on input")))
        };
        let mut rooms = Self {
            work: units.clone().map(|unit| room(&snapshot.capacity(unit))).collect(),
            slots: units.clone().map(slots).collect(),
            units: units.map(|unit| snapshot.unit_provides(unit).iter().map(room).collect()).collect(),
            nodes: (0..snapshot.nodes().len())
                .map(|node| snapshot.node_provides(node).iter().map(room).collect())
                .collect(),
            most_work: 0,
        };
        (0..snapshot.actors()).for_each(|actor| rooms.count(snapshot, actor));
        let limits = rooms.units.iter_mut().chain(&mut rooms.nodes).flatten();
        for limit in limits.chain(rooms.slots.iter_mut().flatten()) {
            limit.left = limit.left.max(0);
        }
        rooms
    }

    fn count(&mut self, snapshot: &Snapshot, actor: usize) {
        let fixed = snapshot.is_fixed(actor);
        let add = |room: &mut Room, quantity: i64| {
            if fixed {
                room.left -= quantity;
            } else {
                room.wanted += quantity;
            }
        };
        let mut most_work = 0;
        // On a node an actor counts once, with the most that it needs on any unit there.
        let mut of_node: Vec<(usize, usize, i64)> = Vec::new();
        for &unit in snapshot.candidates(actor) {
            let Some(needs) = snapshot.implementation(actor, unit) else { continue };
            most_work = most_work.max(needs.work);
            add(&mut self.work[unit], needs.work);
            if let Some(slots) = &mut self.slots[unit] {
                add(slots, 1);
            }
            for &(resource, quantity) in &needs.requires {
                add(&mut self.units[unit][resource.at()], quantity);
            }
            let node = snapshot.node_of(unit);
            of_node.extend(
                needs.node_requires.iter().map(|&(resource, quantity)| (node, resource.at(), quantity)),
            );
        }
        of_node.sort_unstable();
        for (position, &(node, resource, quantity)) in of_node.iter().enumerate() {
            let next = of_node.get(position + 1);
            if next.is_none_or(|&(other, of, _)| (other, of) != (node, resource)) {
                add(&mut self.nodes[node][resource], quantity);
            }
        }
        if !fixed {
            self.most_work += most_work;
        }
    }

    /// The largest overload that a unit can reach; 0 if none can be overloaded.
    pub fn most_overload(&self) -> i64 {
        self.work.iter().map(|room| room.wanted - room.left).max().unwrap_or(0).max(0)
    }

    /// The largest that the smallest overload can be: 0 unless all units can be overloaded at once.
    pub fn least_overload(&self) -> i64 {
        let all_at_once = self.work.iter().map(|room| (room.left + 1).max(0)).sum::<i64>() <= self.most_work;
        let least = self.work.iter().map(|room| room.wanted - room.left).min().unwrap_or(0).max(0);
        if all_at_once { least } else { 0 }
    }
}
