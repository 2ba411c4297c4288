//! Mappings by name, as results print them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use taskgraph::cost::WorkModel;
use taskgraph::files::mapping::{Place, Places};
use taskgraph::{Allotment, Graph, Mapping, Platform, Schedule};

use super::Output;
use crate::Failure;

/// Output of `map` and `evaluate`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Priced {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapper: Option<&'static str>,
    pub mapping: Places,
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

/// Execution of a task.
#[derive(Serialize)]
pub struct Row {
    pub task: String,
    /// The processing element, or the processor type.
    pub pe: String,
    /// Number of processors.
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

/// A mapping by name, including data stores.
pub fn named(graph: &Graph, platform: &Platform, model: Option<&WorkModel>, mapping: &Mapping) -> Places {
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

/// A schedule by name, in order of start times.
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
