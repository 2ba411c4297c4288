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
