//! Leaps: steps of many items at once, from one node to another. What hangs together stays together, where moves of one
//! item after the other would first have to tear it apart. Once nodes have frozen, leaps are what still brings order into
//! zones.

use placement::ix::{ItemIx, IxVec, NodeIx};

use crate::layout::{Change, Layout};
use placement::weighted::NOWHERE;

/// The most items of a group.
const LARGEST: usize = 16;

/// A leap that is thought of.
#[derive(Clone)]
pub(crate) struct Leap {
    /// Who would go where.
    pub changes: Vec<Change>,
    /// By item: the last group that it was taken into.
    group_of: IxVec<ItemIx, u64>,
    groups: u64,
}

impl Leap {
    /// For a world of so many items that can move.
    pub fn new(free: usize) -> Self {
        Self { changes: Vec::new(), group_of: IxVec::of(0, free), groups: 0 }
    }

    /// What is on the item's node, and what is on another one that consists of the same units, in a zone to which
    /// something ties the item.
    pub fn between_nodes(&mut self, layout: &Layout, item: ItemIx, dice: &mut fastrand::Rng) {
        self.changes.clear();
        let regions = &layout.model.regions;
        let Some((node, other)) = ends(layout, item, dice) else { return };
        let zone = regions.zone(other);
        let near = if zone == regions.zone(node) { &[] } else { regions.alike_in(zone, node) };
        let pool = if dice.u32(..8) == 0 { regions.alike(node) } else { near };
        if pool.is_empty() {
            return;
        }
        let other = pool[dice.usize(..pool.len())];
        if other != node && !(self.empty(layout, node, other) && self.empty(layout, other, node)) {
            self.changes.clear();
        }
    }

    /// A group around the item, and often a group that is where it would go: to the node of something that the item is
    /// tied to, or near it.
    pub fn between_groups(&mut self, layout: &Layout, item: ItemIx, dice: &mut fastrand::Rng) {
        self.changes.clear();
        let regions = &layout.model.regions;
        let Some((node, mut other)) = ends(layout, item, dice) else { return };
        if other == node || dice.u32(..4) == 0 {
            let near = regions.nodes(regions.zone(other));
            other = near[dice.usize(..near.len())];
        }
        if other == node {
            return;
        }
        self.gather(layout, item, other, dice.usize(2..=LARGEST), dice);
        let Some((_, _, goal)) = self.changes.first() else { return };
        let there = &layout.on[*goal];
        if there.is_empty() || dice.u32(..4) == 0 {
            return;
        }
        let back = there[dice.usize(..there.len())];
        if layout.model.candidates(back).len() > 1 {
            let most = dice.usize(1..=LARGEST).min(self.changes.len() + 1);
            self.gather(layout, back, node, most, dice);
        }
    }

    /// Has all that can leave a node go to another one; false where somebody may not be there.
    fn empty(&mut self, layout: &Layout, from: NodeIx, to: NodeIx) -> bool {
        let model = layout.model;
        for unit in &model.units_of_node[from] {
            let goal = model.regions.counterpart(*unit, to);
            for item in layout.on[*unit].iter().filter(|item| model.candidates(**item).len() > 1) {
                let Some(goal) = goal.filter(|goal| model.allows(*item, *goal)) else { return false };
                self.changes.push((*item, *unit, goal));
            }
        }
        true
    }

    /// Has an item go to a node, and with it at most so many that are on its node and tied to it, or to those.
    fn gather(&mut self, layout: &Layout, item: ItemIx, to: NodeIx, most: usize, dice: &mut fastrand::Rng) {
        let model = layout.model;
        let first = self.changes.len();
        let from = model.node_of[layout.place[item]];
        self.groups += 1;
        self.take_along(layout, item, from, to);
        let mut next = first;
        while let Some((item, ..)) = self.changes.get(next) {
            next += 1;
            let ties = model.ties(*item);
            let turn = if ties.is_empty() { 0 } else { dice.usize(..ties.len()) };
            for tie in ties[turn..].iter().chain(&ties[..turn]) {
                if self.changes.len() == first + most {
                    return;
                }
                if (tie.peer.at()) < model.free {
                    self.take_along(layout, tie.peer, from, to);
                }
            }
        }
    }

    /// Takes an item into the group if it is on the node and may go to the other one.
    #[inline]
    fn take_along(&mut self, layout: &Layout, item: ItemIx, from: NodeIx, to: NodeIx) {
        let model = layout.model;
        let at = layout.place[item];
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
fn ends(layout: &Layout, item: ItemIx, dice: &mut fastrand::Rng) -> Option<(NodeIx, NodeIx)> {
    let model = layout.model;
    let (at, ties) = (layout.place[item], model.ties(item));
    if at == NOWHERE || ties.is_empty() {
        return None;
    }
    let there = layout.place[ties[dice.usize(..ties.len())].peer];
    (there != NOWHERE).then(|| (model.node_of[at], model.node_of[there]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anneal::Walk;
    use crate::construct::place_the_rest;
    use crate::model::Model;
    use crate::rearrange::tests::world;

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
            let mut dice = fastrand::Rng::with_seed(seed as u64);
            let snapshot = world(&mut dice, objectives);
            let model = Model::new(&snapshot);
            let mut layout = Layout::new(&model);
            place_the_rest(&mut layout);
            let mut walk = Walk::new(layout, seed as u64);
            let (mean, _) = walk.scales();
            for part in 1..20 {
                walk.set_prices(f64::from(part), f64::from(part));
                walk.run(500, mean / f64::from(part), mean / f64::from(part + 1));
                let mut same = Layout::new(&model);
                same.set_slack(walk.layout.slack);
                same.adopt(&walk.layout.place);
                assert_eq!(same.place, walk.layout.place, "seed {seed}: all limits and relations hold");
                assert_eq!(same.energy, walk.layout.energy, "seed {seed}");
                assert_eq!(same.total_excess() == 0, walk.is_within_limits(), "seed {seed}");
            }
        }
    }
}
