//! Files of the sub-commands: every error begins with the file's name.

use std::io::Write as _;
use std::path::Path;

use taskgraph::files::workload::{self, Workload};
use taskgraph::{FileError, Graph, Platform, files};

use crate::Failure;

/// Files above this are refused unread: 20,000 tasks with all their edges take less.
const LARGEST: u64 = 256 << 20;

/// The text of a file.
pub fn text(path: &Path) -> Result<String, Failure> {
    let unreadable = |source| format!("{}: {source}; name a file that can be read", path.display());
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST {
        return Err(format!("{}: {size} bytes; write at most {LARGEST}", path.display()).into());
    }
    Ok(std::fs::read_to_string(path).map_err(unreadable)?)
}

/// Puts the file's name before an error in it.
pub fn named<T>(path: &Path, read: Result<T, FileError>) -> Result<T, Failure> {
    read.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A graph: CEDR's JSON where the name ends in `.json`, else YAML. Warnings go to standard error.
pub fn graph(path: &Path) -> Result<Graph, Failure> {
    let text = text(path)?;
    if path.extension().is_none_or(|extension| extension != "json") {
        return named(path, files::graph::read(&text));
    }
    let (graph, warnings) = named(path, files::cedr::read(&text))?;
    let mut err = std::io::stderr().lock();
    for warning in warnings {
        // Nobody is left to warn when even this cannot be written.
        let _ = writeln!(err, "warning: {}: {warning}", path.display());
    }
    Ok(graph)
}

/// A platform.
pub fn platform(path: &Path) -> Result<Platform, Failure> {
    named(path, files::platform::read(&text(path)?))
}

/// A workload.
pub fn workload(path: &Path) -> Result<Workload, Failure> {
    named(path, workload::read(&text(path)?))
}
