//! Asking a strategy.

use std::time::{Duration, Instant};

use explain::REASONS_EFFORT;
use placement::{Assignment, Budget, Judge as _, Plan, PlanError, Snapshot};
use portfolio::{ClingoJudge, Entry, Limits, Use};

use crate::arguments::SearchArguments;
use crate::error::CliError;

/// What a policy's program may take where no clock ends the search: as much as within the default wall clock, so that
/// it does not depend on how a plan is asked for.
const UNHURRIED: Duration = Duration::from_secs(2);

/// What a search ended with.
#[derive(Clone, Debug)]
pub struct Found {
    /// What would be decided.
    pub plan: Plan,
    /// How long that took, where a clock had a say.
    pub took: Option<Duration>,
    /// What was found for an application that starts all at once or not at all, where some of it has no place.
    pub in_part: Option<Assignment>,
    /// Who judged.
    pub judge: ClingoJudge,
}

/// How it is searched, with everything settled.
#[derive(Clone, Debug)]
pub struct Search {
    /// The name of the strategy.
    pub strategy: String,
    /// Wall clock, the safety net; none where effort alone decides.
    pub wall: Option<Duration>,
    /// Pieces of work that may be finished.
    pub effort: Option<u64>,
    /// Decides between equals.
    pub seed: u64,
    /// Memory that the solver may use, in MiB.
    pub memory_mib: u64,
    /// What a plan has to gain to be carried out, as a part of what staying costs.
    pub least_gain: f64,
}

impl Search {
    /// The command line before the policy, and the policy before what is built in.
    pub fn new(asked: &SearchArguments, policy: &Preferred) -> Self {
        Self {
            strategy: asked.strategy.clone().unwrap_or_else(|| policy.strategy.clone()),
            // A clock would make runs differ: with effort only an explicit one ends the search.
            wall: asked.budget.or_else(|| asked.effort.is_none().then_some(policy.wall)),
            effort: asked.effort,
            seed: asked.seed,
            memory_mib: policy.memory_mib,
            least_gain: policy.least_gain,
        }
    }

    /// Who judges by the program that a snapshot carries.
    pub fn judge(&self) -> ClingoJudge {
        let wall = self.wall.unwrap_or(UNHURRIED);
        let wall_milliseconds = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        ClingoJudge::new(self.limits(), wall_milliseconds)
    }

    /// The snapshot with what its policy says of it, as a plan has it.
    pub fn world(&self, snapshot: &Snapshot) -> Result<Snapshot, PlanError> {
        Ok(snapshot.with_derived(self.judge().derive(snapshot)?)?)
    }

    fn limits(&self) -> Limits {
        // A minute more than the clock gives: the processor's time is there to end what the clock could not.
        let cpu_seconds = self.wall.map_or(24 * 3600, |wall| wall.as_secs() + 60);
        Limits { memory_mib: self.memory_mib, cpu_seconds }
    }

    /// Plans; with `together`, for all or for nobody.
    pub fn plan(&self, snapshot: &Snapshot, together: bool) -> Result<Found, PlanError> {
        let entry = portfolio::strategy(&self.strategy, Use::Desk)
            .expect("the name was checked before anything was read");
        let strategy = entry.make(self.limits());
        let started = Instant::now();
        let left = self.wall.map(|wall| move || wall.saturating_sub(started.elapsed()));
        let stop = || left.as_ref().is_some_and(|left| left().is_zero());
        let left = left.as_ref().map(|left| left as &(dyn Fn() -> Duration + Sync));
        let budget = Budget { effort: self.effort, seed: self.seed, stop: &stop, left };
        let judge = self.judge();
        let plan = placement::plan(snapshot, &*strategy, &judge, &budget)?;
        let mut plan = control::go_or_stay(&plan.world(snapshot), &[], plan, self.least_gain);
        let took = self.wall.map(|_| started.elapsed());
        explain::tell(&mut plan, snapshot, &judge, REASONS_EFFORT);
        let in_part = (together && !plan.unplaced.is_empty()).then(|| plan.assignment.clone());
        if in_part.is_some() {
            plan = control::all_or_nothing(&plan.world(snapshot), plan);
        }
        Ok(Found { plan, took, in_part, judge })
    }
}

/// Refuses a strategy that may not be used so, in the words of what named it.
pub fn check(name: &str, used: Use, named_by: &str) -> Result<(), CliError> {
    let refused = |problem| CliError::Usage(format!("{named_by}: {problem}"));
    portfolio::strategy(name, used).map(drop).map_err(refused)
}

/// What a policy prefers.
#[derive(Clone, Debug)]
pub struct Preferred {
    strategy: String,
    wall: Duration,
    memory_mib: u64,
    least_gain: f64,
}

impl From<&world::Policy> for Preferred {
    fn from(policy: &world::Policy) -> Self {
        Self {
            strategy: policy.strategy.clone(),
            wall: Duration::from_millis(policy.wall_milliseconds),
            memory_mib: policy.memory_mib,
            least_gain: policy.least_gain(),
        }
    }
}

/// The strategies with one line each.
pub fn list() -> String {
    let line = |entry: Entry| {
        let note = if entry.is_for_production() { "" } else { " (not for policies)" };
        format!("{:<12} {}{note}\n", entry.name(), entry.summary())
    };
    portfolio::strategies(Use::Desk).map(line).collect()
}
