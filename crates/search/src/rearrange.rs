//! Changes of many places at once: what they would cost, and making them.

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::layout::{Change, Layout};
use placement::weighted::NOWHERE;

/// What is noted while changes are judged; empty in between.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    /// By free item: where it was, if it is among the changes.
    was: IxVec<ItemIx, UnitIx>,
    /// Units that something leaves or comes to.
    touched: Vec<UnitIx>,
    is_touched: IxVec<UnitIx, bool>,
}

impl Notes {
    pub fn new(free: usize, units: usize) -> Self {
        Self { was: IxVec::of(NOWHERE, free), touched: Vec::new(), is_touched: IxVec::of(false, units) }
    }
}

impl Layout<'_> {
    /// How energy and excess would change if items with a place went elsewhere all at once; `None` where a limit or a
    /// relation is against it. All may be where they would go; figures are left out.
    pub fn gain_of_all(&mut self, changes: &[Change]) -> Option<(i64, i64)> {
        let more = self.more_excess(changes)?;
        for (item, from, to) in changes {
            self.notes.was[*item] = *from;
            self.place[*item] = *to;
        }
        let gain = changes.iter().try_fold(0, |sum, change| Some(sum + self.share_of_gain(change)?));
        for (item, from, _) in changes {
            self.notes.was[*item] = NOWHERE;
            self.place[*item] = *from;
        }
        Some((gain?, more))
    }

    /// Makes changes that have been judged; figures have followed.
    pub fn rearrange(&mut self, changes: &[Change]) {
        for (item, _, to) in changes {
            let gain = self.gain(*item, *to);
            self.shift(*item, *to, gain);
        }
    }

    /// How the excess would change; `None` where something else than work would not suffice.
    fn more_excess(&mut self, changes: &[Change]) -> Option<i64> {
        let model = self.model;
        let mut notes = std::mem::take(&mut self.notes);
        let mut before = 0;
        for unit in changes.iter().flat_map(|(_, from, to)| [*from, *to]) {
            if !std::mem::replace(&mut notes.is_touched[unit], true) {
                notes.touched.push(unit);
                before += self.excess(unit);
            }
        }
        for (item, from, to) in changes {
            self.change_left(*item, *from, 1);
            self.change_left(*item, *to, -1);
        }
        let (mut after, mut suffices) = (0, true);
        for unit in notes.touched.drain(..) {
            notes.is_touched[unit] = false;
            after += self.excess(unit);
            let node = model.node_of[unit].at();
            let left = &self.left[unit.at() * model.dims..][1..model.dims];
            let on_node = &self.node_left[node * model.node_dims..][..model.node_dims];
            suffices &= left.iter().chain(on_node).all(|left| *left >= 0);
        }
        for (item, from, to) in changes {
            self.change_left(*item, *from, -1);
            self.change_left(*item, *to, 1);
        }
        self.notes = notes;
        suffices.then_some(after - before)
    }

    /// What one of the changes adds to the gain, with all of them made; pairs that change at both ends count at the
    /// first. `None` where a relation is against it.
    #[inline]
    fn share_of_gain(&self, (item, from, to): &Change) -> Option<i64> {
        let model = self.model;
        if !self.relates(*item, *to) {
            return None;
        }
        let mut gain = model.cost_alone(*item, *to) - self.here[*item];
        for tie in model.ties(*item) {
            let cost = model.tie_cost(tie, *to, self.place[tie.peer]);
            gain += cost;
            let was = self.notes.was.get(tie.peer).copied().unwrap_or(NOWHERE);
            if was != NOWHERE && *item < tie.peer {
                gain -= cost - model.tie_cost(tie, *from, was);
            }
        }
        Some(gain)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::construct::place_the_rest;
    use crate::model::Model;
    use placement::Snapshot;

    /// Four nodes in two zones, with memory on units and licences on nodes; 16 actors, most of which talk to others.
    pub fn world(dice: &mut fastrand::Rng, objectives: &str) -> Snapshot {
        let list = |items: Vec<String>| items.join(",");
        let nodes =
            |node: u32| format!(r#"{{"id":"n{node}","zone":"z{}","provides":{{"licence":3}}}}"#, node / 2);
        let unit = |at: u32| {
            let (kind, node) = (["cpu", "cpu", "gpu"][at as usize % 3], at / 3);
            format!(
                r#"{{"id":"u{at}","kind":"{kind}","node":"n{node}","zone":"z{}","capacity":20,"provides":{{"memory":6}}}}"#,
                node / 2
            )
        };
        let mut actor = |id: u32| {
            let (cpu, gpu, memory) = (dice.u32(1..12), dice.u32(1..9), dice.u32(0..5));
            let licence = dice.u32(0..2);
            format!(
                r#"{{"id":"a{id}","group":"g{}","runsOn":{{"cpu":{cpu},"gpu":{{"work":{gpu},"nodeRequires":{{"licence":{licence}}}}}}},
                "requires":{{"memory":{memory}}}}}"#,
                id % 3
            )
        };
        let actors = list((0..16).map(&mut actor).collect());
        let mut pair = |rest: &str| {
            let (a, b) = (dice.u32(0..16), dice.u32(0..15));
            let b = if b >= a { b + 1 } else { b };
            rest.replace("$a", &format!("a{a}"))
                .replace("$b", &format!("a{b}"))
                .replace('#', &dice.u32(1..50).to_string())
        };
        let messages = list((0..30).map(|_| pair(r#"{"from":"$a","to":"$b","count":#}"#)).collect());
        let annoyance = list((0..8).map(|_| pair(r#"{"a":"$a","b":"$b","drag":#}"#)).collect());
        let apart =
            list((0..4).map(|_| pair(r#"{"type":"apart","on":"node","actors":["$a","$b"]}"#)).collect());
        let json = format!(
            r#"{{"version":1,"nodes":[{}],"units":[{}],"actors":[{actors}],"messages":[{messages}],
            "annoyance":[{annoyance}],
            "exchangeCost":{{"kinds":{{"cpu":{{"cpu":1,"gpu":5}}}},"otherKind":2,"otherNode":30,"otherZone":30}},
            "constraints":[{apart},{{"type":"together","on":"zone","actors":["a0","a1"]}},
            {{"type":"prefer","actor":"a2","unit":"u5","weight":7}}],
            "objectives":[{objectives}]}}"#,
            list((0..4).map(nodes).collect()),
            list((0..12).map(unit).collect())
        );
        Snapshot::read(&json).unwrap()
    }

    #[test]
    fn changes_of_all_at_once_cost_what_the_new_placement_costs() {
        let (mut lawful, mut unlawful) = (0, 0);
        for seed in 0..400 {
            let mut dice = fastrand::Rng::with_seed(seed);
            let snapshot = world(&mut dice, r#""overload","communication","annoyance","policy""#);
            let model = Model::new(&snapshot);
            let mut layout = Layout::new(&model);
            place_the_rest(&mut layout);
            for _ in 0..20 {
                let mut changes: Vec<Change> = Vec::new();
                for item in ItemIx::first(model.free) {
                    let candidates = model.candidates(item);
                    let to = candidates[dice.usize(..candidates.len())];
                    if layout.place[item] != NOWHERE && dice.u32(..4) == 0 {
                        changes.push((item, layout.place[item], to));
                    }
                }
                let mut places = layout.place.clone();
                for (item, _, to) in &changes {
                    places[*item] = *to;
                }
                let mut after = Layout::new(&model);
                after.adopt(&places);
                let expected = (after.place == places)
                    .then(|| (after.energy - layout.energy, after.total_excess() - layout.total_excess()));
                assert_eq!(layout.gain_of_all(&changes), expected, "seed {seed}");
                if let Some((gain, _)) = expected {
                    let energy = layout.energy;
                    layout.rearrange(&changes);
                    assert_eq!((&layout.place, layout.energy), (&places, energy + gain), "seed {seed}");
                    lawful += 1;
                } else {
                    unlawful += 1;
                }
            }
        }
        assert!(lawful > 500 && unlawful > 500, "{lawful} lawful, {unlawful} not");
    }
}
