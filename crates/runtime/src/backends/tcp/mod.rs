//! Instances connected by a network: copies, agreement and locks over two TCP connections per pair.
//!
//! Copies are requested in program order. A copy is complete, and counted at both ends, once the peer has
//! acknowledged it. Sends never block on the peer: a stopped peer only delays completion.

mod bulk;
mod collectives;
mod connection;
mod control;
mod handshake;
mod mesh;
mod wire;

use std::{net::TcpListener, sync::Arc};

use mesh::Mesh;
use wire::NAME;
#[cfg(test)]
pub(crate) use wire::Range;
pub(crate) use wire::{Head, PeerMessage};

use super::{
    host::Memories,
    processes::{Granted, Instances, Link, wire::REACHED_AT},
    shared::Communication,
};
use crate::model::{Error, TopologyManager};

/// The managers of an Instance that `cairn-run` started with network access.
pub struct Managers {
    /// This Instance and its peers.
    pub instances: Instances,
    /// The topology granted by the launcher.
    pub topology: Granted,
    /// Host memory, which peers access through this process.
    pub memory: Memories,
    /// Copies over TCP.
    pub communication: Communication,
}

/// Whether `cairn-run --tcp` started this process.
pub fn launched() -> bool {
    super::processes::launched() && std::env::var_os(super::processes::wire::TCP).is_some()
}

/// Joins the run. Call once per process, at the start of `main`, in all Instances of the run.
pub fn join() -> Result<Managers, Error> {
    let wrong = |error: std::io::Error| Error::system("listen for other Instances", error);
    let address = std::env::var(REACHED_AT).unwrap_or_else(|_| "127.0.0.1".to_owned());
    let listener = TcpListener::bind((address.as_str(), 0)).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?.to_string();
    let link = Link::join(Some(address))?;
    let mesh = Mesh::new(link.me(), link.secret(), listener);
    let follower = Arc::clone(&mesh);
    link.follow(move |seen| follower.notify(&seen));
    let topology = link.granted();
    let memory = Memories::named(NAME, &topology.query()?);
    let communication = Communication::new(NAME, &[NAME, "host"], Arc::new(mesh));
    Ok(Managers { instances: Instances::new(link), topology, memory, communication })
}
