//! How often non-additive terms are evaluated; some of them read all messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use placement::criteria::{IncrementalTerm, Step};
use placement::{Criterion, Snapshot};

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use super::solution::Solution;
use crate::anneal::annealer::Annealer;
use crate::construction::initial_placement::place_remaining;
use crate::model::{Model, ROUND, STEPS};
use crate::moves::ejection::eject;
use crate::moves::load_balancing::balance_loads;
use crate::tests::world;

/// A term with value 0 that counts its evaluations.
#[derive(Clone, Default)]
struct CountingTerm(Arc<AtomicUsize>);

impl CountingTerm {
    /// A solution that has it among its terms.
    fn add_to<'m>(&self, model: &'m Model<'m>) -> Solution<'m> {
        let mut solution = Solution::new(model);
        let terms = solution.terms.as_mut().expect("the snapshot has non-additive terms");
        terms.terms.push((1, self.boxed()));
        solution
    }

    /// Evaluations since the last call.
    fn take_count(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl IncrementalTerm for CountingTerm {
    fn count(&mut self, _: &Snapshot, _: &Step) {}

    fn value(&self, _: &Snapshot) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn with(&self, _: &Snapshot, _: &Step) -> i64 {
        0
    }

    fn boxed(&self) -> Box<dyn IncrementalTerm> {
        Box::new(self.clone())
    }
}

/// An operation that places many items.
type BulkOperation = fn(&mut Solution);

#[test]
fn bulk_placement_evaluates_terms_once() {
    let operations: [(&str, BulkOperation); 4] = [
        ("adoption", |solution| solution.adopt(&IxVec::of(UnitIx::new(0), solution.model.free))),
        ("construction", |solution| _ = place_remaining(solution, &|| false)),
        ("ejection", |solution| _ = eject(solution, &mut fastrand::Rng::with_seed(1), &|| false)),
        ("load balancing", |solution| {
            _ = balance_loads(solution, &mut fastrand::Rng::with_seed(1), &|| false);
        }),
    ];
    for seed in 0..8 {
        let snapshot = world(
            &mut fastrand::Rng::with_seed(seed),
            r#""overload","consolidate","communication","spread""#,
        );
        let (model, counter) = (Model::new(&snapshot), CountingTerm::default());
        let mut solution = counter.add_to(&model);
        for (name, operation) in operations {
            operation(&mut solution);
            assert!(counter.take_count() <= 1, "seed {seed}: {name}");
            let mut one_by_one = Solution::new(&model);
            for item in ItemIx::first(model.free).filter(|item| solution.place[*item] != NOWHERE) {
                one_by_one.put(item, solution.place[item]);
            }
            assert_eq!(solution.objective, one_by_one.objective, "seed {seed}: {name}");
        }
        for item in ItemIx::first(model.free) {
            let changes = [(item, solution.place[item], NOWHERE)];
            assert!(solution.adds_no_violation(&changes));
        }
        assert_eq!(counter.take_count(), 0, "seed {seed}: rules do not evaluate terms");
    }
}

/// Numbers read by terms between two checks of the clock.
#[test]
fn slow_terms_shorten_batches() {
    /// Evaluations of terms in one step at most: of a move, of a swap in its place, and of a compound move.
    const BY_STEP: u64 = 3;
    let mut steps = Vec::new();
    for stages in [[8, 12, 8], [160, 240, 160], [240, 360, 240]] {
        let mut file = testkit::all_to_all(&stages, 32, 1).file().clone();
        file.objectives = "overload,latency".parse().unwrap();
        let snapshot = Snapshot::new(file).unwrap();
        let (model, counter) = (Model::new(&snapshot), CountingTerm::default());
        let mut solution = counter.add_to(&model);
        place_remaining(&mut solution, &|| false);
        assert!(counter.take_count() <= 1);
        let mut annealer = Annealer::new(solution, 1);
        let numbers_read = Criterion::Latency.measure().evaluation_cost(&snapshot) as u64;
        let most = BY_STEP * (2 * STEPS * ROUND * 8).max(32 * numbers_read);
        let in_samples = counter.take_count() as u64 * numbers_read;
        assert!(in_samples <= most, "{stages:?}: {in_samples} of {most} numbers for the sampled losses");
        let (mean, _) = annealer.loss_scales();
        annealer.set_penalties(1.0, 1.0);
        annealer.run(model.steps(), mean, mean / 2.0);
        let in_batch = counter.take_count() as u64 * numbers_read;
        assert!(in_batch <= most, "{stages:?}: {in_batch} of {most} numbers in a batch");
        steps.push(model.steps());
    }
    assert!(steps.is_sorted_by(|more, fewer| more > fewer) && steps[0] == STEPS, "{steps:?}");
}
