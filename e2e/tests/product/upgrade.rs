//! Upgrades from an older release with running applications, and back: no pod is restarted.

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

use crate::claims::{offer_claimed_devices, withdraw_claimed_devices};
use crate::env::{AppState, PodHistory, TIMEOUT, TestEnv, application, cpus, describe, gpus, implementation};
use crate::foreign_objects::OPERATOR_USER;
use crate::idle::wait_idle;
use crate::installation::cluster;
use crate::unresponsive::wait_stale;

/// The recorded CRDs of the release without revisions, host names of actors, and runtime requests. That of NodeTopologies is the
/// same; that of `ActorApplication`s is large, and is derived from the current one.
const OLDER_CRDS: [&str; 3] = [
    include_str!("upgrade/instances.yaml"),
    include_str!("upgrade/placements.yaml"),
    include_str!("upgrade/devicepools.yaml"),
];

/// Fields of `ActorApplication`s that this release does not know: the place in the schema, and the name.
const NEW_APPLICATION_FIELDS: [(&str, &str); 7] = [
    ("/spec", "failover"),
    ("/spec", "priority"),
    ("/spec", "start"),
    ("/spec", "update"),
    ("/status", "revision"),
    ("/status/properties/actors", "ready"),
    ("/status/properties/actors", "updated"),
];

/// Replaces a CRD; fields that the new one lacks are dropped.
fn replace_crd(text: &str) {
    let mut kubectl = cluster().command("kubectl");
    let mut child =
        kubectl.args(["replace", "-f-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Installs the current CRDs, which all other tests need.
fn install_current_crds() {
    for kind in ["instances", "placements", "devicepools", "actorapplications"] {
        replace_crd(&std::fs::read_to_string(tree(&format!("crds/manifests/{kind}.yaml"))).unwrap());
    }
}

async fn install_older_crds() {
    OLDER_CRDS.into_iter().for_each(replace_crd);
    let output = cluster().kubectl(["get", "crd", "actorapplications.cairn.dev", "-ojson"]).await;
    let mut newest: Value = serde_json::from_str(&output.unwrap().stdout).unwrap();
    for (place, name) in NEW_APPLICATION_FIELDS {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
        let fields = newest.pointer_mut(&format!("{schema}{place}/properties")).unwrap();
        fields.as_object_mut().unwrap().remove(name).unwrap();
    }
    replace_crd(&newest.to_string());
}

/// The specs of all objects by name, without fields that the older release does not know.
async fn specs_without_new_fields(env: &TestEnv) -> BTreeMap<String, Value> {
    let output = env.namespace.kubectl(["get", "actorapplications,instances,devicepools", "-ojson"]).await;
    let list: Value = serde_json::from_str(&output.unwrap().stdout).unwrap();
    let known = list["items"].as_array().unwrap().iter().map(|object| {
        let mut spec = object["spec"].clone();
        for name in ["failover", "priority", "start", "update", "origin"] {
            spec.as_object_mut().unwrap().remove(name);
        }
        if let Some(resource) = spec.get_mut("resource") {
            resource.as_object_mut().unwrap().remove("dra");
        }
        (format!("{} {}", object["kind"], object["metadata"]["name"]), spec)
    });
    known.collect()
}

struct RestoreCrds;

impl Drop for RestoreCrds {
    fn drop(&mut self) {
        install_current_crds();
        let mut kubectl = cluster().command("kubectl");
        kubectl.args(["delete", "lease", "cairn-agent-one", "-n", NAMESPACE, "--ignore-not-found"]);
        // best effort: no other test has a node of this name
        let _ = kubectl.stdout(Stdio::null()).status();
    }
}

fn uids(state: &AppState) -> BTreeSet<Option<String>> {
    state.pods.iter().map(kube::ResourceExt::uid).collect()
}

/// Removes what an older release does not write: template hashes, revisions, Services and peers files.
async fn downgrade_objects(env: &TestEnv) {
    let without_hash = format!("{}-", labels::TEMPLATE_HASH);
    // only the operator may
    let operator = format!("--as={OPERATOR_USER}");
    let label = ["label", "pods", "--all", &without_hash, &operator, "--as-group=system:masters"];
    env.namespace.kubectl(label).await.unwrap();
    env.namespace.kubectl(["delete", "controllerrevisions", "--all"]).await.unwrap();
    env.namespace.kubectl(["delete", "services,configmaps", "-l", labels::APPLICATION]).await.unwrap();
}

/// Moves the Lease of a node's agent to the namespace that an older release used.
async fn move_lease(env: &TestEnv, node: &str) {
    let name = format!("cairn-agent-{node}");
    let leases = |namespace: &str| Api::<Lease>::namespaced(env.client.clone(), namespace);
    let lease = leases("cairn-agents").get(&name).await.unwrap();
    leases("cairn-agents").delete(&name, &DeleteParams::default()).await.unwrap();
    let older = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": lease.spec});
    cluster().kubectl_with(["apply", "-f-"], &older.to_string()).await.unwrap();
}

/// Waits until the operator has recorded the revisions of existing pods.
async fn wait_revisions(env: &TestEnv) {
    let revisions = env.api::<ControllerRevision>();
    wait_for("the operator records revisions", TIMEOUT, async || {
        let kept = revisions.list(&ListParams::default()).await?.items.len();
        ensure!(kept > 0, "no revision");
        anyhow::Ok(())
    })
    .await;
}

/// Checks that none of the pods in `before` was deleted.
async fn assert_no_pod_deleted(history: &PodHistory, before: &BTreeSet<Option<String>>) {
    let states = history.wait_synced().await.states();
    let went = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some() && before.contains(&pod.uid());
    let is_terminating = states.iter().find(went);
    assert!(is_terminating.is_none(), "{is_terminating:?}");
}

#[tokio::test]
async fn crd_upgrades_and_downgrades_restart_no_actor() {
    let cluster = cluster();
    let nodes = [SimulatedNode::new("one").resource("acme.com/gpu", 2), SimulatedNode::new("two")];
    let mut env = TestEnv::new("upgrade", nodes, [cpus(), gpus()]).await;
    env.describe_devices("one", &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
    env.wait_offered("gpus", 2).await;
    offer_claimed_devices(&env).await;
    let groups =
        [("a", 1, &[("gpu", "1ms")][..]), ("b", 2, &[("cpu", "2ms")][..]), ("c", 1, &[("npu", "1ms")][..])];
    let mut manifest = application("old", &groups);
    manifest["spec"]["priority"] = json!(7);
    manifest["spec"]["update"] = json!({"maxUnavailable": 2});
    env.apply(&manifest).await;
    let before = uids(&env.wait_reconciled("old", AppState::all_placed).await);
    let history = env.watch_pods().await;
    let _restore = RestoreCrds;

    // a downgrade: the older CRDs drop unknown fields and nothing else, and a restarted operator continues without endlessly
    // rewriting dropped fields
    let known = specs_without_new_fields(&env).await;
    env.product.operator.kill9().await.unwrap();
    install_older_crds().await;
    wait_for("the API server uses the older CRDs", TIMEOUT, async || {
        let application = env.api::<ActorApplication>().get("old").await?;
        ensure!(application.spec.priority == 0, "it still has priorities");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(specs_without_new_fields(&env).await, known);
    env.product.operator = cluster.start_operator().await.unwrap();
    env.wait_reconciled("old", AppState::all_placed).await;
    wait_idle().await;
    assert_eq!(specs_without_new_fields(&env).await, known);
    // it still reconciles: an actor is added and removed
    for replicas in [3, 2] {
        let groups = [groups[0], ("b", replicas, groups[1].2), groups[2]];
        env.apply(&application("old", &groups)).await;
        env.wait_reconciled("old", AppState::all_placed).await;
    }
    assert_eq!(uids(&env.observe("old").await.unwrap()), before);

    // objects of an older release with the current operator; the agent is not upgraded yet
    env.product.operator.kill9().await.unwrap();
    env.product.agent.stop().await.unwrap();
    downgrade_objects(&env).await;
    move_lease(&env, "one").await;
    install_current_crds();
    env.product.operator = cluster.start_operator().await.unwrap();
    wait_revisions(&env).await;
    env.wait_reconciled("old", AppState::all_placed).await;
    assert_eq!(uids(&env.observe("old").await.unwrap()), before);

    env.product.agent = cluster.start_agent().await.unwrap();
    env.wait_offered("gpus", 2).await;
    // the older CRD dropped the resource of the pool, which is applied again
    offer_claimed_devices(&env).await;
    let state = env.wait_reconciled("old", AppState::all_placed).await;
    assert_eq!(uids(&state), before);
    assert!(state.pods.iter().all(|pod| !pod.labels().contains_key(labels::TEMPLATE_HASH)));
    assert_no_pod_deleted(&history, &before).await;

    // a new template differs from that of the old pods, and replaces them
    let mut changed = application("old", &groups);
    let mut newer = implementation("cpu", "2ms");
    newer["template"]["spec"]["containers"][0]["image"] = json!("newer");
    changed["spec"]["actors"][1]["implementations"][0] = newer;
    env.apply(&changed).await;
    let replaced = env
        .wait_reconciled("old", |state| {
            state.all_placed()?;
            let newer = state.pods.iter().filter(|pod| pod.labels().contains_key(labels::TEMPLATE_HASH));
            ensure!(newer.count() == 2, "not all have the new template");
            Ok(())
        })
        .await;
    let stayed: Vec<_> = uids(&replaced).intersection(&before).cloned().collect();
    assert_eq!(stayed.len(), 2, "the groups with an unchanged template stay");
    withdraw_claimed_devices(&env).await;
}

/// The permission of an older release's agents: Leases in the namespace of the release.
struct OlderPermission;

impl OlderPermission {
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

impl Drop for OlderPermission {
    fn drop(&mut self) {
        for gone in [["role", "older-agents"], ["rolebinding", "older-agents"]]
            .into_iter()
            .chain(["cairn-agent-one", "cairn-agent-two"].map(|lease| ["lease", lease]))
        {
            let mut kubectl = cluster().command("kubectl");
            kubectl.arg("delete").args(gone).args(["-n", NAMESPACE, "--ignore-not-found"]);
            // best effort: nothing else uses them
            let _ = kubectl.stdout(Stdio::null()).status();
        }
    }
}

/// An agent of one node with its Lease in this namespace; it has published the node's topology.
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
    wait_for("the agent renews its Lease", TIMEOUT, async || kept.get(&name).await.map(drop)).await;
    process
}

/// Agents of an older release keep their Leases in another namespace. They are replaced one by one with a delay: no actor moves
/// meanwhile, whether the agent's lease never existed or expired.
#[tokio::test]
async fn a_rolling_agent_upgrade_moves_no_actor() {
    let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 2));
    let mut env = TestEnv::new("one-by-one", nodes, [cpus(), gpus()]).await;
    env.product.agent.stop().await.unwrap();
    // Leases of the stopped agent would cover these nodes
    let leases = Api::<Lease>::namespaced(env.client.clone(), "cairn-agents");
    let both = ["cairn-agent-one", "cairn-agent-two"];
    let gone = ["delete", "lease", "-n", "cairn-agents", "--ignore-not-found"].into_iter().chain(both);
    cluster().kubectl(gone).await.unwrap();
    let _permission = OlderPermission::grant().await;
    let mut agents = BTreeMap::new();
    for node in ["one", "two"] {
        agents.insert(node, agent(node, NAMESPACE).await);
    }
    env.wait_offered("gpus", 4).await;
    env.apply(&application("old", &[("a", 3, &[("gpu", "1ms")]), ("b", 2, &[("cpu", "2ms")])])).await;
    let state = env.wait_reconciled("old", AppState::all_placed).await;
    let (before, places) = (uids(&state), assigned_units(&state));
    let history = env.watch_pods().await;

    // the operator first
    env.product.operator.kill9().await.unwrap();
    downgrade_objects(&env).await;
    env.product.operator = cluster().start_operator().await.unwrap();
    wait_revisions(&env).await;
    env.wait_reconciled("old", AppState::all_placed).await;

    for node in ["one", "two"] {
        agents.get_mut(node).unwrap().stop().await.unwrap();
        agents.insert(node, agent(node, "cairn-agents").await);
        env.wait_offered("gpus", 4).await;
        // it is replaced once more, by an agent whose image is pulled slowly
        agents.get_mut(node).unwrap().stop().await.unwrap();
        let over = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 1}}));
        leases.patch(&format!("cairn-agent-{node}"), &PatchParams::default(), &over).await.unwrap();
        wait_stale(&env, "gpus", true).await;
        env.wait_offered("gpus", 2).await;
        let during = env.wait_reconciled("old", AppState::all_placed).await;
        assert_eq!((uids(&during), assigned_units(&during)), (before.clone(), places.clone()));
        agents.insert(node, agent(node, "cairn-agents").await);
        wait_stale(&env, "gpus", false).await;
        env.wait_offered("gpus", 4).await;
        let after = env.wait_reconciled("old", AppState::all_placed).await;
        assert_eq!((uids(&after), assigned_units(&after)), (before.clone(), places.clone()));
    }
    // and the operator again, which has to observe all leases first
    env.product.operator.kill9().await.unwrap();
    env.product.operator = cluster().start_operator().await.unwrap();
    env.wait_offered("gpus", 4).await;
    let after = env.wait_reconciled("old", AppState::all_placed).await;
    assert_eq!((uids(&after), assigned_units(&after)), (before.clone(), places));
    assert_no_pod_deleted(&history, &before).await;
}

/// The assigned unit of each actor.
fn assigned_units(state: &AppState) -> BTreeMap<String, String> {
    state.places().into_iter().map(|(actor, unit)| (actor.to_owned(), unit.to_owned())).collect()
}
