//! The online rule: whether another mapping is worth a reconfiguration between two iterations.
//!
//! After iteration i - 1 the mapping of its vector's region is looked up. It is adopted, at the cost of a
//! reconfiguration, iff it differs from the running one and its stored time + that cost is below the time of iteration
//! i - 1; before the first iteration it is always adopted.

use std::collections::BTreeMap;

use super::build::Table;
use crate::cost::{ParallelModel, Vector};
use crate::offline::{Plan, makespan};
use crate::{Graph, MapError, Mapping, Platform};

/// Definition of a mapping's stored time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stored {
    /// The mean in the table, by the paper's text.
    #[default]
    Table,
    /// The last observed time of this mapping, initially the mean, by the paper's Tables 3 and 5.
    Observed,
}

/// Whether another mapping is worth a reconfiguration.
pub fn worthwhile(stored: f64, reconfiguration: f64, observed: f64) -> bool {
    stored + reconfiguration < observed
}

/// One iteration of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its duration; `None` for iteration 0, which runs nothing.
    pub time: Option<f64>,
    /// Stored time of the mapping looked up after it; `None` after the last iteration.
    pub stored: Option<f64>,
    /// Whether that mapping was adopted.
    pub remapped: bool,
}

/// A replay of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Iterations 0 … n.
    pub iterations: Vec<Iteration>,
    /// Number of reconfigurations, including the first.
    pub remaps: usize,
    /// Sum of all durations and reconfigurations.
    pub total: f64,
}

/// A candidate mapping between two iterations.
pub struct Candidate {
    /// The mapping.
    pub plan: Plan,
    /// Its stored time.
    pub stored: f64,
}

/// Replays a profile. After each iteration but the last, `candidate` returns an alternative, given the iteration's
/// number, its model, and the last observed time of each mapping so far.
pub fn replay(
    models: &[ParallelModel],
    reconfiguration: f64,
    mut candidate: impl FnMut(usize, &ParallelModel, &BTreeMap<Plan, f64>) -> Candidate,
) -> Replay {
    let mut replay = Replay { iterations: Vec::with_capacity(models.len()), remaps: 0, total: 0.0 };
    let mut running: Option<Plan> = None;
    let mut observed: BTreeMap<Plan, f64> = BTreeMap::new();
    for (number, model) in models.iter().enumerate() {
        let time = running.as_ref().map(|plan| makespan(model, plan));
        if let (Some(plan), Some(time)) = (&running, time) {
            observed.insert(plan.clone(), time);
            replay.total += time;
        }
        let mut iteration = Iteration { time, stored: None, remapped: false };
        if number + 1 < models.len() {
            let Candidate { plan, stored } = candidate(number, model, &observed);
            iteration.stored = Some(stored);
            let worth = time.is_none_or(|time| worthwhile(stored, reconfiguration, time));
            iteration.remapped = worth && running.as_ref() != Some(&plan);
            if iteration.remapped {
                replay.remaps += 1;
                replay.total += reconfiguration;
                running = Some(plan);
            }
        }
        replay.iterations.push(iteration);
    }
    replay
}

/// The models of a profile's vectors.
pub fn models(
    graph: &Graph,
    platform: &Platform,
    profile: &[Vector],
) -> Result<Vec<ParallelModel>, MapError> {
    profile.iter().map(|vector| ParallelModel::new("table", graph, platform, vector)).collect()
}

/// The mappings of a table as plans, by position.
pub fn plans(table: &Table, model: &ParallelModel) -> Result<Vec<Plan>, MapError> {
    let plan = |mapping: &Mapping| match mapping {
        Mapping::Parallel(allotments) => Plan::new(model, allotments, |task| table.tasks[task].clone()),
        Mapping::Single(_) => Err(MapError::Other("a table has mappings of the model parallel".to_owned())),
    };
    table.mappings.iter().map(plan).collect()
}

/// Replays a profile with a table.
pub fn with_table(
    graph: &Graph,
    platform: &Platform,
    table: &Table,
    profile: &[Vector],
    reconfiguration: f64,
    stored: Stored,
) -> Result<Replay, MapError> {
    if !graph.tasks().iter().map(|task| &task.id).eq(&table.tasks) {
        return Err(MapError::Other(
            "the table was made for a graph of other tasks; build it anew for this one".to_owned(),
        ));
    }
    let models = models(graph, platform, profile)?;
    let Some(first) = models.first() else {
        return Err(MapError::Other("the profile is empty; write one vector a line".to_owned()));
    };
    let plans = plans(table, first)?;
    Ok(replay(&models, reconfiguration, |number, _, observed| {
        let entry = table.lookup(&profile[number]);
        let plan = plans[entry.number].clone();
        let seen = observed.get(&plan).copied().filter(|_| stored == Stored::Observed);
        Candidate { stored: seen.unwrap_or(entry.mean), plan }
    }))
}
