//! The error of all file readers.

/// An invalid file: place, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}; {remedy}")]
pub struct FileError {
    /// Path such as `tasks[3].work`, or `.` for the whole file.
    pub path: String,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl FileError {
    /// An error at `path`; an empty path stands for the whole file.
    pub fn new(path: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        let path = Some(path.into()).filter(|path: &String| !path.is_empty());
        let path = path.unwrap_or_else(|| ".".to_owned());
        Self { path, problem: problem.into(), remedy: remedy.into() }
    }
}
