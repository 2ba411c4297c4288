//! The one way from a snapshot to a decision.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::common_factor::CommonFactors;
use crate::ix::{ActorIx, UnitIx};
use crate::state::State;
use crate::{
    Answer, Assignment, Budget, Cost, Criterion, Derived, FoundBy, Judge, JudgeError, Judged, NoPolicy,
    Objectives, ProvenBy, Rule, Ruling, Snapshot, SnapshotError, SolveError, Stage, StoppedBy, Strategy,
    Violation,
};

/// A decision: where every actor goes, what that costs, what moves, and what has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where every actor goes, by position.
    pub assignment: Assignment,
    /// What it costs.
    pub cost: Cost,
    /// What has no place; why, `explain` fills in.
    pub unplaced: Vec<Unplaced>,
    /// Who is in a breach of the policy's rules, or of limits, that is not held against them.
    pub excused: Vec<Excused>,
    /// What runs now and goes elsewhere; why, `explain` fills in.
    pub moves: Vec<Move>,
    /// Proven lower bounds by key of the level.
    pub bound: BTreeMap<String, i64>,
    /// No feasible assignment is better.
    pub optimal: bool,
    /// Which strategy was asked.
    pub strategy: &'static str,
    /// The seed that it was given.
    pub seed: u64,
    /// The effort that replays it.
    pub effort: u64,
    /// Which part of the search found it.
    pub stage: Stage,
    /// What improved it last.
    pub found_by: FoundBy,
    /// What proved that no feasible assignment is better; none unless it is optimal.
    pub proven_by: Option<ProvenBy>,
    /// What clingo judged of it.
    pub judged: Judged,
    /// What ended the search.
    pub stopped_by: StoppedBy,
    /// What the policy derived from the snapshot.
    pub derived: Derived,
}

/// An actor without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Its position.
    pub actor: ActorIx,
    /// What keeps it out, in plain words; none before `explain` was asked.
    pub reasons: Vec<String>,
    /// How far the reasons reach, where they are an irreducible set.
    pub holds: Option<Holds>,
}

/// An actor in a breach of a rule or a limit that was there before: nobody has come to it, and it is no worse than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excused {
    /// Its position.
    pub actor: ActorIx,
    /// The rules that are broken, in plain words.
    pub reasons: Vec<String>,
}

/// How far the reasons of a missing place reach, where they are an irreducible set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum Holds {
    /// Wherever the actors that have a place would be instead.
    Always,
    /// As long as they are where they are: whether a rearrangement would help is not known.
    WhereOthersAre,
}

/// An actor that leaves its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its position.
    pub actor: ActorIx,
    /// The unit that it leaves.
    pub from: UnitIx,
    /// The unit that it goes to.
    pub to: UnitIx,
    /// Why, in plain words; empty before `explain` was asked.
    pub reason: String,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub enum PlanError {
    /// The search failed.
    #[error("{strategy} found no answer")]
    Solve {
        /// Whose search.
        strategy: &'static str,
        /// What went wrong.
        #[source]
        source: SolveError,
    },
    /// The answer breaks rules; it is never applied.
    #[error(
        "{strategy} proposed what is not feasible: {}; this is a defect, report it with the snapshot",
        list(violations)
    )]
    Infeasible {
        /// Whose answer.
        strategy: &'static str,
        /// What it breaks.
        violations: Vec<Violation>,
    },
    /// No answer was found that obeys the policy; what runs now stays.
    #[error("{strategy} found no placement that obeys the policy: {}", list(violations))]
    Disobeyed {
        /// Whose answer.
        strategy: &'static str,
        /// What its best answer breaks.
        violations: Vec<Violation>,
    },
    /// The policy could not be asked.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The policy derived a constraint that does not fit the snapshot.
    #[error("the policy derived a constraint that does not fit")]
    Derived(#[from] SnapshotError),
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Asks `strategy` for a placement, has it judged, and turns the difference to now into moves.
///
/// The plan is never worse, lexicographically, than what runs now where that is feasible; and no actor moves that
/// could as well have stayed.
///
/// # Errors
/// When the search fails, or proposes what the checker or the judge refuses.
pub fn plan(
    snapshot: &Snapshot,
    strategy: &dyn Strategy,
    judge: &dyn Judge,
    budget: &Budget,
) -> Result<Plan, PlanError> {
    let derived = judge.derive(snapshot)?;
    let widened;
    let snapshot = if derived == Derived::default() {
        snapshot
    } else {
        widened = snapshot.with_derived(derived.clone())?;
        &widened
    };
    let name = strategy.name();
    let answer =
        solve(snapshot, strategy, budget).map_err(|source| PlanError::Solve { strategy: name, source })?;
    let (mut assignment, claimed) = match tidied(snapshot, &answer.assignment)? {
        Some((assignment, claimed)) => (assignment, Some(claimed)),
        None => (answer.assignment, None),
    };
    let (violations, mut cost) = assess(snapshot, judge, &assignment)?;
    if violations.iter().any(|violation| violation.rule != Rule::Policy) {
        return Err(PlanError::Infeasible { strategy: name, violations });
    }
    if !violations.is_empty() {
        return Err(PlanError::Disobeyed { strategy: name, violations });
    }
    let (mut stage, mut found_by) = (answer.stage, answer.found_by);
    let proposed = cost.vector(snapshot);
    if let Some(kept) = not_worse(snapshot, judge, &proposed)? {
        ((assignment, cost), stage, found_by) = (kept, Stage::Incumbent, FoundBy::Incumbent);
    }
    if claimed.is_none() {
        (assignment, cost) = take_back_idle_moves(snapshot, judge, (assignment, cost))?;
    }
    let claimed = claimed.unwrap_or(proposed);
    let judged = judge.confirm(snapshot, &assignment, &cost)?;
    // A claim holds for what was found instead as long as that is not better: then the claim was wrong.
    let refuted = answer.optimal && cost.vector(snapshot) < claimed;
    let proven = if refuted { BTreeMap::new() } else { answer.bound };
    let optimal = answer.optimal && !refuted;
    let mut bound = bounds(snapshot, &cost, proven, optimal);
    let is_bounded = is_bounded(snapshot, &cost, &bound);
    // Like what is unplaced, who is excused is no criterion that anybody named.
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

/// Asks the strategy for the snapshot in lowest terms, so that answers and proofs do not depend on units of measurement.
fn solve(snapshot: &Snapshot, strategy: &dyn Strategy, budget: &Budget) -> Result<Answer, SolveError> {
    let factors = CommonFactors::of(snapshot);
    match factors.divided(snapshot) {
        Some(lowest) => strategy.solve(&lowest, budget).map(|answer| factors.multiplied(answer)),
        None => strategy.solve(snapshot, budget),
    }
}

/// What checker and judge say, and the exact cost with the judge's penalty in it.
fn assess(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    assignment: &Assignment,
) -> Result<(Vec<Violation>, Cost), JudgeError> {
    let mut violations = snapshot.violations(assignment);
    if !violations.is_empty() {
        return Ok((violations, Cost::default()));
    }
    let judgement = judge.judge(snapshot, assignment)?;
    let of_policy = |says| Violation { rule: Rule::Policy, says };
    violations.extend(judgement.violations.into_iter().map(of_policy));
    let cost = Cost { policy: judgement.penalty, ..snapshot.cost(assignment) };
    Ok((violations, cost))
}

/// What runs now, if it is feasible and not worse than what was proposed.
fn not_worse(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    proposed: &[i64],
) -> Result<Option<(Assignment, Cost)>, JudgeError> {
    let incumbent = snapshot.incumbent();
    // The judge is expensive, and penalties are never below 0: what is worse without them needs no verdict.
    if snapshot.cost(&incumbent).vector(snapshot).as_slice() > proposed {
        return Ok(None);
    }
    let (violations, cost) = assess(snapshot, judge, &incumbent)?;
    let keep = violations.is_empty() && cost.vector(snapshot).as_slice() <= proposed;
    Ok(keep.then_some((incumbent, cost)))
}

/// Under rules that are written out, a feasible assignment without the moves that gain nothing, and what it cost with them:
/// the checker knows the rules, so that whoever judges, who is expensive, need not be asked before the end.
fn tidied(
    snapshot: &Snapshot,
    assignment: &Assignment,
) -> Result<Option<(Assignment, Vec<i64>)>, JudgeError> {
    if snapshot.rules().is_none() {
        return Ok(None);
    }
    let (violations, cost) = assess(snapshot, &NoPolicy, assignment)?;
    if !violations.is_empty() {
        return Ok(None);
    }
    let claimed = cost.vector(snapshot);
    let (without, _) = take_back_idle_moves(snapshot, &NoPolicy, (assignment.clone(), cost))?;
    Ok(Some((without, claimed)))
}

/// Moves that are taken back one at a time, each with a verdict of its own, where all at once are refused.
const MOST_VERDICTS: usize = 64;

/// Sends back to its unit every actor whose move gains nothing.
fn take_back_idle_moves(
    snapshot: &Snapshot,
    judge: &dyn Judge,
    (mut assignment, mut cost): (Assignment, Cost),
) -> Result<(Assignment, Cost), JudgeError> {
    let mut verdicts = 0;
    loop {
        let (without, idle) = without_idle_moves(snapshot, &assignment);
        if idle.is_empty() {
            return Ok((assignment, cost));
        }
        let (violations, price) = assess(snapshot, judge, &without)?;
        if violations.is_empty() && price.vector(snapshot) <= cost.vector(snapshot) {
            (assignment, cost) = (without, price);
            continue;
        }
        // A policy has more to say than was known: what it minds is found one by one.
        let mut changed = false;
        for actor in idle {
            if verdicts == MOST_VERDICTS {
                return Ok((assignment, cost));
            }
            let mut without = assignment.clone();
            without[actor] = snapshot.current(actor);
            verdicts += 1;
            let (violations, price) = assess(snapshot, judge, &without)?;
            if violations.is_empty() && price.vector(snapshot) <= cost.vector(snapshot) {
                (assignment, cost, changed) = (without, price, true);
            }
        }
        if !changed {
            return Ok((assignment, cost));
        }
    }
}

/// Who is excused, move by move, where anybody can be.
fn excuses<'a>(snapshot: &'a Snapshot, assignment: &Assignment) -> Option<Ruling<'a>> {
    let rules = snapshot.rules().filter(|rules| !rules.excuses().is_empty())?;
    Some(Ruling::of(rules, assignment))
}

/// The assignment without the moves that gain nothing as far as can be known without the judge, and whose they were.
fn without_idle_moves(snapshot: &Snapshot, assignment: &Assignment) -> (Assignment, Vec<ActorIx>) {
    let mut state = State::of(snapshot, assignment);
    let mut excused = excuses(snapshot, assignment);
    // Only the judge knows all of `policy`: the levels above it can settle a comparison without asking.
    let levels = snapshot.objectives().levels();
    let known = levels.iter().take_while(|level| !level.contains(&Criterion::Policy)).count();
    let mut idle = Vec::new();
    for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
        let (Some(from), Some(to)) = (snapshot.problem.current[actor], state.place(actor)) else { continue };
        if from == to {
            continue;
        }
        state.take(actor);
        let more = excused.as_mut().map_or(0, |ruling| {
            let before = ruling.excused();
            ruling.take(actor, to);
            ruling.put(actor, from);
            ruling.excused() - before
        });
        let pays =
            || more > 0 || (more == 0 && state.price(actor, to)[..known] < state.price(actor, from)[..known]);
        // Prices may take long to say, and are not asked of who cannot go back.
        if !state.admits(actor, from) || pays() {
            if let Some(ruling) = &mut excused {
                ruling.take(actor, from);
                ruling.put(actor, to);
            }
            state.put(actor, to);
        } else {
            state.put(actor, from);
            idle.push(actor);
        }
    }
    (state.assignment, idle)
}

/// The strategy's bounds, and for a level whose every criterion is 0 its own value: nothing is below 0.
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

/// Whether everything has a place and every level stands at its bound.
fn is_bounded(snapshot: &Snapshot, cost: &Cost, bound: &BTreeMap<String, i64>) -> bool {
    cost.unplaced == 0
        && snapshot.objectives().levels().iter().all(|level| {
            let value: i64 = level.iter().map(|criterion| cost.of(*criterion)).sum();
            bound.get(&Objectives::key(level)) == Some(&value)
        })
}

impl Plan {
    /// The plan after it was changed, in a world with what the policy derives of it: judged as it is now.
    ///
    /// Where it keeps what runs though that breaks something, there is nothing to confirm.
    ///
    /// # Errors
    /// When the judge refuses it, or does not agree on what it costs.
    pub fn judged_again(self, world: &Snapshot, judge: &dyn Judge) -> Result<Self, PlanError> {
        if !world.violations(&self.assignment).is_empty() {
            return Ok(Self { judged: Judged::None, ..self });
        }
        let (violations, _) = assess(world, judge, &self.assignment)?;
        if !violations.is_empty() {
            return Err(PlanError::Disobeyed { strategy: self.strategy, violations });
        }
        let confirmed = judge.confirm(world, &self.assignment, &self.cost)?;
        Ok(Self { judged: confirmed, ..self })
    }

    /// The world that was planned: the snapshot, and what the policy derived from it.
    pub fn world<'a>(&self, snapshot: &'a Snapshot) -> Cow<'a, Snapshot> {
        let Derived { constraints, rules } = &self.derived;
        if constraints.is_empty() && rules.is_none() && snapshot.rules().is_none() {
            return Cow::Borrowed(snapshot);
        }
        let world = snapshot.with_derived(self.derived.clone());
        Cow::Owned(world.expect("it was a sound world when it was planned"))
    }

    /// How far the plan can be from the best, in percent of the first level that is not at its bound, rounded up; `None`
    /// where no bound is known for that level.
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
    /// Who is excused in a feasible assignment, by position of the actor.
    pub fn excused(&self, assignment: &Assignment) -> Vec<Excused> {
        let excused = self.rules().map(|rules| rules.excused(assignment)).unwrap_or_default();
        excused.into_iter().map(|(actor, reasons)| Excused { actor, reasons }).collect()
    }

    /// What runs now and is elsewhere in `assignment`, by position of the actor; no reasons are given.
    pub fn moves(&self, assignment: &Assignment) -> Vec<Move> {
        let moved = |actor: ActorIx| {
            let (from, to) = (self.current(actor)?, assignment[actor]?);
            (from != to).then(|| Move { actor, from, to, reason: String::new() })
        };
        ActorIx::first(self.actors()).filter(|&actor| !self.is_fixed(actor)).filter_map(moved).collect()
    }
}

/// What has no place in `assignment`; no reasons are given.
fn unplaced(assignment: &Assignment) -> Vec<Unplaced> {
    let without = assignment.enumerate().filter(|(_, place)| place.is_none());
    without.map(|(actor, _)| Unplaced { actor, reasons: Vec::new(), holds: None }).collect()
}
