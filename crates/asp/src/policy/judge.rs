//! The judge: clingo asked about a policy, what it derives from a world and what it says of an assignment.

use std::path::PathBuf;
use std::time::Duration;

use placement::{Assignment, Derived, Judge, JudgeError, Judgement, Rules, Snapshot};

use super::Program;
use super::ask::ask;
use super::derive::{derived, says};
use super::facts::{Facts, choices, open_choices};
use super::ground::{Choices, GroundBudget, Stop, ground};
use super::worker::{PolicyJob, Told};
use crate::child::Limits;
use crate::symbols::{actor, string};

/// Judges by the program that the snapshot carries; without one there is nothing to say but preferences.
///
/// What a policy derives is worked out in this process, within a budget that is counted and not timed. A finished
/// assignment is judged by clingo, in a process of its own as for [`Asp`](crate::Asp), within `limits` and `patience`.
#[derive(Clone, Debug)]
pub struct ClingoJudge {
    executable: PathBuf,
    limits: Limits,
    patience: Duration,
    budget: GroundBudget,
}

/// What a policy takes once it is written out for a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Conclusions from facts alone: `forbid`, `pin`, and their like.
    pub conclusions: usize,
    /// Rules that are left, about where actors are.
    pub rules: usize,
    /// Cases that a constraint forbids.
    pub demands: usize,
    /// Cases that cost something.
    pub penalties: usize,
    /// Tuples that were looked at.
    pub steps: u64,
    /// Tuples and literals that were kept.
    pub kept: u64,
}

impl ClingoJudge {
    /// Asks this executable started again.
    ///
    /// `wall_milliseconds` is the policy's budget; it bounds what the program may take to be written out.
    pub fn new(limits: Limits, wall_milliseconds: u64) -> Self {
        Self::with_executable("/proc/self/exe", limits, wall_milliseconds)
    }

    /// Asks another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits, wall_milliseconds: u64) -> Self {
        let patience = LEAST_PATIENCE + Duration::from_millis(wall_milliseconds);
        let budget = GroundBudget::of(wall_milliseconds, limits.memory_mib);
        Self { executable: executable.into(), limits, patience, budget }
    }

    /// What a policy may take to be written out.
    pub fn budget(&self) -> GroundBudget {
        self.budget
    }

    /// Derives, and says how large the policy is in this world.
    ///
    /// # Errors
    /// When the policy is wrong, or takes more than it may.
    pub fn examine(&self, snapshot: &Snapshot) -> Result<(Derived, Size), JudgeError> {
        self.write_out(snapshot, &choices(snapshot))
    }

    fn write_out(&self, snapshot: &Snapshot, choices: &Choices) -> Result<(Derived, Size), JudgeError> {
        let Some((name, program)) = program_of(snapshot)? else {
            return Ok((Derived::default(), Size::default()));
        };
        let wrong = |problem: String| JudgeError::Policy(format!("policy {name}{problem}"));
        let facts = Facts::new(snapshot, &program).map_err(|problem| wrong(format!(": {problem}")))?;
        let actors: Vec<&str> = (0..snapshot.actors()).map(|at| snapshot.actor_id(at)).collect();
        let units: Vec<&str> = (0..snapshot.units()).map(|at| snapshot.unit_id(at)).collect();
        let grounding = ground(&program, &facts.all, (&actors, &units), choices, self.budget).map_err(|stop| {
            let (statement, problem) = match stop {
                Stop::Fault(statement, problem) => (statement, problem),
                Stop::Budget(statement, what) => (
                    statement,
                    format!(
                        "written out for {} actors and {} units it {what}; let it speak of fewer things at once, or give \
                         the policy a larger budget",
                        snapshot.actors(),
                        snapshot.units()
                    ),
                ),
            };
            wrong(format!(" line {}: {problem}", program.line(statement)))
        })?;
        let size = Size {
            conclusions: grounding.said.len(),
            rules: grounding.rules.len(),
            demands: grounding.violated.len(),
            penalties: grounding.penalties.len(),
            steps: grounding.steps,
            kept: grounding.kept,
        };
        let derived = derived(&program, &name, snapshot, grounding).map_err(JudgeError::Policy)?;
        Ok((derived, size))
    }
}

/// How long a judgement is waited for at least, whatever the policy's budget: a process must start.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

impl Judge for ClingoJudge {
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError> {
        self.examine(snapshot).map(|(derived, _)| derived)
    }

    fn rules_everywhere(&self, snapshot: &Snapshot, anywhere: &[usize]) -> Result<Option<Rules>, JudgeError> {
        let (derived, _) = self.write_out(snapshot, &open_choices(snapshot, anywhere))?;
        Ok(derived.rules)
    }

    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        let penalty = snapshot.penalty(assignment);
        let Some((name, program)) =
            program_of(snapshot)?.filter(|(_, program)| program.depends_on_placement())
        else {
            return Ok(Judgement { violations: Vec::new(), penalty });
        };
        let facts = Facts::new(snapshot, &program)
            .map_err(|problem| JudgeError::Policy(format!("policy {name}: {problem}")))?;
        let job = PolicyJob {
            parent: std::process::id(),
            limits: self.limits,
            program: program.text(),
            facts: facts.text(assignment),
            actors: (0..snapshot.actors()).map(|at| actor(snapshot.actor_id(at))).collect(),
            units: (0..snapshot.units()).map(|at| string(snapshot.unit_id(at))).collect(),
        };
        let verdict = ask(&self.executable, &job, self.patience).map_err(JudgeError::Evaluation)?;
        let excused = snapshot.rules().map(Rules::excused).unwrap_or_default();
        let says = |said| format!("policy {name} {}", says(&program, snapshot, said));
        let violations =
            verdict.violated.iter().map(says).filter(|says| !excused.contains(&says.as_str())).collect();
        let of_rules = |(_, weight): &(usize, Told)| match weight {
            Told::Number(weight) => i64::from(*weight),
            _ => 0,
        };
        let of_rules: i64 = verdict.penalties.iter().map(of_rules).sum();
        let known = snapshot.rules().map_or(0, |rules| rules.penalty(assignment));
        if known != of_rules {
            return Err(JudgeError::Evaluation(format!(
                "policy {name}: its rules, written out, cost {known} where clingo says {of_rules}; this is a defect, report \
                 it with the snapshot"
            )));
        }
        Ok(Judgement { violations, penalty })
    }
}

/// The policy of a snapshot, if it has a program.
fn program_of(snapshot: &Snapshot) -> Result<Option<(String, Program)>, JudgeError> {
    let Some(policy) = &snapshot.file().policy else { return Ok(None) };
    let Some(text) = &policy.program else { return Ok(None) };
    match Program::parse(text) {
        Ok(program) => Ok(Some((policy.name.clone(), program))),
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Err(JudgeError::Policy(format!("policy {}: {}", policy.name, faults.join("; "))))
        }
    }
}
