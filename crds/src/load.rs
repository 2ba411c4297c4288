//! Measured load of applications.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done about measured load: `Off`, `DryRun` or `On`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
#[derive(strum::Display, strum::IntoStaticStr)]
pub enum RebalanceMode {
    /// Plans use the numbers of the manifest alone.
    Off,
    /// Plans use measured numbers; moves that would pay are reported and not made.
    #[default]
    DryRun,
    /// Moves that pay are made.
    On,
}

/// The actors whose load is measured.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterCoverage {
    /// The number of actors in groups of which at least 90 % report counters.
    #[schemars(range(min = 0))]
    pub covered: i32,

    /// The number of wanted actors.
    #[schemars(range(min = 0))]
    pub wanted: i32,
}

/// The measured service time of an actor group on a kind of device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredServiceTime {
    /// The actor group.
    #[schemars(length(min = 1, max = 63))]
    pub group: String,

    /// The kind of device.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// The mean time to process one message on a unit of speed 1, such as `20.5us`.
    #[schemars(length(min = 2, max = 24))]
    pub service_time: String,
}
