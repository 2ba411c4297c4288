//! What is done while many nodes do not answer: nothing that moves anybody.

use anyhow::ensure;
use e2e::{Cluster, SimulatedNode, wait_for};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::json;

use crate::stage::{SOON, Seen, Stage, application, cpus};

/// While more nodes are silent than can be believed, what was decided elsewhere waits; actors stay where they are.
#[tokio::test]
async fn while_many_nodes_do_not_answer_nobody_moves() {
    let cluster = Cluster::shared();
    let stage = Stage::set("silent", ["one", "two"].map(SimulatedNode::new), [cpus()]).await;
    let mut manifest = application("app", &[("a", 1, &[("cpu", "1ms")])]);
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "one"});
    stage.apply(&manifest).await;
    let before = stage.settled("app", Seen::all_placed).await;
    // Nobody is the kubelet of these: they never become Ready, and the node controller taints them.
    let silent = ["silent-one", "silent-two"];
    let nodes = Api::<Node>::all(stage.client.clone());
    let dark = cluster.adopt_nodes(silent);
    for name in silent {
        let condition = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [condition], "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    wait_for("silent nodes are tainted", SOON, async || {
        for name in silent {
            let taints = nodes.get(name).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
            ensure!(taints.iter().any(|taint| keys.contains(&taint.key.as_str())), "{name}: {taints:?}");
        }
        anyhow::Ok(())
    })
    .await;
    manifest["spec"]["actors"][0]["pinTo"] = json!({"node": "two"});
    stage.apply(&manifest).await;
    let waiting = stage
        .seen("app", |seen| {
            let told = format!("{:?}", seen.application.status);
            ensure!(told.contains("of the nodes do not answer"), "{told}");
            Ok(())
        })
        .await;
    assert_eq!(waiting.pods[0].uid(), before.pods[0].uid());
    assert_eq!(waiting.pods[0].metadata.deletion_timestamp, None, "it stays");

    drop(dark);
    let after = stage.settled("app", Seen::all_placed).await;
    assert_eq!(after.places()["a-0"], "two/cpus-0");
}
