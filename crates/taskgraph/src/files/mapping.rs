//! Mappings by name, as JSON: the output of `map -o json`, of which only `mapping` is read.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Pairs;
use crate::cost::WorkModel;
use crate::{Allotment, FileError, Graph, Kind, Platform, Task};

/// Place of a task: a processing element by name, or processors of a type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "neither the name of a processing element nor {type, processors, order}"
)]
pub enum Place {
    /// One processing element: the models `measured` and `work`.
    Pe(String),
    /// Several processors of one type: the model `parallel`.
    Processors {
        /// Processor type.
        #[serde(rename = "type")]
        kind: Kind,
        /// Number of processors.
        processors: usize,
        /// Position in the start order of tasks.
        order: usize,
    },
}

/// The place of each task, by name.
pub type Places = BTreeMap<String, Place>;

#[derive(Deserialize)]
struct MappingFile {
    mapping: Pairs<Place>,
}

/// Reads a mapping; other fields are results, and are ignored.
pub fn read(text: &str) -> Result<Places, FileError> {
    let wrong = |path: String, problem: String| {
        FileError::new(
            path,
            problem,
            "write {\"mapping\": {TASK: PE}} or {\"mapping\": {TASK: {type, processors, order}}}, as `map -o json` \
             does",
        )
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let file: MappingFile = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| wrong(error.path().to_string(), error.inner().to_string()))?;
    reader.end().map_err(|error| wrong(".".to_owned(), error.to_string()))?;
    Ok(file.mapping.0.into_iter().collect())
}

fn refuse(task: &str, problem: impl Into<String>, remedy: &str) -> FileError {
    FileError::new(format!("mapping.{task}"), problem, remedy)
}

/// The processing element of each task and data store of a model; an unnamed data store is placed with its first
/// writer, else with its first reader.
pub fn single(
    graph: &Graph,
    platform: &Platform,
    model: &WorkModel,
    places: &Places,
) -> Result<Vec<usize>, FileError> {
    let known: BTreeSet<&str> = (0..model.tasks()).map(|task| model.name(task)).collect();
    if let Some(stranger) = places.keys().find(|name| !known.contains(name.as_str())) {
        return Err(refuse(stranger, "no task of the graph", "name its tasks and variables alone"));
    }
    let mut pes = Vec::with_capacity(model.tasks());
    for task in 0..model.tasks() {
        let name = model.name(task);
        let pe = match places.get(name) {
            Some(Place::Pe(pe)) => processing_element(platform, pe).ok_or_else(|| {
                refuse(name, format!("`{pe}` is not a processing element of the platform"), "name one")
            })?,
            Some(Place::Processors { .. }) => {
                return Err(refuse(name, "processors of a type", "write one processing element"));
            }
            None if model.is_store(task) => {
                let variable = &graph.variables()[task - graph.tasks().len()];
                variable.writers.iter().chain(&variable.readers).next().map_or(0, |&near| pes[near])
            }
            None => return Err(refuse(name, "absent", "give each task its processing element")),
        };
        pes.push(pe);
    }
    Ok(pes)
}

/// Finds a processing element by its name in results or in files; a kind matches if it has only one.
fn processing_element(platform: &Platform, name: &str) -> Option<usize> {
    platform.pe(name).or_else(|| {
        let mut alike = platform.pes().iter().enumerate().filter(|(_, pe)| pe.kind.as_str() == name);
        alike.next().map(|(at, _)| at).filter(|_| alike.next().is_none())
    })
}

/// The processors of each task.
pub fn parallel(graph: &Graph, places: &Places) -> Result<Vec<Allotment>, FileError> {
    if let Some(stranger) = places.keys().find(|name| graph.task(name).is_none()) {
        return Err(refuse(stranger, "no task of the graph", "name its tasks alone"));
    }
    let allotment = |task: &Task| match places.get(&task.id) {
        Some(Place::Processors { kind, processors, order }) => {
            Ok(Allotment { kind: kind.clone(), processors: *processors, order: *order })
        }
        Some(Place::Pe(_)) => {
            Err(refuse(&task.id, "one processing element", "write {type, processors, order}"))
        }
        None => Err(refuse(&task.id, "absent", "give each task its processors")),
    };
    graph.tasks().iter().map(allotment).collect()
}
