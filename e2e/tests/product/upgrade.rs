//! An upgrade from an older release while applications run, and back: no pod is started anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    process::Stdio,
};

use anyhow::ensure;
use crds::{ActorApplication, labels};
use e2e::{
    Process, SimulatedNode, keeper,
    product::{AGENT, NAMESPACE, tree},
    wait_for,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::installed::cluster;
use crate::rest::at_rest;
use crate::silent::told;
use crate::stage::{PodHistory, SOON, Seen, Stage, application, cpus, describe, gpus, implementation};
use crate::strangers::OPERATOR_USER;

/// The definitions that the release had which did not know of revisions, of names for actors, and of Instances by request, as
/// they were recorded. That of NodeTopologies is the same; that of `ActorApplication`s is large, and is made of the newest.
const OLDER: [&str; 3] = [
    include_str!("upgrade/instances.yaml"),
    include_str!("upgrade/placements.yaml"),
    include_str!("upgrade/devicepools.yaml"),
];

/// What that release did not know of `ActorApplication`s: where it is in the schema, and its name.
const NEW_OF_APPLICATIONS: [(&str, &str); 7] = [
    ("/spec", "failover"),
    ("/spec", "priority"),
    ("/spec", "start"),
    ("/spec", "update"),
    ("/status", "revision"),
    ("/status/properties/actors", "ready"),
    ("/status/properties/actors", "updated"),
];

/// Replaces a definition, as whoever up- or downgrades does: what the new one does not have is gone.
fn define(text: &str) {
    let mut kubectl = cluster().command("kubectl");
    let mut child =
        kubectl.args(["replace", "-f-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The definitions of now, which every other test needs.
fn define_newest() {
    for kind in ["instances", "placements", "devicepools", "actorapplications"] {
        define(&std::fs::read_to_string(tree(&format!("crds/manifests/{kind}.yaml"))).unwrap());
    }
}

async fn define_older() {
    OLDER.into_iter().for_each(define);
    let said = cluster().kubectl(["get", "crd", "actorapplications.cairn.dev", "-ojson"]).await;
    let mut newest: Value = serde_json::from_str(&said.unwrap().stdout).unwrap();
    for (place, name) in NEW_OF_APPLICATIONS {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
        let fields = newest.pointer_mut(&format!("{schema}{place}/properties")).unwrap();
        fields.as_object_mut().unwrap().remove(name).unwrap();
    }
    define(&newest.to_string());
}

/// The specs of what people and the operator wrote, by name, without what the older release did not know.
async fn known_then(stage: &Stage) -> BTreeMap<String, Value> {
    let said = stage.namespace.kubectl(["get", "actorapplications,instances,devicepools", "-ojson"]).await;
    let list: Value = serde_json::from_str(&said.unwrap().stdout).unwrap();
    let known = list["items"].as_array().unwrap().iter().map(|object| {
        let mut spec = object["spec"].clone();
        for name in ["failover", "priority", "start", "update", "origin"] {
            spec.as_object_mut().unwrap().remove(name);
        }
        (format!("{} {}", object["kind"], object["metadata"]["name"]), spec)
    });
    known.collect()
}

struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        define_newest();
        let mut kubectl = cluster().command("kubectl");
        kubectl.args(["delete", "lease", "cairn-agent-one", "-n", NAMESPACE, "--ignore-not-found"]);
        // best effort: it is of no node that another test has
        let _ = kubectl.stdout(Stdio::null()).status();
    }
}

fn uids(seen: &Seen) -> BTreeSet<Option<String>> {
    seen.pods.iter().map(kube::ResourceExt::uid).collect()
}

/// Gives what is there the form in which an older release left it: nothing says of which template a pod is, and no state of
/// the manifest is kept.
async fn age(stage: &Stage) {
    let without_hash = format!("{}-", labels::TEMPLATE_HASH);
    // nobody else may
    let operator = format!("--as={OPERATOR_USER}");
    let label = ["label", "pods", "--all", &without_hash, &operator, "--as-group=system:masters"];
    stage.namespace.kubectl(label).await.unwrap();
    stage.namespace.kubectl(["delete", "controllerrevisions", "--all"]).await.unwrap();
    stage.namespace.kubectl(["delete", "services,configmaps", "-l", labels::APPLICATION]).await.unwrap();
}

/// Puts the Lease of a node's agent where an older release had it.
async fn age_lease(stage: &Stage, node: &str) {
    let name = format!("cairn-agent-{node}");
    let leases = |namespace: &str| Api::<Lease>::namespaced(stage.client.clone(), namespace);
    let lease = leases("cairn-agents").get(&name).await.unwrap();
    leases("cairn-agents").delete(&name, &DeleteParams::default()).await.unwrap();
    let older = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": lease.spec});
    cluster().kubectl_with(["apply", "-f-"], &older.to_string()).await.unwrap();
}

/// Waits until the operator has kept the states of templates that it found.
async fn kept(stage: &Stage) {
    let revisions = stage.api::<ControllerRevision>();
    wait_for("the operator keeps what it found", SOON, async || {
        let kept = revisions.list(&ListParams::default()).await?.items.len();
        ensure!(kept > 0, "no revision");
        anyhow::Ok(())
    })
    .await;
}

/// Nobody of those who ran `before` was asked to go.
async fn nobody_went(history: &PodHistory, before: &BTreeSet<Option<String>>) {
    let states = history.caught_up().await.states();
    let went = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some() && before.contains(&pod.uid());
    let going = states.iter().find(went);
    assert!(going.is_none(), "{going:?}");
}

#[tokio::test]
async fn nobody_is_started_anew_by_an_upgrade_nor_by_a_downgrade_of_the_definitions() {
    let cluster = cluster();
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let mut stage = Stage::set("upgrade", nodes, [cpus(), gpus()]).await;
    stage.machine("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    stage.offered("gpus", 2).await;
    let groups = [("a", 1, &[("gpu", "1ms")][..]), ("b", 2, &[("cpu", "2ms")][..])];
    let mut manifest = application("old", &groups);
    manifest["spec"]["priority"] = json!(7);
    manifest["spec"]["update"] = json!({"maxUnavailable": 2});
    stage.apply(&manifest).await;
    let before = uids(&stage.settled("old", Seen::all_placed).await);
    let history = stage.watch_pods().await;
    let _restored = Restored;

    // a downgrade: the definitions of before take away what they do not know and nothing else, and an operator that starts
    // goes on, and comes to rest: it does not write again and again what is not kept
    let known = known_then(&stage).await;
    stage.product.operator.kill9().await.unwrap();
    define_older().await;
    wait_for("the API server goes by the definitions", SOON, async || {
        let application = stage.api::<ActorApplication>().get("old").await?;
        ensure!(application.spec.priority == 0, "it knows of priorities");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(known_then(&stage).await, known);
    stage.product.operator = cluster.start_operator().await.unwrap();
    stage.settled("old", Seen::all_placed).await;
    at_rest().await;
    assert_eq!(known_then(&stage).await, known);
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
    age(&stage).await;
    age_lease(&stage, "one").await;
    define_newest();
    stage.product.operator = cluster.start_operator().await.unwrap();
    kept(&stage).await;
    stage.settled("old", Seen::all_placed).await;
    assert_eq!(uids(&stage.look("old").await.unwrap()), before);

    stage.product.agent = cluster.start_agent().await.unwrap();
    stage.offered("gpus", 2).await;
    let seen = stage.settled("old", Seen::all_placed).await;
    assert_eq!(uids(&seen), before);
    assert!(seen.pods.iter().all(|pod| !pod.labels().contains_key(labels::TEMPLATE_HASH)));
    nobody_went(&history, &before).await;

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

/// The right that agents of an older release had: Leases in the namespace of the release.
struct OlderRight;

impl OlderRight {
    async fn grant() -> Self {
        let named = |kind: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": "older-agents", "namespace": NAMESPACE}})
        };
        let (mut role, mut binding) = (named("Role"), named("RoleBinding"));
        role["rules"] = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]}]);
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "older-agents"});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": AGENT, "namespace": NAMESPACE}]);
        let both = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
        cluster().kubectl_with(["apply", "-f-"], &both.to_string()).await.unwrap();
        Self
    }
}

impl Drop for OlderRight {
    fn drop(&mut self) {
        for gone in [["role", "older-agents"], ["rolebinding", "older-agents"]]
            .into_iter()
            .chain(["cairn-agent-one", "cairn-agent-two"].map(|lease| ["lease", lease]))
        {
            let mut kubectl = cluster().command("kubectl");
            kubectl.arg("delete").args(gone).args(["-n", NAMESPACE, "--ignore-not-found"]);
            // best effort: nobody else looks at them
            let _ = kubectl.stdout(Stdio::null()).status();
        }
    }
}

/// The agent of one node alone, which keeps its Lease in a namespace; it has published what the node has.
async fn agent(node: &str, leases: &str) -> Process {
    let cluster = cluster();
    let folder = cluster.plane().state.join(format!("run/{AGENT}-of-{node}"));
    std::fs::create_dir_all(&folder).unwrap();
    describe(&folder, node, &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    let workload = cluster.daemon_set(NAMESPACE, AGENT).await.unwrap().field("spec.nodeName", node);
    let workload =
        workload.arg(format!("--simulate={}", folder.display())).arg(format!("--lease-namespace={leases}"));
    let process = workload.start(&keeper::built(AGENT).unwrap()).await.unwrap();
    process.wait_ready().await.unwrap();
    let kept = Api::<Lease>::namespaced(cluster.client().await.unwrap(), leases);
    let name = format!("cairn-agent-{node}");
    wait_for("the agent keeps its Lease", SOON, async || kept.get(&name).await.map(drop)).await;
    process
}

/// Agents of an older release keep their Leases where nobody looks any more. One after the other they are replaced, and some
/// time passes until the next one speaks: nobody moves meanwhile, whether the agent was never heard of or fell silent.
#[tokio::test]
async fn agents_are_upgraded_one_by_one_and_nobody_moves() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 2));
    let mut stage = Stage::set("one-by-one", nodes, [cpus(), gpus()]).await;
    stage.product.agent.stop().await.unwrap();
    // the agent that stopped had a word to say of these nodes
    let leases = Api::<Lease>::namespaced(stage.client.clone(), "cairn-agents");
    let both = ["cairn-agent-one", "cairn-agent-two"];
    let gone = ["delete", "lease", "-n", "cairn-agents", "--ignore-not-found"].into_iter().chain(both);
    cluster().kubectl(gone).await.unwrap();
    let _right = OlderRight::grant().await;
    let mut agents = BTreeMap::new();
    for node in ["one", "two"] {
        agents.insert(node, agent(node, NAMESPACE).await);
    }
    stage.offered("gpus", 4).await;
    stage.apply(&application("old", &[("a", 3, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "2ms")])])).await;
    let seen = stage.settled("old", Seen::all_placed).await;
    let (before, places) = (uids(&seen), owned(&seen));
    let history = stage.watch_pods().await;

    // the operator first
    stage.product.operator.kill9().await.unwrap();
    age(&stage).await;
    stage.product.operator = cluster().start_operator().await.unwrap();
    kept(&stage).await;
    stage.settled("old", Seen::all_placed).await;

    for node in ["one", "two"] {
        agents.get_mut(node).unwrap().stop().await.unwrap();
        agents.insert(node, agent(node, "cairn-agents").await);
        stage.offered("gpus", 4).await;
        // it is replaced once more, by one whose image is long in coming
        agents.get_mut(node).unwrap().stop().await.unwrap();
        let over = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}));
        leases.patch(&format!("cairn-agent-{node}"), &PatchParams::default(), &over).await.unwrap();
        told(&stage, "gpus", true).await;
        stage.offered("gpus", 2).await;
        let during = stage.settled("old", Seen::all_placed).await;
        assert_eq!((uids(&during), owned(&during)), (before.clone(), places.clone()));
        agents.insert(node, agent(node, "cairn-agents").await);
        told(&stage, "gpus", false).await;
        stage.offered("gpus", 4).await;
        let after = stage.settled("old", Seen::all_placed).await;
        assert_eq!((uids(&after), owned(&after)), (before.clone(), places.clone()));
    }
    // and the operator once more, which has to learn who is well
    stage.product.operator.kill9().await.unwrap();
    stage.product.operator = cluster().start_operator().await.unwrap();
    stage.offered("gpus", 4).await;
    let after = stage.settled("old", Seen::all_placed).await;
    assert_eq!((uids(&after), owned(&after)), (before.clone(), places));
    nobody_went(&history, &before).await;
}

/// Where each actor was decided to be.
fn owned(seen: &Seen) -> BTreeMap<String, String> {
    seen.places().into_iter().map(|(actor, unit)| (actor.to_owned(), unit.to_owned())).collect()
}
