//! A plan for programs: the object that `-o json` and `-o yaml` print.

use std::collections::BTreeMap;
use std::time::Duration;

use placement::{Plan, Snapshot};
use serde::Serialize;

/// One plan, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    assignments: BTreeMap<String, String>,
    unplaced: Vec<Unplaced>,
    objective: BTreeMap<String, i64>,
    bound: BTreeMap<String, i64>,
    optimal: bool,
    strategy: &'static str,
    seed: u64,
    effort: u64,
    stopped_by: &'static str,
    /// Absent where no clock had a say, so that equal runs are equal bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    moves: Vec<Move>,
    /// What people should know; never there for a snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Unplaced {
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
    pub fn new(snapshot: &Snapshot, plan: &Plan, took: Option<Duration>, notes: &[String]) -> Self {
        let actor = |actor: usize| snapshot.actor_id(actor).to_owned();
        let unit = |unit: usize| snapshot.unit_id(unit).to_owned();
        let places = plan.assignment.iter().enumerate();
        let unplaced = plan.unplaced.iter();
        let moves = plan.moves.iter();
        Self {
            assignments: places.filter_map(|(a, place)| Some((actor(a), unit((*place)?)))).collect(),
            unplaced: unplaced
                .map(|left| Unplaced { actor: actor(left.actor), reasons: left.reasons.clone() })
                .collect(),
            objective: plan.cost.by_name(snapshot),
            bound: plan.bound.clone(),
            optimal: plan.optimal,
            strategy: plan.strategy,
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
            notes: notes.to_vec(),
        }
    }
}
