//! Mappings by name: as files say them, and as results print them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use taskgraph::cost::WorkModel;
use taskgraph::{Allotment, Graph, Kind, Mapping, Platform, Schedule};

use super::{Output, read};
use crate::Failure;

/// What `map` and `evaluate` print.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Priced {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapper: Option<&'static str>,
    pub mapping: BTreeMap<String, Place>,
    pub objective: f64,
    pub makespan: f64,
    pub schedule: Vec<Row>,
    /// By processing element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loads: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<&'static str>,
}

/// Where a task goes: a processing element by name, or processors of a type.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Place {
    Pe(String),
    Processors {
        #[serde(rename = "type")]
        kind: Kind,
        processors: usize,
        order: usize,
    },
}

/// When a task runs.
#[derive(Serialize)]
pub struct Row {
    pub task: String,
    /// The processing element, or the type of the processors.
    pub pe: String,
    /// How many.
    pub processors: usize,
    pub start: f64,
    pub end: f64,
}

impl Priced {
    pub fn text(&self, output: Output) -> Result<String, Failure> {
        if output == Output::Json {
            return Ok(serde_json::to_string(self)? + "\n");
        }
        let mut text = format!("objective {}\nmakespan {}\n", self.objective, self.makespan);
        for Row { task, pe, processors, start, end } in &self.schedule {
            writeln!(text, "{task}: {pe} × {processors}, {start} to {end}")?;
        }
        Ok(text)
    }
}

/// A mapping by names, data-stores included.
pub fn named(
    graph: &Graph,
    platform: &Platform,
    model: Option<&WorkModel>,
    mapping: &Mapping,
) -> BTreeMap<String, Place> {
    match (mapping, model) {
        (Mapping::Single(pes), Some(model)) => {
            model.named(platform, pes).into_iter().map(|(task, pe)| (task, Place::Pe(pe))).collect()
        }
        (Mapping::Single(pes), None) => taskgraph::named(graph, platform, pes)
            .into_iter()
            .map(|(task, pe)| (task, Place::Pe(pe)))
            .collect(),
        (Mapping::Parallel(allotments), _) => {
            let place = |Allotment { kind, processors, order }: &Allotment| Place::Processors {
                kind: kind.clone(),
                processors: *processors,
                order: *order,
            };
            graph.tasks().iter().map(|task| task.id.clone()).zip(allotments.iter().map(place)).collect()
        }
    }
}

/// A schedule by names, by start.
pub fn schedule(
    graph: &Graph,
    platform: &Platform,
    model: Option<&WorkModel>,
    schedule: &Schedule,
) -> Vec<Row> {
    let row = |slot: &taskgraph::Slot| {
        let pe = &platform.pes()[slot.pes[0]];
        let task =
            model.map_or_else(|| graph.tasks()[slot.task].id.clone(), |m| m.name(slot.task).to_owned());
        Row {
            task,
            pe: if model.is_some() { pe.name.clone() } else { pe.kind.to_string() },
            processors: slot.pes.len(),
            start: slot.start,
            end: slot.end,
        }
    };
    let mut rows: Vec<Row> = schedule.slots.iter().map(row).collect();
    rows.sort_by(|a, b| a.start.total_cmp(&b.start));
    rows
}

#[derive(Deserialize)]
struct MappingFile {
    mapping: BTreeMap<String, Place>,
}

/// The places that a mapping file names, by task.
pub fn read(path: &Path) -> Result<BTreeMap<String, Place>, Failure> {
    let text = read::text(path)?;
    let file: MappingFile = serde_json::from_str(&text).map_err(|error| {
        format!(
            "{}: {error}; write {{\"mapping\": {{TASK: PE}}}} or {{\"mapping\": {{TASK: {{type, processors, \
             order}}}}}}, as `map -o json` does",
            path.display()
        )
    })?;
    Ok(file.mapping)
}

/// The processing element of each task and data-store; a data-store that the file does not name is where its first
/// writer is, or its first reader.
pub fn single(
    graph: &Graph,
    platform: &Platform,
    model: &WorkModel,
    places: &BTreeMap<String, Place>,
) -> Result<Vec<usize>, String> {
    let known: std::collections::BTreeSet<&str> = (0..model.tasks()).map(|task| model.name(task)).collect();
    if let Some(stranger) = places.keys().find(|name| !known.contains(name.as_str())) {
        return Err(format!("mapping.{stranger}: no task of the graph; name its tasks and variables alone"));
    }
    let mut pes = Vec::with_capacity(model.tasks());
    for task in 0..model.tasks() {
        let name = model.name(task);
        let pe = match places.get(name) {
            Some(Place::Pe(pe)) => processing_element(platform, pe).ok_or_else(|| {
                format!("mapping.{name}: `{pe}` is no processing element of the platform; name one")
            })?,
            Some(Place::Processors { .. }) => {
                return Err(format!("mapping.{name}: processors of a type; write one processing element"));
            }
            None if model.is_store(task) => {
                let variable = &graph.variables()[task - graph.tasks().len()];
                variable.writers.iter().chain(&variable.readers).next().map_or(0, |&near| pes[near])
            }
            None => return Err(format!("mapping.{name}: absent; give each task its processing element")),
        };
        pes.push(pe);
    }
    Ok(pes)
}

/// By its name in results or in files; a kind alone names its only one.
fn processing_element(platform: &Platform, name: &str) -> Option<usize> {
    platform.pe(name).or_else(|| {
        let mut alike = platform.pes().iter().enumerate().filter(|(_, pe)| pe.kind.as_str() == name);
        alike.next().map(|(at, _)| at).filter(|_| alike.next().is_none())
    })
}

/// The processors of each task.
pub fn parallel(graph: &Graph, places: &BTreeMap<String, Place>) -> Result<Vec<Allotment>, String> {
    if let Some(stranger) = places.keys().find(|name| graph.task(name).is_none()) {
        return Err(format!("mapping.{stranger}: no task of the graph; name its tasks alone"));
    }
    let allotment = |task: &taskgraph::Task| match places.get(&task.id) {
        Some(Place::Processors { kind, processors, order }) => {
            Ok(Allotment { kind: kind.clone(), processors: *processors, order: *order })
        }
        Some(Place::Pe(_)) => {
            Err(format!("mapping.{}: one processing element; write {{type, processors, order}}", task.id))
        }
        None => Err(format!("mapping.{}: absent; give each task its processors", task.id)),
    };
    graph.tasks().iter().map(allotment).collect()
}
