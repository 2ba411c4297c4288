//! What a policy says of a world and of an assignment.

use crate::file::Constraint;
use crate::{Assignment, Snapshot};

/// A policy's own rules: constraints that follow from facts, and a verdict on a finished assignment.
pub trait Judge: Send + Sync {
    /// Constraints that the policy draws from the facts alone; every strategy gets them.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn derive(&self, snapshot: &Snapshot) -> Result<Vec<Constraint>, JudgeError>;

    /// What the policy says of an assignment.
    ///
    /// # Errors
    /// When the policy cannot be evaluated.
    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError>;
}

/// A policy's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Rules of the policy that are broken, in plain words; any makes the assignment unlawful.
    pub violations: Vec<String>,
    /// Σ penalties: those of the policy and those of `prefer`.
    pub penalty: i64,
}

/// Why a policy cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[error("the policy cannot be evaluated: {0}")]
pub struct JudgeError(pub String);

/// No program: only the preferences that the snapshot itself states.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPolicy;

impl Judge for NoPolicy {
    fn derive(&self, _: &Snapshot) -> Result<Vec<Constraint>, JudgeError> {
        Ok(Vec::new())
    }

    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        Ok(Judgement { violations: Vec::new(), penalty: snapshot.preferences_missed(assignment) })
    }
}
