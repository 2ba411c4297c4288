//! Free TCP ports on loopback.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};

/// Below the range that the kernel hands to outgoing connections (32768 and up): a port found free
/// here cannot be taken by some client between the search and its use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Finds `N` different ports that nothing listens on now.
///
/// Processes start their search at different places and never look at a port twice, so harnesses that
/// run side by side do not meet. Fails when the whole range is in use.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(997);
    // all stay bound until the last is found
    let mut listeners = Vec::with_capacity(N);
    for _ in 0..COUNT {
        if listeners.len() == N {
            break;
        }
        let offset = start.wrapping_add(LOOKED_AT.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("an offset is smaller than COUNT, which is a u16");
        listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    let ports =
        listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
    ports.try_into().ok().with_context(|| {
        format!(
            "no {N} free ports between {FIRST} and {} on 127.0.0.1: stop what listens there",
            FIRST + COUNT
        )
    })
}

/// Finds one port that nothing listens on now.
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
}
