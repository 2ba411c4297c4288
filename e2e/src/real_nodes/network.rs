//! The network of a node: a cable to the machine, one to each other node, and a way to the API server.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

/// The API server's Service, the first address of its range: what every pod is told.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Where pods ask for names: each node has the address, for a server of its own.
pub(super) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);

/// Where kubelets and pods find the API server.
pub(super) const SERVER: &str = "https://10.0.0.1:443";

/// The addresses of one node. No two nodes of a machine have the same number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Network {
    number: u8,
}

impl Network {
    /// Lays a cable from the machine to the network namespace of process `pid` and sets up both ends.
    ///
    /// Also returned is a listener inside that namespace, on the address of the API server's Service. All of it
    /// goes with the namespace.
    pub(super) fn join(pid: u32) -> Result<(Self, TcpListener)> {
        // the name of the machine's end is what keeps numbers apart
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

    /// Lays a cable between the nodes of two processes, so that the pods of each reach those of the other.
    ///
    /// It goes with either of their namespaces.
    pub(super) fn connect(self, pid: u32, other: Self, other_pid: u32) -> Result<()> {
        let (to_other, to_self) = (format!("node-{}", other.number), format!("node-{}", self.number));
        ip(&format!("link add {to_other} netns {pid} type veth peer name {to_self} netns {other_pid}"))?;
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

    /// The machine's end of the cable.
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

    /// The addresses of its pods.
    pub(super) fn pods(self) -> String {
        format!("10.201.{}.0/24", self.number)
    }
}

/// Runs `act` in the network of process `pid`, and comes back.
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

/// Runs commands of `ip`, one per line.
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

/// Passes every connection of `listener` on to `port` on loopback, which need not be there all the time.
pub(super) async fn forward(listener: TcpListener, port: u16) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut pod, _) = listener.accept().await?;
        tokio::spawn(async move {
            // whoever asks sees the connection close, as with a server that is gone
            if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                let _ = tokio::io::copy_bidirectional(&mut pod, &mut server).await;
            }
        });
    }
}
