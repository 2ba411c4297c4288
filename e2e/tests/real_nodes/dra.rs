//! Devices of a driver of dynamic resource allocation: pods hold the decided device, and a move changes claim and device.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use crds::{Instance, NodeTopology, Placement, labels};
use e2e::{Cluster, Namespace, Process, process::Launch, wait_for};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::api::{Api, DeleteParams, ListParams, LogParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::scene::{ACTOR_IMAGE, DEVICES, SOON, alone, cluster, node, product};

const DRIVER: &str = "gpu.cairn-e2e.example.com";

/// The slice of a node: two devices, of which one may be tainted.
fn slice(node: &str, generation: u32, tainted: Option<&str>) -> Value {
    let device = |name: String| {
        let taints = if tainted == Some(&name) {
            json!([{"key": "broken", "effect": "NoExecute"}])
        } else {
            json!([])
        };
        json!({"name": name, "attributes": {"uuid": {"string": format!("GPU-{name}")}}, "taints": taints})
    };
    let devices: Vec<Value> = (0..2).map(|index| device(format!("{node}-gpu-{index}"))).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-{DRIVER}")},
        "spec": {"driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1}}})
}

fn objects() -> Vec<Value> {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]}});
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "claimed"},
        "spec": {"kind": "claimed", "resource": {"dra": {"deviceClassName": DRIVER}}}});
    let slices = DEVICES.iter().map(|(node, _)| slice(node, 1, None));
    slices.chain([class, pool]).collect()
}

fn application(replicas: usize) -> Value {
    let container = json!({"name": "actor", "image": ACTOR_IMAGE, "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}});
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"}, "spec": {
        "actors": [{"name": "a", "replicas": replicas, "arrivals": "1/s",
            "implementations": [{"kind": "claimed", "serviceTime": "1ms", "template": template}]}]}})
}

/// The device and the pod's uid of each actor.
type Held = BTreeMap<String, (String, String)>;

/// The device of each actor, if decision, claim, container, agent and Instance agree on it.
async fn held(client: &Client, namespace: &str) -> Result<Held> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let decided = Api::<Placement>::namespaced(client.clone(), namespace).get("app").await?.spec.assignments;
    let claims =
        Api::<ResourceClaim>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?;
    ensure!(claims.items.len() == decided.len(), "{} claims of {} actors", claims.items.len(), decided.len());
    let mut found = BTreeMap::new();
    for place in decided {
        let pod = pods.get(&format!("app-{}", place.actor)).await?;
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(phase == Some("Running") && pod.metadata.deletion_timestamp.is_none(), "{name} is {phase:?}");
        ensure!(pod.annotations().get(labels::UNIT) == Some(&place.unit), "{name} is of another unit");
        let said = pods.logs(&name, &LogParams::default()).await?;
        let device =
            said.lines().find_map(|line| line.strip_prefix("DEVICES=")).context("it prints no device")?;
        ensure!(place.unit == format!("{}/claimed-{device}", place.node), "{} holds {device}", place.unit);
        let status = Api::<Instance>::namespaced(client.clone(), namespace).get(&name).await?.status;
        let devices = status.unwrap_or_default().devices;
        let is_reported = |it: &crds::AllocatedDevices| {
            it.resource == DRIVER && it.device_ids.iter().any(|id| id.ends_with(device))
        };
        ensure!(devices.iter().any(is_reported), "the Instance lists {devices:?}");
        let topology = Api::<NodeTopology>::all(client.clone()).get(&place.node).await?;
        let allocations = topology.status.unwrap_or_default().allocations;
        let of_pod = allocations.iter().find(|it| it.pod_uid == uid && it.resource == DRIVER);
        ensure!(of_pod.is_some_and(|it| it.claim.is_some()), "the agent lists {allocations:?}");
        found.insert(place.actor, (device.to_owned(), uid));
    }
    Ok(found)
}

/// The driver of a node, and the device that it fails to prepare.
fn driver(name: &str, refused: Option<&str>) -> Process {
    let (cluster, node) = (Cluster::shared_with(DEVICES.len()), node(name));
    let mut arguments = vec![
        format!("--driver={DRIVER}"),
        format!("--node={name}"),
        format!("--kubelet={}", node.kubelet().display()),
        format!("--cdi={}", node.state.join("cdi").display()),
        format!("--kubeconfig={}", cluster.plane().kubeconfig.display()),
    ];
    arguments.extend(refused.map(|device| format!("--refuse={device}")));
    let launch = Launch { arguments, ..Launch::default() };
    cluster.run("dra-driver", &cluster.plane().bin.join("dra-driver"), launch).unwrap()
}

#[tokio::test]
async fn pods_hold_the_decided_devices_and_leave_tainted_ones() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    let client = cluster.client().await.unwrap();
    // They end with this test.
    let _drivers = DEVICES.map(|(name, _)| driver(name, None));
    let namespace = cluster.namespace("dra").await.unwrap();
    for object in objects() {
        cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    }
    namespace.apply(&application(3).to_string()).await.unwrap();
    let wait_held = async |what: &str, is_it: &dyn Fn(&Held) -> bool| {
        wait_for(what, SOON, async || {
            let found = held(&client, namespace.name()).await?;
            ensure!(found.len() == 3 && is_it(&found), "{found:?}");
            anyhow::Ok(found)
        })
        .await
    };
    let before = wait_held("three actors hold their devices", &|_| true).await;
    let (actor, (device, _)) = before.first_key_value().unwrap();
    let (of_node, _) = DEVICES.iter().find(|(name, _)| device.starts_with(name)).unwrap();
    let tainted = slice(of_node, 2, Some(device));
    cluster.kubectl_with(["apply", "-f-"], &tainted.to_string()).await.unwrap();
    let after = wait_held("the actor holds another device", &|found| found[actor].0 != *device).await;
    for (other, there) in before.iter().filter(|(other, _)| *other != actor) {
        assert_eq!(&after[other], there, "{other} keeps its pod and its device");
    }

    remove(cluster, &namespace, client).await;
}

/// A driver that fails to prepare a device: the Instance says where the cause is, and the kubelet tries again.
#[tokio::test]
async fn a_device_that_its_driver_cannot_prepare_is_reported() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    let client = cluster.client().await.unwrap();
    let [(of_node, _), (other, _)] = DEVICES;
    let broken = format!("{of_node}-gpu-0");
    let _other = driver(other, None);
    let mut refusing = driver(of_node, Some(&broken));
    let namespace = cluster.namespace("dra-refused").await.unwrap();
    for object in objects() {
        cluster.kubectl_with(["apply", "-f-"], &object.to_string()).await.unwrap();
    }
    // all devices are used
    let all = 2 * DEVICES.len();
    namespace.apply(&application(all).to_string()).await.unwrap();
    let instances = Api::<Instance>::namespaced(client.clone(), namespace.name());
    wait_for("the Instance points to the event", SOON, async || {
        let found = instances.list(&ListParams::default()).await?.items;
        let statuses: Vec<_> = found.into_iter().filter_map(|instance| instance.status).collect();
        let here = |it: &&crds::InstanceStatus| it.unit.as_ref().is_some_and(|unit| unit.ends_with(&broken));
        let status = statuses.iter().find(here).context("no pod has the device")?;
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready").context("no condition")?;
        ensure!(ready.message.contains("FailedPrepareDynamicResources"), "{ready:?}");
        anyhow::Ok(())
    })
    .await;
    refusing.stop().await.unwrap();
    let _mended = driver(of_node, None);
    wait_for("all actors hold their devices", SOON, async || {
        let found = held(&client, namespace.name()).await?;
        ensure!(found.len() == all, "{found:?}");
        anyhow::Ok(())
    })
    .await;
    remove(cluster, &namespace, client).await;
}

/// Deletes the application, whose claims go with it, and the other objects.
async fn remove(cluster: &Cluster, namespace: &Namespace<'_>, client: Client) {
    namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    let claims = Api::<ResourceClaim>::namespaced(client.clone(), namespace.name());
    wait_for("the claims go with their actors", SOON, async || {
        let left = claims.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} claims");
        anyhow::Ok(())
    })
    .await;
    cluster.kubectl(["delete", "devicepool", "claimed"]).await.unwrap();
    let slices = Api::<ResourceSlice>::all(client.clone());
    for (name, _) in DEVICES {
        slices.delete(&format!("{name}-{DRIVER}"), &DeleteParams::default()).await.unwrap();
    }
    Api::<DeviceClass>::all(client).delete(DRIVER, &DeleteParams::default()).await.unwrap();
}
