//! The configuration of a world, as users write it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::gamma::Gamma;

/// How tasks keep their order across actors, which decides what gets in the way of progress.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Paradigm {
    /// Tasks run ahead and are rolled back when they were too early; rollbacks get in the way.
    #[default]
    Optimistic,
    /// A task runs when nothing earlier can come; null messages say so, and get in the way.
    Conservative,
    /// A task runs when everything that it waits for has come; waiting gets in the way.
    ForkJoin,
}

/// Which rates a planner is shown.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Counters {
    /// Those of the time since the last plan.
    #[default]
    Window,
    /// Messages and annoyance since the start, as the authors of the APO paper do; work since the last plan.
    Cumulative,
}

/// How global virtual time is found.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Gvt {
    /// From the actors alone, as the authors of the APO paper do: a message in flight can reach below it.
    #[default]
    Actors,
    /// Messages in flight count too: what is committed is never undone.
    InFlight,
}

/// Where actors are at the start.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Start {
    /// Actor by actor, unit by unit.
    #[default]
    #[serde(skip)]
    RoundRobin,
    /// The unit of each actor, by number.
    Assignment(Vec<usize>),
    /// By name; the only name is `round-robin`.
    Named(String),
}

/// Some units of one kind.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Units {
    /// Their kind.
    pub kind: String,
    /// How many.
    pub count: usize,
    /// How fast, relative to [`Config::task_milliseconds`].
    pub speed: f64,
    /// The NUMA domain that they are in.
    #[serde(default)]
    pub numa: Option<String>,
    /// The node that they are on; one node for all where none is named.
    #[serde(default)]
    pub node: Option<String>,
    /// Power above idle at full load, of each.
    #[serde(default)]
    pub power_watts: f64,
    /// Power when it hosts an actor and does nothing, of each.
    #[serde(default)]
    pub idle_watts: f64,
}

/// What is known of some actors.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Actors {
    /// Their numbers.
    pub actors: Vec<usize>,
    /// The kinds of unit that they can run on.
    pub runs_on: Vec<String>,
}

/// A world as users write it; durations in milliseconds of simulated time.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The computing units, numbered in this order.
    pub units: Vec<Units>,
    /// One task on a unit of speed 1.
    pub task_milliseconds: f64,
    /// One rollback.
    pub undo_milliseconds: f64,
    /// One message at factor 1.
    pub communication_milliseconds: f64,
    /// Factor of a message between kinds; a pair may be written in either order.
    pub exchange_factors: BTreeMap<String, BTreeMap<String, f64>>,
    /// Factor of a message within a unit.
    pub same_unit_factor: f64,
    /// Added to the factor between NUMA domains of a node.
    #[serde(default)]
    pub other_numa_factor: f64,
    /// Added to the factor between nodes.
    #[serde(default)]
    pub other_node_factor: f64,
    /// Throughput is measured per window.
    pub window_milliseconds: f64,
    /// The planner is asked after so many windows, again and again.
    pub replan_every_windows: u64,
    /// Where actors are at the start.
    #[serde(default)]
    pub start: Start,
    /// Which actors run on some kinds only; all others run everywhere.
    #[serde(default)]
    pub actors: Vec<Actors>,
    /// The most power that the units may be planned to draw together.
    #[serde(default)]
    pub power_cap: Option<u64>,
    /// How long an actor that moves runs nowhere.
    #[serde(default)]
    pub migration_milliseconds: f64,
    /// Whether a decision takes effect only after the time that planning takes.
    #[serde(default)]
    pub charge_planning: bool,
    /// How long planning takes, where it is charged.
    #[serde(default = "planning_milliseconds")]
    pub planning_milliseconds: f64,
    /// Which rates a planner is shown.
    #[serde(default)]
    pub counters: Counters,
    /// How tasks keep their order.
    #[serde(default)]
    pub world: Paradigm,
    /// How global virtual time is found.
    #[serde(default)]
    pub gvt: Gvt,
    /// The weights of what gets in the way of progress.
    #[serde(default)]
    pub gamma: Gamma,
}

/// A decision under the operator's usual budget.
fn planning_milliseconds() -> f64 {
    50.0
}
