//! The parameters and results of a batch.

use serde::{Deserialize, Serialize};

/// The size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChaosSize {
    /// The number of nodes with four cores.
    pub nodes: usize,
    /// The number of applications.
    pub applications: usize,
    /// The average number of actors per application, ± 10 %.
    pub actors: u32,
    /// How often the leader is killed, and how often it is stopped.
    pub strikes: usize,
    /// The maximum delay of a strike after a change, in milliseconds.
    pub moments: u64,
    /// The duration of the operator's lease.
    pub lease_seconds: u32,
}

impl ChaosSize {
    /// A batch of the published results.
    pub const FULL: Self =
        Self { nodes: 100, applications: 10, actors: 50, strikes: 10, moments: 3000, lease_seconds: 15 };
    /// A small batch for a test.
    pub const SHORT: Self =
        Self { nodes: 8, applications: 2, actors: 10, strikes: 3, moments: 700, lease_seconds: 4 };
}

/// A change of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// An application is scaled up or down.
    Replicas,
    /// It is deleted and recreated.
    Anew,
    /// It gets a new template.
    Update,
    /// A node is lost, possibly with one of the first two changes.
    Loss,
    /// A node is lost during a rollout.
    LossAndUpdate,
    /// A node is drained, sometimes with a new template.
    Drain,
}

impl Form {
    /// Each form occurs once before any is repeated.
    pub const ALL: [Self; 6] =
        [Self::Replicas, Self::Anew, Self::Update, Self::Loss, Self::LossAndUpdate, Self::Drain];

    /// A description for the results page.
    pub const fn description(self) -> &'static str {
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

/// The results of one batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The commit of the programs.
    pub commit: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The size of the batch.
    #[serde(flatten)]
    pub size: ChaosSize,
    /// Seconds from each SIGKILL until another operator held the lease.
    pub after_kill: Vec<f64>,
    /// Seconds from each SIGTERM until another operator held the lease.
    pub after_stop: Vec<f64>,
    /// Seconds from then until all wanted actors ran.
    pub until_all_run: Vec<f64>,
    /// The change before each of these strikes.
    #[serde(default)]
    pub changes: Vec<Form>,
    /// The number of lost nodes.
    pub lost_nodes: usize,
    /// The number of drained nodes.
    pub drained_nodes: usize,
    /// The number of new templates.
    pub updates: usize,
    /// The number of started pods, from the audit log.
    pub started: usize,
    /// The number of deleted pods.
    pub stopped: usize,
    /// The number of leadership changes.
    pub hand_overs: usize,
    /// The violations.
    pub findings: Vec<String>,
}
