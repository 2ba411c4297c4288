//! The planner that the operator runs, in a simulated world: the same `plan()` on the same snapshot type.

use placement::{Budget, Judge, NoPolicy, Plan, PlanError, Snapshot, Strategy, plan};

use super::facts::Facts;
use super::observed::{Observed, Planner, PlannerError};

/// Whether a plan is worth carrying out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// A plan whose gain at the first level that differs is a smaller part of what staying costs is left.
    pub least_gain: f64,
}

impl Gate {
    /// Every plan that is better at all passes, as in the APO paper.
    pub const OPEN: Self = Self { least_gain: 0.0 };

    /// Whether the plan passes: levels are compared in their order, and the first that differs decides.
    ///
    /// A level that staying cannot keep lawful passes; gain is (cost of staying − cost of the plan) / cost of staying.
    pub fn passes(self, snapshot: &Snapshot, plan: &Plan) -> bool {
        let stay = snapshot.cost(&snapshot.incumbent()).vector(snapshot);
        let go = plan.cost.vector(snapshot);
        let differs = stay.iter().zip(&go).find(|(stay, go)| stay != go);
        #[expect(clippy::cast_precision_loss, reason = "costs are below 2^53")]
        differs.is_some_and(|(stay, go)| (stay - go) as f64 >= self.least_gain * (*stay).max(1) as f64)
    }
}

/// Plans with a strategy, behind a gate.
pub struct Placing {
    strategy: Box<dyn Strategy>,
    facts: Facts,
    effort: Option<u64>,
    seed: u64,
    gate: Gate,
    as_it_is: bool,
}

impl Placing {
    /// Plans with `strategy` on what `facts` makes of counters; `effort` and `seed` make it replay.
    pub fn new(strategy: Box<dyn Strategy>, facts: Facts, effort: Option<u64>, seed: u64) -> Self {
        Self { strategy, facts, effort, seed, gate: Gate::OPEN, as_it_is: false }
    }

    /// The same with the strategy's answers carried out as they are: neither compared to what runs nor tidied.
    #[must_use]
    pub fn as_it_is(mut self) -> Self {
        self.as_it_is = true;
        self
    }

    /// The same behind a gate.
    #[must_use]
    pub fn behind(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }
}

impl Placing {
    /// What the strategy answers; nothing moves where that is not lawful, or leaves an actor out.
    fn answer(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Option<Vec<usize>>, PlannerError> {
        let strategy = self.strategy.name();
        let answer = self.strategy.solve(snapshot, budget);
        let answer = answer.map_err(|source| PlanError::Solve { strategy, source })?;
        let lawful = snapshot.violations(&answer.assignment).is_empty();
        Ok(answer.assignment.into_iter().collect::<Option<Vec<usize>>>().filter(|_| lawful))
    }
}

impl Planner for Placing {
    fn plan(&mut self, observed: &Observed) -> Result<Option<Vec<usize>>, PlannerError> {
        let snapshot = self.facts.snapshot(observed)?;
        // Every decision has a seed of its own, or a random strategy would repeat itself.
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(observed.windows);
        let budget = Budget::effort(self.effort, seed);
        if self.as_it_is {
            return self.answer(&snapshot, &budget);
        }
        let judge: &dyn Judge = &NoPolicy;
        let plan = plan(&snapshot, self.strategy.as_ref(), judge, &budget)?;
        if let Some(unplaced) = plan.unplaced.first() {
            return Err(PlannerError::Unplaced {
                actor: snapshot.actor_id(unplaced.actor).to_owned(),
                reason: unplaced.reasons.join("; "),
            });
        }
        let planned: Option<Vec<usize>> = plan.assignment.iter().copied().collect();
        Ok(planned.filter(|_| self.gate.passes(&snapshot, &plan)))
    }
}
