//! NUMA domains as resources of the agents: pools have units, actors hold devices, also after a kubelet's restart.

use std::{collections::BTreeMap, process::Stdio};

use anyhow::{Context, Result, ensure};
use crds::{Instance, Placement, labels};
use e2e::{
    Namespace, kubelet_api, ports,
    process::http_get,
    product::{NAMESPACE, OPERATOR},
    wait_for,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use serde_json::{Value, json};

use crate::{
    live,
    scene::{ACTOR_IMAGE, DEVICES, SOON, alone, cluster, node, product},
};

/// An application on NUMA domains that the agents offer.
pub struct Placed {
    /// The operator's snapshot of it.
    pub snapshot: Value,
    /// The unit of its first actor.
    pub unit: String,
    /// The actor's pod before the kubelet was restarted.
    before: BTreeMap<String, Held>,
    /// The same pod and that of a second actor afterwards.
    after: BTreeMap<String, Held>,
}

/// What a pod holds.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    uid: Option<String>,
    /// The resource, and the ids of its devices, according to the kubelet.
    kubelet: (String, Vec<String>),
    /// The same according to the status of its Instance.
    instance: (String, Vec<String>),
    /// What the container prints.
    log: String,
}

/// The resource of a domain, and the number of its devices.
const SLOTS: &str = "110";

/// Runs an actor on a domain of any node, restarts the kubelet there, and runs a second actor beside it.
pub async fn place() -> Placed {
    let cluster = cluster().await;
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace("live").await.unwrap();
    apply_pool(&json!({})).await;
    let nodes = Api::<Node>::all(client.clone());
    for (name, _) in DEVICES {
        wait_for("the node offers its domains", SOON, async || {
            let offered = nodes.get(name).await?.status.unwrap_or_default().allocatable.unwrap_or_default();
            for (domain, of_machine) in live::domains() {
                let devices = offered.get(&format!("cairn.dev/numa-{domain}")).map(|its| its.0.as_str());
                let expected = (!of_machine.processors.is_empty()).then_some(SLOTS);
                ensure!(devices == expected, "{name} offers {devices:?} devices of domain {domain}");
            }
            anyhow::Ok(())
        })
        .await;
    }
    namespace.apply(&application(1)).await.unwrap();
    let before = held(&namespace, 1).await;
    let placements = Api::<Placement>::namespaced(client, namespace.name());
    let unit = placements.get("app").await.unwrap().spec.assignments[0].unit.clone();
    let snapshot = snapshot(namespace.name()).await;

    let (name, _) = unit.split_once('/').unwrap();
    let killed = node(name).kubelet_process().unwrap();
    node(name).kill_kubelet().unwrap();
    wait_for("another kubelet runs", SOON, async || {
        let now = node(name).kubelet_process()?;
        ensure!(now != killed, "it is still there");
        anyhow::Ok(())
    })
    .await;
    // a kubelet admits no pod whose device plugin has not registered again
    apply_pool(&json!({"matchLabels": {"kubernetes.io/hostname": name}})).await;
    namespace.apply(&application(2)).await.unwrap();
    let after = held(&namespace, 2).await;
    namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    cluster.kubectl(["delete", "devicepool", "domains"]).await.unwrap();
    Placed { snapshot, unit, before, after }
}

/// A pool of the NUMA domains of some nodes, as in the documentation.
async fn apply_pool(selector: &Value) {
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "domains"},
        "spec": {"kind": "cpu", "unit": "NumaDomain", "nodeSelector": selector,
            "resource": {"devicePlugin": "cairn.dev/numa-{index}"}}});
    cluster().await.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
}

fn application(replicas: usize) -> String {
    let container = json!({"name": "actor", "image": ACTOR_IMAGE, "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
        "spec": {"actors": [{"name": "a", "replicas": replicas, "arrivals": "1/s",
            "implementations": [{"kind": "cpu", "serviceTime": "1ms", "template": template}]}]}})
    .to_string()
}

/// What the pods of so many actors hold, by name, once all of them run and their devices are reported.
async fn held(namespace: &Namespace<'_>, actors: usize) -> BTreeMap<String, Held> {
    let client = cluster().await.client().await.unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
    let instances = Api::<Instance>::namespaced(client, namespace.name());
    wait_for("the actors run and hold devices", SOON, async || {
        let found = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
        let statuses: Vec<_> = found.iter().map(|pod| pod.status.clone().unwrap_or_default()).collect();
        let running = statuses.iter().filter(|its| its.phase.as_deref() == Some("Running")).count();
        ensure!(running == actors && found.len() == actors, "{statuses:?}");
        let mut held = BTreeMap::new();
        for pod in found {
            let devices = instances.get(&pod.name_any()).await?.status.unwrap_or_default().devices;
            let [device] = devices.as_slice() else { anyhow::bail!("{} has {devices:?}", pod.name_any()) };
            let instance = (device.resource.clone(), device.device_ids.clone());
            let log = pods.logs(&pod.name_any(), &LogParams::default()).await?;
            ensure!(!log.is_empty(), "{} has printed nothing", pod.name_any());
            let kubelet = by_kubelet(&pod).await?;
            held.insert(pod.name_any(), Held { uid: pod.uid(), kubelet, instance, log });
        }
        anyhow::Ok(held)
    })
    .await
}

/// The only resource of a pod, and its devices, according to the kubelet.
async fn by_kubelet(pod: &Pod) -> Result<(String, Vec<String>)> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).context("it has no node")?;
    let resources = kubelet_api::pod_resources(&node(of_pod).pod_resources()).await?;
    let its = resources
        .into_iter()
        .find(|its| its.name == pod.name_any())
        .context("the kubelet has no such pod")?;
    let mut devices = its.containers.into_iter().flat_map(|container| container.devices);
    let device = devices.next().context("the pod has no device")?;
    ensure!(devices.next().is_none(), "it has another resource");
    Ok((device.resource_name, device.device_ids))
}

/// The operator's snapshot of an application through a port forward, as for users.
async fn snapshot(namespace: &str) -> Value {
    let port = ports::free_one().unwrap();
    let deployment = format!("deployment/{OPERATOR}");
    let mut kubectl = tokio::process::Command::from(cluster().await.command("kubectl"));
    kubectl.args(["-n", NAMESPACE, "port-forward", &deployment, &format!("{port}:8081")]);
    let _forward = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    wait_for("the operator's snapshot", SOON, async || {
        let (status, text) = http_get(port, &format!("/debug/snapshot/{namespace}/app")).await?;
        ensure!(status == 200, "{status}: {text}");
        serde_json::from_str(&text).context("it is no JSON")
    })
    .await
}

#[tokio::test]
async fn actors_hold_devices_of_their_numa_domain() {
    let _alone = alone().await;
    let Placed { unit, before, after, .. } = &product().await.live.placed;
    let (_, domain) = unit.rsplit_once('-').unwrap();
    for (pod, held) in before.iter().chain(after) {
        let (resource, devices) = &held.kubelet;
        assert!(resource.starts_with("cairn.dev/numa-"), "{pod}: {held:?}");
        let [device] = devices.as_slice() else { panic!("{pod}: {held:?}") };
        let number = resource.trim_start_matches("cairn.dev/numa-");
        assert!(device.starts_with(&format!("numa-{number}::")), "{pod}: {held:?}");
        assert_eq!(held.kubelet, held.instance, "{pod}");
        assert!(held.log.contains(&format!("CAIRN_NUMA_NODE={number}\n")), "{pod}: {}", held.log);
    }
    let (name, first) = before.first_key_value().unwrap();
    assert_eq!(first.kubelet.0, format!("cairn.dev/numa-{domain}"), "{unit}");
    // a restarted kubelet has no effect on the actor that runs, and gives the second one a device of its own
    assert_eq!((before.len(), after.len(), after.get(name)), (1, 2, Some(first)));
    let devices: std::collections::BTreeSet<_> = after.values().map(|held| &held.kubelet).collect();
    assert_eq!(devices.len(), 2, "{after:?}");
}
