//! A relaxation of a snapshot whose refutations are exact: actors are weights that flow to units and groups with capacity.
//!
//! If a set of actors has candidates with less capacity than the set weighs, no assignment exists (deficiency form of Hall's
//! theorem). A feasible assignment of all but some actors is a feasible flow; whether the remaining weight can be added is a
//! search for augmenting paths (Ford and Fulkerson 1956). If there is none, the vertices reached are such a
//! set.

use std::collections::{BTreeMap, VecDeque};

use placement::Assignment;
use placement::ix::{ActorIx, IxVec, UnitIx};

/// No limit; small enough that sums do not overflow.
pub(crate) const UNLIMITED: i64 = i64::MAX / 4;

/// The maximum number of paths before a relaxation gives up.
const MOST_PATHS: usize = 4_000;

/// Weights of actors, and capacities of units and of groups of units.
pub(crate) struct Relaxation {
    /// By actor; actors of weight 0 are ignored.
    pub weight: IxVec<ActorIx, i64>,
    /// By unit.
    pub unit_room: IxVec<UnitIx, i64>,
    /// By unit: its group.
    pub group_of: IxVec<UnitIx, usize>,
    /// By group.
    pub group_room: Vec<i64>,
}

/// The predecessor of a unit on an augmenting path.
#[derive(Clone, Copy)]
enum From {
    /// An actor would move here from its present unit.
    Actor(ActorIx, Option<UnitIx>),
    /// The group is full, and an actor on this unit could leave it.
    Group(usize),
}

struct Flow<'a> {
    relaxation: &'a Relaxation,
    units_of_group: Vec<Vec<UnitIx>>,
    /// By unit: the weight of each actor on it.
    on: IxVec<UnitIx, BTreeMap<ActorIx, i64>>,
    unit_used: IxVec<UnitIx, i64>,
    group_used: Vec<i64>,
}

impl Relaxation {
    /// Whether all of `unplaced` cannot join those that `base` places. `domain` gives the candidates of an actor.
    pub fn refutes<'d>(
        &self,
        unplaced: &[ActorIx],
        base: &Assignment,
        domain: &dyn Fn(ActorIx) -> &'d [UnitIx],
        class: &IxVec<ActorIx, usize>,
    ) -> bool {
        let mut flow = Flow::new(self, base);
        let mut paths = MOST_PATHS;
        for &actor in unplaced {
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
    fn new(relaxation: &'a Relaxation, base: &Assignment) -> Self {
        let mut flow = Self {
            relaxation,
            units_of_group: vec![Vec::new(); relaxation.group_room.len()],
            on: IxVec::of(BTreeMap::new(), relaxation.unit_room.len()),
            unit_used: IxVec::of(0, relaxation.unit_room.len()),
            group_used: vec![0; relaxation.group_room.len()],
        };
        for (unit, group) in relaxation.group_of.enumerate() {
            flow.units_of_group[*group].push(unit);
        }
        for (actor, place) in base.enumerate() {
            if let Some(unit) = *place
                && relaxation.weight[actor] > 0
            {
                flow.add(actor, unit, relaxation.weight[actor]);
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
        self.group_used[self.relaxation.group_of[unit]] += amount;
    }

    fn spare(&self, unit: UnitIx) -> i64 {
        self.relaxation.unit_room[unit] - self.unit_used[unit]
    }

    /// Augments the flow by some of the actor's weight; `None` if there is no path.
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
            // Actors of one class have the same candidates, so one of them is expanded.
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
            let group = self.relaxation.group_of[unit];
            if self.spare(unit) > 0 && group_from[group].is_none() {
                group_from[group] = Some(unit);
                if self.group_used[group] < self.relaxation.group_room[group] {
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

    /// Applies the path that ends at `last`: each actor on it moves one step, by the bottleneck amount.
    fn take(
        &mut self,
        left: i64,
        last: UnitIx,
        unit_from: &IxVec<UnitIx, Option<From>>,
        group_from: &[Option<UnitIx>],
    ) -> i64 {
        let group = self.relaxation.group_of[last];
        let mut amount = left.min(self.relaxation.group_room[group] - self.group_used[group]);
        let mut steps = Vec::new();
        let mut unit = last;
        // Where weight is added and none removed, there must be capacity.
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
