//! A cable with a delay between the networks of two nodes: a TUN device in each, and a relay between them.
//!
//! The kernel of a test machine may lack `netem`, so packets are held back here.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tun_rs::{DeviceBuilder, SyncDevice};

/// The largest packet of a TUN device.
const MTU: usize = 1500;

/// Creates a TUN device of this name in the current network namespace.
pub(super) fn device(name: &str) -> Result<SyncDevice> {
    let device = DeviceBuilder::new().name(name).build_sync();
    device.with_context(|| format!("cannot make the TUN device {name}; is /dev/net/tun there?"))
}

/// Relays packets between two devices, each delayed by this much, as long as the process runs.
pub(super) fn relay(ends: [SyncDevice; 2], delay: Duration) {
    let [one, other] = ends.map(Arc::new);
    one_way(one.clone(), other.clone(), delay);
    one_way(other, one, delay);
}

/// Packets in one direction keep their order. The threads end when a device is gone.
fn one_way(from: Arc<SyncDevice>, to: Arc<SyncDevice>, delay: Duration) {
    let (send, receive) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut packet = [0; MTU];
        loop {
            match from.recv(&mut packet) {
                Ok(length) if send.send((Instant::now() + delay, packet[..length].to_vec())).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
    thread::spawn(move || {
        for (due, packet) in receive {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A lost packet is sent again by TCP.
            let _ = to.send(&packet);
        }
    });
}
