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
    kubelet_socket::{ConnectError, connect},
    metrics::CollectorState,
};

/// The name of the kubelet's socket in the folder of device plugins.
pub const KUBELET: &str = "kubelet.sock";

/// The timeout of a registration. Before it responds, the kubelet connects to the plugin for at most 10 s.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why the kubelet does not offer a resource.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The socket does not exist.
    #[error(
        "there is no socket {}: mount the kubelet's folder device-plugins there (agent.numaDomains.enabled=true of the \
         chart), or set --device-plugins to its path", .0.display()
    )]
    Absent(PathBuf),
    /// Permission denied.
    #[error(
        "cannot use {}: root owns the folder, so run the agent as user 0 (no capability is needed), \
         and mount the folder writable", .0.display()
    )]
    Denied(PathBuf),
    /// No socket for the kubelet to connect to.
    #[error("cannot listen on {path}: {source}; retrying")]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The connection was refused or broke.
    #[error("cannot reach the kubelet at {path}: {message}; retrying", path = .0.display(), message = .1)]
    Unreachable(PathBuf, String),
    /// The request timed out.
    #[error("the registration with the kubelet at {} timed out; retrying", .0.display())]
    Timeout(PathBuf),
    /// The server is not a kubelet, or an old one.
    #[error("the server at {} has no device plugin API v1beta1: check that it is the kubelet's socket", .0.display())]
    Unknown(PathBuf),
    /// The kubelet refused the registration.
    #[error("the kubelet refuses to register {resource}: {message}; retrying")]
    Refused {
        /// The resource.
        resource: String,
        /// The kubelet's message.
        message: String,
    },
    /// The kubelet accepted the registration, but does not watch the devices.
    #[error("the kubelet does not watch the devices of {0}: see its log; registering again")]
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
    let connect_error = |error| match error {
        ConnectError::Absent => PluginError::Absent(socket.to_owned()),
        ConnectError::Denied => PluginError::Denied(socket.to_owned()),
        ConnectError::Unreachable(message) => PluginError::Unreachable(socket.to_owned(), message),
    };
    let mut kubelet = Grpc::new(connect(socket).await.map_err(connect_error)?);
    kubelet.ready().await.map_err(|error| connect_error(ConnectError::from(&error)))?;
    let resource = request.resource_name.clone();
    let refused = |status: Status| {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unimplemented => PluginError::Unknown(socket.to_owned()),
            Code::Unavailable => PluginError::Unreachable(socket.to_owned(), message),
            _ => PluginError::Refused { resource, message },
        }
    };
    let codec = ProstCodec::<RegisterRequest, Empty>::default();
    let response = kubelet.unary(Request::new(request), PathAndQuery::from_static(REGISTER), codec).await;
    response.map(drop).map_err(refused)
}
