//! Instances on several hosts: each has its own launch command and connects to the others only by network.

use std::{
    io::Write as _,
    process::{Command, Output},
};

use runtime::{Memcpy, Tag, backends::processes};
use serde_json::{Value, json};

use crate::{
    instances::host,
    ranks::{Rank, key, member, soon},
};

/// Each Instance puts its number into the next one's slot and reads its own slot.
fn round(rank: &Rank) {
    let (mine, source) = (rank.slot(8), rank.slot(8));
    source.write(0, &(rank.index() as u64).to_le_bytes()).unwrap();
    let exchange = rank.communication.exchange(&rank.group(), Tag(1), &[(key(rank.index()), &mine)]);
    let slots = soon(exchange.unwrap()).unwrap();
    let next = (rank.index() + 1) % rank.ids().len();
    rank.communication.memcpy(&slots[&key(next)], 0, &source, 0, 8).unwrap();
    soon(rank.communication.fence((&mine).into(), 0, 1).unwrap()).unwrap();
    let before = (rank.index() + rank.ids().len() - 1) % rank.ids().len();
    assert_eq!(mine.read_values::<u64>(0, 1).unwrap(), [before as u64]);
    println!("reached at {}", rank.instances.current().address());
    rank.barrier(2);
}

/// `cairn-run` over these hosts, with a launcher that listens at `address`.
fn run(launch: &[&str], hosts: &[Value], options: &[&str], name: &str) -> Output {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(serde_json::to_string(hosts).unwrap().as_bytes()).unwrap();
    let words: Vec<_> = launch.iter().copied().chain([env!("CARGO_BIN_EXE_cairn-run")]).collect();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args(["-n", &hosts.len().to_string(), "--hosts"])
        .arg(file.path())
        .args(options);
    command.arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.output().unwrap()
}

/// A described host with a launch command.
fn far(launch: &[&str], address: &str) -> Value {
    let mut host = host(1, 1 << 20);
    host["Launch"] = json!(launch);
    host["Address"] = json!(address);
    host
}

#[test]
fn instances_start_and_connect_by_launch_prefix_and_address() {
    const NAME: &str = "hosts::instances_start_and_connect_by_launch_prefix_and_address";
    if processes::launched() {
        member(round);
    }
    // The command starts on the same machine, but loopback addresses still force network traffic.
    let hosts = [far(&["env", "-i"], "127.0.0.2"), far(&["env", "-i"], "127.0.0.3"), host(1, 1 << 20)];
    let output = run(&[], &hosts, &["--tcp", "--listen", "127.0.0.1"], NAME);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for address in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        assert!(stdout.contains(&format!("reached at {address}:")), "{stdout}");
    }
    let refused = |options: &[&str]| {
        let output = run(&[], &hosts, options, NAME);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    insta::assert_snapshot!(refused(&[]), @"cairn-run: cannot launch on other hosts: Instances on several hosts communicate over TCP; pass --tcp");
    insta::assert_snapshot!(refused(&["--tcp"]), @"cairn-run: cannot launch on other hosts: Instances on other hosts must reach the launcher; pass --listen with an address of this host");
}

/// Simulated machines: network namespaces connected by a bridge in the first of them, removed on drop.
struct Machines(Vec<String>);

impl Machines {
    /// `None` where the kernel forbids it, with its message.
    fn new(count: usize) -> Result<Self, String> {
        let ip = |words: &str| {
            let output =
                Command::new("ip").args(words.split(' ')).output().map_err(|error| error.to_string())?;
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        };
        let names = (0..count).map(|index| format!("cairn-{}-{index}", std::process::id()));
        let mut machines = Self(Vec::new());
        for name in names {
            ip(&format!("netns add {name}"))?;
            machines.0.push(name);
        }
        let first = &machines.0[0];
        ip(&format!("-n {first} link add name br0 type bridge"))?;
        ip(&format!("-n {first} addr add 10.77.0.100/24 dev br0"))?;
        ip(&format!("-n {first} link set br0 up"))?;
        for (index, name) in machines.0.iter().enumerate().skip(1) {
            ip(&format!("-n {first} link add to{index} type veth peer name eth0 netns {name}"))?;
            ip(&format!("-n {first} link set to{index} master br0 up"))?;
            ip(&format!("-n {name} addr add 10.77.0.{index}/24 dev eth0"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        Ok(machines)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

#[test]
fn instances_in_separate_network_namespaces_connect() {
    const NAME: &str = "hosts::instances_in_separate_network_namespaces_connect";
    if processes::launched() {
        member(round);
    }
    let machines = match Machines::new(3) {
        Ok(machines) => machines,
        Err(why) => {
            // Allowed wherever the tests run as root, as in `make test`.
            eprintln!("no network namespaces here: {why}");
            return;
        }
    };
    let enter = |index: usize| ["ip", "netns", "exec", &machines.0[index]];
    let hosts = [far(&enter(1), "10.77.0.1"), far(&enter(2), "10.77.0.2")];
    let output = run(&enter(0), &hosts, &["--tcp", "--listen", "10.77.0.100"], NAME);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("reached at 10.77.0.1:") && stdout.contains("reached at 10.77.0.2:"), "{stdout}");
}
