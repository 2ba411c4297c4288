//! Runs a search strategy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use explain::REASONS_EFFORT;
use placement::{Assignment, Budget, Judge as _, Plan, PlanError, Snapshot};
use portfolio::{ClingoJudge, Limits, Purpose, RegisteredStrategy};
use world::LoadRecord;

use crate::args::SearchArgs;
use crate::error::CliError;

/// The time that determines the grounding budget of a search without a time limit: the default time limit.
const DEFAULT_WALL: Duration = Duration::from_secs(2);

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// The plan.
    pub plan: Plan,
    /// The duration, if the search had a time limit.
    pub took: Option<Duration>,
    /// The partial assignment of an `AllOrNothing` application that cannot be placed completely.
    pub in_part: Option<Assignment>,
    /// The judge of the policy's program.
    pub judge: ClingoJudge,
}

/// The resolved settings of a search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The name of the strategy.
    pub strategy: String,
    /// The time limit; `None` if only the effort is limited.
    pub wall: Option<Duration>,
    /// The effort limit in units of work.
    pub effort: Option<u64>,
    /// The random seed.
    pub seed: u64,
    /// The memory limit of the solver in MiB.
    pub memory_mib: u64,
    /// Whether a plan that clingo did not judge is refused.
    pub requires_judge: bool,
    /// The minimum relative gain of a plan over the current assignment.
    pub least_gain: f64,
}

impl Search {
    /// The arguments override the defaults of the policy.
    pub fn new(args: &SearchArgs, policy: &PolicyDefaults) -> Self {
        Self {
            strategy: args.strategy.clone().unwrap_or_else(|| policy.strategy.clone()),
            // With an effort limit only an explicit time limit applies, because it makes runs differ.
            wall: args.budget.or_else(|| args.effort.is_none().then_some(policy.wall)),
            effort: args.effort,
            seed: args.seed,
            memory_mib: policy.memory_mib,
            requires_judge: policy.requires_judge,
            least_gain: policy.least_gain,
        }
    }

    /// The settings of the operator's search for measured load.
    pub fn of_record(record: &LoadRecord, policy: &PolicyDefaults) -> Result<Self, CliError> {
        check_strategy(&record.strategy, Purpose::Offline, "--windows: search.strategy")?;
        Ok(Self {
            strategy: record.strategy.clone(),
            wall: None,
            effort: Some(record.effort),
            seed: record.seed,
            memory_mib: policy.memory_mib,
            requires_judge: policy.requires_judge,
            // Its moves are judged by the windows.
            least_gain: 0.0,
        })
    }

    /// The judge of the program in a snapshot.
    pub fn judge(&self) -> ClingoJudge {
        let wall = self.wall.unwrap_or(DEFAULT_WALL);
        let wall_milliseconds = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        ClingoJudge::new(self.limits(), wall_milliseconds).required(self.requires_judge)
    }

    /// The snapshot with the constraints that its policy derives.
    pub fn with_derived(&self, snapshot: &Snapshot) -> Result<Snapshot, PlanError> {
        Ok(snapshot.with_derived(self.judge().derive(snapshot)?)?)
    }

    fn limits(&self) -> Limits {
        // One minute more than the time limit: the CPU limit stops only a search that ignores the clock.
        let cpu_seconds = self.wall.map_or(24 * 3600, |wall| wall.as_secs() + 60);
        Limits { memory_mib: self.memory_mib, cpu_seconds }
    }

    /// Plans; with `all_or_nothing`, discards an incomplete placement.
    pub fn plan(&self, snapshot: &Snapshot, all_or_nothing: bool) -> Result<SearchResult, PlanError> {
        let entry =
            portfolio::strategy(&self.strategy, Purpose::Offline).expect("check_strategy accepted the name");
        let strategy = entry.make(self.limits());
        let started = Instant::now();
        let left = self.wall.map(|wall| Arc::new(move || wall.saturating_sub(started.elapsed())));
        let stop = || left.as_ref().is_some_and(|left| left().is_zero());
        let judge = match &left {
            Some(left) => self.judge().until(left.clone()),
            None => self.judge(),
        };
        let left = left.as_ref().map(|left| &**left as &(dyn Fn() -> Duration + Sync));
        let budget = Budget { effort: self.effort, seed: self.seed, stop: &stop, left };
        let plan = placement::plan(snapshot, &*strategy, &judge, &budget)?;
        let mut plan = control::require_gain(&plan.world(snapshot), &[], plan, self.least_gain);
        let took = self.wall.map(|_| started.elapsed());
        explain::explain_plan(&mut plan, snapshot, &judge, REASONS_EFFORT);
        let in_part = (all_or_nothing && !plan.unplaced.is_empty()).then(|| plan.assignment.clone());
        if in_part.is_some() {
            plan = control::all_or_nothing(&plan.world(snapshot), plan);
        }
        Ok(SearchResult { plan, took, in_part, judge })
    }
}

/// Validates the name of a strategy; `source` is the flag or field that it is from.
pub fn check_strategy(name: &str, purpose: Purpose, source: &str) -> Result<(), CliError> {
    let invalid = |problem| CliError::Usage(format!("{source}: {problem}"));
    portfolio::strategy(name, purpose).map(drop).map_err(invalid)
}

/// The search settings of a policy.
#[derive(Clone, Debug)]
pub struct PolicyDefaults {
    strategy: String,
    wall: Duration,
    memory_mib: u64,
    requires_judge: bool,
    least_gain: f64,
}

impl From<&world::Policy> for PolicyDefaults {
    fn from(policy: &world::Policy) -> Self {
        Self {
            strategy: policy.strategy.clone(),
            wall: Duration::from_millis(policy.wall_milliseconds),
            memory_mib: policy.memory_mib,
            requires_judge: policy.requires_judge(),
            least_gain: policy.min_gain(),
        }
    }
}

/// All strategies, one per line.
pub fn list_strategies() -> String {
    let line = |entry: RegisteredStrategy| {
        let note = if entry.is_for_production() { "" } else { " (not for policies)" };
        format!("{:<12} {}{note}\n", entry.name(), entry.summary())
    };
    portfolio::strategies(Purpose::Offline).map(line).collect()
}
