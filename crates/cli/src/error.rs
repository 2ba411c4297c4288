//! What can go wrong, in the words that people read: where, what, what to do.

use std::error::Error;

use packed::PackedError;
use placement::{PlanError, SnapshotError};
use world::{ApplicationKey, PolicyError, ReadError, WorldError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A file could not be read.
    #[error("{file}: cannot be read")]
    Read {
        /// Which file.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is no text.
    #[error("{file}: {problem}")]
    NoText {
        /// Which file.
        file: String,
        /// What it is instead.
        problem: PackedError,
    },
    /// A snapshot is refused.
    #[error("{file}: {source}")]
    Snapshot {
        /// Which file.
        file: String,
        /// Where in it, and why.
        source: SnapshotError,
    },
    /// A manifest is refused.
    #[error(transparent)]
    Manifest(#[from] ReadError),
    /// There is no world for an application.
    #[error("{application}: {source}")]
    World {
        /// Which application.
        application: ApplicationKey,
        /// Why.
        source: WorldError,
    },
    /// A policy file is refused.
    #[error("{file}: {problem}")]
    PolicyFile {
        /// Which file.
        file: String,
        /// Where in it, what, what to do.
        problem: String,
    },
    /// A policy's program is refused: every fault with its place.
    #[error("{0}")]
    Faults(String),
    /// A policy that was found among the objects is refused.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No plan was found.
    #[error("{subject}: no plan")]
    Plan {
        /// What was planned.
        subject: String,
        /// Why.
        #[source]
        source: PlanError,
    },
    /// The cluster did not answer.
    #[error("cannot {what}")]
    Cluster {
        /// What was asked of it.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The arguments make no sense together.
    #[error("{0}")]
    Usage(String),
    /// The result could not be written.
    #[error("cannot print the result")]
    Print {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl CliError {
    /// The error and its causes in one line, what a cause already says left out.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            let said = cause.to_string();
            if !text.contains(&said) {
                text = format!("{text}: {said}");
            }
            next = cause.source();
        }
        text
    }
}
