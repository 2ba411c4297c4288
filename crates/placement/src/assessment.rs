//! What checker and judge say of an assignment.

use crate::{Assignment, Cost, Judge, JudgeError, Rule, Snapshot, Violation};

/// The verdicts of checker and judge on an assignment.
pub(crate) struct Assessment {
    pub violations: Vec<Violation>,
    /// The exact cost, including the judge's penalty.
    pub cost: Cost,
    /// Whether the judge gave no verdict.
    pub is_unverified: bool,
}

/// Asks the checker, then the judge.
pub(crate) fn assess(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    assignment: &Assignment,
) -> Result<Assessment, JudgeError> {
    let mut violations = snapshot.violations(assignment);
    if !violations.is_empty() {
        return Ok(Assessment { violations, cost: Cost::default(), is_unverified: false });
    }
    let judgement = judge.judge(snapshot, assignment)?;
    let of_policy = |says| Violation { rule: Rule::Policy, says };
    violations.extend(judgement.violations.into_iter().map(of_policy));
    let cost = Cost { policy: judgement.penalty, ..snapshot.cost(assignment) };
    Ok(Assessment { violations, cost, is_unverified: judgement.is_unverified })
}

/// An assignment, its cost, and whether the judge gave no verdict on it.
pub(crate) type Assessed = (Assignment, Cost, bool);
