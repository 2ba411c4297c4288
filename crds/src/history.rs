//! The history of decisions that moved actors: the data and the annotation of `ControllerRevisions`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::moves::{DecidedGain, Move};

/// A decision that moved actors: the data of a revision with the label [`HISTORY`](crate::labels::HISTORY).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveDecision {
    /// When it was made.
    pub decided_at: MicroTime,
    /// Its moves, as far as they fit.
    pub moves: Vec<Move>,
    /// Moves that are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_moves: usize,
    /// The gain that its elective moves were decided for; absent if all are necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<DecidedGain>,
    /// By actor that moved for measured load: microseconds per message before, so that a new leader notices actors that became slower.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_microseconds: BTreeMap<String, f64>,
}

/// The outcome of the elective moves of a decision: the annotation [`OUTCOME`](crate::labels::OUTCOME) in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveOutcome {
    /// When the moves were decided.
    pub decided_at: MicroTime,
    /// The verdict.
    pub verdict: OutcomeVerdict,
    /// When it was reached.
    pub judged_at: MicroTime,
    /// The gain on the load that was measured afterwards, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realised_percent: Option<i64>,
    /// Messages that the actors processed per second afterwards or, if they do not report these, sent each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<i64>,
    /// By actor: how long it was down for its move, in milliseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pauses: BTreeMap<String, i64>,
}

/// Whether elective moves paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[derive(strum::Display, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum OutcomeVerdict {
    /// At least half of the expected gain was realised.
    Paid,
    /// Less than half of it was realised.
    Less,
    /// The placement became worse.
    Loss,
    /// All actors went back.
    Withdrawn,
    /// It was not judged: another decision for a gain was made first, or an actor or a unit that it left is gone.
    Superseded,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
