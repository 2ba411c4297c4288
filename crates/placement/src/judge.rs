//! What a policy says of a world and of an assignment.

use crate::ix::ActorIx;
use crate::{Assignment, Cost, Derived, Rules, Snapshot};

/// A policy's own rules: what follows from facts, and a verdict on a finished assignment.
pub trait Judge: Send + Sync {
    /// What the policy says of this world, whatever is placed where; every strategy gets it.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError>;

    /// The rules about where actors are, written out for any unit of their kinds, and for any unit at all of those
    /// that could be `anywhere`: what an explanation asks about. By default as they are derived, and then they say
    /// nothing of places that are not open to an actor.
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

    /// What the policy says of an assignment.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError>;

    /// Looks at a finished plan once more, in the world that was planned, by whatever shares nothing with who made it, and
    /// says how much it looked at. Whoever cannot says [`Judged::None`].
    ///
    /// # Errors
    /// [`JudgeError::Mismatch`] where it is not feasible, or does not cost what is said.
    fn confirm(&self, world: &Snapshot, assignment: &Assignment, cost: &Cost) -> Result<Judged, JudgeError> {
        let _ = (world, assignment, cost);
        Ok(Judged::None)
    }
}

/// A policy's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Rules of the policy that are broken, in plain words; any makes the assignment infeasible.
    pub violations: Vec<String>,
    /// Σ penalties: those of the policy and those of `prefer`.
    pub penalty: i64,
}

/// What clingo, beside the checker, judged of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Judged {
    /// Nothing, or what the policy's own rules say of it alone.
    #[default]
    None,
    /// Whether it is feasible, and what the policy demands and its penalties, if there is one.
    Constraints,
    /// The same, and every criterion, in several runs: what ties and channels between groups cost was added up over parts of them.
    Parts,
    /// The same, in one run.
    All,
}

/// Why a policy cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// It is the policy's own fault: the text, or what it takes to ground it.
    #[error("{0}")]
    Policy(String),
    /// Whoever evaluates it failed, and may not the next time.
    #[error("the policy cannot be evaluated: {0}")]
    Evaluation(String),
    /// Two that must agree do not.
    #[error("clingo and the planner do not agree: {0}; this is a defect, report it with the snapshot")]
    Mismatch(String),
}

/// No program: only the preferences that the snapshot itself states. It judges no snapshot that has a program.
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
