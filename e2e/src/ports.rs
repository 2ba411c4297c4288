//! Free TCP ports on loopback.

use std::{
    net::{Ipv4Addr, TcpListener},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context, Result};

/// Below the range of ephemeral ports (32768 and up): a free port
/// here cannot be taken by an outgoing connection between the search and its use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Finds `N` different free ports.
///
/// No other process gets one of them while this one lives, even before they are bound: test programs run in
/// parallel. Fails if the whole range is in use.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    static MINE: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    // processes start at different ports and try each once, so collisions are rare
    let start = std::process::id().wrapping_mul(997);
    let mut ports = Vec::with_capacity(N);
    for _ in 0..COUNT {
        if ports.len() == N {
            break;
        }
        let offset = start.wrapping_add(LOOKED_AT.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("an offset is smaller than COUNT, which is a u16");
        let Some(claim) = claim(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            MINE.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            ports.push(port);
        }
    }
    ports.try_into().ok().with_context(|| {
        format!(
            "no {N} free ports between {FIRST} and {} on 127.0.0.1: stop what listens there",
            FIRST + COUNT
        )
    })
}

/// A machine-wide lock by name, released by the kernel when the process ends; none if another process holds it.
fn claim(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("cairn-e2e/port/{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Finds one free port.
pub fn free_one() -> Result<u16> {
    free::<1>().map(|[port]| port)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ports_are_never_given_twice() {
        let mut ports = super::free::<20>().unwrap().to_vec();
        ports.extend(super::free::<20>().unwrap());
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 40);
    }

    #[test]
    fn reserved_ports_are_exclusive_even_if_unbound() {
        let [port] = super::free().unwrap();
        assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(), "the port is not bound");
        assert!(super::claim(port).is_none());
    }
}
