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
    kubelet_socket::{ConnectError, connect},
    metrics::CollectorState,
};
use wire::{ListPodResourcesRequest, ListPodResourcesResponse, PodResources};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum size of a response. A node of 500 pods with a hundred devices each stays below it.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The kubelet behind a socket.
#[derive(Debug)]
pub struct Kubelet {
    socket: PathBuf,
    /// The connection; `None` after a failure.
    channel: Option<Channel>,
    /// The timeout of a request.
    timeout: Duration,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The socket does not exist.
    #[error(
        "there is no socket {}: mount the kubelet's folder pod-resources there (agent.podResources=Enabled of the \
         chart), or set --pod-resources to its path", .0.display()
    )]
    Absent(PathBuf),
    /// Permission denied.
    #[error("cannot open {}: root owns the socket, so run the agent as user 0 (no capability is needed)", .0.display())]
    Denied(PathBuf),
    /// The connection was refused or broke.
    #[error("cannot reach the kubelet at {path}: {message}; retrying", path = .0.display(), message = .1)]
    Unreachable(PathBuf, String),
    /// The request timed out.
    #[error("the request to the kubelet at {} timed out; retrying", .0.display())]
    Timeout(PathBuf),
    /// Rate-limited: the limit is shared by all clients.
    #[error("the kubelet rate-limits requests: {0}")]
    Throttled(String),
    /// The server is not a kubelet, or an old one.
    #[error("the server at {} does not implement PodResources v1: check that it is the kubelet's socket", .0.display())]
    Unknown(PathBuf),
    /// The response is malformed, or an error.
    #[error("the kubelet's response is unusable: {0}")]
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
        Self { socket: socket.into(), channel: None, timeout: TIMEOUT }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The allocations of each pod of the node.
    pub async fn list(&mut self) -> Result<Vec<PodResources>, ListError> {
        let response = tokio::time::timeout(self.timeout, self.query()).await;
        let response = response.unwrap_or_else(|_| Err(ListError::Timeout(self.socket.clone())));
        // Rate limiting keeps the connection. After any other error the next request reconnects.
        if !matches!(response, Ok(_) | Err(ListError::Throttled(_))) {
            self.channel = None;
        }
        response
    }

    async fn query(&mut self) -> Result<Vec<PodResources>, ListError> {
        let channel = match &self.channel {
            Some(channel) => channel.clone(),
            None => self.channel.insert(self.connect().await?).clone(),
        };
        let mut kubelet = Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        kubelet.ready().await.map_err(|error| self.connect_error(ConnectError::from(&error)))?;
        let method = http::uri::PathAndQuery::from_static("/v1.PodResourcesLister/List");
        let codec = ProstCodec::<ListPodResourcesRequest, ListPodResourcesResponse>::default();
        let response = kubelet.unary(Request::new(ListPodResourcesRequest {}), method, codec).await;
        Ok(response.map_err(|status| self.refused(&status))?.into_inner().pod_resources)
    }

    async fn connect(&self) -> Result<Channel, ListError> {
        connect(&self.socket).await.map_err(|error| self.connect_error(error))
    }

    fn connect_error(&self, error: ConnectError) -> ListError {
        let socket = self.socket.clone();
        match error {
            ConnectError::Absent => ListError::Absent(socket),
            ConnectError::Denied => ListError::Denied(socket),
            ConnectError::Unreachable(message) => ListError::Unreachable(socket, message),
        }
    }

    fn refused(&self, status: &Status) -> ListError {
        let message = status.message().to_owned();
        match status.code() {
            Code::ResourceExhausted => ListError::Throttled(message),
            Code::Unimplemented => ListError::Unknown(self.socket.clone()),
            Code::Unavailable => ListError::Unreachable(self.socket.clone(), message),
            Code::Unknown if status.source().is_some() => {
                ListError::Unreachable(self.socket.clone(), message)
            }
            code => ListError::Refused(format!("{code:?}: {message}")),
        }
    }
}

#[cfg(test)]
pub mod fake;
#[cfg(test)]
mod tests;
