//! Reads files, directories and standard input.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;
use world::Objects;

use crate::error::CliError;

/// The text of a file, or of standard input if the path is `-`; gzip is decompressed.
pub fn text(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::Read { file: name(path), source };
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        bytes
    } else {
        fs::read(path).map_err(failed)?
    };
    packed::text(bytes).map_err(|problem| CliError::NotText { file: name(path), problem })
}

/// The name of a file in messages.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The objects in manifests, and the newest timestamp in them.
pub fn manifests(paths: &[PathBuf]) -> Result<(Objects, Option<Timestamp>), CliError> {
    let mut objects = Objects::default();
    let mut newest = None;
    for path in paths {
        for file in files(path)? {
            let text = text(&file)?;
            objects.read(&name(&file), &text)?;
            newest = newest.max(newest_in(&text));
        }
    }
    Ok((objects, newest))
}

/// The file itself, or the manifests in a directory, sorted by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| CliError::Read { file: name(path), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let is_manifest = file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if is_manifest && file.is_file() {
            found.push(file);
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        return Err(CliError::Usage(format!(
            "{}: the directory contains no .yaml, .yml or .json file",
            name(path)
        )));
    }
    Ok(found)
}

/// The newest timestamp in a manifest. Ignores the expiry of refusals, which is in the future.
fn newest_in(text: &str) -> Option<Timestamp> {
    let documents = serde_yaml::Deserializer::from_str(text);
    documents.filter_map(|document| newest_of(&Value::deserialize(document).ok()?)).max()
}

fn newest_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Array(items) => items.iter().filter_map(newest_of).max(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(field, _)| *field != "until")
            .filter_map(|(_, value)| newest_of(value))
            .max(),
        _ => None,
    }
}
