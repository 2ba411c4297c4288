//! The network of a node: a veth pair to the machine, one to each other node, and access to the API server.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use super::delay;

/// The API server's Service, the first address of the service range.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The DNS address of pods: each node has it, for a server of its own.
pub(super) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);

/// The URL of the API server for kubelets and pods.
pub(super) const SERVER: &str = "https://10.0.0.1:443";

/// The addresses of one node. Nodes of one machine have different numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Network {
    number: u8,
}

impl Network {
    /// Creates a veth pair between the machine and the network namespace of process `pid`.
    ///
    /// Also returns a listener inside that namespace on the address of the API server's Service. Everything
    /// is removed with the namespace.
    pub(super) fn join(pid: u32) -> Result<(Self, TcpListener)> {
        // the interface name makes the number unique
        let first = std::process::id().wrapping_mul(2);
        for attempt in 0..=u8::MAX {
            let [number, ..] = first.wrapping_add(u32::from(attempt)).to_le_bytes();
            let network = Self { number };
            let (cable, machine, node) = (network.cable(), network.machine(), network.node());
            match ip(&format!("link add {cable} type veth peer name eth0 netns {pid}")) {
                Ok(()) => {}
                Err(error) if error.to_string().contains("File exists") => continue,
                Err(error) => return Err(error),
            }
            ip(&format!("address add {machine}/24 dev {cable}\nlink set {cable} up"))?;
            let listener = inside(pid, || {
                ip(&format!(
                    "link set lo up\naddress add {SERVICE}/32 dev lo\naddress add {NAMES}/32 dev lo\n\
                     address add {node}/24 dev eth0\nlink set eth0 up"
                ))?;
                let listener = TcpListener::bind((SERVICE, 443));
                listener.with_context(|| format!("cannot listen on {SERVICE}:443 in the node"))
            })?;
            ip(&format!("route add {} via {node}", network.pods()))?;
            return Ok((network, listener));
        }
        bail!("256 nodes have a network on this machine: stop other runs of this harness")
    }

    /// Creates a cable between the nodes of two processes, so that their pods reach each other: a veth pair, or TUN devices
    /// whose packets are delayed.
    ///
    /// It is removed with either namespace.
    pub(super) fn connect(
        self,
        pid: u32,
        other: Self,
        other_pid: u32,
        delay: Option<Duration>,
    ) -> Result<()> {
        let (to_other, to_self) = (format!("node-{}", other.number), format!("node-{}", self.number));
        match delay {
            None => ip(&format!(
                "link add {to_other} netns {pid} type veth peer name {to_self} netns {other_pid}"
            ))?,
            Some(delay) => {
                let ends = [
                    inside(pid, || delay::device(&to_other))?,
                    inside(other_pid, || delay::device(&to_self))?,
                ];
                delay::relay(ends, delay);
            }
        }
        for (end, pid, from, to) in [(to_other, pid, self, other), (to_self, other_pid, other, self)] {
            let (own, its) = (from.node(), to.node());
            let commands = format!(
                "address add {own} peer {its} dev {end}\nlink set {end} up\n\
                 route add {} via {its} dev {end} src {own}",
                to.pods()
            );
            inside(pid, || ip(&commands))?;
        }
        Ok(())
    }

    /// The machine's interface.
    fn cable(self) -> String {
        format!("cairn-e2e-{}", self.number)
    }

    fn machine(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 202, self.number, 1)
    }

    /// The node's address.
    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 202, self.number, 2)
    }

    /// The address range of its pods.
    pub(super) fn pods(self) -> String {
        format!("10.201.{}.0/24", self.number)
    }
}

/// Runs `act` in the network namespace of process `pid`.
fn inside<T>(pid: u32, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let open = |path: String| File::open(&path).with_context(|| format!("cannot open {path}"));
    let own = open("/proc/thread-self/ns/net".into())?;
    let its = open(format!("/proc/{pid}/ns/net"))?;
    let enter = |namespace| setns(namespace, CloneFlags::CLONE_NEWNET).context("cannot change the network");
    enter(&its)?;
    let done = act();
    enter(&own)?;
    done
}

/// Runs `ip` commands, one per line.
fn ip(commands: &str) -> Result<()> {
    for command in commands.lines() {
        let words = command.split_whitespace();
        let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
        let output = output.context("cannot run `ip`: install iproute2")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`ip {command}` failed: {}", said.trim());
    }
    Ok(())
}

/// Forwards every connection of `listener` to `port` on loopback, which may be closed at times.
pub(super) async fn forward(listener: TcpListener, port: u16) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut pod, _) = listener.accept().await?;
        tokio::spawn(async move {
            // the client sees a closed connection, as with a stopped server
            if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                let _ = tokio::io::copy_bidirectional(&mut pod, &mut server).await;
            }
        });
    }
}
