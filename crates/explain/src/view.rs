//! One simplified view of a world, exact in what it refutes: actors as weights that flow to places with room.
//!
//! If a set of actors can only be on units that have less room than the set weighs, no arrangement exists (the
//! deficiency form of Hall's theorem). A feasible arrangement of all but one actor is a flow that is feasible already;
//! whether the weight of those left can be added is a search for augmenting paths (Ford and Fulkerson 1956), and where
//! none is left, what was reached is the set.

use std::collections::{BTreeMap, VecDeque};

use placement::Assignment;
use placement::ix::{ActorIx, IxVec, UnitIx};

/// No limit; small enough that sums do not overflow.
pub(crate) const UNLIMITED: i64 = i64::MAX / 4;

/// How many paths are tried before a view gives up.
const MOST_PATHS: usize = 4_000;

/// Weights, and the room of units and of the groups that units are in.
pub(crate) struct View {
    /// By actor; one of weight 0 takes no part.
    pub weight: IxVec<ActorIx, i64>,
    /// By unit.
    pub unit_room: IxVec<UnitIx, i64>,
    /// By unit: its group.
    pub group_of: IxVec<UnitIx, usize>,
    /// By group.
    pub group_room: Vec<i64>,
}

/// How a unit was reached.
#[derive(Clone, Copy)]
enum From {
    /// An actor would come, from the unit where it is now.
    Actor(ActorIx, Option<UnitIx>),
    /// Its group is full, and somebody here could leave it.
    Group(usize),
}

struct Flow<'a> {
    view: &'a View,
    units_of_group: Vec<Vec<UnitIx>>,
    /// By unit: how much of each actor.
    on: IxVec<UnitIx, BTreeMap<ActorIx, i64>>,
    unit_used: IxVec<UnitIx, i64>,
    group_used: Vec<i64>,
}

impl View {
    /// Whether the view rules out that all of `whom` join those that `base` places. `domain` is where an actor may be.
    pub fn refutes<'d>(
        &self,
        whom: &[ActorIx],
        base: &Assignment,
        domain: &dyn Fn(ActorIx) -> &'d [UnitIx],
        class: &IxVec<ActorIx, usize>,
    ) -> bool {
        let mut flow = Flow::new(self, base);
        let mut paths = MOST_PATHS;
        for &actor in whom {
            let mut left = self.weight[actor];
            while left > 0 {
                if paths == 0 {
                    return false;
                }
                paths -= 1;
                let Some(pushed) = flow.augment(actor, left, domain, class) else { return true };
                left -= pushed;
            }
        }
        false
    }
}

impl<'a> Flow<'a> {
    fn new(view: &'a View, base: &Assignment) -> Self {
        let mut flow = Self {
            view,
            units_of_group: vec![Vec::new(); view.group_room.len()],
            on: IxVec::of(BTreeMap::new(), view.unit_room.len()),
            unit_used: IxVec::of(0, view.unit_room.len()),
            group_used: vec![0; view.group_room.len()],
        };
        for (unit, group) in view.group_of.enumerate() {
            flow.units_of_group[*group].push(unit);
        }
        for (actor, place) in base.enumerate() {
            if let Some(unit) = *place
                && view.weight[actor] > 0
            {
                flow.add(actor, unit, view.weight[actor]);
            }
        }
        flow
    }

    fn add(&mut self, actor: ActorIx, unit: UnitIx, amount: i64) {
        let on = self.on[unit].entry(actor).or_default();
        *on += amount;
        if *on == 0 {
            self.on[unit].remove(&actor);
        }
        self.unit_used[unit] += amount;
        self.group_used[self.view.group_of[unit]] += amount;
    }

    fn spare(&self, unit: UnitIx) -> i64 {
        self.view.unit_room[unit] - self.unit_used[unit]
    }

    /// Finds a way for some more of the actor's weight, and takes it; `None` if there is none.
    fn augment<'d>(
        &mut self,
        actor: ActorIx,
        left: i64,
        domain: &dyn Fn(ActorIx) -> &'d [UnitIx],
        class: &IxVec<ActorIx, usize>,
    ) -> Option<i64> {
        let mut unit_from: IxVec<UnitIx, Option<From>> = IxVec::of(None, self.on.len());
        let mut group_from: Vec<Option<UnitIx>> = vec![None; self.group_used.len()];
        let mut expanded = vec![false; class.iter().max().map_or(0, |last| last + 1)];
        let mut queue = VecDeque::new();
        let mut reach = |mover: ActorIx,
                         at: Option<UnitIx>,
                         from: &mut IxVec<UnitIx, Option<From>>,
                         queue: &mut VecDeque<UnitIx>| {
            // All of a class may be on the same units: the first of them has reached what the others could.
            if std::mem::replace(&mut expanded[class[mover]], true) {
                return;
            }
            for &unit in domain(mover) {
                if from[unit].is_none() {
                    from[unit] = Some(From::Actor(mover, at));
                    queue.push_back(unit);
                }
            }
        };
        reach(actor, None, &mut unit_from, &mut queue);
        while let Some(unit) = queue.pop_front() {
            let group = self.view.group_of[unit];
            if self.spare(unit) > 0 && group_from[group].is_none() {
                group_from[group] = Some(unit);
                if self.group_used[group] < self.view.group_room[group] {
                    return Some(self.take(left, unit, &unit_from, &group_from));
                }
                for &other in &self.units_of_group[group] {
                    if unit_from[other].is_none() && !self.on[other].is_empty() {
                        unit_from[other] = Some(From::Group(group));
                        queue.push_back(other);
                    }
                }
            }
            for &mover in self.on[unit].keys() {
                reach(mover, Some(unit), &mut unit_from, &mut queue);
            }
        }
        None
    }

    /// Carries out the way that ends at `last`: everybody on it moves one step on, as much as all of them can.
    fn take(
        &mut self,
        left: i64,
        last: UnitIx,
        unit_from: &IxVec<UnitIx, Option<From>>,
        group_from: &[Option<UnitIx>],
    ) -> i64 {
        let group = self.view.group_of[last];
        let mut amount = left.min(self.view.group_room[group] - self.group_used[group]);
        let mut steps = Vec::new();
        let mut unit = last;
        // Where weight is added without any being taken off, there must be room for it.
        let mut adds = true;
        loop {
            if adds {
                amount = amount.min(self.spare(unit));
            }
            match unit_from[unit].expect("every unit on the way was reached from somewhere") {
                From::Group(group) => {
                    unit = group_from[group].expect("the group was reached from one of its units");
                    adds = true;
                }
                From::Actor(mover, at) => {
                    steps.push((mover, at, unit));
                    let Some(before) = at else { break };
                    amount = amount.min(self.on[before][&mover]);
                    unit = before;
                    adds = false;
                }
            }
        }
        for (mover, at, to) in steps {
            if let Some(before) = at {
                self.add(mover, before, -amount);
            }
            self.add(mover, to, amount);
        }
        amount
    }
}
