//! What an Instance and its launcher speak over: a socket of the machine, or a connection between two.

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

/// How long an other end that acknowledges nothing passes for alive.
const PATIENCE: Duration = Duration::from_secs(30);
/// In front of an address that is one of the network.
const NETWORK: &str = "tcp:";

/// Either of the two.
#[derive(Debug)]
pub enum Stream {
    /// Within a machine.
    Machine(UnixStream),
    /// Between two.
    Network(TcpStream),
}

impl Stream {
    /// To who listens there; the address is as [`network`] writes it, or a name of this machine.
    pub fn connect(address: &str) -> io::Result<Self> {
        if let Some(address) = address.strip_prefix(NETWORK) {
            return Self::over_network(TcpStream::connect(address)?);
        }
        let name = SocketAddr::from_abstract_name(address)?;
        UnixStream::connect_addr(&name).map(Self::Machine)
    }

    /// A connection whose other end is looked after.
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

/// How an address of the network is written for [`Stream::connect`].
pub fn network(address: std::net::SocketAddr) -> String {
    format!("{NETWORK}{address}")
}

/// Sends at once, and has the kernel end the connection when the other end is silent for too long.
pub fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PATIENCE / 3)?;
    sockopt::set_tcp_keepintvl(stream, PATIENCE / 6)?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX))?;
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
