//! The planner that the operator runs, in a simulated world: the same `plan()` on the same snapshot type.

use control::{Verdict, still_stands};
use placement::ix::UnitIx;
use placement::{Assignment, Budget, Judge, NoPolicy, PlanError, Snapshot, Strategy, plan};

use super::estimate::Estimate;
use super::facts::Facts;
use super::observed::{Known, Observed, Planner, PlannerError, Proposal};

/// Whether a plan is worth carrying out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// A plan whose gain at the first level that differs is a smaller part of what staying costs is left.
    Levels(f64),
    /// A plan after which the busiest unit has not so much less to do, as a part of what it has when everything stays, is
    /// left; and of several plans the one that gains most is taken. The time that movers run nowhere is a cost.
    Busiest(f64),
}

impl Gate {
    /// Every plan that is better at all passes, as in the APO paper.
    pub const OPEN: Self = Self::Levels(0.0);
    /// What a plan has to gain by estimate where nothing else is said: what a decision may lose at most, too.
    pub const ESTIMATED: Self = Self::Busiest(0.02);

    /// Whether a plan passes.
    fn passes(self, known: &Known) -> bool {
        match self {
            Self::Levels(least) => {
                let differs = known.stay.iter().zip(&known.go).find(|(stay, go)| stay != go);
                #[expect(clippy::cast_precision_loss, reason = "costs are below 2^53")]
                differs.is_some_and(|(stay, go)| (stay - go) as f64 >= least * (*stay).max(1) as f64)
            }
            Self::Busiest(least) => known.busiest.1 <= known.busiest.0 * (1.0 - least),
        }
    }
}

/// Plans with a strategy, behind a gate.
pub struct Placing {
    strategy: Box<dyn Strategy>,
    facts: Vec<Facts>,
    effort: Option<u64>,
    seed: u64,
    gate: Gate,
    steps: bool,
    as_it_is: bool,
}

impl Placing {
    /// Plans with `strategy` on what each of `facts` makes of counters; `effort` of each plan and `seed` make it replay.
    pub fn new(strategy: Box<dyn Strategy>, facts: Vec<Facts>, effort: Option<u64>, seed: u64) -> Self {
        Self { strategy, facts, effort, seed, gate: Gate::OPEN, steps: false, as_it_is: false }
    }

    /// The same with the strategy's answers carried out as they are: neither compared to what runs nor tidied.
    #[must_use]
    pub fn as_it_is(mut self) -> Self {
        self.as_it_is = true;
        self
    }

    /// The same with every plan improved by single steps that leave the busiest unit less to do by estimate.
    #[must_use]
    pub fn in_steps(mut self) -> Self {
        self.steps = true;
        self
    }

    /// The same behind a gate.
    #[must_use]
    pub fn behind(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// What the strategy answers; nothing moves where that is not feasible, or leaves an actor out.
    fn answer(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Option<Proposal>, PlannerError> {
        let strategy = self.strategy.name();
        let answer = self.strategy.solve(snapshot, budget);
        let answer = answer.map_err(|source| PlanError::Solve { strategy, source })?;
        let feasible = snapshot.violations(&answer.assignment).is_empty();
        let assignment = units(&answer.assignment).filter(|_| feasible);
        Ok(assignment.map(|assignment| Proposal { assignment, known: None }))
    }

    /// What the operator would commit, and whether it passes the gate: where what runs may stay, it has to.
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
        // What the operator asks before it commits: feasible, and not worse than what runs, in the newest world.
        let Verdict::Stands(plan) = still_stands(snapshot, &plan, snapshot, true) else { return Ok(None) };
        let Some(mut assignment) = units(&plan.assignment) else { return Ok(None) };
        let (stays, estimate) = (snapshot.incumbent(), Estimate::new(observed));
        if self.steps {
            let stepped = estimate.steps(&assignment, observed.allowed);
            let placed = places(&stepped);
            if snapshot.violations(&placed).is_empty() {
                assignment = stepped;
            }
        }
        let goes = places(&assignment);
        let known = Known {
            stay: snapshot.cost(&stays).vector(snapshot),
            go: snapshot.cost(&goes).vector(snapshot),
            busiest: (
                estimate.busiest(observed.assignment),
                estimate.busiest(&assignment) * lost(observed, &assignment),
            ),
        };
        let passes = self.gate.passes(&known) || !snapshot.violations(&stays).is_empty();
        Ok(passes.then_some(Proposal { assignment, known: Some(known) }))
    }
}

/// What movers lose until the next plan, as a factor: while one runs nowhere, the others wait for it in the end.
fn lost(observed: &Observed, assignment: &[usize]) -> f64 {
    let config = observed.config;
    if assignment == observed.assignment {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let until = config.replan_every_windows as f64 * config.window_milliseconds;
    1.0 + config.migration_milliseconds / until
}

impl Planner for Placing {
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError> {
        // Every decision has a seed of its own, or a random strategy would repeat itself.
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(observed.windows);
        let budget = Budget::effort(self.effort, seed);
        let mut best: Option<Proposal> = None;
        for facts in &self.facts {
            let snapshot = facts.snapshot(observed)?;
            if self.as_it_is {
                return self.answer(&snapshot, &budget);
            }
            let after = |of: &Proposal| of.known.as_ref().map_or(f64::INFINITY, |known| known.busiest.1);
            let found = self.decide(&snapshot, observed, &budget)?;
            best = match (best, found) {
                (Some(best), Some(found)) if after(&found) >= after(&best) => Some(best),
                (best, found) => found.or(best),
            };
        }
        Ok(best)
    }
}

/// The units of the simulated world where everybody is; nothing where somebody has no place.
fn units(assignment: &Assignment) -> Option<Vec<usize>> {
    assignment.iter().map(|place| place.map(UnitIx::at)).collect()
}

/// The other way round.
fn places(units: &[usize]) -> Assignment {
    units.iter().map(|&unit| Some(UnitIx::new(unit))).collect()
}
