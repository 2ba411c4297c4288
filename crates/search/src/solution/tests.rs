//! How often figures are asked for their value, some of which look at all messages for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use placement::Snapshot;
use placement::criteria::{Figure, Step};

use super::*;
use crate::balance::even_out;
use crate::construct::place_the_rest;
use crate::ejection::eject;
use crate::tests::world;

/// A figure that is 0, and how often it said so.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// A solution in which it is one of the figures.
    fn beside<'m>(&self, model: &'m Model<'m>) -> Solution<'m> {
        let mut solution = Solution::new(model);
        let figures = solution.figures.as_mut().expect("the world has figures");
        figures.terms.push((1, self.boxed()));
        solution
    }

    /// How often since the last time.
    fn times(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Figure for Asked {
    fn count(&mut self, _: &Snapshot, _: &Step) {}

    fn value(&self, _: &Snapshot) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn with(&self, _: &Snapshot, _: &Step) -> i64 {
        0
    }

    fn boxed(&self) -> Box<dyn Figure> {
        Box::new(self.clone())
    }
}

/// What many items go somewhere by.
type Act = fn(&mut Solution);

#[test]
fn where_many_go_somewhere_figures_are_asked_once() {
    let acts: [(&str, Act); 4] = [
        ("what runs", |solution| solution.adopt(&IxVec::of(UnitIx::new(0), solution.model.free))),
        ("a first placement", |solution| _ = place_the_rest(solution, &|| false)),
        ("room for who is left", |solution| _ = eject(solution, &mut fastrand::Rng::with_seed(1), &|| false)),
        ("loads", |solution| _ = even_out(solution, &mut fastrand::Rng::with_seed(1), &|| false)),
    ];
    for seed in 0..8 {
        let snapshot = world(
            &mut fastrand::Rng::with_seed(seed),
            r#""overload","consolidate","communication","spread""#,
        );
        let (model, asked) = (Model::new(&snapshot), Asked::default());
        let mut solution = asked.beside(&model);
        for (name, act) in acts {
            act(&mut solution);
            assert!(asked.times() <= 1, "seed {seed}: {name}");
            let mut one_by_one = Solution::new(&model);
            for item in ItemIx::first(model.free).filter(|item| solution.place[*item] != NOWHERE) {
                one_by_one.put(item, solution.place[item]);
            }
            assert_eq!(solution.objective, one_by_one.objective, "seed {seed}: {name}");
        }
        for item in ItemIx::first(model.free) {
            let changes = [(item, solution.place[item], NOWHERE)];
            assert!(solution.keeps_rules(&changes));
        }
        assert_eq!(asked.times(), 0, "seed {seed}: nothing of rules is read off terms");
    }
}
