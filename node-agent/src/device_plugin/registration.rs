//! The registration of a resource with the kubelet.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use http::uri::PathAndQuery;
use tonic::{Code, Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use super::wire::{DevicePluginOptions, Empty, REGISTER, RegisterRequest, VERSION};
use crate::{
    kubelet_socket::{Broken, connect},
    metrics::CollectorState,
};

/// The name of the kubelet's socket in the folder of device plugins.
pub const KUBELET: &str = "kubelet.sock";

/// The time-out of a registration: the kubelet connects to the plugin before it answers, for at most 10 s.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why the kubelet does not offer a resource.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The socket does not exist.
    #[error(
        "there is no socket {}: mount the kubelet's folder device-plugins there (agent.numaDomains.enabled=true of the chart), or \
         name another with --device-plugins", .0.display()
    )]
    Absent(PathBuf),
    /// Permission denied.
    #[error(
        "{} may not be used: the folder is root's, so the agent has to run as user 0, without any capability, and the folder must be \
         mounted writable", .0.display()
    )]
    Denied(PathBuf),
    /// No socket for the kubelet to connect to.
    #[error("cannot listen on {path}: {source}; it is tried again")]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection was refused or broke.
    #[error("the kubelet does not answer on {path}: {words}; the registration is repeated", path = .0.display(), words = .1)]
    Unreachable(PathBuf, String),
    /// A time-out.
    #[error("the kubelet did not answer on {} in time; the registration is repeated", .0.display())]
    Timeout(PathBuf),
    /// The server is not a kubelet, or an old one.
    #[error("what listens on {} knows no device plugin API v1beta1: is it the kubelet's socket?", .0.display())]
    Unknown(PathBuf),
    /// The kubelet refused.
    #[error("the kubelet refuses to register {resource}: {words}; the registration is repeated")]
    Refused {
        /// The resource.
        resource: String,
        /// The kubelet's words.
        words: String,
    },
    /// The kubelet accepted the registration, and does not watch the devices.
    #[error("the kubelet does not watch the devices of {0}: see its log; they are registered again")]
    Unwatched(String),
}

impl PluginError {
    /// The collector's state for this error.
    pub fn state(&self) -> CollectorState {
        match self {
            Self::Absent(_) => CollectorState::Absent,
            Self::Denied(_) => CollectorState::Denied,
            _ => CollectorState::Error,
        }
    }

    /// The error of a file operation at `path`.
    pub fn of_file(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied(path),
            io::ErrorKind::NotFound => Self::Absent(path),
            _ => Self::Listen { path, source },
        }
    }
}

/// Registers `resource`, which a plugin serves on the socket `endpoint` in `folder`, with the kubelet.
pub async fn register(folder: &Path, endpoint: String, resource: String) -> Result<(), PluginError> {
    let socket = folder.join(KUBELET);
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint,
        resource_name: resource,
        options: Some(DevicePluginOptions::default()),
    };
    let registered = tokio::time::timeout(TIMEOUT, call(&socket, request)).await;
    registered.unwrap_or(Err(PluginError::Timeout(socket)))
}

async fn call(socket: &Path, request: RegisterRequest) -> Result<(), PluginError> {
    let unusable = |broken| match broken {
        Broken::Absent => PluginError::Absent(socket.to_owned()),
        Broken::Denied => PluginError::Denied(socket.to_owned()),
        Broken::Unreachable(words) => PluginError::Unreachable(socket.to_owned(), words),
    };
    let mut kubelet = Grpc::new(connect(socket).await.map_err(unusable)?);
    kubelet.ready().await.map_err(|error| unusable(Broken::from(&error)))?;
    let resource = request.resource_name.clone();
    let refused = |status: Status| {
        let words = status.message().to_owned();
        match status.code() {
            Code::Unimplemented => PluginError::Unknown(socket.to_owned()),
            Code::Unavailable => PluginError::Unreachable(socket.to_owned(), words),
            _ => PluginError::Refused { resource, words },
        }
    };
    let codec = ProstCodec::<RegisterRequest, Empty>::default();
    let answer = kubelet.unary(Request::new(request), PathAndQuery::from_static(REGISTER), codec).await;
    answer.map(drop).map_err(refused)
}
