//! Errors of commands.

use std::error::Error;

use packed::PackedError;
use placement::{PlanError, SnapshotError};
use world::{ApplicationKey, AssembleError, PolicyError, ReadError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A file could not be read.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file is not text.
    #[error("{file}: {problem}")]
    NotText {
        /// The file.
        file: String,
        /// The problem.
        problem: PackedError,
    },
    /// A snapshot is invalid.
    #[error("{file}: {source}")]
    Snapshot {
        /// The file.
        file: String,
        /// The problem, with its path.
        source: SnapshotError,
    },
    /// A manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ReadError),
    /// The planning snapshot of an application cannot be built.
    #[error("{application}: {source}")]
    World {
        /// The application.
        application: ApplicationKey,
        /// The cause.
        source: AssembleError,
    },
    /// A policy file is invalid.
    #[error("{file}: {problem}")]
    PolicyFile {
        /// The file.
        file: String,
        /// The problem, with its path and a remedy.
        problem: String,
    },
    /// The program of a policy is invalid: all faults with their positions.
    #[error("{0}")]
    InvalidProgram(String),
    /// A policy among the objects is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No plan was found.
    #[error("{subject}: planning failed")]
    Plan {
        /// The application or snapshot.
        subject: String,
        /// The cause.
        #[source]
        source: PlanError,
    },
    /// A request to the cluster failed.
    #[error("cannot {what}")]
    Cluster {
        /// The failed action.
        what: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The arguments are invalid.
    #[error("{0}")]
    Usage(String),
    /// The result could not be written.
    #[error("cannot print the result")]
    Print {
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl CliError {
    /// The error and its causes in one line, without repetitions and with long words cut.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            let answer = cause.downcast_ref().and_then(answer);
            let message = answer.clone().unwrap_or_else(|| cause.to_string());
            if !text.contains(&message) {
                text = format!("{text}: {message}");
            }
            // The cause of an answer is the answer with its reason.
            next = cause.source().filter(|_| answer.is_none());
        }
        placement::shortened(&text)
    }
}

/// What the API server answered. The error itself is displayed as a data structure.
pub fn answer(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(answer) = error else { return None };
    Some(if answer.message.is_empty() { answer.reason.clone() } else { answer.message.clone() })
}
