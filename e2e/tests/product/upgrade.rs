//! An upgrade from an older release while applications run, and back: no pod is started anew.

use std::{collections::BTreeSet, io::Write as _, process::Stdio};

use anyhow::ensure;
use crds::labels;
use e2e::{
    Cluster, SimulatedNode,
    product::{NAMESPACE, tree},
    wait_for,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, coordination::v1::Lease};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::stage::{SOON, Seen, Stage, application, cpus, gpus, implementation};
use crate::strangers::OPERATOR_USER;

/// The definition of Instances that the release had which did not know of revisions, of names for actors, and of Instances by
/// request, as it was recorded; the other definitions differ in fields that are new, or not at all.
const OLDER: &str = include_str!("upgrade/instances.yaml");

/// Applies a definition, as whoever up- or downgrades does.
fn define(text: &str) {
    let mut kubectl = Cluster::shared().command("kubectl");
    kubectl.args(["apply", "--server-side", "--force-conflicts", "--field-manager=release", "-f-"]);
    let mut child = kubectl.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The definition of now, which every other test needs.
fn define_newest() {
    define(&std::fs::read_to_string(tree("crds/manifests/instances.yaml")).unwrap());
}

struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        define_newest();
        let mut kubectl = Cluster::shared().command("kubectl");
        kubectl.args(["delete", "lease", "cairn-agent-one", "-n", NAMESPACE, "--ignore-not-found"]);
        // best effort: it is of no node that another test has
        let _ = kubectl.stdout(Stdio::null()).status();
    }
}

fn uids(seen: &Seen) -> BTreeSet<Option<String>> {
    seen.pods.iter().map(kube::ResourceExt::uid).collect()
}

/// Gives what is there the form in which an older release left it: nothing says of which template a pod is, no state of the
/// manifest is kept, and the Lease of the node's agent is in the namespace of the release.
async fn age(stage: &Stage, node: &str) {
    let without_hash = format!("{}-", labels::TEMPLATE_HASH);
    // nobody else may
    let operator = format!("--as={OPERATOR_USER}");
    let label = ["label", "pods", "--all", &without_hash, &operator, "--as-group=system:masters"];
    stage.namespace.kubectl(label).await.unwrap();
    stage.namespace.kubectl(["delete", "controllerrevisions", "--all"]).await.unwrap();
    stage.namespace.kubectl(["delete", "services,configmaps", "-l", labels::APPLICATION]).await.unwrap();
    let name = format!("cairn-agent-{node}");
    let leases = |namespace: &str| Api::<Lease>::namespaced(stage.client.clone(), namespace);
    let lease = leases("cairn-agents").get(&name).await.unwrap();
    leases("cairn-agents").delete(&name, &DeleteParams::default()).await.unwrap();
    let older = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": lease.spec});
    Cluster::shared().kubectl_with(["apply", "-f-"], &older.to_string()).await.unwrap();
}

#[tokio::test]
async fn nobody_is_started_anew_by_an_upgrade_nor_by_a_downgrade_of_the_definitions() {
    let cluster = Cluster::shared();
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let mut stage = Stage::set("upgrade", nodes, [cpus(), gpus()]).await;
    stage.machine("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    stage.offered("gpus", 2).await;
    let groups = [("a", 1, &[("gpu", "1ms")][..]), ("b", 2, &[("cpu", "2ms")][..])];
    stage.apply(&application("old", &groups)).await;
    let before = uids(&stage.settled("old", Seen::all_placed).await);
    let history = stage.watch_pods().await;
    let _restored = Restored;

    // a downgrade: the definition of before takes away what it does not know, and an operator that starts goes on
    define(OLDER);
    stage.product.operator.kill9().await.unwrap();
    stage.product.operator = cluster.start_operator().await.unwrap();
    stage.settled("old", Seen::all_placed).await;
    // and it still acts: one more is placed, and taken away again
    for replicas in [3, 2] {
        let groups = [groups[0], ("b", replicas, groups[1].2)];
        stage.apply(&application("old", &groups)).await;
        stage.settled("old", Seen::all_placed).await;
    }
    assert_eq!(uids(&stage.look("old").await.unwrap()), before);

    // what an older release left, and the operator of now; the agent is not upgraded yet
    stage.product.operator.kill9().await.unwrap();
    stage.product.agent.stop().await.unwrap();
    age(&stage, "one").await;
    define_newest();
    stage.product.operator = cluster.start_operator().await.unwrap();
    let revisions = stage.api::<ControllerRevision>();
    wait_for("the operator keeps what it found", SOON, async || {
        let kept = revisions.list(&ListParams::default()).await?.items.len();
        ensure!(kept > 0, "no revision");
        anyhow::Ok(())
    })
    .await;
    stage.settled("old", Seen::all_placed).await;
    assert_eq!(uids(&stage.look("old").await.unwrap()), before);

    stage.product.agent = cluster.start_agent().await.unwrap();
    stage.offered("gpus", 2).await;
    let seen = stage.settled("old", Seen::all_placed).await;
    assert_eq!(uids(&seen), before);
    assert!(seen.pods.iter().all(|pod| !pod.labels().contains_key(labels::TEMPLATE_HASH)));
    let history = history.caught_up().await;
    let going = history
        .states()
        .into_iter()
        .find(|pod| pod.metadata.deletion_timestamp.is_some() && before.contains(&pod.uid()));
    assert!(going.is_none(), "{going:?}");

    // a new template is another one than those pods are of, and replaces them
    let mut changed = application("old", &groups);
    let mut newer = implementation("cpu", "2ms");
    newer["template"]["spec"]["containers"][0]["image"] = json!("newer");
    changed["spec"]["actors"][1]["implementations"][0] = newer;
    stage.apply(&changed).await;
    let replaced = stage
        .settled("old", |seen| {
            seen.all_placed()?;
            let newer = seen.pods.iter().filter(|pod| pod.labels().contains_key(labels::TEMPLATE_HASH));
            ensure!(newer.count() == 2, "not all are of the new template");
            Ok(())
        })
        .await;
    let stayed: Vec<_> = uids(&replaced).intersection(&before).cloned().collect();
    assert_eq!(stayed.len(), 1, "the group whose template is the same stays");
}
