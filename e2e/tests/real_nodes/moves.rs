//! Moves on real nodes: a move that a kubelet cannot carry out is withdrawn, and others end in spite of killed kubelets, containerds
//! and pods. Numbered requests show that no actor is in two pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use crds::{ActorApplication, DevicePool, Placement, labels};
use e2e::{
    audit::AuditLog,
    bench::size,
    images::Image,
    keeper,
    pods::ready_since,
    product::NAMESPACE,
    request_reply::{self, SharedFolder},
    wait_for,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::scene::{ACTOR_IMAGE, SOON, alone, cluster, node, npus, plugin, product};

/// An image that only node `real-0` has.
const LOCAL_IMAGE: &str = "registry.local/local:e2e";

/// A resource that no other test uses.
const NPU: &str = "acme.com/npu";

/// Two actors that send to one that is pinned to a node.
struct Followers {
    policy: &'static str,
    kind: &'static str,
    /// The pods of the two actors.
    template: Value,
    /// The pod of the other one.
    pinned: Value,
}

/// Pods that do nothing.
fn idle(image: &str) -> Value {
    let container = json!({"name": "actor", "image": image, "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    json!({"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}})
}

impl Followers {
    fn manifest(&self, pinned_to: &str) -> String {
        let group = |name: &str, replicas: usize, kind: &str, template: &Value| {
            json!({"name": name, "replicas": replicas, "arrivals": "1/s",
                "implementations": [{"kind": kind, "serviceTime": "1ms", "template": template}]})
        };
        let mut groups = [group("a", 2, self.kind, &self.template), group("c", 1, "cpu", &self.pinned)];
        groups[1]["pinTo"] = json!({"node": pinned_to});
        // Otherwise a volume of the machine would keep the actors on their nodes.
        let metadata = json!({"name": "app", "annotations": {(labels::MAY_MOVE): "true"}});
        json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": metadata, "spec": {
            "policy": self.policy, "actors": groups, "channels": [
                {"from": "a", "to": "c", "rate": "100/s", "messageBytes": "1Ki", "pattern": "AllToAll"}]}})
        .to_string()
    }
}

/// The node of each running actor.
async fn running(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
    let is_running = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
    };
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    Ok(pods.iter().filter(is_running).map(|pod| (pod.labels()[labels::ACTOR].clone(), node(pod))).collect())
}

/// Applies the policy and the pool.
async fn prepare() {
    let cluster = cluster().await;
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "impatient", "namespace": NAMESPACE, "labels": {"cairn.dev/policy": "true"}},
        "data": {"policy.yaml": "rebalance: {giveUp: 5s}\n"}});
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"},
        "spec": {"kind": "cpu"}});
    for object in [policy, pool] {
        cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    }
}

async fn clean_up() {
    let cluster = cluster().await;
    cluster.kubectl(["delete", "configmap", "impatient", "-n", NAMESPACE]).await.unwrap();
    cluster.kubectl(["delete", "devicepool", "cpus"]).await.unwrap();
}

#[tokio::test]
async fn an_actor_whose_image_is_missing_goes_back() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    let pause = keeper::built("cairn-e2e-pause").unwrap();
    let image = Image::new(LOCAL_IMAGE, "/actor").program(&pause, "/actor").unwrap();
    cluster.load_on(node("real-0"), &image).await.unwrap();
    prepare().await;
    let followers = Followers {
        policy: "impatient",
        kind: "cpu",
        template: idle(LOCAL_IMAGE),
        pinned: idle(ACTOR_IMAGE),
    };
    goes_back("withdrawn", followers, async || ()).await;
    clean_up().await;
}

#[tokio::test]
async fn an_actor_whose_device_is_refused_goes_back() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    prepare().await;
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "npus"},
        "spec": {"kind": "npu", "resource": {"devicePlugin": NPU}}});
    cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    let works = plugin("real-0", NPU, &npus("real-0"));
    let followers = Followers {
        policy: "impatient",
        kind: "npu",
        template: idle(ACTOR_IMAGE),
        pinned: idle(ACTOR_IMAGE),
    };
    // Otherwise the actors could be refused there before any of them runs.
    let refuses = goes_back("refused", followers, async || {
        let refuses = plugin("real-1", NPU, &npus("real-1"));
        let pools = Api::<DevicePool>::all(cluster.client().await.unwrap());
        wait_for("the other node offers its devices", SOON, async || {
            let status = pools.get("npus").await?.status.unwrap_or_default();
            ensure!(status.healthy == 4, "{status:?}");
            anyhow::Ok(())
        })
        .await;
        refuses
    })
    .await;
    for mut plugin in [works, refuses] {
        plugin.stop().await.unwrap();
    }
    cluster.kubectl(["delete", "devicepool", "npus"]).await.unwrap();
    clean_up().await;
}

/// Runs the actors beside the pinned one on `real-0`, does something, and pins that actor to `real-1`, where the others cannot run: the
/// move of one of them is withdrawn, and no other is tried. Returns what was done.
async fn goes_back<T>(namespace: &str, followers: Followers, then: impl AsyncFnOnce() -> T) -> T {
    let cluster = cluster().await;
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace(namespace).await.unwrap();
    namespace.apply(&followers.manifest("real-0")).await.unwrap();
    let wait_running = async |what: &str, pinned: &str| {
        wait_for(what, SOON, async || {
            let found = running(&client, namespace.name()).await?;
            let expected = [("a-0", "real-0"), ("a-1", "real-0"), ("c-0", pinned)];
            let expected = expected.map(|(actor, node)| (actor.to_owned(), node.to_owned()));
            ensure!(found == BTreeMap::from(expected), "{found:?}");
            anyhow::Ok(())
        })
        .await;
    };
    wait_running("the actors run beside the pinned one", "real-0").await;
    let uids = async || {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
        let pods = pods.list(&ListParams::default().labels(labels::ACTOR)).await.unwrap().items;
        pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<BTreeMap<_, _>>()
    };
    let before = uids().await;
    let done = then().await;

    namespace.apply(&followers.manifest("real-1")).await.unwrap();
    let events = Api::<Event>::namespaced(client.clone(), namespace.name());
    wait_for("a move is withdrawn", SOON, async || {
        let all = events.list(&ListParams::default()).await?.items;
        let reasons: Vec<&str> = all.iter().filter_map(|event| event.reason.as_deref()).collect();
        ensure!(reasons.contains(&"MoveWithdrawn"), "{reasons:?}");
        anyhow::Ok(())
    })
    .await;
    wait_running("the actor is back, and only the pinned one has moved", "real-1").await;
    let placements = Api::<Placement>::namespaced(client.clone(), namespace.name());
    let placement = placements.get("app").await.unwrap();
    let decided = placement.spec.gain.unwrap().decided_at.0;
    let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
    for pod in pods.list(&ListParams::default().labels(&format!("{}=a", labels::ACTOR_GROUP))).await.unwrap()
    {
        // The policy's `giveUp`, and 30 s.
        let took = pod.creation_timestamp().unwrap().0.duration_since(decided);
        assert!(took <= SignedDuration::from_secs(35), "{} is back after {took}", pod.name_any());
    }
    let refusals = placement.status.unwrap_or_default().refusals;
    let of_node = refusals.iter().find(|it| it.node.as_deref() == Some("real-1"));
    assert!(of_node.is_some_and(|it| it.cause.is_some()), "{refusals:?}");
    let after = uids().await;
    let stayed = before.iter().filter(|(name, uid)| name.contains("-a-") && after.get(*name) == Some(uid));
    assert_eq!(stayed.count(), 1, "one actor was stopped, the other never: {before:?} {after:?}");

    // The cause remains: a further plan moves neither actor there.
    let edited = json!({"spec": {"priority": 1}}).to_string();
    namespace.kubectl(["patch", "actorapp", "app", "--type=merge", "-p", &edited]).await.unwrap();
    let applications = Api::<ActorApplication>::namespaced(client.clone(), namespace.name());
    wait_for("the edited manifest is planned", SOON, async || {
        let (application, placement) = (applications.get("app").await?, placements.get("app").await?);
        let planned = Some(placement.spec.application_generation);
        ensure!(planned == application.metadata.generation, "the Placement is of generation {planned:?}");
        let places: Vec<_> = placement.spec.assignments.iter().map(|it| (&*it.actor, &*it.node)).collect();
        ensure!(places == [("a-0", "real-0"), ("a-1", "real-0"), ("c-0", "real-1")], "{places:?}");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(uids().await, after, "no actor was stopped again");
    namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    done
}

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// The kubelet of the node that an actor leaves.
    SourceKubelet,
    /// Its containerd.
    SourceContainerd,
    /// The pod that is to be moved.
    SourcePod,
    /// The kubelet of the node that an actor goes to.
    DestinationKubelet,
    /// Its containerd.
    DestinationContainerd,
    /// The pod that starts there.
    DestinationPod,
}

/// When it is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Before the pod is stopped for the move.
    Decided,
    /// While it is stopped.
    Stopping,
    /// While the next one starts.
    Starting,
    /// When the next one is ready.
    Running,
}

/// All victims at all moments at which there is one. The first [`SHORT`] are those of each victim while it has most to do.
const KILLS: [(Kill, Moment); 20] = [
    (Kill::SourceKubelet, Moment::Stopping),
    (Kill::SourceKubelet, Moment::Starting),
    (Kill::SourceContainerd, Moment::Stopping),
    (Kill::SourceContainerd, Moment::Starting),
    (Kill::SourcePod, Moment::Decided),
    (Kill::DestinationKubelet, Moment::Stopping),
    (Kill::DestinationKubelet, Moment::Starting),
    (Kill::DestinationContainerd, Moment::Stopping),
    (Kill::DestinationContainerd, Moment::Starting),
    (Kill::DestinationPod, Moment::Starting),
    (Kill::SourceKubelet, Moment::Decided),
    (Kill::SourceKubelet, Moment::Running),
    (Kill::SourceContainerd, Moment::Decided),
    (Kill::SourceContainerd, Moment::Running),
    (Kill::SourcePod, Moment::Stopping),
    (Kill::DestinationKubelet, Moment::Decided),
    (Kill::DestinationKubelet, Moment::Running),
    (Kill::DestinationContainerd, Moment::Decided),
    (Kill::DestinationContainerd, Moment::Running),
    (Kill::DestinationPod, Moment::Running),
];

/// Kills, unless `CAIRN_NODE_KILLS` says how many; more than [`KILLS`] begin again.
const SHORT: u64 = 10;

impl Moment {
    /// Whether a pod of the group that moves to this node is at this step.
    fn has_come(self, pod: &Pod, to: &str) -> bool {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let (is_there, is_stopping) = (node == Some(to), pod.metadata.deletion_timestamp.is_some());
        match self {
            Self::Decided => !is_there && !is_stopping,
            Self::Stopping => !is_there && is_stopping,
            Self::Starting => is_there && ready_since(pod).is_none(),
            Self::Running => is_there && ready_since(pod).is_some(),
        }
    }
}

#[tokio::test]
async fn moves_end_in_spite_of_kills_at_each_step() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    prepare().await;
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace("kills").await.unwrap();
    request_reply::load(cluster).await.unwrap();
    cluster.start_dns().await.unwrap();
    let shared = SharedFolder::new(true).unwrap();
    let [template, pinned] = [shared.template("10m"), shared.template("10m")];
    let followers = Followers { policy: "throughput", kind: "cpu", template, pinned };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
    let placements = Api::<Placement>::namespaced(client.clone(), namespace.name());
    let of_group = ListParams::default().labels(&format!("{}=a", labels::ACTOR_GROUP));
    let all_on = async |to: &str, what: String| {
        wait_for(&what, SOON, async || {
            let found = running(&client, namespace.name()).await?;
            let is_there = found.len() == 3 && found.values().all(|node| node == to);
            ensure!(is_there, "{found:?}");
            let moves = placements.get("app").await?.status.unwrap_or_default().moves;
            ensure!(moves.iter().all(|it| !it.step.is_in_progress()), "{moves:?}");
            anyhow::Ok(())
        })
        .await;
    };
    namespace.apply(&followers.manifest("real-0")).await.unwrap();
    all_on("real-0", "the actors run".to_owned()).await;
    let count = size("CAIRN_NODE_KILLS", SHORT).unwrap();
    let kills = KILLS.into_iter().cycle().take(usize::try_from(count).unwrap());
    for (round, (kill, moment)) in kills.enumerate() {
        let (from, to) = if round % 2 == 0 { ("real-0", "real-1") } else { ("real-1", "real-0") };
        namespace.apply(&followers.manifest(to)).await.unwrap();
        let due = wait_for(&format!("the moment of {kill:?}"), SOON, async || {
            let found = pods.list(&of_group).await?.items;
            let due = found.into_iter().find(|pod| moment.has_come(pod, to));
            due.with_context(|| format!("no pod is {moment:?}"))
        })
        .await;
        match kill {
            Kill::SourceKubelet => node(from).kill_kubelet().unwrap(),
            Kill::SourceContainerd => node(from).kill_containerd().unwrap(),
            Kill::DestinationKubelet => node(to).kill_kubelet().unwrap(),
            Kill::DestinationContainerd => node(to).kill_containerd().unwrap(),
            Kill::SourcePod | Kill::DestinationPod => {
                // Another delete may have been faster.
                let _ = pods.delete(&due.name_any(), &DeleteParams::default()).await;
            }
        }
        all_on(to, format!("the actors run on {to} after {kill:?}, {moment:?}")).await;
        let since = Timestamp::now().as_nanosecond();
        wait_for("all actors send", SOON, async || {
            let journal = shared.journal()?;
            let of_now = journal.iter().filter(|request| i128::from(request.sender.at) > since);
            let senders: BTreeSet<_> = of_now.map(|request| request.sender.actor.as_str()).collect();
            ensure!(senders == ["a-0", "a-1", "c-0"].into(), "only {senders:?}");
            anyhow::Ok(())
        })
        .await;
        let journal = shared.journal().unwrap();
        request_reply::check(&journal).unwrap_or_else(|error| panic!("after {kill:?}, {moment:?}: {error}"));
    }
    let journal = shared.journal().unwrap();
    let lives: BTreeSet<_> = journal.iter().map(|it| (&it.sender.actor, it.sender.began)).collect();
    // A table row for the results.
    println!("| {count} | {} | {} |", lives.len(), journal.len());
    check_deletions(&cluster.audit().await.unwrap(), namespace.name());
    namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    clean_up().await;
}

/// By the audit log, only kubelets delete pods without a grace period. The pods of an actor have one name, which is free for the next
/// one when the kubelet has reported that nothing of the last one runs.
fn check_deletions(log: &AuditLog, namespace: &str) {
    let of_pods = log.events().iter().filter(|it| it.namespace == namespace && it.resource == "pods");
    let deletions = of_pods.filter(|it| it.verb == "delete" && it.subresource.is_empty() && it.code == 200);
    let at_once: Vec<_> =
        deletions.filter(|it| it.request["gracePeriodSeconds"].as_i64() == Some(0)).collect();
    assert!(!at_once.is_empty(), "the log has no bodies of deletions");
    for deletion in at_once {
        assert!(deletion.user.starts_with("system:node:"), "{deletion:?}");
    }
}
