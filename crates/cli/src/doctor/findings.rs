//! The observed state of an installation, and the findings about it.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Serialize;

use crate::access::AccessibleObjects;

/// The names of the workloads in the chart.
pub const OPERATOR: &str = "cairn-operator";
pub const AGENT: &str = "cairn-node-agent";
/// The label selector of the agents' pods and daemon sets.
pub const AGENT_PODS: &str = "app.kubernetes.io/name=cairn,app.kubernetes.io/component=node-agent";

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    #[serde(rename = "well")]
    Ok,
    Unknown,
    Warning,
    #[serde(rename = "wrong")]
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The component of Cairn.
    pub area: &'static str,
    pub level: Level,
    /// The finding.
    pub text: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
}

/// A response of the API server, or the error message.
pub type Fetched<T> = Result<T, String>;

/// The observed state of an installation.
#[derive(Debug)]
pub struct InstallationState {
    /// The namespace of operator and agents.
    pub namespace: String,
    pub accessible: AccessibleObjects,
    pub operator: Fetched<Option<Deployment>>,
    /// The daemon sets of the agents, one for each group of nodes.
    pub agent: Fetched<Vec<DaemonSet>>,
    pub leader: Fetched<Option<Lease>>,
    pub agents: Fetched<Vec<Lease>>,
    /// The names of the admission policies.
    pub admission: Fetched<Vec<String>>,
    /// The admission policies with a binding whose action is `Deny`.
    pub bound: Fetched<Vec<String>>,
    /// The required permissions that operator and agents lack, as `account verb resource`.
    pub missing_permissions: Fetched<Vec<String>>,
}
