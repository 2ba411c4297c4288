//! Policies that are wrong, and policies that are not there.

use anyhow::ensure;
use e2e::{SimulatedNode, product::NAMESPACE};
use serde_json::json;

use crate::installed::cluster;
use crate::stage::{Stage, application, cpus};

#[tokio::test]
async fn a_policy_with_an_error_leaves_the_last_good_one_in_force() {
    let cluster = cluster();
    let stage = Stage::set("policies", [SimulatedNode::new("policies")], [cpus()]).await;
    let policy = async |text: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quick", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": text}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    policy("window: 10s\nstrategy: greedy\n").await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("quick");
    stage.apply(&manifest).await;
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    let decided = |seen: &crate::stage::Seen| (seen.spec().strategy.clone(), seen.spec().window_microseconds);
    assert_eq!(decided(&seen), ("greedy".to_owned(), Some(10_000_000)));

    policy("window: 20s\nobjectives: [overload\nstrategy: greedy\n").await;
    let note = stage.policy_event("quick", "PolicyRefused", "line").await;
    assert!(note.contains("policy.yaml line ") && note.contains("last valid version"), "{note}");
    let seen = stage
        .seen("app", |seen| {
            let told = seen.message("PolicyRefused", "True")?;
            ensure!(told.contains("policy.yaml line ") && told.contains("last valid version"), "{told}");
            Ok(())
        })
        .await;
    assert_eq!(seen.message("Ready", "True").unwrap(), "all 1 actors run on their units");
    // the last good one decides
    stage
        .patch(
            "app",
            &json!({"spec": {"channels": [{"from": "a", "to": "a", "rate": "1/s", "pattern": "AllToAll"}]}}),
        )
        .await;
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    assert_eq!(decided(&seen), ("greedy".to_owned(), Some(10_000_000)));

    // put right, it counts, and the condition goes
    policy("window: 20s\nstrategy: greedy\n").await;
    stage
        .seen("app", |seen| {
            ensure!(seen.condition("PolicyRefused").is_none(), "{:?}", seen.condition("PolicyRefused"));
            Ok(())
        })
        .await;
    stage.patch("app", &json!({"spec": {"channels": []}})).await;
    let seen = stage.settled("app", |seen| {
        ensure!(seen.spec().window_microseconds == Some(20_000_000), "{:?}", decided(seen));
        seen.all_placed()
    });
    assert_eq!(seen.await.spec().strategy, "greedy");
    cluster.kubectl(["delete", "configmap", "quick", "-n", NAMESPACE]).await.unwrap();
}

#[tokio::test]
async fn a_policy_that_is_not_there_is_named_and_so_are_those_that_are() {
    let stage = Stage::set("unknown", [SimulatedNode::new("unknown")], [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("fastest");
    stage.apply(&manifest).await;
    let expected = "there is no policy fastest; name one of: throughput";
    let seen = stage
        .seen("app", |seen| {
            let told = seen.message("Accepted", "False")?;
            ensure!(told == expected, "{told}");
            Ok(())
        })
        .await;
    assert_eq!((seen.pods.len(), seen.decision.is_none()), (0, true));
    assert_eq!(stage.event("app", "Policy", "fastest").await, expected);
    // one of a user's own namespace is none: who may write in the operator's decides what is good
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fastest",
        "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 10s\n"}});
    stage.apply(&policy).await;
    stage.patch("app", &json!({"spec": {"paused": true}})).await;
    stage
        .seen("app", |seen| {
            let status = seen.application.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == seen.application.metadata.generation, "not looked at yet");
            let told = seen.message("Accepted", "False")?;
            ensure!(told == expected, "{told}");
            Ok(())
        })
        .await;
    // named rightly, it runs
    stage.patch("app", &json!({"spec": {"policy": "throughput", "paused": false}})).await;
    stage.settled("app", super::stage::Seen::all_placed).await;
}

#[tokio::test]
async fn a_program_is_obeyed_and_a_bad_one_leaves_the_last_good_one_in_force() {
    let cluster = cluster();
    let nodes =
        [SimulatedNode::new("left").label("site", "eu"), SimulatedNode::new("right").label("site", "us")];
    let stage = Stage::set("programs", nodes, [cpus()]).await;
    let policy = async |program: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "careful", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": "window: 10s\n", "program.lp": program}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    // facts alone: everybody stays in the one site, though there is room in both
    policy("forbid(A,U) :- actor(A), cu_node(U,N), node_label(N,\"site\",\"us\").\n").await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "1ms")])]);
    manifest["spec"]["policy"] = json!("careful");
    manifest["spec"]["channels"] = json!([{"from": "a", "to": "a", "rate": "50/s", "pattern": "AllToAll"}]);
    stage.apply(&manifest).await;
    let seen = stage.settled("app", super::stage::Seen::all_placed).await;
    assert_eq!(seen.nodes().into_iter().collect::<Vec<_>>(), ["left"]);

    // a fault is told by line, on the policy and on whoever names it, and changes nothing
    policy("% one site\nforbid(A,U) :- actor(A), cu_node(U,N), node_label(N,site,\"us\").\n").await;
    let note = stage.policy_event("careful", "PolicyRefused", "line 2").await;
    assert!(note.contains("program.lp line 2 column 53") && note.contains("write \"site\""), "{note}");
    let told = |seen: &crate::stage::Seen, part: &str| {
        let told = seen.message("PolicyRefused", "True")?;
        ensure!(told.contains(part) && told.contains("last valid version"), "{told}");
        Ok(())
    };
    stage.seen("app", |seen| told(seen, "program.lp line 2")).await;
    // so is one that has no end, which shows only when a plan is made with it
    policy("n(0).\nn(X+1) :- n(X).\n:- n(X), X < 0, unplaced(A).\n").await;
    let seen = stage.seen("app", |seen| told(seen, "program.lp: line 2: ")).await;
    assert_eq!(seen.nodes().into_iter().collect::<Vec<_>>(), ["left"]);

    // a rule about where actors are moves what runs
    policy("at(A,N) :- run_on(A,U), cu_node(U,N).\n:- at(A,N), at(B,N), group(A,\"a\"), group(B,\"a\"), A < B.\n").await;
    let apart = |seen: &crate::stage::Seen| {
        ensure!(seen.condition("PolicyRefused").is_none(), "{:?}", seen.condition("PolicyRefused"));
        ensure!(seen.nodes().len() == 2, "{:?}", seen.nodes());
        seen.all_placed()
    };
    stage.settled("app", apart).await;
    cluster.kubectl(["delete", "configmap", "careful", "-n", NAMESPACE]).await.unwrap();
}

#[tokio::test]
async fn a_plan_that_gains_less_than_the_policy_asks_is_not_carried_out() {
    let cluster = cluster();
    let nodes = ["steady-0", "steady-1"].map(SimulatedNode::new);
    let stage = Stage::set("steady", nodes, [cpus()]).await;
    let policy = async |text: &str| {
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "steady", "namespace": NAMESPACE,
            "labels": {"cairn.dev/policy": "true"}}, "data": {"policy.yaml": text}});
        cluster.kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
    };
    let decided = async |levels: &[&str], nodes: usize| {
        let seen = stage.settled("app", |seen| {
            ensure!(seen.spec().levels == levels, "{:?}", seen.spec().levels);
            ensure!(seen.nodes().len() == nodes, "{:?}", seen.nodes());
            seen.all_placed()
        });
        seen.await.spec().optimal
    };
    policy("objectives: [consolidate]\n").await;
    let mut manifest = application("app", &[("a", 2, &[("cpu", "200ms")])]);
    manifest["spec"]["policy"] = json!("steady");
    stage.apply(&manifest).await;
    decided(&["consolidate"], 1).await;
    // apart, the fullest unit would have half as much to do
    policy("objectives: [bottleneck]\nleastGainPercent: 60\n").await;
    assert!(!decided(&["bottleneck"], 1).await, "apart is better, and is known to be");
    policy("objectives: [bottleneck, communication]\nleastGainPercent: 40\n").await;
    decided(&["bottleneck", "communication"], 2).await;
    cluster.kubectl(["delete", "configmap", "steady", "-n", NAMESPACE]).await.unwrap();
}
