//! Compound moves: many items move at once, from one node or unit to another.
//!
//! They keep clusters together, which single moves would first have to tear apart. Once the contents of nodes have
//! frozen, compound moves still arrange nodes in zones.

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::evaluation::solution::Solution;
use crate::model::Change;
use placement::weighted::NOWHERE;

/// The most items of a group.
const MAX_GROUP: usize = 16;

/// The most items of a rotation, and how often a unit is drawn for one of them.
const MAX_ROTATION: usize = 4;
const TRIES: usize = 4;

/// The most further items of a trade, and how many are drawn to choose one.
const MAX_FURTHER: usize = 4;
const SAMPLED: usize = 4;

/// A compound move under construction.
#[derive(Clone)]
pub(crate) struct CompoundMove {
    /// The moves of its items.
    pub changes: Vec<Change>,
    /// By item: the last group that it joined.
    group_of: IxVec<ItemIx, u64>,
    groups: u64,
}

impl CompoundMove {
    /// For so many free items.
    pub fn new(free: usize) -> Self {
        Self { changes: Vec::new(), group_of: IxVec::of(0, free), groups: 0 }
    }

    /// Swaps the items of the item's node with those of an interchangeable node, mostly in the zone of a peer.
    pub fn between_nodes(&mut self, solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) {
        self.changes.clear();
        let classes = &solution.model.node_classes;
        let Some((node, other)) = ends(solution, item, rng) else { return };
        let zone = classes.zone(other);
        let near = if zone == classes.zone(node) { &[] } else { classes.interchangeable_in(zone, node) };
        let pool = if rng.u32(..8) == 0 { classes.interchangeable(node) } else { near };
        if pool.is_empty() {
            return;
        }
        let other = pool[rng.usize(..pool.len())];
        if other != node && !(self.move_all(solution, node, other) && self.move_all(solution, other, node)) {
            self.changes.clear();
        }
    }

    /// Moves a group around the item to the node of a peer or near it, and often a group from there back.
    pub fn between_groups(&mut self, solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) {
        self.changes.clear();
        let classes = &solution.model.node_classes;
        let Some((node, mut other)) = ends(solution, item, rng) else { return };
        if other == node || rng.u32(..4) == 0 {
            let near = classes.nodes(classes.zone(other));
            other = near[rng.usize(..near.len())];
        }
        if other == node {
            return;
        }
        self.gather(solution, item, other, rng.usize(2..=MAX_GROUP), rng);
        let Some((_, _, goal)) = self.changes.first() else { return };
        let occupants = &solution.occupants[*goal];
        if occupants.is_empty() || rng.u32(..4) == 0 {
            return;
        }
        let back = occupants[rng.usize(..occupants.len())];
        if solution.model.candidates(back).len() > 1 {
            let most = rng.usize(1..=MAX_GROUP).min(self.changes.len() + 1);
            self.gather(solution, back, node, most, rng);
        }
    }

    /// Two items that swap, and further items so that resources suffice on both units; false where none helps.
    pub fn trade(&mut self, solution: &Solution, first: [Change; 2], rng: &mut fastrand::Rng) -> bool {
        let [(_, from, to), _] = first;
        self.changes.clear();
        self.changes.extend(first);
        for _ in 0..MAX_FURTHER {
            let short = |unit| solution.shortage(&self.changes, unit);
            let (gives, takes, (dim, lacking)) = match (short(from), short(to)) {
                // If no resource is short, other limits reject the pair.
                (None, None) => return self.changes.len() > 2,
                (Some(lack), None) => (from, to, lack),
                (None, Some(lack)) => (to, from, lack),
                (Some(_), Some(_)) => return false,
            };
            let occupants = &solution.occupants[gives];
            let model = solution.model;
            // Prefer the item that frees just enough.
            let sampled = (0..SAMPLED.min(occupants.len())).map(|_| occupants[rng.usize(..occupants.len())]);
            let suitable = sampled.filter(|item| {
                model.allows(*item, takes) && self.changes.iter().all(|(other, ..)| other != item)
            });
            let frees = |item: &ItemIx| {
                let need = model.needs(*item, gives)[dim];
                (need < lacking, (need - lacking).abs(), *item)
            };
            let Some(item) = suitable.min_by_key(frees) else { return false };
            self.changes.push((item, gives, takes));
        }
        [from, to].iter().all(|unit| solution.shortage(&self.changes, *unit).is_none())
    }

    /// A cyclic exchange of items on full units: each moves to where the next one is, the last to where the first was or
    /// where there is room. False where none is found.
    pub fn rotate(
        &mut self,
        solution: &Solution,
        first: Change,
        second: ItemIx,
        rng: &mut fastrand::Rng,
    ) -> bool {
        let model = solution.model;
        let (_, home, mut at) = first;
        let mut displaced = second;
        self.changes.clear();
        self.changes.push(first);
        while self.changes.len() < MAX_ROTATION {
            let sampled = (0..TRIES).map(|_| model.proposed_target(&solution.place, displaced, rng));
            let is_new = |unit: &UnitIx| *unit != home && self.changes.iter().all(|(.., to)| to != unit);
            let Some(to) = { sampled }.find(|unit| is_new(unit) && model.allows(displaced, *unit)) else {
                return false;
            };
            self.changes.push((displaced, at, to));
            let occupants = &solution.occupants[to];
            if occupants.is_empty() || !solution.is_rejected(displaced, to) {
                return true;
            }
            let next = occupants[rng.usize(..occupants.len())];
            if model.allows(next, home) {
                self.changes.push((next, to, home));
                return true;
            }
            (displaced, at) = (next, to);
        }
        false
    }

    /// Moves all free items of a node to another one; false where one of them may not be there.
    fn move_all(&mut self, solution: &Solution, from: NodeIx, to: NodeIx) -> bool {
        let model = solution.model;
        for unit in &model.units_of_node[from] {
            let goal = model.node_classes.counterpart(*unit, to);
            for item in solution.occupants[*unit].iter().filter(|item| model.candidates(**item).len() > 1) {
                let Some(goal) = goal.filter(|goal| model.allows(*item, *goal)) else { return false };
                self.changes.push((*item, *unit, goal));
            }
        }
        true
    }

    /// Moves an item to a node, with at most `most` items of its node that are tied to it, directly or transitively.
    fn gather(
        &mut self,
        solution: &Solution,
        item: ItemIx,
        to: NodeIx,
        most: usize,
        rng: &mut fastrand::Rng,
    ) {
        let model = solution.model;
        let first = self.changes.len();
        let from = model.node_of[solution.place[item]];
        self.groups += 1;
        self.join_group(solution, item, from, to);
        let mut next = first;
        while let Some((item, ..)) = self.changes.get(next) {
            next += 1;
            let ties = model.ties(*item);
            let turn = if ties.is_empty() { 0 } else { rng.usize(..ties.len()) };
            for tie in ties[turn..].iter().chain(&ties[..turn]) {
                if self.changes.len() == first + most {
                    return;
                }
                if (tie.peer.at()) < model.free {
                    self.join_group(solution, tie.peer, from, to);
                }
            }
        }
    }

    /// Adds an item to the group if it is on `from` and may move to `to`.
    #[inline]
    fn join_group(&mut self, solution: &Solution, item: ItemIx, from: NodeIx, to: NodeIx) {
        let model = solution.model;
        let at = solution.place[item];
        if at == NOWHERE
            || model.node_of[at] != from
            || self.group_of[item] == self.groups
            || model.candidates(item).len() < 2
        {
            return;
        }
        if let Some(goal) = model.node_classes.counterpart(at, to).filter(|goal| model.allows(item, *goal)) {
            self.group_of[item] = self.groups;
            self.changes.push((item, at, goal));
        }
    }
}

/// The node of an item, and that of a random peer.
fn ends(solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) -> Option<(NodeIx, NodeIx)> {
    let model = solution.model;
    let (at, ties) = (solution.place[item], model.ties(item));
    if at == NOWHERE || ties.is_empty() && !model.has_groups(item) {
        return None;
    }
    let peer_at = solution.place[model.proposed_peer(item, u32::from(!ties.is_empty()), rng)?];
    (peer_at != NOWHERE).then(|| (model.node_of[at], model.node_of[peer_at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anneal::annealer::Annealer;
    use crate::construction::initial_placement::place_remaining;
    use crate::model::Model;
    use crate::tests::world;

    #[test]
    fn incremental_costs_equal_a_fresh_evaluation() {
        for (seed, objectives) in [
            r#""overload","communication""#,
            r#""overload","consolidate","communication","spread""#,
            r#""bottleneck","communication","annoyance""#,
            r#""communication","overload""#,
        ]
        .into_iter()
        .cycle()
        .take(80)
        .enumerate()
        {
            let mut rng = fastrand::Rng::with_seed(seed as u64);
            let snapshot = world(&mut rng, objectives);
            let model = Model::new(&snapshot);
            let mut solution = Solution::new(&model);
            place_remaining(&mut solution, &|| false);
            let mut annealer = Annealer::new(solution, seed as u64);
            let (mean, _) = annealer.loss_scales();
            for part in 1..20 {
                annealer.set_penalties(f64::from(part), f64::from(part));
                annealer.run(500, mean / f64::from(part), mean / f64::from(part + 1));
                let mut same = Solution::new(&model);
                same.set_overload_allowance(annealer.solution.overload_allowance);
                same.adopt(&annealer.solution.place);
                assert_eq!(same.place, annealer.solution.place, "seed {seed}: all limits and relations hold");
                assert_eq!(same.objective, annealer.solution.objective, "seed {seed}");
                assert_eq!(same.total_excess(), annealer.excess, "seed {seed}");
            }
        }
    }

    /// Overloaded units, and unplaced actors that may replace others of equal size: single ones, or two that must be
    /// together.
    #[test]
    fn excess_stays_exact_when_unplaced_items_are_placed() {
        for (slots, rest, rules) in [(2, "e:cpu=2", ""), (3, "e:cpu=1 f:cpu=1", "together unit e f")] {
            for seed in 0..20 {
                let units = format!("u:cpu:12:slots={slots} v:cpu:12:slots={slots}");
                let actors = format!("a:cpu=7 b:cpu=7 c:cpu=4 d:cpu=4 {rest}");
                let snapshot = testkit::line::world(&units, &actors, rules);
                let start = testkit::line::assignment(&snapshot, "a=u b=u c=v d=v");
                let model = Model::new(&snapshot);
                let mut solution = Solution::new(&model);
                solution.adopt(&model.places(&start));
                assert_eq!((solution.total_excess(), solution.unplaced), (2, actors.split(' ').count() - 4));
                let mut annealer = Annealer::new(solution, seed);
                let (mean, _) = annealer.loss_scales();
                for part in 1..20 {
                    annealer.set_penalties(f64::from(part), f64::from(part));
                    annealer.run(500, mean / f64::from(part), mean / f64::from(part + 1));
                    assert_eq!(annealer.solution.total_excess(), annealer.excess, "seed {seed}: {rest}");
                }
            }
        }
    }
}
