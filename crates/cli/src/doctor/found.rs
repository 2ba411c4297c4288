//! What is looked at, and what is said of it.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Serialize;

use crate::visible::Visible;

/// What the chart calls its programs.
pub const OPERATOR: &str = "cairn-operator";
pub const AGENT: &str = "cairn-node-agent";
/// What selects the agents' pods, as the chart labels them.
pub const AGENT_PODS: &str = "app.kubernetes.io/name=cairn,app.kubernetes.io/component=node-agent";

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    Well,
    Unknown,
    Warning,
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which part of Cairn.
    pub area: &'static str,
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
}

/// What was asked for and got, or why not.
pub type Asked<T> = Result<T, String>;

/// Everything that a diagnosis is made from.
#[derive(Debug)]
pub struct Found {
    /// Where operator and agents are, or are to be.
    pub namespace: String,
    pub visible: Visible,
    pub operator: Asked<Option<Deployment>>,
    pub agent: Asked<Option<DaemonSet>>,
    pub leader: Asked<Option<Lease>>,
    pub agents: Asked<Vec<Lease>>,
    /// The names of the admission policies.
    pub admission: Asked<Vec<String>>,
    /// The admission policies that a binding has refuse what they find wrong.
    pub bound: Asked<Vec<String>>,
    /// The rights that operator and agents lack, as `account verb resource`.
    pub lacking: Asked<Vec<String>>,
}
