//! How much is done in a batch, and what came of it.

use serde::{Deserialize, Serialize};

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// How many nodes of four cores.
    pub nodes: usize,
    /// How many applications.
    pub applications: usize,
    /// About how many actors each has: a tenth more or fewer.
    pub actors: u32,
    /// How often the leader is killed, and how often it is stopped.
    pub strikes: usize,
    /// How long a strike may come after a change, in milliseconds.
    pub moments: u64,
    /// How long the operator's lease is valid.
    pub lease_seconds: u32,
}

impl Size {
    /// One of the batches that the results are stated for.
    pub const FULL: Self =
        Self { nodes: 100, applications: 10, actors: 50, strikes: 10, moments: 3000, lease_seconds: 15 };
    /// The same in little, for a test.
    pub const SHORT: Self =
        Self { nodes: 8, applications: 2, actors: 10, strikes: 3, moments: 700, lease_seconds: 4 };
}

/// What is done to the cluster at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// An application gets more or fewer actors.
    Replicas,
    /// It is deleted and made anew.
    Anew,
    /// It gets a new template.
    Update,
    /// A node goes, and one of the first two happens or none.
    Loss,
    /// A node goes in the middle of an update.
    LossAndUpdate,
    /// A node is drained, and sometimes an application gets a new template.
    Drain,
}

impl Form {
    /// Each comes once before any comes again.
    pub const ALL: [Self; 6] =
        [Self::Replicas, Self::Anew, Self::Update, Self::Loss, Self::LossAndUpdate, Self::Drain];

    /// What it is, for people.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Replicas => "scaling up or down",
            Self::Anew => "deleting and recreating an application",
            Self::Update => "a template change",
            Self::Loss => "losing a node",
            Self::LossAndUpdate => "losing a node with a template change",
            Self::Drain => "draining a node",
        }
    }
}

/// What came of one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The commit of the programs, as whoever built them names it.
    pub commit: String,
    /// What decided what happens.
    pub seed: u64,
    /// How much of everything.
    #[serde(flatten)]
    pub size: Size,
    /// Seconds from each SIGKILL until another operator held the lease.
    pub after_kill: Vec<f64>,
    /// Seconds from each SIGTERM until another operator held the lease.
    pub after_stop: Vec<f64>,
    /// Seconds from there until everything that was wanted ran.
    pub until_all_run: Vec<f64>,
    /// What was done to the cluster each of those times.
    #[serde(default)]
    pub changes: Vec<Form>,
    /// How many nodes were lost.
    pub lost_nodes: usize,
    /// How many nodes were drained.
    pub drained_nodes: usize,
    /// How many applications were given a new template.
    pub updates: usize,
    /// How many pods were started, as the audit log has it.
    pub started: usize,
    /// How many pods were asked to go.
    pub stopped: usize,
    /// How often another operator began to write.
    pub hand_overs: usize,
    /// What must not have happened, in words.
    pub findings: Vec<String>,
}
