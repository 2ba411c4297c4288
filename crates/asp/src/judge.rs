//! The judge: derives a policy's constraints from a snapshot, and has clingo verify an assignment.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use placement::ix::ActorIx;
use placement::{Assignment, Cost, Derived, Judge, JudgeError, Judged, Judgement, Rules, Snapshot};
use policy::{GroundBudget, GroundSize, Policy, Question, Verdict};

use crate::confirm::{self, AT_ONCE_FACTS, Examined, JudgeLimits, MOST_FACTS, MOST_PARTS};
use crate::policy_client::ask;
use crate::sandbox::Limits;
use crate::worker::PolicyJob;

/// Judges by the program that the snapshot carries; without a program it only accounts for preferences.
///
/// The policy is grounded in this process, within a budget that is counted rather than timed. A finished assignment is
/// verified by clingo, in a process of its own as for [`Session`](crate::Session), within `limits` and
/// a time limit.
#[derive(Clone)]
pub struct ClingoJudge {
    executable: PathBuf,
    limits: Limits,
    wall: Duration,
    /// The time until the deadline of the plan, if it has one.
    left: Option<TimeLeft>,
    budget: GroundBudget,
    most_facts: usize,
    most_parts: usize,
    is_required: bool,
}

/// A clock that returns the time until a deadline.
pub type TimeLeft = Arc<dyn Fn() -> Duration + Send + Sync>;

impl fmt::Debug for ClingoJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClingoJudge")
            .field("limits", &self.limits)
            .field("wall", &self.wall)
            .finish_non_exhaustive()
    }
}

impl ClingoJudge {
    /// Starts this executable as the solver.
    ///
    /// `wall_milliseconds` is the policy's budget; it bounds the grounding of its program.
    pub fn new(limits: Limits, wall_milliseconds: u64) -> Self {
        Self::with_executable("/proc/self/exe", limits, wall_milliseconds)
    }

    /// Starts another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits, wall_milliseconds: u64) -> Self {
        let wall = Duration::from_millis(wall_milliseconds);
        let budget = GroundBudget::of(wall_milliseconds, limits.memory_mib);
        Self {
            executable: executable.into(),
            limits,
            wall,
            left: None,
            budget,
            most_facts: MOST_FACTS,
            most_parts: MOST_PARTS,
            is_required: false,
        }
    }

    /// The same with or without an error for plans that clingo does not judge.
    #[must_use]
    pub fn required(self, is_required: bool) -> Self {
        Self { is_required, ..self }
    }

    /// The same with a deadline for finished plans: what cannot be verified by then is not, and the plan says so.
    #[must_use]
    pub fn until(self, left: TimeLeft) -> Self {
        Self { left: Some(left), ..self }
    }

    /// The same with at most this many facts per run, given and derived: larger snapshots are judged in batches.
    #[must_use]
    pub fn in_runs_of(self, most_facts: usize) -> Self {
        Self { most_facts, ..self }
    }

    /// The same for an urgent decision: everything is verified if that takes one run of a few hundredths of a second, otherwise the
    /// constraints alone, without a time limit.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self { most_facts: AT_ONCE_FACTS, most_parts: 0, ..self }
    }

    /// The budget of grounding the policy.
    pub fn budget(&self) -> GroundBudget {
        self.budget
    }

    /// Derives the policy's constraints, and reports its size in this snapshot.
    ///
    /// # Errors
    /// When the policy is invalid, or exceeds its budget.
    pub fn examine(&self, snapshot: &Snapshot) -> Result<(Derived, GroundSize), JudgeError> {
        let Some(policy) = Policy::of(snapshot)? else {
            return Ok((Derived::default(), GroundSize::default()));
        };
        policy.derive(self.budget)
    }
}

impl ClingoJudge {
    /// The longest wait for one run.
    fn patience(&self) -> Duration {
        match &self.left {
            Some(left) => left() + (self.wall / OVERRUN).max(LEAST_OVERRUN),
            None => LEAST_PATIENCE + self.wall,
        }
    }

    /// Asks, and once more after an error if there is time.
    fn twice<T>(&self, ask: impl Fn(Duration) -> Result<T, String>) -> Result<T, String> {
        let is_over = || self.left.as_ref().is_some_and(|left| left().is_zero());
        ask(self.patience())
            .or_else(|problem| if is_over() { Err(problem) } else { ask(self.patience()) })
            .inspect_err(|problem| tracing::warn!(problem, "clingo could not judge the plan"))
    }

    fn judge_limits(&self) -> JudgeLimits<'_> {
        let left = self.left.as_ref().map(|left| &**left as &(dyn Fn() -> Duration + Sync));
        JudgeLimits { facts: self.most_facts, batches: self.most_parts, left }
    }

    /// clingo's verdict on an assignment that the checker accepted.
    fn verdict(&self, policy: &Policy, assignment: &Assignment) -> Result<Verdict, JudgeError> {
        let Question { program, facts, actors, units } = policy.question(assignment)?;
        let job =
            PolicyJob { parent: std::process::id(), limits: self.limits, program, facts, actors, units };
        let verdict = self.twice(|patience| ask(&self.executable, &job, patience));
        let verdict = verdict.map_err(JudgeError::Evaluation)?;
        match policy.broken(&verdict) {
            Some(broken) => Err(JudgeError::Mismatch(broken)),
            None => Ok(verdict),
        }
    }
}

/// The minimum wait for a judgement, whatever the policy's budget: a process has to start.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// The part of a policy's budget by which a run may miss the deadline, and the least such time: a process has to start.
const OVERRUN: u32 = 20;
const LEAST_OVERRUN: Duration = Duration::from_millis(50);

impl Judge for ClingoJudge {
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError> {
        self.examine(snapshot).map(|(derived, _)| derived)
    }

    fn rules_everywhere(
        &self,
        snapshot: &Snapshot,
        anywhere: &[ActorIx],
    ) -> Result<Option<Rules>, JudgeError> {
        let Some(policy) = Policy::of(snapshot)? else { return Ok(None) };
        policy.rules_everywhere(anywhere, self.budget)
    }

    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        let penalty = snapshot.penalty(assignment);
        let Some(policy) = Policy::of(snapshot)?.filter(Policy::depends_on_placement) else {
            return Ok(Judgement { penalty, ..Judgement::default() });
        };
        let verdict = match (self.verdict(&policy, assignment), snapshot.rules()) {
            // The checker has evaluated the ground rules.
            (Err(JudgeError::Evaluation(_)), Some(_)) if !self.is_required => {
                return Ok(Judgement { penalty, is_unverified: true, ..Judgement::default() });
            }
            (verdict, _) => verdict?,
        };
        let violations = policy.violations(&verdict, assignment);
        if let Some(rules) = snapshot.rules() {
            same_violations(policy.name(), &violations, &rules.violations(assignment))?;
        }
        let of_rules = Policy::penalty(&verdict);
        let known = snapshot.rules().map_or(0, |rules| rules.penalty(assignment));
        if known != of_rules {
            return Err(JudgeError::Mismatch(format!(
                "policy {}: its ground rules cost {known}, but clingo computes {of_rules}",
                policy.name()
            )));
        }
        Ok(Judgement { violations, penalty, is_unverified: false })
    }

    fn confirm(&self, world: &Snapshot, assignment: &Assignment, cost: &Cost) -> Result<Judged, JudgeError> {
        // A policy with rules over placements has already been evaluated.
        let of_facts =
            Policy::of(world)?.filter(|policy| policy.speaks_of_facts() && !policy.depends_on_placement());
        if let Some(policy) = of_facts {
            match self.verdict(&policy, assignment) {
                Err(JudgeError::Evaluation(_)) if !self.is_required => return Ok(Judged::None),
                verdict => verdict.map(drop)?,
            }
        }
        let judged = Examined::new(world, assignment, cost, self.judge_limits()).confirm(|job| {
            self.twice(|patience| confirm::ask(&self.executable, self.limits, job, patience)).ok()
        })?;
        if self.is_required && judged == Judged::None { Err(JudgeError::Unjudged) } else { Ok(judged) }
    }

    fn time_to_confirm(&self, world: &Snapshot, most: Duration) -> Duration {
        confirm::time_to_confirm(world, &self.judge_limits(), most)
    }
}

/// Compares clingo's violations of a policy with those of its ground rules, which may contain limits of the file, too.
///
/// # Errors
/// [`JudgeError::Mismatch`] with a violation that only one of the two finds.
fn same_violations(policy: &str, clingo: &[String], ground: &[String]) -> Result<(), JudgeError> {
    let of_policy = format!("policy {policy} ");
    let ours = ground.iter().filter(|says| says.starts_with(&of_policy));
    let (clingo, ours): (BTreeSet<&String>, BTreeSet<&String>) = (clingo.iter().collect(), ours.collect());
    let (only_clingo, only_ours) = (clingo.difference(&ours).next(), ours.difference(&clingo).next());
    let problem = match (only_clingo, only_ours) {
        (Some(says), _) => format!("clingo finds a violation that the ground rules do not have: {says}"),
        (None, Some(says)) => format!("the ground rules have a violation that clingo does not find: {says}"),
        (None, None) => return Ok(()),
    };
    Err(JudgeError::Mismatch(problem))
}
