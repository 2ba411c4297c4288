//! Instances that a network connects: copies, agreement and locks over two TCP connections for each two of them.
//!
//! A copy is asked for in the order in which it was begun, and is finished, and counted at both ends, once the other
//! end has said so. What is sent never waits for the other end: one that is stopped is late, and no more.

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
pub(crate) use wire::{Head, Say};

use super::{
    host::Memories,
    processes::{Granted, Instances, Link, wire::REACHED_AT},
    shared::Communication,
};
use crate::model::{Error, TopologyManager};

/// The managers of an Instance that `cairn-run` started, and that others reach by a network.
pub struct Managers {
    /// This Instance and all others of the run.
    pub instances: Instances,
    /// What the launcher granted this one.
    pub topology: Granted,
    /// Memory of the processors, from which and to which others copy by way of this process.
    pub memory: Memories,
    /// Copies over connections.
    pub communication: Communication,
}

/// Whether `cairn-run --tcp` started this process.
pub fn launched() -> bool {
    super::processes::launched() && std::env::var_os(super::processes::wire::TCP).is_some()
}

/// Joins the run. Once in a process, at the beginning of `main`; all Instances of the run join alike.
pub fn join() -> Result<Managers, Error> {
    let wrong = |error: std::io::Error| Error::system("listen for other Instances", error);
    let address = std::env::var(REACHED_AT).unwrap_or_else(|_| "127.0.0.1".to_owned());
    let listener = TcpListener::bind((address.as_str(), 0)).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?.to_string();
    let link = Link::join(Some(address))?;
    let mesh = Mesh::new(link.me(), link.secret(), listener);
    let follower = Arc::clone(&mesh);
    link.follow(move |seen| follower.seen(&seen));
    let topology = link.granted();
    let memory = Memories::named(NAME, &topology.query()?);
    let communication = Communication::new(NAME, &[NAME, "host"], Arc::new(mesh));
    Ok(Managers { instances: Instances::new(link), topology, memory, communication })
}
