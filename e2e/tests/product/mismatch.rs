//! An operator whose logic programs and cost model disagree commits nothing, reports the mismatch, and keeps the snapshot.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::ensure;
use e2e::{
    SimulatedNode, command, keeper,
    process::http,
    product::{NAMESPACE, OPERATOR},
    wait_for,
};
use serde_json::{Value, json};

use crate::env::{AppState, TIMEOUT, TestEnv, application, cpus};
use crate::installation::cluster;

/// The cost of a separated pair in `policies/communication.lp`, and a faulty version: a sum instead of a product.
const COUNTS: &[u8] = b"R*C@P,communication,apart,A,B";
const MISTAKEN: &[u8] = b"R+C@P,communication,apart,A,B";

/// The operator with this fault in its embedded program; no other byte changes.
fn mistaken_operator(folder: &Path) -> PathBuf {
    let mut program = fs::read(keeper::built(OPERATOR).unwrap()).unwrap();
    let found: Vec<usize> =
        program.windows(COUNTS.len()).enumerate().filter(|(_, it)| *it == COUNTS).map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "the operator embeds another communication.lp");
    for at in found {
        program[at..at + MISTAKEN.len()].copy_from_slice(MISTAKEN);
    }
    let path = folder.join("mistaken-operator");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Two actors pinned to two nodes, so that the communication of the third costs something on either.
fn apart(name: &str) -> Value {
    let group = |name| (name, 1, &[("cpu", "1ms")][..]);
    let mut manifest = application(name, &[group("a"), group("b"), group("c")]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    manifest["spec"]["actors"][1]["pinTo"] = json!({"node": "two"});
    let channel = |from, to, rate| json!({"from": from, "to": to, "rate": rate, "pattern": "AllToAll"});
    manifest["spec"]["channels"] = json!([channel("a", "b", "50/s"), channel("b", "c", "7/s")]);
    manifest
}

/// The operator's count of plans that clingo rejected.
async fn mismatches(env: &TestEnv) -> u64 {
    let port = env.product.operator.port(8080).unwrap();
    let text = http(port, "/metrics").await.unwrap().body;
    let counted = "cairn_operator_plans_judged_total{judged=\"mismatch\"} ";
    text.lines().filter_map(|line| line.strip_prefix(counted)?.parse::<u64>().ok()).sum()
}

/// The snapshot that the operator keeps of an application's last rejected plan.
async fn kept(env: &TestEnv, name: &str) -> (u16, String) {
    let port = env.product.operator.port(8081).unwrap();
    let answer = http(port, &format!("/debug/mismatch/{}/{name}", env.namespace)).await.unwrap();
    (answer.status, answer.body)
}

#[tokio::test]
async fn plans_that_clingo_rejects_are_discarded_and_their_snapshot_is_kept() {
    let cluster = cluster();
    let nodes = ["one", "two"].map(SimulatedNode::new);
    let mut env = TestEnv::new("mismatch", nodes, [cpus()]).await;
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alone", "namespace": NAMESPACE,
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 10s\nstrategy: clingo\n"}});
    cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    env.apply(&apart("runs")).await;
    let before = env.wait_reconciled("runs", AppState::all_placed).await;
    assert_eq!((mismatches(&env).await, kept(&env, "runs").await.0), (0, 404));

    env.product.operator.stop().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mistaken = cluster.operator().await.unwrap().start(&mistaken_operator(folder.path())).await.unwrap();
    mistaken.wait_ready().await.unwrap();
    env.product.operator = mistaken;
    // one plan found by search and judged by clingo, and one found by clingo and recomputed
    let mut alone = apart("alone");
    alone["spec"]["policy"] = json!("alone");
    for (manifest, expected) in [(apart("new"), "but clingo computes"), (alone, "the solver's costs")] {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        env.apply(&manifest).await;
        let state = env
            .wait_until(name, |state| {
                let message = state.message("Accepted", "False")?;
                ensure!(message.contains(expected) && message.contains("the plan is discarded"), "{message}");
                Ok(())
            })
            .await;
        assert_eq!(state.condition("Accepted").unwrap().reason, "Mismatch");
        assert_eq!((state.decision.is_none(), state.instances.len(), state.pods.len()), (true, 0, 0));
        let note = env.wait_event(name, "Mismatch", expected).await;
        let (status, snapshot) = kept(&env, name).await;
        assert!(note.contains(&format!("/debug/mismatch/{}/{name}", env.namespace)), "{note}");
        assert_eq!(status, 200, "{snapshot}");

        // the kept snapshot is sufficient to plan again
        let file = folder.path().join("kept.json");
        fs::write(&file, &snapshot).unwrap();
        let mut plan = cluster.kubectl_cairn().unwrap();
        plan.args(["plan", "-o", "json", "--snapshot"]).arg(&file);
        let planned: Value = serde_json::from_str(&command::run(plan, "").await.unwrap().stdout).unwrap();
        assert_eq!((&planned["unplaced"], &planned["judged"]), (&json!([]), &json!("all")), "{planned}");
    }
    wait_for("both are counted", TIMEOUT, async || {
        let count = mismatches(&env).await;
        ensure!(count >= 2, "{count}");
        anyhow::Ok(())
    })
    .await;
    let mut status = cluster.kubectl_cairn().unwrap();
    status.args(["status", "new", "-n", env.namespace.name()]);
    let answer = status.output().await.unwrap();
    let output = String::from_utf8_lossy(&answer.stdout);
    assert_eq!(answer.status.code(), Some(2), "a problem is reported: {output}");
    assert!(output.contains("clingo rejects the plan"), "{output}");

    // without the fault both are placed; running actors are unaffected
    env.product.operator.stop().await.unwrap();
    env.product.operator = cluster.start_operator().await.unwrap();
    for name in ["new", "alone"] {
        let state = env.wait_reconciled(name, AppState::all_placed).await;
        assert_eq!(kept(&env, name).await.0, 404, "{:?}", state.condition("Accepted"));
    }
    let after = env.observe("runs").await.unwrap();
    let uids = |state: &AppState| state.pods.iter().filter_map(kube::ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&after), uids(&before));
    cluster.kubectl(["delete", "configmap", "alone", "-n", NAMESPACE]).await.unwrap();
}
