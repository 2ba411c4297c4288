//! How many items of a large relation are in each domain, so that its check does not visit all of them.

use std::collections::BTreeMap;

use placement::ix::{ItemIx, IxVec, PlaceIx, RelationIx, UnitIx};
use placement::weighted::{ItemRelation, NOWHERE, Weighted};

/// Items of a relation from which they are counted. Fewer are visited in less time.
const COUNTED: usize = 64;

/// By relation, if it is large: the number of its items in each domain.
#[derive(Clone)]
pub(crate) struct RelationCounts(IxVec<RelationIx, Option<Counts>>);

#[derive(Clone, Default)]
struct Counts {
    placed: usize,
    at: BTreeMap<PlaceIx, usize>,
}

impl RelationCounts {
    /// With no item placed; `None` if no relation is large.
    pub fn new(model: &Weighted) -> Option<Self> {
        let counts = |given: &ItemRelation| (given.items.len() >= COUNTED).then(Counts::default);
        let all: IxVec<RelationIx, Option<Counts>> = model.relations.iter().map(counts).collect();
        all.iter().any(Option::is_some).then_some(Self(all))
    }

    /// Applies a move; either end may be unplaced.
    pub fn count(&mut self, model: &Weighted, item: ItemIx, from: UnitIx, to: UnitIx) {
        for relation in model.relations_of(item) {
            let Some(counts) = &mut self.0[*relation] else { continue };
            let scope = model.relations[*relation].scope;
            if from != NOWHERE {
                let place = model.place(scope, from);
                counts.placed -= 1;
                let count = counts.at.entry(place).or_default();
                *count -= 1;
                if *count == 0 {
                    counts.at.remove(&place);
                }
            }
            if to != NOWHERE {
                counts.placed += 1;
                *counts.at.entry(model.place(scope, to)).or_default() += 1;
            }
        }
    }

    /// Whether a relation holds with an item on a unit and another one elsewhere; `None` if its items are not counted.
    pub fn holds(
        &self,
        model: &Weighted,
        relation: RelationIx,
        place: &IxVec<ItemIx, UnitIx>,
        (item, unit): (ItemIx, UnitIx),
        (other, other_at): (ItemIx, UnitIx),
    ) -> Option<bool> {
        let (counts, given) = (self.0[relation].as_ref()?, &model.relations[relation]);
        let here = model.place(given.scope, unit);
        let is_here = |at: UnitIx| at != NOWHERE && model.place(given.scope, at) == here;
        let (mut placed, mut together) = (counts.placed, counts.at.get(&here).copied().unwrap_or(0));
        let mut leave = |at: UnitIx| {
            placed -= usize::from(at != NOWHERE);
            together -= usize::from(is_here(at));
        };
        leave(place[item]);
        if other != ItemIx::NONE && given.items.binary_search(&other).is_ok() {
            leave(place[other]);
            placed += usize::from(other_at != NOWHERE);
            together += usize::from(is_here(other_at));
        }
        Some(if given.apart { together == 0 } else { together == placed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::solution::Solution;
    use crate::model::Model;

    /// Two relations of so many items each, which overlap.
    fn world(items: usize, kind: &str) -> placement::Snapshot {
        let units: Vec<String> = (0..12).map(|at| format!("u{at}:cpu:9000:node=n{}", at / 3)).collect();
        let name = |at: usize| format!("a{at}");
        let actors: Vec<String> = (0..items + items / 2).map(|at| format!("{}:cpu=1", name(at))).collect();
        let members = |from: usize| (from..from + items).map(name).collect::<Vec<_>>().join(" ");
        let rules = format!("{kind} node {}; {kind} zone {}", members(0), members(items / 2));
        testkit::line::world(&units.join(" "), &actors.join(" "), &rules)
    }

    /// Random placements, feasible or not, and random swaps: the same answer as from visiting every item.
    #[test]
    fn counts_answer_as_visits_do() {
        let (mut held, mut broken) = (0, 0);
        for (seed, kind) in (0..60).zip(["apart", "together"].into_iter().cycle()) {
            let snapshot = world(COUNTED, kind);
            let model = Model::new(&snapshot);
            let (mut solution, mut rng) = (Solution::new(&model), fastrand::Rng::with_seed(seed));
            let most = rng.usize(1..4);
            for _ in 0..rng.usize(1..80) {
                let item = ItemIx::new(rng.usize(..model.free));
                let unit = UnitIx::new(rng.usize(..most));
                if solution.place[item] == NOWHERE {
                    solution.put(item, unit);
                } else if rng.bool() {
                    solution.force_move(item, unit);
                } else {
                    solution.remove(item);
                }
            }
            for _ in 0..200 {
                let [item, other] = [(); 2].map(|()| ItemIx::new(rng.usize(..model.free)));
                let unit = UnitIx::new(rng.usize(..model.units));
                let (other, at) = if rng.bool() && other != item {
                    (other, if rng.u8(..4) == 0 { NOWHERE } else { UnitIx::new(rng.usize(..model.units)) })
                } else {
                    (ItemIx::NONE, NOWHERE)
                };
                let holds = solution.keeps_relations_if(item, unit, other, at);
                let counts = solution.relation_counts.take();
                assert!(counts.is_some(), "the relations are large");
                assert_eq!(solution.keeps_relations_if(item, unit, other, at), holds, "seed {seed}");
                solution.relation_counts = counts;
                held += usize::from(holds);
                broken += usize::from(!holds);
            }
        }
        assert!(held > 500 && broken > 500, "{held} {broken}");
    }
}
