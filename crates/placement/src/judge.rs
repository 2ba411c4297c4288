//! Evaluation of policies on snapshots and assignments.

use std::time::Duration;

use crate::ix::ActorIx;
use crate::{Assignment, Cost, Derived, Rules, Snapshot};

/// Evaluates a policy: derives constraints from facts, and judges finished assignments.
pub trait Judge: Send + Sync {
    /// The constraints and rules that the policy derives from this snapshot; every strategy gets them.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError>;

    /// The rules over placements, grounded for any unit of the actors' kinds, and for any unit at all of the actors in `anywhere`;
    /// used by explanations. By default the rules as derived, which say nothing about units that are not candidates.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn rules_everywhere(
        &self,
        snapshot: &Snapshot,
        anywhere: &[ActorIx],
    ) -> Result<Option<Rules>, JudgeError> {
        let _ = anywhere;
        Ok(self.derive(snapshot)?.rules)
    }

    /// The policy's verdict on an assignment.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError>;

    /// The time that a search leaves for [`Judge::confirm`], at most `most`. By default none.
    fn time_to_confirm(&self, world: &Snapshot, most: Duration) -> Duration {
        let _ = (world, most);
        Duration::ZERO
    }

    /// Verifies a finished plan on its snapshot, independently of its strategy, and reports how much was verified. The default is
    /// [`Judged::None`].
    ///
    /// # Errors
    /// [`JudgeError::Mismatch`] if it is infeasible, or its cost differs.
    fn confirm(&self, world: &Snapshot, assignment: &Assignment, cost: &Cost) -> Result<Judged, JudgeError> {
        let _ = (world, assignment, cost);
        Ok(Judged::None)
    }
}

/// A policy's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Violated rules of the policy, as sentences; any makes the assignment infeasible.
    pub violations: Vec<String>,
    /// Σ penalties of the policy and of `prefer`.
    pub penalty: i64,
    /// Whether the judge gave no verdict, so that these are those of the planner's own ground rules.
    pub is_unverified: bool,
}

/// How much of a placement clingo verified, in addition to the checker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Judged {
    /// Nothing, or only the policy's own rules.
    #[default]
    None,
    /// Feasibility in divided numbers: no limit is exceeded by more than rounding hides.
    ScaledConstraints,
    /// Feasibility, and the policy's rules and penalties, if there is one.
    Constraints,
    /// Feasibility and every criterion in divided numbers, in one run or several.
    Scaled,
    /// Feasibility, and every criterion, in several runs over batches of pairs and group channels.
    Parts,
    /// The same, in one run.
    All,
}

/// Why a policy cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// A fault of the policy: its text, or the size of its grounding.
    #[error("{0}")]
    Policy(String),
    /// The evaluation failed, and may succeed next time.
    #[error("the policy cannot be evaluated: {0}")]
    Evaluation(String),
    /// The policy requires a verdict, and there is none.
    #[error(
        "clingo could not judge the plan, and the policy requires it (judge: Required); give it a larger budget"
    )]
    Unjudged,
    /// Two evaluations that must agree differ.
    #[error("clingo and the planner do not agree: {0}; this is a defect, report it with the snapshot")]
    Mismatch(String),
}

/// Without a program: only preferences of the snapshot. It refuses snapshots with a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPolicy;

impl Judge for NoPolicy {
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError> {
        match &snapshot.file().policy {
            Some(policy) if policy.program.is_some() => {
                let problem = format!("`{}` has a program, and nothing here runs it", policy.name);
                Err(JudgeError::Evaluation(problem))
            }
            _ => Ok(Derived::default()),
        }
    }

    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        Ok(Judgement { penalty: snapshot.penalty(assignment), ..Judgement::default() })
    }
}
