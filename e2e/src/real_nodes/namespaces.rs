//! The namespaces of a node: creation, mounts and termination.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use rustix::process::{Pid, WaitOptions, wait};

use super::{RealNode, cgroups};
use crate::keeper;

/// Creates new namespaces, runs a node in them until it ends, and removes its cgroups.
///
/// The node ends when the inherited stdin closes. `cgroup` is the name of its cgroups.
pub fn become_node(cgroup: &str) -> Result<()> {
    let all = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    unshare(all).context(
        "cannot make namespaces for mounts, network and processes: run this as root, in a container with --privileged",
    )?;
    // mounts do not propagate to the host
    mount_flags("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    cgroups::make(cgroup)?;
    // process 1 of the new namespace; its parent is outside and has pid 0 there
    let exe = keeper::executable()?;
    let status = Command::new(&exe)
        .args(["die-with-parent", "0"])
        .arg(&exe)
        .arg("node-first")
        .arg(cgroup)
        .status()
        .context("cannot start the first process of the node");
    // in any case: nothing uses them any more
    cgroups::remove(cgroup);
    let status = status?;
    ensure!(status.success(), "the node failed ({status})");
    Ok(())
}

/// Runs the node as a child, and reaps orphaned processes.
///
/// When it ends, the kernel kills the rest of the namespace.
pub fn first_process(cgroup: &str) -> Result<()> {
    let child = Command::new(keeper::executable()?)
        .args(["node-run", cgroup])
        .spawn()
        .context("cannot start what runs the node")?;
    let child = Pid::from_child(&child);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let status = ExitStatus::from_raw(status.as_raw());
                ensure!(status.success(), "it ended ({status})");
                return Ok(());
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the node"),
        }
    }
}

/// Whether process `pid` has left the namespaces of this one.
pub(super) fn are_separate(pid: u32) -> Result<()> {
    let network = |who: &str| {
        let path = format!("/proc/{who}/ns/net");
        fs::read_link(&path).with_context(|| format!("cannot read {path}"))
    };
    ensure!(
        network(&pid.to_string())? != network("self")?,
        "process {pid} is still in the machine's network"
    );
    Ok(())
}

/// The sysctls that a kubelet sets. They belong to the machine, not to the namespace.
const SYSCTLS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Mounts the file systems of a node, visible only in this namespace.
///
/// The kubelet has fixed paths such as `/var/lib/kubelet/device-plugins`, so each node has its own folders there.
pub(super) fn mount_all(node: &RealNode) -> Result<()> {
    let state = &node.state;
    for (folder, place) in [("var-lib", "/var/lib"), ("var-log", "/var/log"), ("run", "/run")] {
        if state.starts_with(place) {
            bail!("the state folder {} lies in {place}: set TMPDIR to a folder elsewhere", state.display());
        }
        bind(&state.join(folder), Path::new(place))?;
    }
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)
        .context("cannot mount /proc")?;
    for sysctl in SYSCTLS {
        let place = Path::new("/proc/sys").join(sysctl);
        let Ok(value) = fs::read_to_string(&place) else { continue }; // this kernel lacks it
        let own = state.join("sysctls").join(sysctl.replace('/', "."));
        fs::write(&own, value).with_context(|| format!("cannot write {}", own.display()))?;
        bind(&own, &place)?;
    }
    // later mounts propagate into containers
    mount_flags("/", MsFlags::MS_REC | MsFlags::MS_SHARED)
}

fn bind(what: &Path, place: &Path) -> Result<()> {
    mount(Some(what), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("cannot mount {} on {}", what.display(), place.display()))
}

fn mount_flags(place: &str, flags: MsFlags) -> Result<()> {
    mount(None::<&str>, place, None::<&str>, flags, None::<&str>)
        .with_context(|| format!("cannot change the mount {place}"))
}
