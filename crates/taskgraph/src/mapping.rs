//! Mappings and the mapper interface.

use std::collections::BTreeMap;

use crate::{Budget, Graph, Kind, Platform, Schedule, StoppedBy};

/// Maps each task to processing elements, in the order of the graph's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// One processing element per task, by position in the platform: the models `measured` and `work`.
    Single(Vec<usize>),
    /// Several processors of one type per task: the model `parallel`.
    Parallel(Vec<Allotment>),
}

/// The processors of a parallel task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allotment {
    /// Processor type.
    pub kind: Kind,
    /// Number of processors.
    pub processors: usize,
    /// Position in the start order of tasks, from 0.
    pub order: usize,
}

/// Result of a mapper.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    /// The mapping.
    pub mapping: Mapping,
    /// Objective value, in the cost model's unit.
    pub objective: f64,
    /// Makespan, in the cost model's unit.
    pub makespan: f64,
    /// The schedule of the mapping.
    pub schedule: Schedule,
    /// Number of evaluated mappings.
    pub evaluations: u64,
    /// Effort used: with the same seed it reproduces the answer.
    pub effort: u64,
    /// Why the search ended.
    pub stopped_by: StoppedBy,
}

/// Maps a graph offline. The name is the value of `--mapper` and the name of its file.
pub trait Mapper: Send + Sync {
    /// Short, stable name.
    fn name(&self) -> &'static str;

    /// Searches within `budget`: limited by effort and seed, with `stop` as the safety net.
    fn map(&self, graph: &Graph, platform: &Platform, budget: &Budget) -> Result<Mapped, MapError>;
}

/// Why no mapping was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The mapper does not support the graph's cost model.
    #[error("{mapper} supports graphs of model {takes}, not {given}; choose another mapper or graph")]
    Model {
        /// The mapper's name.
        mapper: &'static str,
        /// The supported models.
        takes: &'static str,
        /// The graph's model.
        given: &'static str,
    },
    /// A task that no processing element can run.
    #[error("task {task} does not fit any processing element: {why}; add one that it fits")]
    NoPlace {
        /// The task.
        task: String,
        /// The missing resource.
        why: String,
    },
    /// The platform lacks information.
    #[error("the platform lacks {what}; add it")]
    Platform {
        /// The missing information.
        what: String,
    },
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// A mapping by name, for one processing element per task, as in files and results.
pub fn named(graph: &Graph, platform: &Platform, pes: &[usize]) -> BTreeMap<String, String> {
    let name = |(task, pe): (&crate::Task, &usize)| (task.id.clone(), platform.pes()[*pe].name.clone());
    graph.tasks().iter().zip(pes).map(name).collect()
}
