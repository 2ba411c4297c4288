//! The nodes themselves: they run pods, and leave nothing behind.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::{bail, ensure};
use e2e::{control_plane::ControlPlane, keeper, real_nodes::PAUSE_IMAGE, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, LogParams},
};
use serde_json::json;

use crate::scene::{DEVICES, SOON, alone, cluster, processes, status_of};

#[tokio::test]
async fn pods_run_on_both_nodes_with_their_security_context() {
    let _alone = alone().await;
    let cluster = cluster().await;
    let namespace = cluster.namespace("pods").await.unwrap();
    for (node, _) in DEVICES {
        let container = json!({"name": "c", "image": PAUSE_IMAGE, "imagePullPolicy": "Never",
            "env": [{"name": "GREETING", "value": format!("hello from {node}")}],
            "resources": {"limits": {"memory": "32Mi", "cpu": "100m"}},
            "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node}, "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [container],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"}}}});
        namespace.apply(&pod.to_string()).await.unwrap();
    }
    let pods = Api::<Pod>::namespaced(cluster.client().await.unwrap(), namespace.name());
    let mut addresses = Vec::new();
    for (node, _) in DEVICES {
        let pod = wait_for("the pod runs", SOON, async || {
            let pod = pods.get(node).await?;
            let status = pod.status.clone().unwrap_or_default();
            ensure!(status.phase.as_deref() == Some("Running"), "{:?}", status.container_statuses);
            anyhow::Ok(pod)
        })
        .await;
        addresses.push(pod.status.as_ref().unwrap().pod_ip.clone().unwrap());
        // the pause process of the sandbox and the container's own
        let processes = processes(&pod);
        assert_eq!(processes.len(), 2, "{processes:?}");
        for process in processes {
            assert!(status_of(process, "Uid").starts_with("65532"));
            assert_eq!(status_of(process, "Seccomp"), "2", "a filter");
        }
        // through the API server to the kubelet, to containerd
        let said = wait_for("the pod has a log", SOON, async || {
            let said = pods.logs(node, &LogParams::default()).await?;
            ensure!(!said.is_empty(), "nothing");
            anyhow::Ok(said)
        })
        .await;
        assert!(said.contains(&format!("GREETING=hello from {node}\n")), "{said}");
    }
    assert_ne!(addresses[0], addresses[1]);
    for (node, _) in DEVICES {
        pods.delete(node, &DeleteParams::default()).await.unwrap();
    }
    wait_for("the pods ended", SOON, async || {
        let left = namespace.kubectl(["get", "pods", "-oname"]).await?.stdout;
        if left.is_empty() { Ok(()) } else { bail!("{left}") }
    })
    .await;
}

/// The sysctls that a kubelet sets to values of its own.
fn sysctls() -> Vec<String> {
    ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"]
        .map(|name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap())
        .into()
}

/// Remains of a supervisor's nodes on this machine: processes, cgroups, mounts, network interfaces.
fn traces(supervisor: u32, plane: &ControlPlane) -> Vec<String> {
    let mut found = Vec::new();
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let state = plane.state.display().to_string();
    for process in names("/proc").iter().filter(|name| name.parse::<u32>().is_ok()) {
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if command.contains(&state) {
            found.push(format!("process {process} {}", command.replace('\0', " ")));
        }
    }
    for hierarchy in [String::new()].into_iter().chain(names("/sys/fs/cgroup")) {
        let folder = format!("/sys/fs/cgroup/{hierarchy}");
        let its =
            names(&folder).into_iter().filter(|name| name.starts_with(&format!("cairn-e2e-{supervisor}-")));
        found.extend(its.map(|name| format!("cgroup {folder}/{name}")));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(&state)).map(|line| format!("mount {line}")));
    let routes = fs::read_to_string("/proc/net/route").unwrap();
    for node in &plane.nodes {
        // addresses are written from their last byte to their first
        let [a, b, c, _] = node.address.octets();
        let network = format!("00{c:02X}{b:02X}{a:02X}");
        found.extend(
            routes.lines().filter(|line| line.contains(&network)).map(|line| format!("route {line}")),
        );
    }
    found
}

#[tokio::test]
async fn a_killed_supervisor_leaves_no_node_resources() {
    let before = sysctls();
    // not a `Cluster`, which would wait for it
    let mut supervisor = Command::new(keeper::executable().unwrap())
        .args(["up", "--real-nodes=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let plane: ControlPlane = serde_json::from_str(&line).unwrap();
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(plane.client().await.unwrap());
    wait_for("the node is ready", SOON, async || {
        let conditions = nodes.get("real-0").await?.status.unwrap_or_default().conditions.unwrap_or_default();
        let is_ready = conditions.iter().any(|its| its.type_ == "Ready" && its.status == "True");
        ensure!(is_ready, "{conditions:?}");
        anyhow::Ok(())
    })
    .await;
    let traces = || traces(supervisor.id(), &plane);
    for kind in ["process", "cgroup", "route"] {
        assert!(
            traces().iter().any(|trace| trace.starts_with(kind)),
            "no {kind} to look for: {:#?}",
            traces()
        );
    }
    assert_eq!(sysctls(), before, "the machine's sysctls are unchanged");

    let killed = rustix::process::Pid::from_raw(supervisor.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    wait_for("everything is removed", SOON, async || {
        let left = traces();
        if left.is_empty() { Ok(()) } else { bail!("{left:#?}") }
    })
    .await;
    fs::remove_dir_all(&plane.state).unwrap();
    supervisor.wait().unwrap();
}
