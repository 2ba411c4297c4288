//! Files: graphs, platforms and workloads as YAML; CEDR's graphs and mappings as JSON.
//!
//! Unknown fields are rejected with their path, except in CEDR's format, where they are kept with a warning.

pub mod cedr;
pub mod graph;
pub mod mapping;
mod pairs;
pub mod platform;
pub mod workload;

use serde::de::DeserializeOwned;

pub use pairs::Pairs;

use crate::FileError;

/// The only version of Cairn's formats.
pub const VERSION: u32 = 1;

/// Reads one YAML document; errors name line, column and path.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    let reader = serde_yaml::Deserializer::from_str(text);
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let path = error.path().to_string();
        let place = match error.inner().location() {
            Some(at) if path == "." => format!("line {} column {}", at.line(), at.column()),
            Some(at) => format!("{path} (line {} column {})", at.line(), at.column()),
            None => path.clone(),
        };
        let whole = error.inner().to_string();
        let message = &whole[..whole.find(" at line ").unwrap_or(whole.len())];
        let problem = message.strip_prefix(&format!("{path}: ")).unwrap_or(message);
        FileError::new(place, problem, "see docs/reference/task-graphs.md for the fields")
    })
}

/// A number that must be finite and within `least..=largest`.
pub(crate) fn within(path: &str, value: f64, least: f64, largest: f64) -> Result<f64, FileError> {
    if value >= least && value <= largest {
        return Ok(value);
    }
    Err(FileError::new(
        path,
        format!("{value} is out of range"),
        format!("write a number from {least} to {largest}"),
    ))
}

/// A number that must be above zero, at most `largest`.
pub(crate) fn positive(path: &str, value: f64, largest: f64) -> Result<f64, FileError> {
    if value > 0.0 && value <= largest {
        return Ok(value);
    }
    Err(FileError::new(
        path,
        format!("{value} is out of range"),
        format!("write a number above 0, at most {largest}"),
    ))
}

/// Rejects other versions.
pub(crate) fn version(given: u32) -> Result<(), FileError> {
    if given == VERSION {
        return Ok(());
    }
    Err(FileError::new("version", format!("{given} is unknown"), format!("write version: {VERSION}")))
}
