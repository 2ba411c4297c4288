//! The operator's planner in a simulation: the same `plan()` on the same snapshot type, and the same checks before a
//! commit.

use control::{Verdict, gain, require_gain, revalidate_plan};
use placement::ix::UnitIx;
use placement::{Assignment, Budget, Judge, NoPolicy, PlanError, Snapshot, SnapshotError, Strategy, plan};

use super::observed::{GainEstimate, Observed, Planner, PlannerError, Proposal};
use super::snapshot_model::SnapshotModel;

/// A planner that uses a placement strategy.
pub struct StrategyPlanner {
    strategy: Box<dyn Strategy>,
    facts: SnapshotModel,
    effort: Option<u64>,
    seed: u64,
    least_gain: Option<f64>,
    as_it_is: bool,
}

impl StrategyPlanner {
    /// Plans with `strategy` on the snapshot that `facts` builds; reproducible by `effort` per plan and `seed`. Every
    /// improvement is applied, as in the APO paper.
    pub fn new(strategy: Box<dyn Strategy>, facts: SnapshotModel, effort: Option<u64>, seed: u64) -> Self {
        Self { strategy, facts, effort, seed, least_gain: None, as_it_is: false }
    }

    /// The same, but applies the strategy's answers unchanged: no comparison with the running assignment, no repair.
    #[must_use]
    pub fn as_it_is(mut self) -> Self {
        self.as_it_is = true;
        self
    }

    /// The same with the gate [`control::go_or_stay`]: a plan must gain this minimum in addition to the migration
    /// downtime.
    #[must_use]
    pub fn behind(mut self, least_gain: Option<f64>) -> Self {
        self.least_gain = least_gain;
        self
    }

    /// The strategy's raw answer; no change if it is infeasible or incomplete.
    fn answer(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Option<Proposal>, PlannerError> {
        let strategy = self.strategy.name();
        let answer = self.strategy.solve(snapshot, budget);
        let answer = answer.map_err(|source| PlanError::Solve { strategy, source })?;
        let feasible = snapshot.violations(&answer.assignment).is_empty();
        let assignment = complete(&answer.assignment).filter(|_| feasible);
        Ok(assignment.map(|assignment| Proposal { assignment, known: None }))
    }

    /// The plan that the operator would commit.
    fn decide(
        &self,
        snapshot: &Snapshot,
        observed: &Observed,
        budget: &Budget,
    ) -> Result<Option<Proposal>, PlannerError> {
        let judge: &dyn Judge = &NoPolicy;
        let plan = plan(snapshot, self.strategy.as_ref(), judge, budget)?;
        if let Some(unplaced) = plan.unplaced.first() {
            return Err(PlannerError::Unplaced {
                actor: snapshot.actor_id(unplaced.actor).to_owned(),
                reason: unplaced.reasons.join("; "),
            });
        }
        let windows = self.by_window(observed)?;
        let known = GainEstimate {
            stay: snapshot.cost(&snapshot.incumbent()).vector(snapshot),
            go: plan.cost.vector(snapshot),
            gain: gain(
                snapshot,
                &windows,
                (&snapshot.incumbent(), &plan.assignment),
                self.least_gain.unwrap_or(0.0),
            ),
        };
        let plan = match self.least_gain {
            Some(least) => require_gain(snapshot, &windows, plan, least + lost(observed)),
            None => plan,
        };
        // Feasible and not worse than the running assignment, by the latest snapshot.
        let Verdict::Valid(plan) = revalidate_plan(snapshot, &plan, snapshot, true) else { return Ok(None) };
        Ok(complete(&plan.assignment).map(|assignment| Proposal { assignment, known: Some(known) }))
    }

    /// One snapshot per remembered window: a gain that other windows do not confirm may not last.
    fn by_window(&self, observed: &Observed) -> Result<Vec<Snapshot>, SnapshotError> {
        let alone = observed.recent.iter().map(|period| Observed { period, total: period, ..*observed });
        alone.map(|observed| self.facts.snapshot(&observed)).collect()
    }
}

/// The unit of each actor; `None` if an actor has none.
pub(super) fn complete(assignment: &Assignment) -> Option<Vec<usize>> {
    assignment.iter().map(|place| place.map(UnitIx::at)).collect()
}

/// Migration downtime as a fraction of the time until the next plan; the other actors eventually wait for it.
fn lost(observed: &Observed) -> f64 {
    let config = observed.config;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let until = config.replan_every_windows as f64 * config.window_milliseconds;
    config.migration_milliseconds / until
}

impl Planner for StrategyPlanner {
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError> {
        // A seed per decision; otherwise a random strategy would repeat itself.
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(observed.windows);
        let budget = Budget::effort(self.effort, seed);
        let snapshot = self.facts.snapshot(observed)?;
        if self.as_it_is {
            self.answer(&snapshot, &budget)
        } else {
            self.decide(&snapshot, observed, &budget)
        }
    }
}
