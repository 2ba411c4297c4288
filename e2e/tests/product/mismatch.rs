//! An operator whose ASP programs and whose own numbers do not agree: it carries out nothing, tells it, and keeps the snapshot.

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

/// What `policies/communication.lp` counts for a pair that is apart, and the same with a mistake: a sum for a product.
const COUNTS: &[u8] = b"R*C@P,communication,apart,A,B";
const MISTAKEN: &[u8] = b"R+C@P,communication,apart,A,B";

/// The operator with that mistake in the program that it carries, and with no other byte changed.
fn mistaken_operator(folder: &Path) -> PathBuf {
    let mut program = fs::read(keeper::built(OPERATOR).unwrap()).unwrap();
    let found: Vec<usize> =
        program.windows(COUNTS.len()).enumerate().filter(|(_, it)| *it == COUNTS).map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "the operator carries another communication.lp");
    for at in found {
        program[at..at + MISTAKEN.len()].copy_from_slice(MISTAKEN);
    }
    let path = folder.join("mistaken-operator");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Two actors that stay on two nodes, so that what they send costs something wherever the third goes.
fn apart(name: &str) -> Value {
    let group = |name| (name, 1, &[("cpu", "1ms")][..]);
    let mut manifest = application(name, &[group("a"), group("b"), group("c")]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    manifest["spec"]["actors"][1]["pinTo"] = json!({"node": "two"});
    let channel = |from, to, rate| json!({"from": from, "to": to, "rate": rate, "pattern": "AllToAll"});
    manifest["spec"]["channels"] = json!([channel("a", "b", "50/s"), channel("b", "c", "7/s")]);
    manifest
}

/// Plans that clingo did not agree on, as the operator counts them.
async fn mismatches(env: &TestEnv) -> u64 {
    let port = env.product.operator.port(8080).unwrap();
    let text = http(port, "/metrics").await.unwrap().body;
    let counted = "cairn_operator_plans_judged_total{judged=\"mismatch\"} ";
    text.lines().filter_map(|line| line.strip_prefix(counted)?.parse::<u64>().ok()).sum()
}

/// What the operator keeps of an application's last such plan.
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
    // one that the search plans and clingo judges, and one that clingo plans itself and that is counted again
    let mut alone = apart("alone");
    alone["spec"]["policy"] = json!("alone");
    for (manifest, says) in [(apart("new"), "but clingo computes"), (alone, "the solver's costs")] {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        env.apply(&manifest).await;
        let state = env
            .wait_until(name, |state| {
                let told = state.message("Accepted", "False")?;
                ensure!(told.contains(says) && told.contains("the plan is not carried out"), "{told}");
                Ok(())
            })
            .await;
        assert_eq!(state.condition("Accepted").unwrap().reason, "Mismatch");
        assert_eq!((state.decision.is_none(), state.instances.len(), state.pods.len()), (true, 0, 0));
        let note = env.wait_event(name, "Mismatch", says).await;
        let (status, snapshot) = kept(&env, name).await;
        assert!(note.contains(&format!("/debug/mismatch/{}/{name}", env.namespace)), "{note}");
        assert_eq!(status, 200, "{snapshot}");

        // what is kept says by itself what was to be planned
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
    let told = String::from_utf8_lossy(&answer.stdout);
    assert_eq!(answer.status.code(), Some(2), "something is wrong, and it is told: {told}");
    assert!(told.contains("clingo and the planner do not agree"), "{told}");

    // with the mistake gone, both are placed; whoever ran noticed nothing
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
