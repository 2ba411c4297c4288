//! Moves of actors: decided ones, and the progress of those that are made for a gain.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The migration of an actor.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The unit that the actor leaves; absent if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 384))]
    pub from: Option<String>,

    /// The new unit of the actor.
    #[schemars(length(min = 1, max = 384))]
    pub to: String,

    /// Why the actor moves.
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// What the placement would lose without this move, in percent of the scale of the improved objective level; absent if the move is necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_percent: Option<i64>,

    /// When the move was decided; later decisions keep elective moves that are in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<MicroTime>,
}

/// The gain that elective moves were decided for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedGain {
    /// The expected gain of all moves together, in percent of the scale of the improved objective level.
    pub expected_percent: i64,

    /// Why they were decided: `change` or `steady` for measured load, otherwise the reason of the plan.
    #[schemars(length(min = 1, max = 63))]
    pub why: String,

    /// When they were decided.
    pub decided_at: MicroTime,

    /// Messages that the actors processed per second before the moves or, if they do not report these, sent each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub messages_per_second: Option<i64>,
}

/// The progress of an elective move.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveProgress {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The unit that the actor leaves. It stays reserved until the actor is ready on its new unit.
    #[schemars(length(min = 1, max = 384))]
    pub from: String,

    /// The new unit of the actor.
    #[schemars(length(min = 1, max = 384))]
    pub to: String,

    /// When the move was decided.
    pub decided_at: MicroTime,

    /// How far the move is: `Decided`, `Stopping`, `Stopped`, `Starting`, `Running`, `Judged` or `Withdrawn`.
    pub step: MoveStep,

    /// When this step began.
    pub since: MicroTime,

    /// How long the actor was stopped, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pause_milliseconds: Option<i64>,

    /// The expected gain of all moves of the decision together, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_percent: Option<i64>,

    /// Their gain on the load that was measured after them, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realised_percent: Option<i64>,
}

/// How far an elective move is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Deserialize, Serialize)]
#[derive(strum::Display, strum::IntoStaticStr)]
pub enum MoveStep {
    /// The actor still runs where it was.
    #[default]
    Decided,
    /// Its pod is being stopped.
    Stopping,
    /// It has no pod.
    Stopped,
    /// Its pod on the new unit is not ready yet.
    Starting,
    /// It is ready on the new unit.
    Running,
    /// The gain was measured.
    Judged,
    /// The actor went back, or another decision replaced the move before the actor ran on the new unit.
    Withdrawn,
}

impl MoveStep {
    /// Whether the actor is on its way: its old unit is reserved, so that it can go back.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::Decided | Self::Stopping | Self::Stopped | Self::Starting)
    }
}
