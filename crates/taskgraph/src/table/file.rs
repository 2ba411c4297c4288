//! Tables as JSON.

use serde::{Deserialize, Serialize};

use super::build::{Region, Table};
use crate::cost::PARAMETERS;
use crate::files::{Pairs, VERSION};
use crate::{Allotment, FileError, Kind, Mapping, Range};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    version: u32,
    samples: usize,
    seed: u64,
    parameters: Pairs<RangeFile>,
    mappings: Vec<Pairs<AllotmentFile>>,
    regions: Vec<RegionFile>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RangeFile {
    min: f64,
    max: f64,
    intervals: usize,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AllotmentFile {
    #[serde(rename = "type")]
    kind: Kind,
    processors: usize,
    order: usize,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RegionFile {
    mapping: usize,
    mean: f64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<RegionFile>,
}

/// Writes a table; reading it gives an equal table.
pub fn write(table: &Table) -> String {
    let range = |(name, range): (&str, &Range)| {
        let Range { min, max, intervals } = *range;
        (name.to_owned(), RangeFile { min, max, intervals })
    };
    let mapping = |mapping: &Mapping| {
        let allotments = match mapping {
            Mapping::Parallel(allotments) => allotments.as_slice(),
            Mapping::Single(_) => &[],
        };
        let file = |allotment: &Allotment| AllotmentFile {
            kind: allotment.kind.clone(),
            processors: allotment.processors,
            order: allotment.order,
        };
        Pairs(table.tasks.iter().cloned().zip(allotments.iter().map(file)).collect())
    };
    let file = TableFile {
        version: VERSION,
        samples: table.samples,
        seed: table.seed,
        parameters: Pairs(PARAMETERS.into_iter().zip(&table.ranges).map(range).collect()),
        mappings: table.mappings.iter().map(mapping).collect(),
        regions: table.regions.iter().map(region_file).collect(),
    };
    let mut text = serde_json::to_string(&file).expect("plain data with text keys always serializes");
    text.push('\n');
    text
}

fn region_file(region: &Region) -> RegionFile {
    RegionFile {
        mapping: region.plan,
        mean: region.mean,
        parts: region.parts.iter().map(region_file).collect(),
    }
}

/// Reads a table.
pub fn read(text: &str) -> Result<Table, FileError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let file: TableFile = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        FileError::new(error.path().to_string(), error.inner().to_string(), "build the table anew")
    })?;
    reader.end().map_err(|error| FileError::new(".", error.to_string(), "build the table anew"))?;
    let refuse = |path: String, problem: String| Err(FileError::new(path, problem, "build the table anew"));
    if file.version != VERSION {
        return refuse("version".to_owned(), format!("{} is unknown", file.version));
    }
    let mut ranges = [Range { min: 0.0, max: 1.0, intervals: 1 }; 4];
    let names: Vec<&str> = file.parameters.0.iter().map(|(name, _)| name.as_str()).collect();
    if names != PARAMETERS {
        return refuse("parameters".to_owned(), format!("{names:?} instead of {PARAMETERS:?}"));
    }
    let mut count = 1_usize;
    for (range, (name, RangeFile { min, max, intervals })) in ranges.iter_mut().zip(file.parameters.0) {
        if !(min < max && min.is_finite() && max.is_finite() && intervals > 0) {
            return refuse(format!("parameters.{name}"), format!("{min} to {max} in {intervals} intervals"));
        }
        *range = Range { min, max, intervals };
        count = count.saturating_mul(intervals);
    }
    if file.regions.len() != count {
        return refuse("regions".to_owned(), format!("{} of them for {count}", file.regions.len()));
    }
    let tasks: Vec<String> = file
        .mappings
        .first()
        .map(|first| first.0.iter().map(|(task, _)| task.clone()).collect())
        .unwrap_or_default();
    let mut mappings = Vec::with_capacity(file.mappings.len());
    for (number, Pairs(pairs)) in file.mappings.into_iter().enumerate() {
        if !pairs.iter().map(|(task, _)| task).eq(&tasks) {
            return refuse(format!("mappings[{number}]"), "other tasks than in the first mapping".to_owned());
        }
        let allotment =
            |(_, AllotmentFile { kind, processors, order })| Allotment { kind, processors, order };
        mappings.push(Mapping::Parallel(pairs.into_iter().map(allotment).collect()));
    }
    let mut regions = Vec::with_capacity(count);
    for (number, region) in file.regions.into_iter().enumerate() {
        regions.push(read_region(&format!("regions[{number}]"), region, mappings.len())?);
    }
    Ok(Table { ranges, samples: file.samples, seed: file.seed, tasks, mappings, regions })
}

fn read_region(path: &str, file: RegionFile, mappings: usize) -> Result<Region, FileError> {
    let refuse = |problem: String| Err(FileError::new(path, problem, "build the table anew"));
    if file.mapping >= mappings {
        return refuse(format!("mapping {} of {mappings}", file.mapping));
    }
    if !(file.mean.is_finite() && file.mean >= 0.0) {
        return refuse(format!("a mean of {}", file.mean));
    }
    if ![0, 16].contains(&file.parts.len()) {
        return refuse(format!("{} parts instead of 16", file.parts.len()));
    }
    let parts = file.parts.into_iter().enumerate();
    let parts = parts.map(|(number, part)| read_region(&format!("{path}.parts[{number}]"), part, mappings));
    Ok(Region { plan: file.mapping, mean: file.mean, parts: parts.collect::<Result<_, _>>()? })
}
