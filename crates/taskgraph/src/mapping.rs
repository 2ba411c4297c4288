//! Where tasks go, and how a mapper says so.

use std::collections::BTreeMap;

use crate::{Budget, Graph, Kind, Platform, Schedule, StoppedBy};

/// Task → processing element, in the order of the graph's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// One processing element per task, by its position in the platform: the models `measured` and `work`.
    Single(Vec<usize>),
    /// Some processors of one type per task: the model `parallel`.
    Parallel(Vec<Allotment>),
}

/// What a parallel task gets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allotment {
    /// The type of its processors.
    pub kind: Kind,
    /// How many of them.
    pub processors: usize,
    /// Its place in the order in which tasks are started, from 0.
    pub order: usize,
}

/// What a mapper found.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// Where tasks go.
    pub mapping: Mapping,
    /// What was minimised, in the cost model's unit.
    pub objective: f64,
    /// When the last task ends, in the cost model's unit.
    pub makespan: f64,
    /// When each task runs.
    pub schedule: Schedule,
    /// How many mappings were priced.
    pub evaluations: u64,
    /// Pieces of work finished: with the same seed it replays the answer.
    pub effort: u64,
    /// What ended the search.
    pub stopped_by: StoppedBy,
}

/// Maps a graph before it runs. The name is what `--mapper` takes and the name of its file.
pub trait Mapper: Send + Sync {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// Searches within `budget`: effort and seed first, `stop` as the safety net.
    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError>;
}

/// Why there is no mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The graph's cost model is not one that the mapper knows.
    #[error("{mapper} maps graphs of model {takes}, and this one is {given}; choose another mapper or graph")]
    Model {
        /// The mapper's name.
        mapper: &'static str,
        /// The models it takes.
        takes: &'static str,
        /// The graph's model.
        given: &'static str,
    },
    /// A task that fits nowhere.
    #[error("task {task} fits on no processing element: {why}; add one that it fits on")]
    NoPlace {
        /// The task.
        task: String,
        /// What it lacks.
        why: String,
    },
    /// Something that the platform lacks.
    #[error("the platform does not say {what}; add it")]
    Platform {
        /// What is missing.
        what: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A mapping by names: what `mapping` in files and results is made of, for one processing element per task.
pub fn named(graph: &Graph, platform: &Platform, pes: &[usize]) -> BTreeMap<String, String> {
    let name = |(task, pe): (&crate::Task, &usize)| (task.id.clone(), platform.pes()[*pe].name.clone());
    graph.tasks().iter().zip(pes).map(name).collect()
}
