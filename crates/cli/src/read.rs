//! Reads files, directories and standard input.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use placement::Snapshot;
use serde::Deserialize as _;
use serde_json::Value;
use world::Objects;

use crate::error::CliError;
use crate::print_warning;
use crate::schema::Schemas;

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

/// The snapshot in a file.
pub fn snapshot(path: &Path) -> Result<Snapshot, CliError> {
    let text = text(path)?;
    if text.trim().is_empty() {
        return Err(CliError::Usage(format!(
            "{}: is empty; a snapshot is what `kubectl cairn plan -o snapshot` or the operator's /debug/snapshot prints",
            name(path)
        )));
    }
    Snapshot::read(&text).map_err(|source| CliError::Snapshot { file: name(path), source })
}

/// The objects in manifests, and the newest timestamp in them. Applications and pools are validated as the API server would.
pub fn manifests(paths: &[PathBuf]) -> Result<(Objects, Option<Timestamp>), CliError> {
    let schemas = Schemas::new();
    let mut objects = Objects::default();
    let mut newest = None;
    for path in paths {
        for file in files(path)? {
            let text = text(&file)?;
            let invalid = objects.read_valid(&name(&file), &text, |object| schemas.check(object))?;
            if let Some(error) = invalid.into_iter().next() {
                return Err(error.into());
            }
            newest = newest.max(newest_in(&text));
        }
    }
    Ok((objects, newest))
}

/// The objects in a dump of a cluster. Those that cannot be read, such as ones of a newer version, are left out with a
/// warning.
pub fn dump(paths: &[PathBuf]) -> Result<Objects, CliError> {
    let mut objects = Objects::default();
    for path in paths {
        for file in files(path)? {
            for error in objects.read_valid(&name(&file), &text(&file)?, |_| Ok(()))? {
                print_warning(&format!("{error}; the object is left out"));
            }
        }
    }
    Ok(objects)
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
