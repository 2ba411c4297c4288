//! The processes of a node: mounts, containerd, the pause image, the kubelet.

use std::{ffi::OsStr, fs, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};

use super::{Plan, configuration, namespaces};
use crate::{
    command,
    keeper::{Child, Orders},
    wait,
};

/// The programs of a node.
const CONTAINERD: &str = "containerd";
const KUBELET: &str = "kubelet";

/// How long containerd may take to answer.
const CONTAINERD_LIMIT: Duration = Duration::from_mins(3);

/// Runs the node described by the first line of stdin until stdin closes.
///
/// Nothing is stopped explicitly: everything ends with the PID namespace.
pub async fn run(cgroup: &str) -> Result<()> {
    let mut orders = Orders::listen()?;
    let Ok(plan) = orders.next().await else { return Ok(()) };
    let plan: Plan = serde_json::from_str(&plan).context("the plan of the node is not one")?;
    namespaces::mount_all(&plan.node)?;
    tokio::select! {
        failed = serve(&plan, cgroup) => failed,
        _ = orders.release() => Ok(()),
    }
}

/// Starts everything, and returns only after a failure.
async fn serve(plan: &Plan, cgroup: &str) -> Result<()> {
    let state = &plan.node.state;
    let write = |name: &str, text: &str| {
        let path = state.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("cni/10-bridge.conflist", &configuration::network(plan))?;
    write("containerd.toml", &configuration::containerd(plan))?;
    write("kubelet.yaml", &configuration::kubelet(plan, cgroup))?;
    for folder in ["cni", "kubelet"] {
        fs::create_dir_all(state.join("var-lib").join(folder))?;
    }

    let spawn = |name: &str, log: &str, arguments: Vec<String>| {
        let log = state.with_file_name("log").join(format!("{}-{log}.log", plan.node.name));
        Child::spawn(name, &log, &plan.bin.join(name), arguments)
    };
    let start = |name: &str, life: usize| {
        let flags = match name {
            CONTAINERD => configuration::containerd_flags(plan),
            _ => configuration::kubelet_flags(plan),
        };
        spawn(name, &format!("{name}-{life}"), flags)
    };
    let mut containerd = start(CONTAINERD, 1)?;
    tokio::select! {
        done = import(plan) => done?,
        error = failure(&mut containerd) => return Err(error),
    }
    let mut kubelet = start(KUBELET, 1)?;
    for life in 2.. {
        tokio::select! {
            ended = containerd.ended() => {
                ensure_killed(&containerd, ended?)?;
                containerd = start(CONTAINERD, life)?;
            }
            ended = kubelet.ended() => {
                ensure_killed(&kubelet, ended?)?;
                kubelet = start(KUBELET, life)?;
            }
        }
    }
    Ok(())
}

/// What was killed is restarted, as by systemd on real nodes; a program that exits by itself is a failure.
fn ensure_killed(child: &Child, status: ExitStatus) -> Result<()> {
    ensure!(
        status.signal().is_some(),
        "{} ended ({status}); its last words:\n{}",
        child.name,
        child.last_words()
    );
    Ok(())
}

/// Imports the pause image as soon as containerd answers.
async fn import(plan: &Plan) -> Result<()> {
    let ctr = async |arguments: &[&OsStr]| command::run(plan.node.ctr(&plan.bin, arguments), "").await;
    let answers = wait::until(CONTAINERD_LIMIT, async || ctr(&["version".as_ref()]).await).await;
    answers.map_err(|seen| anyhow!("containerd does not answer: {seen}"))?;
    ctr(&["images".as_ref(), "import".as_ref(), plan.pause.as_ref()]).await.map(drop)
}

/// Waits until a process ends and returns its status.
async fn failure(child: &mut Child) -> anyhow::Error {
    let status = child.ended().await.map_or_else(|error| format!("{error:#}"), |status| status.to_string());
    anyhow!("{} ended ({status}); its last words:\n{}", child.name, child.last_words())
}
