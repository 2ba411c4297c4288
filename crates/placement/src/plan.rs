//! From a snapshot to a plan.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::assessment::{Assessed, Assessment, assess};
use crate::constraints::avoid::exclusions;
use crate::idle_moves::take_back_idle_moves;
use crate::ix::{ActorIx, UnitIx};
use crate::problem::common_factor::CommonFactors;
use crate::{
    Answer, Assignment, Budget, Cost, Criterion, Derived, FoundBy, Judge, JudgeError, Judged, NoPolicy,
    Objectives, ProvenBy, Rule, Snapshot, SnapshotError, SolveError, Stage, StoppedBy, Strategy, Violation,
};

/// A plan: placements, cost, moves, and unplaced actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The unit of every actor, by position.
    pub assignment: Assignment,
    /// Its cost.
    pub cost: Cost,
    /// Unplaced actors; `explain` fills in the reasons.
    pub unplaced: Vec<Unplaced>,
    /// Actors in grandfathered violations of the policy's rules or of limits.
    pub excused: Vec<GrandfatheredActor>,
    /// Actors that leave their current unit; `explain` fills in the reasons.
    pub moves: Vec<Move>,
    /// Proven lower bounds by key of the level.
    pub bound: BTreeMap<String, i64>,
    /// Whether no feasible assignment is better.
    pub optimal: bool,
    /// The strategy.
    pub strategy: &'static str,
    /// The seed.
    pub seed: u64,
    /// The effort that reproduces it.
    pub effort: u64,
    /// The part of the search that found it.
    pub stage: Stage,
    /// The last improvement.
    pub found_by: FoundBy,
    /// What proved optimality; `None` unless it is optimal.
    pub proven_by: Option<ProvenBy>,
    /// How much of it clingo verified.
    pub judged: Judged,
    /// What ended the search.
    pub stopped_by: StoppedBy,
    /// The constraints and rules that the policy derived from the snapshot.
    pub derived: Derived,
}

/// An actor without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Its position.
    pub actor: ActorIx,
    /// The reasons as sentences; empty before `explain` was called.
    pub reasons: Vec<String>,
    /// The scope of the reasons, if they are an irreducible set.
    pub holds: Option<ReasonScope>,
}

/// An actor in a grandfathered violation: no actor has joined it, and it has not grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrandfatheredActor {
    /// Its position.
    pub actor: ActorIx,
    /// The violated rules, as sentences.
    pub reasons: Vec<String>,
}

/// The scope of the reasons for an unplaced actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum ReasonScope {
    /// For every placement of the other actors.
    Always,
    /// While the other actors stay: whether a rearrangement would help is unknown.
    WhereOthersAre,
}

/// An actor that leaves its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its position.
    pub actor: ActorIx,
    /// The unit that it leaves.
    pub from: UnitIx,
    /// Its new unit.
    pub to: UnitIx,
    /// The reason as a sentence; empty before `explain` was called.
    pub reason: String,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub enum PlanError {
    /// The search failed.
    #[error("{strategy} found no answer")]
    Solve {
        /// The strategy.
        strategy: &'static str,
        /// The error.
        #[source]
        source: SolveError,
    },
    /// The answer violates rules; it is never applied.
    #[error(
        "{strategy} proposed what is not feasible: {}; this is a defect, report it with the snapshot",
        list(violations)
    )]
    Infeasible {
        /// The strategy.
        strategy: &'static str,
        /// The violations.
        violations: Vec<Violation>,
    },
    /// The strategy claims that nothing is better, and something is; the plan is never applied.
    #[error(
        "{strategy} claims that no placement costs less than {claimed:?}, and one costs {found:?}; this is a defect, report \
         it with the snapshot"
    )]
    Claim {
        /// The strategy.
        strategy: &'static str,
        /// The claimed optimum or lower bounds, level by level.
        claimed: Vec<i64>,
        /// The cost of a feasible placement.
        found: Vec<i64>,
    },
    /// No answer satisfies the policy; the current placement is kept.
    #[error("{strategy} found no placement that obeys the policy: {}", list(violations))]
    Disobeyed {
        /// The strategy.
        strategy: &'static str,
        /// The violations of its best answer.
        violations: Vec<Violation>,
    },
    /// The policy could not be evaluated.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The policy derived a constraint that is invalid for the snapshot.
    #[error("the policy derived a constraint that does not fit")]
    Derived(#[from] SnapshotError),
}

impl PlanError {
    /// Whether components that must agree differ, which is never the fault of the snapshot or of the budget.
    pub fn is_defect(&self) -> bool {
        let is_contradicted = |source: &SolveError| match source {
            SolveError::Mismatch { .. } | SolveError::Proof(_) => true,
            SolveError::TooLarge { .. } | SolveError::Solver(_) => false,
        };
        match self {
            Self::Infeasible { .. } | Self::Claim { .. } | Self::Judge(JudgeError::Mismatch(_)) => true,
            Self::Solve { source, .. } => is_contradicted(source),
            Self::Disobeyed { .. } | Self::Judge(_) | Self::Derived(_) => false,
        }
    }
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Lets `strategy` propose a placement, has it judged, and lists the moves.
///
/// The plan is lexicographically never worse than a feasible current placement, and no actor moves without
/// need. It uses places that a constraint `avoid` names only if it places more actors that way.
///
/// # Errors
/// If the search fails, or proposes what the checker or the judge refuses.
pub fn plan(
    snapshot: &Snapshot,
    strategy: &dyn Strategy,
    judge: &dyn Judge,
    budget: &Budget,
) -> Result<Plan, PlanError> {
    let derived = judge.derive(snapshot)?;
    let exclusions = exclusions(snapshot.file());
    if exclusions.is_empty() {
        return plan_under(derived, snapshot, strategy, judge, budget);
    }
    // Half of the time is for a plan that uses no place to avoid.
    let half = budget.left.map(|left| left() / 2);
    let left = || budget.left.map_or(Duration::MAX, |left| left().saturating_sub(half.unwrap_or_default()));
    let stop = || (budget.stop)() || left().is_zero();
    let halved = Budget { stop: &stop, left: budget.left.is_some().then_some(&left), ..*budget };
    let mut strict = derived.clone();
    strict.constraints.extend(exclusions);
    let strict = match plan_under(strict, snapshot, strategy, judge, &halved) {
        Ok(strict) if strict.unplaced.is_empty() => return Ok(strict),
        Ok(strict) => Some(strict),
        Err(error) if error.is_defect() => return Err(error),
        // Neither an answer nor a verdict was found without these places.
        Err(_) => None,
    };
    match (plan_under(derived, snapshot, strategy, judge, budget), strict) {
        (Ok(any), Some(strict)) if strict.unplaced.len() > any.unplaced.len() => Ok(any),
        (Err(error), Some(_)) if error.is_defect() => Err(error),
        // It is feasible and judged, whatever became of the second try.
        (_, Some(strict)) => Ok(strict),
        (any, None) => any,
    }
}

/// A plan under what is derived.
fn plan_under(
    derived: Derived,
    snapshot: &Snapshot,
    strategy: &dyn Strategy,
    judge: &dyn Judge,
    budget: &Budget,
) -> Result<Plan, PlanError> {
    let widened;
    let snapshot = if derived == Derived::default() {
        snapshot
    } else {
        widened = snapshot.with_derived(derived.clone())?;
        &widened
    };
    let name = strategy.name();
    let answer = solve_in_time(snapshot, strategy, judge, budget)
        .map_err(|source| PlanError::Solve { strategy: name, source })?;
    let (mut assignment, claimed) = match tidied(snapshot, &answer.assignment)? {
        Some((assignment, claimed)) => (assignment, Some(claimed)),
        None => (answer.assignment, None),
    };
    let Assessment { violations, mut cost, mut is_unverified } = assess(snapshot, judge, &assignment)?;
    if violations.iter().any(|violation| violation.rule != Rule::Policy) {
        return Err(PlanError::Infeasible { strategy: name, violations });
    }
    if !violations.is_empty() {
        return Err(PlanError::Disobeyed { strategy: name, violations });
    }
    let (mut stage, mut found_by) = (answer.stage, answer.found_by);
    let proposed = cost.vector(snapshot);
    if let Some(kept) = not_worse(snapshot, judge, &proposed)? {
        (assignment, cost, is_unverified) = kept;
        (stage, found_by) = (Stage::Incumbent, FoundBy::Incumbent);
    }
    if claimed.is_none() {
        (assignment, cost, is_unverified) =
            take_back_idle_moves(snapshot, judge, (assignment, cost, is_unverified))?;
    }
    let claimed = claimed.unwrap_or(proposed);
    let confirmed = judge.confirm(snapshot, &assignment, &cost)?;
    let judged = if is_unverified { Judged::None } else { confirmed };
    // A claim of optimality transfers to the kept placement unless that is better, which refutes the claim.
    let (optimal, found) = (answer.optimal, cost.vector(snapshot));
    if optimal && found < claimed {
        return Err(PlanError::Claim { strategy: name, claimed, found });
    }
    let is_bounded_alike = found.first() == claimed.first();
    if let Some(claimed) = refuted_bounds(snapshot, &answer.bound, &found).filter(|_| is_bounded_alike) {
        return Err(PlanError::Claim { strategy: name, claimed, found });
    }
    let mut bound = bounds(snapshot, &cost, answer.bound, optimal);
    let is_bounded = is_bounded(snapshot, &cost, &bound);
    // Like unplaced actors, grandfathered violations are not a named criterion.
    bound.remove(Criterion::Excused.into());
    let closed_by = answer.proven_by.filter(|_| optimal);
    Ok(Plan {
        unplaced: unplaced(&assignment),
        excused: snapshot.excused(&assignment),
        moves: snapshot.moves(&assignment),
        optimal: optimal || is_bounded,
        proven_by: closed_by.or_else(|| is_bounded.then_some(ProvenBy::Bound)),
        bound,
        assignment,
        cost,
        strategy: name,
        seed: budget.seed,
        effort: answer.effort,
        stage,
        found_by,
        judged,
        stopped_by: answer.stopped_by,
        derived,
    })
}

/// Part of the time left that a search leaves for the judge at most.
const JUDGE_SHARE: u32 = 4;

/// Solves the snapshot, and leaves the judge the time that it needs.
fn solve_in_time(
    snapshot: &Snapshot,
    strategy: &dyn Strategy,
    judge: &dyn Judge,
    budget: &Budget,
) -> Result<Answer, SolveError> {
    let Some(left) = budget.left else { return solve(snapshot, strategy, budget) };
    let reserved = judge.time_to_confirm(snapshot, left() / JUDGE_SHARE);
    if reserved.is_zero() {
        return solve(snapshot, strategy, budget);
    }
    let left: &(dyn Fn() -> Duration + Sync) = &|| left().saturating_sub(reserved);
    let stop = || (budget.stop)() || left().is_zero();
    solve(snapshot, strategy, &Budget { stop: &stop, left: Some(left), ..*budget })
}

/// Solves the snapshot in lowest terms, so that answers and proofs are independent of units of measurement.
fn solve(snapshot: &Snapshot, strategy: &dyn Strategy, budget: &Budget) -> Result<Answer, SolveError> {
    let factors = CommonFactors::of(snapshot);
    match factors.divided(snapshot) {
        Some(lowest) => strategy.solve(&lowest, budget).map(|answer| factors.multiplied(answer)),
        None => strategy.solve(snapshot, budget),
    }
}

/// Lower bounds that a feasible placement refutes: each holds if those of the levels before are reached.
fn refuted_bounds(snapshot: &Snapshot, bound: &BTreeMap<String, i64>, found: &[i64]) -> Option<Vec<i64>> {
    let mut claimed = Vec::new();
    for (level, found) in snapshot.objectives().levels().iter().zip(&found[1..]) {
        let least = *bound.get(&Objectives::key(level))?;
        claimed.push(least);
        if *found != least {
            return (*found < least).then_some(claimed);
        }
    }
    None
}

/// The current placement, if it is feasible and no worse than the proposal.
fn not_worse(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    proposed: &[i64],
) -> Result<Option<Assessed>, JudgeError> {
    let incumbent = snapshot.incumbent();
    // The judge is expensive, and penalties are not negative: if it is worse without them, no verdict is needed.
    if snapshot.cost(&incumbent).vector(snapshot).as_slice() > proposed {
        return Ok(None);
    }
    let Assessment { violations, cost, is_unverified } = assess(snapshot, judge, &incumbent)?;
    let keep = violations.is_empty() && cost.vector(snapshot).as_slice() <= proposed;
    Ok(keep.then_some((incumbent, cost, is_unverified)))
}

/// With ground rules: a feasible assignment without moves that gain nothing, and its cost with them. The checker knows the rules,
/// so the expensive judge is only called at the end.
fn tidied(
    snapshot: &Snapshot,
    assignment: &Assignment,
) -> Result<Option<(Assignment, Vec<i64>)>, JudgeError> {
    if snapshot.rules().is_none() {
        return Ok(None);
    }
    let Assessment { violations, cost, .. } = assess(snapshot, &NoPolicy, assignment)?;
    if !violations.is_empty() {
        return Ok(None);
    }
    let claimed = cost.vector(snapshot);
    let (without, ..) = take_back_idle_moves(snapshot, &NoPolicy, (assignment.clone(), cost, false))?;
    Ok(Some((without, claimed)))
}

/// The strategy's bounds, and 0 for levels at 0, since no criterion is negative.
fn bounds(
    snapshot: &Snapshot,
    cost: &Cost,
    given: BTreeMap<String, i64>,
    optimal: bool,
) -> BTreeMap<String, i64> {
    let mut bound = given;
    for level in snapshot.objectives().levels() {
        let value: i64 = level.iter().map(|criterion| cost.of(*criterion)).sum();
        if optimal || value == 0 {
            bound.insert(Objectives::key(level), value);
        }
    }
    bound
}

/// Whether all actors are placed and every level is at its bound.
fn is_bounded(snapshot: &Snapshot, cost: &Cost, bound: &BTreeMap<String, i64>) -> bool {
    cost.unplaced == 0
        && snapshot.objectives().levels().iter().all(|level| {
            let value: i64 = level.iter().map(|criterion| cost.of(*criterion)).sum();
            bound.get(&Objectives::key(level)) == Some(&value)
        })
}

impl Plan {
    /// Judges a plan that was modified, on a snapshot with what the policy derives from it.
    ///
    /// If it keeps a current placement that violates rules, there is nothing to verify.
    ///
    /// # Errors
    /// If the judge refuses it, or computes another cost.
    pub fn judged_again(self, world: &Snapshot, judge: &dyn Judge) -> Result<Self, PlanError> {
        if !world.violations(&self.assignment).is_empty() {
            return Ok(Self { judged: Judged::None, ..self });
        }
        let Assessment { violations, is_unverified, .. } = assess(world, judge, &self.assignment)?;
        if !violations.is_empty() {
            return Err(PlanError::Disobeyed { strategy: self.strategy, violations });
        }
        let confirmed = judge.confirm(world, &self.assignment, &self.cost)?;
        Ok(Self { judged: if is_unverified { Judged::None } else { confirmed }, ..self })
    }

    /// The snapshot of the plan, including what the policy derived from it.
    pub fn world<'a>(&self, snapshot: &'a Snapshot) -> Cow<'a, Snapshot> {
        let Derived { constraints, rules } = &self.derived;
        if constraints.is_empty() && rules.is_none() && snapshot.rules().is_none() {
            return Cow::Borrowed(snapshot);
        }
        let world = snapshot.with_derived(self.derived.clone());
        Cow::Owned(world.expect("it was a sound world when it was planned"))
    }

    /// The gap in percent of the first level that is not at its bound, rounded up; `None` if that level has no
    /// bound.
    pub fn gap_percent(&self, snapshot: &Snapshot) -> Option<i64> {
        for level in snapshot.objectives().named() {
            let value: i64 = level.iter().map(|criterion| self.cost.of(*criterion)).sum();
            let bound = *self.bound.get(&Objectives::key(level))?;
            if bound < value {
                return Some(((value - bound).saturating_mul(100).saturating_add(value - 1)) / value);
            }
        }
        Some(0)
    }
}

impl Snapshot {
    /// The actors in grandfathered violations of a feasible assignment.
    pub fn excused(&self, assignment: &Assignment) -> Vec<GrandfatheredActor> {
        let excused = self.rules().map(|rules| rules.excused(assignment)).unwrap_or_default();
        excused.into_iter().map(|(actor, reasons)| GrandfatheredActor { actor, reasons }).collect()
    }

    /// The moves from the current placement to `assignment`, by position of the actor; without reasons.
    pub fn moves(&self, assignment: &Assignment) -> Vec<Move> {
        let moved = |actor: ActorIx| {
            let (from, to) = (self.current(actor)?, assignment[actor]?);
            (from != to).then(|| Move { actor, from, to, reason: String::new() })
        };
        ActorIx::first(self.actors()).filter(|&actor| !self.is_fixed(actor)).filter_map(moved).collect()
    }
}

/// The unplaced actors of `assignment`; without reasons.
fn unplaced(assignment: &Assignment) -> Vec<Unplaced> {
    let without = assignment.enumerate().filter(|(_, place)| place.is_none());
    without.map(|(actor, _)| Unplaced { actor, reasons: Vec::new(), holds: None }).collect()
}
