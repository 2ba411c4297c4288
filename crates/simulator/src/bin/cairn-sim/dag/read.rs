//! Reads the sub-commands' files; every error begins with the file name.

use std::io::Write as _;
use std::path::Path;

use taskgraph::files::workload::{self, Workload};
use taskgraph::{FileError, Graph, Platform, files};

use crate::Failure;

/// Size limit of input files: 20,000 tasks with all their edges take less.
const LARGEST: u64 = 256 << 20;

/// Reads a text file.
pub fn text(path: &Path) -> Result<String, Failure> {
    let unreadable = |source| format!("{}: {source}; name a file that can be read", path.display());
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > LARGEST {
        return Err(format!("{}: {size} bytes; write at most {LARGEST}", path.display()).into());
    }
    Ok(std::fs::read_to_string(path).map_err(unreadable)?)
}

/// Prefixes an error with the file name.
pub fn named<T>(path: &Path, read: Result<T, FileError>) -> Result<T, Failure> {
    read.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Reads a graph: CEDR's JSON if the name ends in `.json`, else YAML. Warnings go to standard error.
pub fn graph(path: &Path) -> Result<Graph, Failure> {
    let text = text(path)?;
    if path.extension().is_none_or(|extension| extension != "json") {
        return named(path, files::graph::read(&text));
    }
    let (graph, warnings) = named(path, files::cedr::read(&text))?;
    let mut err = std::io::stderr().lock();
    for warning in warnings {
        // A warning is best effort.
        let _ = writeln!(err, "warning: {}: {warning}", path.display());
    }
    Ok(graph)
}

/// Reads a platform.
pub fn platform(path: &Path) -> Result<Platform, Failure> {
    named(path, files::platform::read(&text(path)?))
}

/// Reads a workload.
pub fn workload(path: &Path) -> Result<Workload, Failure> {
    named(path, workload::read(&text(path)?))
}
