//! Client of the kubelet's PodResources v1 API: devices, CPUs and memory by pod.

pub mod wire;

use std::{
    error::Error as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tonic::{Code, Request, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use crate::{
    kubelet_socket::{Broken, connect},
    metrics::CollectorState,
};
use wire::{ListPodResourcesRequest, ListPodResourcesResponse, PodResources};

/// The time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum size of an answer; a node of 500 pods with a hundred devices each stays below it.
const LARGEST: usize = 16 * 1024 * 1024;

/// The kubelet behind a socket.
#[derive(Debug)]
pub struct Kubelet {
    socket: PathBuf,
    /// The connection, kept while it works.
    channel: Option<Channel>,
    /// The time-out of a request.
    patience: Duration,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The socket does not exist.
    #[error(
        "there is no socket {}: mount the kubelet's folder pod-resources there (agent.podResources=Enabled of the chart), or \
         name another with --pod-resources", .0.display()
    )]
    Absent(PathBuf),
    /// Permission denied.
    #[error("{} may not be opened: the socket is root's, so the agent has to run as user 0, without any capability", .0.display())]
    Denied(PathBuf),
    /// The connection was refused or broke.
    #[error("the kubelet does not answer on {path}: {words}; it is asked again", path = .0.display(), words = .1)]
    Unreachable(PathBuf, String),
    /// A time-out.
    #[error("the kubelet did not answer on {} in time; it is asked again", .0.display())]
    Timeout(PathBuf),
    /// Rate-limited: the limit is shared by all clients.
    #[error("the kubelet asks for patience: {0}")]
    Throttled(String),
    /// The server is not a kubelet, or an old one.
    #[error("what listens on {} knows no PodResources v1: is it the kubelet's socket?", .0.display())]
    Unknown(PathBuf),
    /// The answer is malformed, or a refusal.
    #[error("the kubelet's answer cannot be used: {0}")]
    Refused(String),
}

impl ListError {
    /// The collector's state for this error.
    pub fn state(&self) -> CollectorState {
        match self {
            Self::Absent(_) => CollectorState::Absent,
            Self::Denied(_) => CollectorState::Denied,
            _ => CollectorState::Error,
        }
    }

    /// A closed set, used as metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent(_) => "absent",
            Self::Denied(_) => "denied",
            Self::Unreachable(..) => "unreachable",
            Self::Timeout(_) => "timeout",
            Self::Throttled(_) => "throttled",
            Self::Unknown(_) => "unknown",
            Self::Refused(_) => "refused",
        }
    }
}

impl Kubelet {
    /// Does not connect yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), channel: None, patience: TIMEOUT }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The allocations of each pod of the node.
    pub async fn list(&mut self) -> Result<Vec<PodResources>, ListError> {
        let answer = tokio::time::timeout(self.patience, self.ask()).await;
        let answer = answer.unwrap_or_else(|_| Err(ListError::Timeout(self.socket.clone())));
        // After rate limiting the connection is kept; after any other error the next request reconnects.
        if !matches!(answer, Ok(_) | Err(ListError::Throttled(_))) {
            self.channel = None;
        }
        answer
    }

    async fn ask(&mut self) -> Result<Vec<PodResources>, ListError> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => self.channel.insert(self.connect().await?).clone(),
        };
        let mut kubelet = Grpc::new(channel).max_decoding_message_size(LARGEST);
        kubelet.ready().await.map_err(|error| self.unusable(Broken::from(&error)))?;
        let method = http::uri::PathAndQuery::from_static("/v1.PodResourcesLister/List");
        let codec = ProstCodec::<ListPodResourcesRequest, ListPodResourcesResponse>::default();
        let answer = kubelet.unary(Request::new(ListPodResourcesRequest {}), method, codec).await;
        Ok(answer.map_err(|status| self.refused(&status))?.into_inner().pod_resources)
    }

    async fn connect(&self) -> Result<Channel, ListError> {
        connect(&self.socket).await.map_err(|broken| self.unusable(broken))
    }

    fn unusable(&self, broken: Broken) -> ListError {
        let socket = self.socket.clone();
        match broken {
            Broken::Absent => ListError::Absent(socket),
            Broken::Denied => ListError::Denied(socket),
            Broken::Unreachable(words) => ListError::Unreachable(socket, words),
        }
    }

    fn refused(&self, status: &Status) -> ListError {
        let words = status.message().to_owned();
        match status.code() {
            Code::ResourceExhausted => ListError::Throttled(words),
            Code::Unimplemented => ListError::Unknown(self.socket.clone()),
            Code::Unavailable => ListError::Unreachable(self.socket.clone(), words),
            Code::Unknown if status.source().is_some() => ListError::Unreachable(self.socket.clone(), words),
            code => ListError::Refused(format!("{code:?}: {words}")),
        }
    }
}

#[cfg(test)]
pub mod fake;
#[cfg(test)]
mod tests;
