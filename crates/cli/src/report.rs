//! The machine-readable plan: the object that `-o json` and `-o yaml` print.

use std::collections::BTreeMap;
use std::time::Duration;

use placement::ix::{ActorIx, UnitIx};
use placement::{Cost, Criterion, Objectives, Plan, Snapshot, Unplaced};
use serde::Serialize;

use crate::explanation::{ExplainedPlan, ExplanationReport};
use crate::load::LoadReport;
use crate::ordered::OrderedMap;

/// A machine-readable plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    assignments: BTreeMap<String, String>,
    unplaced: Vec<UnplacedReport>,
    /// Actors with tolerated violations of the policy that existed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excused: Vec<ExcusedReport>,
    objective: OrderedMap,
    bound: OrderedMap,
    optimal: bool,
    /// The levels, highest priority first; those that `adaptive` objectives chose.
    levels: Vec<String>,
    /// Absent without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_percent: Option<i64>,
    strategy: &'static str,
    stage: &'static str,
    found_by: &'static str,
    /// Absent unless optimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    proven_by: Option<&'static str>,
    judged: &'static str,
    seed: u64,
    effort: u64,
    stopped_by: &'static str,
    /// Absent without a time limit, so that equal runs have equal output.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    moves: Vec<MoveReport>,
    /// Rules of pod templates that only kube-scheduler evaluates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_to_scheduler: Vec<String>,
    /// Present with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationReport>,
    /// Present with `--windows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<LoadReport>,
    /// Remarks about the input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// An unplaced actor.
#[derive(Debug, Serialize)]
pub struct UnplacedReport {
    actor: String,
    reasons: Vec<String>,
    /// The scope in which the reasons hold, if they are an irreducible set.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<&'static str>,
}

impl UnplacedReport {
    /// Resolves indices to names.
    pub fn new(snapshot: &Snapshot, unplaced: &[Unplaced]) -> Vec<Self> {
        let one = |left: &Unplaced| Self {
            actor: snapshot.actor_id(left.actor).to_owned(),
            reasons: left.reasons.clone(),
            holds: left.holds.map(Into::into),
        };
        unplaced.iter().map(one).collect()
    }
}

#[derive(Debug, Serialize)]
struct ExcusedReport {
    actor: String,
    reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MoveReport {
    actor: String,
    from: String,
    to: String,
    reason: String,
}

impl PlanReport {
    /// Resolves indices to names.
    pub fn new(
        snapshot: &Snapshot,
        plan: &Plan,
        took: Option<Duration>,
        explained: Option<&ExplainedPlan>,
        notes: &[String],
    ) -> Self {
        let actor = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        let unit = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        // Omit the aggregated actors at the end of the file.
        let listed = snapshot.file().actors.len() - snapshot.file().summed_up.len();
        let assignments = plan.assignment.enumerate().take(listed);
        let moves = plan.moves.iter();
        Self {
            assignments: assignments.filter_map(|(a, u)| Some((actor(a), unit((*u)?)))).collect(),
            unplaced: UnplacedReport::new(snapshot, &plan.unplaced),
            excused: plan
                .excused
                .iter()
                .map(|one| ExcusedReport { actor: actor(one.actor), reasons: one.reasons.clone() })
                .collect(),
            objective: objective(snapshot, &plan.cost),
            bound: bound(snapshot, plan),
            optimal: plan.optimal,
            levels: keys(snapshot).collect(),
            gap_percent: plan.gap_percent(snapshot),
            strategy: plan.strategy,
            stage: plan.stage.into(),
            found_by: plan.found_by.into(),
            proven_by: plan.proven_by.map(Into::into),
            judged: plan.judged.into(),
            seed: plan.seed,
            effort: plan.effort,
            stopped_by: plan.stopped_by.into(),
            seconds: took.map(|took| (took.as_secs_f64() * 1000.0).round() / 1000.0),
            moves: moves
                .map(|step| MoveReport {
                    actor: actor(step.actor),
                    from: unit(step.from),
                    to: unit(step.to),
                    reason: step.reason.clone(),
                })
                .collect(),
            left_to_scheduler: snapshot.file().left_to_scheduler.clone(),
            explanation: explained.map(ExplanationReport::new),
            load: None,
            notes: notes.to_vec(),
        }
    }

    /// The report with what the gate says of a plan for measured load.
    #[must_use]
    pub fn with_load(self, load: Option<LoadReport>) -> Self {
        Self { load, ..self }
    }
}

/// The value of each criterion, in the order of their definition.
pub fn objective(snapshot: &Snapshot, cost: &Cost) -> OrderedMap {
    let mut values: Vec<(String, i64)> = cost.by_name(snapshot).into_iter().collect();
    values.sort_by_key(|(name, _)| name.parse::<Criterion>().ok());
    OrderedMap(values)
}

/// The names of the levels, highest priority first.
fn keys(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    snapshot.objectives().named().map(|level| Objectives::key(level))
}

/// The known bounds by level, highest priority first.
fn bound(snapshot: &Snapshot, plan: &Plan) -> OrderedMap {
    OrderedMap(
        keys(snapshot).filter_map(|key| plan.bound.get(&key).map(|bound| (key.clone(), *bound))).collect(),
    )
}
