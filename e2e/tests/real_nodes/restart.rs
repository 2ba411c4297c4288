//! A killed and restarted kubelet, as in every node upgrade, moves no actor.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use crds::{ActorApplication, DevicePool, Placement, labels};
use e2e::{Namespace, wait_for};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::scene::{ACTOR_IMAGE, DEVICES, RESOURCE, SOON, alone, cluster, product};

/// A pod's uid, its container id, and its restart count.
type Life = (Option<String>, String, i32);

/// What must not change: the assigned unit of each actor, and its running pod.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    places: BTreeMap<String, String>,
    lives: BTreeMap<String, Life>,
}

/// What is wanted of the application, and what there is of it.
struct Scene<'a> {
    namespace: Namespace<'a>,
    applications: Api<ActorApplication>,
    placements: Api<Placement>,
    pods: Api<Pod>,
    nodes: Api<Node>,
    pools: Api<DevicePool>,
}

impl Scene<'_> {
    /// Waits until the current generation is placed and every actor runs.
    async fn settled(&self) -> Seen {
        wait_for("every actor runs with the current generation", SOON, async || {
            let application = self.applications.get("app").await?;
            let decision = self.placements.get("app").await?.spec;
            let generation = application.metadata.generation;
            ensure!(Some(decision.application_generation) == generation, "the Placement is older");
            let wanted: i32 = application.spec.actors.iter().map(|group| group.replicas).sum();
            let pods = self.pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
            let lives: BTreeMap<_, _> = pods.iter().filter_map(life).collect();
            let places: BTreeMap<_, _> =
                decision.assignments.into_iter().map(|place| (place.actor, place.unit)).collect();
            let wanted = usize::try_from(wanted)?;
            let counts = [places.len(), pods.len(), lives.len()];
            ensure!(counts == [wanted; 3], "{places:?}, {lives:?}");
            anyhow::Ok(Seen { places, lives })
        })
        .await
    }

    /// Waits until a node offers so many devices.
    async fn offers(&self, node: &str, devices: usize) {
        wait_for("the node offers its devices", SOON, async || {
            let status = self.nodes.get(node).await?.status.unwrap_or_default();
            let offered = status.allocatable.unwrap_or_default().get(RESOURCE).map(|its| its.0.clone());
            ensure!(offered == Some(devices.to_string()), "{node} offers {offered:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Waits until the operator counts so many units that can take an actor.
    async fn known(&self, units: usize) {
        wait_for("the operator counts the units", SOON, async || {
            let status = self.pools.get("gpus").await?.status.unwrap_or_default();
            ensure!(usize::try_from(status.healthy)? == units, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }
}

/// The actor of a running pod, and its container state.
fn life(pod: &Pod) -> Option<(String, Life)> {
    let status = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none())?;
    let [container] = status.container_statuses.as_deref()? else { return None };
    container.state.as_ref()?.running.as_ref()?;
    let life = (pod.uid(), container.container_id.clone()?, container.restart_count);
    Some((pod.labels().get(labels::ACTOR)?.clone(), life))
}

/// One actor per GPU, and two without; `channels` changes the manifest.
fn application(channels: &Value) -> String {
    let container = json!({"name": "actor", "image": ACTOR_IMAGE, "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}});
    let group = |name: &str, replicas: usize, kind: &str| {
        json!({"name": name, "replicas": replicas, "arrivals": "1/s",
            "implementations": [{"kind": kind, "serviceTime": "1ms", "template": template}]})
    };
    let all = DEVICES.iter().map(|(_, count)| count).sum();
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
        "spec": {"actors": [group("a", all, "gpu"), group("b", 2, "cpu")], "channels": channels}})
    .to_string()
}

#[tokio::test]
async fn a_kubelet_restart_without_devices_moves_no_actor() {
    let _alone = alone().await;
    let cluster = cluster().await;
    let product = product().await;
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace("restart").await.unwrap();
    let scene = Scene {
        applications: Api::namespaced(client.clone(), namespace.name()),
        placements: Api::namespaced(client.clone(), namespace.name()),
        pods: Api::namespaced(client.clone(), namespace.name()),
        nodes: Api::all(client.clone()),
        pools: Api::all(client),
        namespace,
    };
    for (name, kind, resource) in [("gpus", "gpu", Some(RESOURCE)), ("cpus", "cpu", None)] {
        let mut pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool",
            "metadata": {"name": name}, "spec": {"kind": kind}});
        if let Some(resource) = resource {
            pool["spec"]["resource"] = json!({"devicePlugin": resource});
        }
        cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    }
    let all: usize = DEVICES.iter().map(|(_, count)| count).sum();
    scene.known(all).await;
    scene.namespace.apply(&application(&json!([]))).await.unwrap();
    let before = scene.settled().await;
    let began = cluster.audit().await.unwrap();

    for (number, (node, devices)) in DEVICES.into_iter().enumerate() {
        // the node's plugins wait, so that the new kubelet has no devices for some time
        let order = |act: fn(&mut e2e::Process) -> anyhow::Result<()>| {
            let mut plugins = product.plugins.lock().unwrap();
            plugins.iter_mut().filter(|(its, _)| *its == node).for_each(|(_, plugin)| act(plugin).unwrap());
        };
        order(e2e::Process::freeze);
        let killed = crate::scene::node(node).kubelet_process().unwrap();
        crate::scene::node(node).kill_kubelet().unwrap();
        wait_for("another kubelet runs", SOON, async || {
            let now = crate::scene::node(node).kubelet_process()?;
            ensure!(now != killed, "it is still there");
            anyhow::Ok(())
        })
        .await;
        scene.offers(node, 0).await;
        scene.known(all - devices).await;
        // meanwhile a new plan is made, for a change that makes no other placement better
        let rate = format!("{}/s", number + 1);
        let channels = json!([{"from": "a", "to": "a", "rate": rate, "pattern": "AllToAll"}]);
        scene.namespace.apply(&application(&channels)).await.unwrap();
        assert_eq!(scene.settled().await, before, "while {node} offers no device");

        order(e2e::Process::thaw);
        scene.offers(node, devices).await;
        scene.known(all).await;
        assert_eq!(scene.settled().await, before, "after the kubelet of {node} was restarted");
    }

    // and no pod was deleted and recreated in between
    let log = cluster.audit().await.unwrap();
    let deleted = log.since(&began).iter().filter(|event| event.verb.starts_with("delete"));
    let deleted: BTreeSet<_> = deleted
        .filter(|event| event.resource == "pods" && event.namespace == scene.namespace.name())
        .map(|event| format!("{} by {}", event.name, event.user))
        .collect();
    assert!(deleted.is_empty(), "{deleted:?}");
    scene.namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    cluster.kubectl(["delete", "devicepool", "gpus", "cpus"]).await.unwrap();
}
