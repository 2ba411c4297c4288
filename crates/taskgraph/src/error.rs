//! The one error of everything that is read.

/// A text that cannot be taken in: where in it, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}; {remedy}")]
pub struct FileError {
    /// Where: a path such as `tasks[3].work`, or `.` for the whole.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl FileError {
    /// An error at `path`; a field without a name at the top has none, and is of the whole.
    pub fn new(path: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        let path = Some(path.into()).filter(|path: &String| !path.is_empty());
        let path = path.unwrap_or_else(|| ".".to_owned());
        Self { path, problem: problem.into(), remedy: remedy.into() }
    }
}
