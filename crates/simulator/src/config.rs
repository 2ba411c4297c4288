//! The simulation configuration as written in a YAML file.

use std::collections::BTreeMap;

use counters::Gamma;
use serde::Deserialize;

/// Synchronization between actors; it determines which kind of delay is counted as annoyance.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Paradigm {
    /// Optimistic: tasks run ahead and are rolled back when a straggler arrives. Delay: rollbacks.
    #[default]
    Optimistic,
    /// Conservative: a task runs once no earlier one can arrive, as null messages announce. Delay: null messages.
    Conservative,
    /// Blocking: a task runs once all messages it depends on have arrived. Delay: idle time.
    ForkJoin,
}

/// Time span over which the planner's rates are computed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Counters {
    /// Since the last plan.
    #[default]
    Window,
    /// Messages and annoyance since the start, as in the APO authors' program; work since the last plan.
    Cumulative,
}

/// How global virtual time (GVT) is computed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Gvt {
    /// From the actors alone, as in the APO authors' program: a message in flight may be earlier.
    #[default]
    Actors,
    /// Including messages in flight: a committed task is never rolled back.
    InFlight,
}

/// The initial assignment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Start {
    /// Round-robin: actor by actor, unit by unit.
    #[default]
    #[serde(skip)]
    RoundRobin,
    /// The unit number of each actor.
    Assignment(Vec<usize>),
    /// By name; the only valid name is `round-robin`.
    Named(String),
}

/// A group of equal units.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Units {
    /// Unit kind.
    pub kind: String,
    /// Number of units.
    pub count: usize,
    /// Speed relative to [`Config::task_milliseconds`].
    pub speed: f64,
    /// NUMA domain.
    #[serde(default)]
    pub numa: Option<String>,
    /// Node name; groups without a name share one node.
    #[serde(default)]
    pub node: Option<String>,
    /// Power per unit above idle at full load.
    #[serde(default)]
    pub power_watts: f64,
    /// Power per unit that hosts an actor but is idle.
    #[serde(default)]
    pub idle_watts: f64,
}

/// Kind restrictions of some actors.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actors {
    /// Actor numbers.
    pub actors: Vec<usize>,
    /// Unit kinds that these actors can run on.
    pub runs_on: Vec<String>,
}

/// A simulation configuration; durations are milliseconds of simulated time.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Processing units, numbered in this order.
    pub units: Vec<Units>,
    /// Duration of a task on a unit of speed 1.
    pub task_milliseconds: f64,
    /// Duration of a rollback.
    pub undo_milliseconds: f64,
    /// Duration of a message at factor 1.
    pub communication_milliseconds: f64,
    /// Message factors between kinds; a pair may be written in either order.
    pub exchange_factors: BTreeMap<String, BTreeMap<String, f64>>,
    /// Message factor within a unit.
    pub same_unit_factor: f64,
    /// Added to the factor between NUMA domains of a node.
    #[serde(default)]
    pub other_numa_factor: f64,
    /// Added to the factor between nodes.
    #[serde(default)]
    pub other_node_factor: f64,
    /// Length of a throughput measurement window.
    pub window_milliseconds: f64,
    /// Number of windows between two planner calls.
    pub replan_every_windows: u64,
    /// The initial assignment.
    #[serde(default)]
    pub start: Start,
    /// Kind restrictions; actors not listed run on every kind.
    #[serde(default)]
    pub actors: Vec<Actors>,
    /// Upper bound on the planned power of all units together.
    #[serde(default)]
    pub power_cap: Option<u64>,
    /// Downtime of an actor during a migration.
    #[serde(default)]
    pub migration_milliseconds: f64,
    /// Whether a decision takes effect only after the planning time.
    #[serde(default)]
    pub charge_planning: bool,
    /// Planning time, if it is charged.
    #[serde(default = "planning_milliseconds")]
    pub planning_milliseconds: f64,
    /// Time span over which the planner's rates are computed.
    #[serde(default)]
    pub counters: Counters,
    /// Synchronization between actors.
    #[serde(default)]
    pub world: Paradigm,
    /// How global virtual time is computed.
    #[serde(default)]
    pub gvt: Gvt,
    /// Annoyance weights.
    #[serde(default)]
    pub gamma: Gamma,
}

/// One decision under the operator's default budget.
fn planning_milliseconds() -> f64 {
    50.0
}
