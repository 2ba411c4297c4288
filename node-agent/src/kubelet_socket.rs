//! Connections to Unix sockets of the kubelet.

use std::{io, path::Path};

use tonic::transport::{Channel, Endpoint, Error};

/// Why a socket cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The socket does not exist.
    Absent,
    /// Permission denied.
    Denied,
    /// The connection was refused or broke, with the system's message.
    Unreachable(String),
}

impl From<&Error> for ConnectError {
    fn from(error: &Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        let mut message = error.to_string();
        while let Some(error) = cause {
            match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::NotFound) => return Self::Absent,
                Some(io::ErrorKind::PermissionDenied) => return Self::Denied,
                _ => message = error.to_string(),
            }
            cause = error.source();
        }
        Self::Unreachable(message)
    }
}

/// Connects to the server that listens on `socket`.
pub async fn connect(socket: &Path) -> Result<Channel, ConnectError> {
    let path =
        socket.to_str().ok_or_else(|| ConnectError::Unreachable("its path is not UTF-8".to_owned()))?;
    let endpoint =
        Endpoint::from_shared(format!("unix:{path}")).map_err(|error| ConnectError::from(&error))?;
    endpoint.connect().await.map_err(|error| ConnectError::from(&error))
}
