//! Invalid and unknown policies.

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE};
use serde_json::json;

use crate::env::{AppState, TestEnv, application, cpus};
use crate::installation::cluster;

#[tokio::test]
async fn an_invalid_policy_keeps_the_last_valid_version_in_force() {
    let cluster = cluster();
    let mut env = TestEnv::new("policies", [SimulatedNode::new("policies")], [cpus()]).await;
    let policy = async |text: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quick", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": text}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    policy("window: 10s\nstrategy: greedy\n").await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("quick");
    env.apply(&manifest).await;
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    let decided = |state: &AppState| (state.spec().strategy.clone(), state.spec().window_microseconds);
    assert_eq!(decided(&state), ("greedy".to_owned(), Some(10_000_000)));

    policy("window: 20s\nobjectives: [overload\nstrategy: greedy\n").await;
    let note = env.wait_policy_event("quick", "PolicyRefused", "line").await;
    assert!(note.contains("policy.yaml line ") && note.contains("last valid version"), "{note}");
    let state = env
        .wait_until("app", |state| {
            let message = state.message("PolicyRefused", "True")?;
            ensure!(
                message.contains("policy.yaml line ") && message.contains("last valid version"),
                "{message}"
            );
            Ok(())
        })
        .await;
    assert_eq!(state.message("Ready", "True").unwrap(), "all 1 actors run on their units");
    // the last valid version stays in force
    env.patch(
        "app",
        &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
    )
    .await;
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(decided(&state), ("greedy".to_owned(), Some(10_000_000)));

    // also after a restart: what runs is healed and planned as before
    env.product.operator.kill9().await.unwrap();
    env.product.operator = cluster.start_operator().await.unwrap();
    env.namespace.kubectl(["delete", "pod", "app-a-0"]).await.unwrap();
    env.patch("app", &json!({"spec": {"channels": []}})).await;
    let state = env
        .wait_reconciled("app", |state| {
            let message = state.message("PolicyRefused", "True")?;
            let kept = "the last valid version stays in force: ControllerRevision quick-policy-1";
            ensure!(message.contains("policy.yaml line ") && message.ends_with(kept), "{message}");
            state.all_placed()
        })
        .await;
    assert_eq!(decided(&state), ("greedy".to_owned(), Some(10_000_000)));

    // after the correction the policy applies, and the condition is removed
    policy("window: 20s\nstrategy: greedy\n").await;
    env.wait_until("app", |state| {
        ensure!(state.condition("PolicyRefused").is_none(), "{:?}", state.condition("PolicyRefused"));
        Ok(())
    })
    .await;
    env.patch("app", &json!({"spec": {"priority": 1}})).await;
    let state = env.wait_reconciled("app", |state| {
        ensure!(state.spec().window_microseconds == Some(20_000_000), "{:?}", decided(state));
        state.all_placed()
    });
    assert_eq!(state.await.spec().strategy, "greedy");
    cluster.kubectl(["delete", "configmap", "quick", "-n", NAMESPACE]).await.unwrap();
}

#[tokio::test]
async fn an_unknown_policy_is_reported_with_the_known_ones() {
    let env = TestEnv::new("unknown", [SimulatedNode::new("unknown")], [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("fastest");
    env.apply(&manifest).await;
    let expected = "there is no policy fastest; name one of: throughput";
    let state = env
        .wait_until("app", |state| {
            let message = state.message("Accepted", "False")?;
            ensure!(message == expected, "{message}");
            Ok(())
        })
        .await;
    assert_eq!((state.pods.len(), state.decision.is_none()), (0, true));
    assert_eq!(env.wait_event("app", "Policy", "fastest").await, expected);
    // a ConfigMap in a user's namespace is no policy: only the operator's namespace counts
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fastest",
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 10s\n"}});
    env.apply(&policy).await;
    env.patch("app", &json!({"spec": {"paused": true}})).await;
    env.wait_until("app", |state| {
        let status = state.application.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == state.application.metadata.generation, "not reconciled yet");
        let message = state.message("Accepted", "False")?;
        ensure!(message == expected, "{message}");
        Ok(())
    })
    .await;
    // with a known policy it runs
    env.patch("app", &json!({"spec": {"policy": "throughput", "paused": false}})).await;
    env.wait_reconciled("app", AppState::all_placed).await;
}

#[tokio::test]
async fn an_invalid_program_keeps_the_last_valid_version_in_force() {
    let cluster = cluster();
    let nodes =
        [SimulatedNode::new("left").label("site", "eu"), SimulatedNode::new("right").label("site", "us")];
    let env = TestEnv::new("programs", nodes, [cpus()]).await;
    let policy = async |program: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "careful", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 10s\n", "program.lp": program}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    // facts only: all actors stay on the one site, though both have capacity
    policy("forbid(A,U) :- actor(A), cu_node(U,N), node_label(N,\"site\",\"us\").\n").await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("careful");
    manifest["spec"]["channels"] = json!([{"from": "a", "to": "a", "rate": "50/s", "pattern": "AllToAll"}]);
    env.apply(&manifest).await;
    let state = env.wait_reconciled("app", AppState::all_placed).await;
    assert_eq!(state.nodes().into_iter().collect::<Vec<_>>(), ["left"]);

    // an error is reported with its line, on the policy and on the applications that name it, and changes nothing
    policy("% one site\nforbid(A,U) :- actor(A), cu_node(U,N), node_label(N,site,\"us\").\n").await;
    let note = env.wait_policy_event("careful", "PolicyRefused", "line 2").await;
    assert!(note.contains("program.lp line 2 column 53") && note.contains("write \"site\""), "{note}");
    let refused = |state: &AppState, part: &str| {
        let message = state.message("PolicyRefused", "True")?;
        ensure!(message.contains(part) && message.contains("last valid version"), "{message}");
        Ok(())
    };
    env.wait_until("app", |state| refused(state, "program.lp line 2")).await;
    // so is a program that never terminates, which only planning detects
    policy("n(0).\nn(X+1) :- n(X).\n:- n(X), X < 0, unplaced(A).\n").await;
    let state = env.wait_until("app", |state| refused(state, "program.lp: line 2: ")).await;
    assert_eq!(state.nodes().into_iter().collect::<Vec<_>>(), ["left"]);

    // a rule about placements moves running actors
    policy("at(A,N) :- run_on(A,U), cu_node(U,N).\n:- at(A,N), at(B,N), group(A,\"a\"), group(B,\"a\"), A < B.\n").await;
    let apart = |state: &AppState| {
        ensure!(state.condition("PolicyRefused").is_none(), "{:?}", state.condition("PolicyRefused"));
        ensure!(state.nodes().len() == 2, "{:?}", state.nodes());
        state.all_placed()
    };
    env.wait_reconciled("app", apart).await;
    cluster.kubectl(["delete", "configmap", "careful", "-n", NAMESPACE]).await.unwrap();
}

#[tokio::test]
async fn plans_below_the_least_gain_are_not_committed() {
    let cluster = cluster();
    let nodes = ["steady-0", "steady-1"].map(SimulatedNode::new);
    let env = TestEnv::new("steady", nodes, [cpus()]).await;
    let policy = async |text: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "steady", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": text}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    let decided = async |levels: &[&str], nodes: usize| {
        let state = env.wait_reconciled("app", |state| {
            ensure!(state.spec().levels == levels, "{:?}", state.spec().levels);
            ensure!(state.nodes().len() == nodes, "{:?}", state.nodes());
            state.all_placed()
        });
        state.await.spec().optimal
    };
    policy("objectives: [consolidate]\n").await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "200ms")])]);
    manifest["spec"]["policy"] = json!("steady");
    env.apply(&manifest).await;
    decided(&["consolidate"], 1).await;
    // separated, the fullest unit would have 56 instead of 112 thousandths of its capacity
    policy("objectives: [bottleneck]\nleastGainPercent: 6\n").await;
    assert!(!decided(&["bottleneck"], 1).await, "the separated placement is better, and no proof is claimed");
    policy("objectives: [bottleneck, communication]\nleastGainPercent: 5\n").await;
    decided(&["bottleneck", "communication"], 2).await;
    cluster.kubectl(["delete", "configmap", "steady", "-n", NAMESPACE]).await.unwrap();
}
