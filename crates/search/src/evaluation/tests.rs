//! How often figures are asked for their value, some of which look at all messages for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use placement::criteria::{Figure, Step};
use placement::{Criterion, Snapshot};

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use super::solution::Solution;
use crate::anneal::annealer::Chain;
use crate::construction::initial_placement::place_the_rest;
use crate::model::{Model, ROUND, STEPS};
use crate::moves::ejection::eject;
use crate::moves::load_balancing::even_out;
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

/// Numbers that figures look at between two looks at the clock, where each time is as long as what a step changes of paths.
#[test]
fn where_figures_take_long_a_piece_has_fewer_steps() {
    /// Figures that a step asks at most: of a move, of an exchange in its place, and of a compound one.
    const BY_STEP: u64 = 3;
    let mut steps = Vec::new();
    for stages in [[8, 12, 8], [160, 240, 160], [240, 360, 240]] {
        let mut file = testkit::all_to_all(&stages, 32, 1).file().clone();
        file.objectives = "overload,latency".parse().unwrap();
        let snapshot = Snapshot::new(file).unwrap();
        let (model, asked) = (Model::new(&snapshot), Asked::default());
        let mut solution = asked.beside(&model);
        place_the_rest(&mut solution, &|| false);
        assert!(asked.times() <= 1);
        let mut chain = Chain::new(solution, 1);
        let looked_at = Criterion::Latency.measure().looks_at(&snapshot) as u64;
        let most = BY_STEP * (2 * STEPS * ROUND * 8).max(32 * looked_at);
        let of_samples = asked.times() as u64 * looked_at;
        assert!(of_samples <= most, "{stages:?}: {of_samples} of {most} numbers for the scale of losses");
        let (mean, _) = chain.scales();
        chain.set_prices(1.0, 1.0);
        chain.run(model.steps(), mean, mean / 2.0);
        let of_piece = asked.times() as u64 * looked_at;
        assert!(of_piece <= most, "{stages:?}: {of_piece} of {most} numbers in a piece");
        steps.push(model.steps());
    }
    assert!(steps.is_sorted_by(|more, fewer| more > fewer) && steps[0] == STEPS, "{steps:?}");
}
