//! The stream between an Instance and its launcher: a Unix socket, or TCP between machines.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::Duration,
};

use rustix::net::sockopt;

/// How long a peer may fail to acknowledge before the connection is closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(30);
/// The prefix of a network address.
const NETWORK: &str = "tcp:";

/// A Unix or TCP stream.
#[derive(Debug)]
pub enum Stream {
    /// Within a machine.
    Machine(UnixStream),
    /// Between machines.
    Network(TcpStream),
}

impl Stream {
    /// Connects to an address in the format of [`network`], or to an abstract Unix socket.
    pub fn connect(address: &str) -> io::Result<Self> {
        if let Some(address) = address.strip_prefix(NETWORK) {
            return Self::over_network(TcpStream::connect(address)?);
        }
        let name = SocketAddr::from_abstract_name(address)?;
        UnixStream::connect_addr(&name).map(Self::Machine)
    }

    /// A TCP connection with keep-alive.
    pub fn over_network(stream: TcpStream) -> io::Result<Self> {
        keep_alive(&stream)?;
        Ok(Self::Network(stream))
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Machine(stream) => stream.try_clone().map(Self::Machine),
            Self::Network(stream) => stream.try_clone().map(Self::Network),
        }
    }
}

/// Formats a network address for [`Stream::connect`].
pub fn network(address: std::net::SocketAddr) -> String {
    format!("{NETWORK}{address}")
}

/// Disables delayed sending, and makes the kernel close the connection to an unresponsive peer.
pub fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_TIMEOUT / 3)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_TIMEOUT / 6)?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(KEEP_ALIVE_TIMEOUT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Machine(stream) => stream.read(bytes),
            Self::Network(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Machine(stream) => stream.write(bytes),
            Self::Network(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
