//! A plan for programs: the object that `-o json` and `-o yaml` print.

use std::collections::BTreeMap;
use std::time::Duration;

use placement::file::Levels;
use placement::ix::{ActorIx, UnitIx};
use placement::{Cost, Criterion, Objectives, Plan, Snapshot, Unplaced};
use serde::Serialize;

use crate::explained::{Explained, ExplanationReport};
use crate::in_order::InOrder;

/// One plan, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    assignments: BTreeMap<String, String>,
    unplaced: Vec<UnplacedReport>,
    /// Who is in a breach of the policy that was there before; absent where nobody is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excused: Vec<ExcusedReport>,
    objective: InOrder,
    bound: InOrder,
    optimal: bool,
    /// Absent where no bound is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_percent: Option<i64>,
    /// The order that was chosen, where it was left to the facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<String>>,
    strategy: &'static str,
    stage: &'static str,
    found_by: &'static str,
    /// Absent unless it is optimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    proven_by: Option<&'static str>,
    judged: &'static str,
    seed: u64,
    effort: u64,
    stopped_by: &'static str,
    /// Absent where no clock had a say, so that equal runs are equal bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    moves: Vec<Move>,
    /// Only where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationReport>,
    /// What people should know; never there for a snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// An actor without a place.
#[derive(Debug, Serialize)]
pub struct UnplacedReport {
    actor: String,
    reasons: Vec<String>,
    /// How far the reasons reach, where they are an irreducible set.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<&'static str>,
}

impl UnplacedReport {
    /// Names in place of positions.
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
struct Move {
    actor: String,
    from: String,
    to: String,
    reason: String,
}

impl Report {
    /// Names in place of positions.
    pub fn new(
        snapshot: &Snapshot,
        plan: &Plan,
        took: Option<Duration>,
        explained: Option<&Explained>,
        notes: &[String],
    ) -> Self {
        let actor = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        let unit = |unit: UnitIx| snapshot.unit_id(unit).to_owned();
        // Who is summed up in the file is not told of.
        let listed = snapshot.file().actors.len() - snapshot.file().summed_up.len();
        let places = plan.assignment.enumerate().take(listed);
        let moves = plan.moves.iter();
        Self {
            assignments: places.filter_map(|(a, place)| Some((actor(a), unit((*place)?)))).collect(),
            unplaced: UnplacedReport::new(snapshot, &plan.unplaced),
            excused: plan
                .excused
                .iter()
                .map(|one| ExcusedReport { actor: actor(one.actor), reasons: one.reasons.clone() })
                .collect(),
            objective: objective(snapshot, &plan.cost),
            bound: bound(snapshot, plan),
            optimal: plan.optimal,
            gap_percent: plan.gap_percent(snapshot),
            levels: (snapshot.file().objectives == Levels::Adaptive).then(|| keys(snapshot).collect()),
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
                .map(|step| Move {
                    actor: actor(step.actor),
                    from: unit(step.from),
                    to: unit(step.to),
                    reason: step.reason.clone(),
                })
                .collect(),
            explanation: explained.map(ExplanationReport::new),
            notes: notes.to_vec(),
        }
    }
}

/// Every criterion that is told, in the order in which criteria are defined.
pub fn objective(snapshot: &Snapshot, cost: &Cost) -> InOrder {
    let mut values: Vec<(String, i64)> = cost.by_name(snapshot).into_iter().collect();
    values.sort_by_key(|(name, _)| name.parse::<Criterion>().ok());
    InOrder(values)
}

/// The names of the levels, the most important first.
fn keys(snapshot: &Snapshot) -> impl Iterator<Item = String> {
    snapshot.objectives().named().map(|level| Objectives::key(level))
}

/// The bounds that are known, the most important level first.
fn bound(snapshot: &Snapshot, plan: &Plan) -> InOrder {
    InOrder(
        keys(snapshot).filter_map(|key| plan.bound.get(&key).map(|bound| (key.clone(), *bound))).collect(),
    )
}
