//! Faults of a policy's text, with line and column.

use std::fmt;

/// A position in the text; lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub line: usize,
    pub column: usize,
}

/// A fault of a policy: where it is, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) at: At,
    problem: String,
}

impl Fault {
    pub(crate) fn new(at: At, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.at.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> usize {
        self.at.column
    }

    /// What is wrong, and how to fix it.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}: {}", self.at.line, self.at.column, self.problem)
    }
}
