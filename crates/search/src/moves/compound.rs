//! Compound moves: steps of many items at once, from one node or unit to another.
//!
//! What hangs together stays together, where moves of one item after the other would first have to tear it apart. Once
//! nodes have frozen, compound moves are what still brings order into zones.

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::evaluation::solution::Solution;
use crate::model::Change;
use placement::weighted::NOWHERE;

/// The most items of a group.
const LARGEST: usize = 16;

/// The most items that change places in turn, and how often a unit is drawn for one of them.
const LONGEST_ROTATION: usize = 4;
const TRIES: usize = 4;

/// How many more change over in a trade, at most, and of how many one is chosen.
const MOST_MORE: usize = 4;
const DRAWN: usize = 4;

/// A compound move that is thought of.
#[derive(Clone)]
pub(crate) struct CompoundMove {
    /// Who would go where.
    pub changes: Vec<Change>,
    /// By item: the last group that it was taken into.
    group_of: IxVec<ItemIx, u64>,
    groups: u64,
}

impl CompoundMove {
    /// For a world of so many items that can move.
    pub fn new(free: usize) -> Self {
        Self { changes: Vec::new(), group_of: IxVec::of(0, free), groups: 0 }
    }

    /// What is on the item's node, and what is on another one that consists of the same units, in a zone to which
    /// something ties the item.
    pub fn between_nodes(&mut self, solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) {
        self.changes.clear();
        let regions = &solution.model.regions;
        let Some((node, other)) = ends(solution, item, rng) else { return };
        let zone = regions.zone(other);
        let near = if zone == regions.zone(node) { &[] } else { regions.alike_in(zone, node) };
        let pool = if rng.u32(..8) == 0 { regions.alike(node) } else { near };
        if pool.is_empty() {
            return;
        }
        let other = pool[rng.usize(..pool.len())];
        if other != node && !(self.empty(solution, node, other) && self.empty(solution, other, node)) {
            self.changes.clear();
        }
    }

    /// A group around the item, and often a group that is where it would go: to the node of something that the item is
    /// tied to, or near it.
    pub fn between_groups(&mut self, solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) {
        self.changes.clear();
        let regions = &solution.model.regions;
        let Some((node, mut other)) = ends(solution, item, rng) else { return };
        if other == node || rng.u32(..4) == 0 {
            let near = regions.nodes(regions.zone(other));
            other = near[rng.usize(..near.len())];
        }
        if other == node {
            return;
        }
        self.gather(solution, item, other, rng.usize(2..=LARGEST), rng);
        let Some((_, _, goal)) = self.changes.first() else { return };
        let there = &solution.on[*goal];
        if there.is_empty() || rng.u32(..4) == 0 {
            return;
        }
        let back = there[rng.usize(..there.len())];
        if solution.model.candidates(back).len() > 1 {
            let most = rng.usize(1..=LARGEST).min(self.changes.len() + 1);
            self.gather(solution, back, node, most, rng);
        }
    }

    /// Two items that change units, and whoever else has to change over so that resources suffice on both; false where nobody helps.
    pub fn trade(&mut self, solution: &Solution, first: [Change; 2], rng: &mut fastrand::Rng) -> bool {
        let [(_, from, to), _] = first;
        self.changes.clear();
        self.changes.extend(first);
        for _ in 0..MOST_MORE {
            let short = |unit| solution.shortage(&self.changes, unit);
            let (gives, takes, (dim, lacking)) = match (short(from), short(to)) {
                // What refuses two alone is no resource.
                (None, None) => return self.changes.len() > 2,
                (Some(lack), None) => (from, to, lack),
                (None, Some(lack)) => (to, from, lack),
                (Some(_), Some(_)) => return false,
            };
            let there = &solution.on[gives];
            let model = solution.model;
            // Whoever frees just enough.
            let drawn = (0..DRAWN.min(there.len())).map(|_| there[rng.usize(..there.len())]);
            let suited = drawn.filter(|item| {
                model.allows(*item, takes) && self.changes.iter().all(|(other, ..)| other != item)
            });
            let frees = |item: &ItemIx| {
                let need = model.needs(*item, gives)[dim];
                (need < lacking, (need - lacking).abs(), *item)
            };
            let Some(item) = suited.min_by_key(frees) else { return false };
            self.changes.push((item, gives, takes));
        }
        [from, to].iter().all(|unit| solution.shortage(&self.changes, *unit).is_none())
    }

    /// Items on full units, each of which goes where the next one is, for where the second may not be where the first is; the last one
    /// goes there, or where there is room. False where none is found.
    pub fn rotate(
        &mut self,
        solution: &Solution,
        first: Change,
        second: ItemIx,
        rng: &mut fastrand::Rng,
    ) -> bool {
        let model = solution.model;
        let (_, home, mut at) = first;
        let mut leaving = second;
        self.changes.clear();
        self.changes.push(first);
        while self.changes.len() < LONGEST_ROTATION {
            let drawn = (0..TRIES).map(|_| model.drawn_target(&solution.place, leaving, rng));
            let is_new = |unit: &UnitIx| *unit != home && self.changes.iter().all(|(.., to)| to != unit);
            let Some(to) = { drawn }.find(|unit| is_new(unit) && model.allows(leaving, *unit)) else {
                return false;
            };
            self.changes.push((leaving, at, to));
            let there = &solution.on[to];
            if there.is_empty() || !solution.is_refused(leaving, to) {
                return true;
            }
            let next = there[rng.usize(..there.len())];
            if model.allows(next, home) {
                self.changes.push((next, to, home));
                return true;
            }
            (leaving, at) = (next, to);
        }
        false
    }

    /// Has all that can leave a node go to another one; false where somebody may not be there.
    fn empty(&mut self, solution: &Solution, from: NodeIx, to: NodeIx) -> bool {
        let model = solution.model;
        for unit in &model.units_of_node[from] {
            let goal = model.regions.counterpart(*unit, to);
            for item in solution.on[*unit].iter().filter(|item| model.candidates(**item).len() > 1) {
                let Some(goal) = goal.filter(|goal| model.allows(*item, *goal)) else { return false };
                self.changes.push((*item, *unit, goal));
            }
        }
        true
    }

    /// Has an item go to a node, and with it at most so many that are on its node and tied to it, or to those.
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
        self.take_along(solution, item, from, to);
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
                    self.take_along(solution, tie.peer, from, to);
                }
            }
        }
    }

    /// Takes an item into the group if it is on the node and may go to the other one.
    #[inline]
    fn take_along(&mut self, solution: &Solution, item: ItemIx, from: NodeIx, to: NodeIx) {
        let model = solution.model;
        let at = solution.place[item];
        if at == NOWHERE
            || model.node_of[at] != from
            || self.group_of[item] == self.groups
            || model.candidates(item).len() < 2
        {
            return;
        }
        if let Some(goal) = model.regions.counterpart(at, to).filter(|goal| model.allows(item, *goal)) {
            self.group_of[item] = self.groups;
            self.changes.push((item, at, goal));
        }
    }
}

/// The node of an item, and that of something that it is tied to.
fn ends(solution: &Solution, item: ItemIx, rng: &mut fastrand::Rng) -> Option<(NodeIx, NodeIx)> {
    let model = solution.model;
    let (at, ties) = (solution.place[item], model.ties(item));
    if at == NOWHERE || ties.is_empty() && !model.has_groups(item) {
        return None;
    }
    let there = solution.place[model.drawn_peer(item, u32::from(!ties.is_empty()), rng)?];
    (there != NOWHERE).then(|| (model.node_of[at], model.node_of[there]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anneal::annealer::Chain;
    use crate::construction::initial_placement::place_the_rest;
    use crate::model::Model;
    use crate::tests::world;

    #[test]
    fn a_walk_knows_what_its_placement_costs() {
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
            place_the_rest(&mut solution, &|| false);
            let mut chain = Chain::new(solution, seed as u64);
            let (mean, _) = chain.scales();
            for part in 1..20 {
                chain.set_prices(f64::from(part), f64::from(part));
                chain.run(500, mean / f64::from(part), mean / f64::from(part + 1));
                let mut same = Solution::new(&model);
                same.set_slack(chain.solution.slack);
                same.adopt(&chain.solution.place);
                assert_eq!(same.place, chain.solution.place, "seed {seed}: all limits and relations hold");
                assert_eq!(same.objective, chain.solution.objective, "seed {seed}");
                assert_eq!(same.total_excess(), chain.excess, "seed {seed}");
            }
        }
    }

    /// Units that have too much, and one without a place that may come for another: alike, or two who must be together.
    #[test]
    fn a_walk_knows_what_units_have_too_much_of_when_somebody_is_brought_in() {
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
                let mut chain = Chain::new(solution, seed);
                let (mean, _) = chain.scales();
                for part in 1..20 {
                    chain.set_prices(f64::from(part), f64::from(part));
                    chain.run(500, mean / f64::from(part), mean / f64::from(part + 1));
                    assert_eq!(chain.solution.total_excess(), chain.excess, "seed {seed}: {rest}");
                }
            }
        }
    }
}
