//! Devices from the plugin to the pod: the kubelet allocates what Cairn assigns.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use crds::{Instance, NodeTopology, Placement, labels};
use e2e::{kubelet_api, wait_for};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use serde_json::json;

use crate::scene::{ACTOR_IMAGE, DEVICES, RESOURCE, SOON, alone, cluster, devices, node, product};

#[tokio::test]
async fn actors_get_devices_of_their_assigned_node() {
    let _alone = alone().await;
    let cluster = cluster().await;
    product().await;
    let client = cluster.client().await.unwrap();
    let nodes = Api::<Node>::all(client.clone());
    for (name, count) in DEVICES {
        wait_for("the node offers its devices", SOON, async || {
            let status = nodes.get(name).await?.status.unwrap_or_default();
            let offered = status.allocatable.unwrap_or_default().get(RESOURCE).map(|its| its.0.clone());
            ensure!(offered.as_deref() == Some(count.to_string().as_str()), "{name} has {offered:?}");
            anyhow::Ok(())
        })
        .await;
    }

    let namespace = cluster.namespace("devices").await.unwrap();
    let pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "gpus"},
        "spec": {"kind": "gpu", "resource": {"devicePlugin": RESOURCE}}});
    cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
    let all: usize = DEVICES.iter().map(|(_, count)| count).sum();
    let container = json!({"name": "actor", "image": ACTOR_IMAGE, "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let template = json!({"spec": {"terminationGracePeriodSeconds": 5, "containers": [container]}});
    // one actor per device, each with too much load to share one
    let application = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
        "metadata": {"name": "app"}, "spec": {"actors": [{"name": "a", "replicas": all, "arrivals": "1/s",
            "implementations": [{"kind": "gpu", "serviceTime": "1ms", "template": template}]}]}});
    namespace.apply(&application.to_string()).await.unwrap();

    let pods = Api::<Pod>::namespaced(client.clone(), namespace.name());
    let placements = Api::<Placement>::namespaced(client.clone(), namespace.name());
    let instances = Api::<Instance>::namespaced(client.clone(), namespace.name());
    let topologies = Api::<NodeTopology>::all(client);
    let (placement, running) = wait_for("every actor runs", SOON, async || {
        let placement = placements.get("app").await?;
        let found = pods.list(&ListParams::default().labels(labels::ACTOR)).await?.items;
        let phases: Vec<_> = found.iter().map(|pod| pod.status.clone().unwrap_or_default().phase).collect();
        let run = phases.iter().filter(|phase| phase.as_deref() == Some("Running")).count();
        ensure!(run == all, "{:?}, {phases:?}", placement.spec.assignments);
        anyhow::Ok((placement, found))
    })
    .await;

    let mut given = BTreeSet::new();
    for pod in &running {
        let actor = &pod.labels()[labels::ACTOR];
        let decided = placement.spec.assignments.iter().find(|its| its.actor == *actor).unwrap();
        assert_eq!(pod.spec.as_ref().unwrap().node_name.as_ref(), Some(&decided.node), "{actor}");

        let resources = kubelet_api::pod_resources(&node(&decided.node).pod_resources()).await.unwrap();
        let is_it = |its: &&kubelet_api::PodResources| {
            its.name == pod.name_any() && Some(&its.namespace) == pod.namespace().as_ref()
        };
        let its = resources.iter().find(is_it).unwrap_or_else(|| panic!("{actor} is not in {resources:?}"));
        let [container] = its.containers.as_slice() else { panic!("{its:?}") };
        let [of_resource] = container.devices.as_slice() else { panic!("{its:?}") };
        assert_eq!((container.name.as_str(), of_resource.resource_name.as_str()), ("actor", RESOURCE));
        let [device] = of_resource.device_ids.as_slice() else { panic!("{its:?}") };
        assert!(devices(&decided.node).contains(device), "{device} is not on {}", decided.node);
        assert!(given.insert(device.clone()), "{device} was given twice");

        // the container reports it, too
        let said = wait_for("the actor prints its devices", SOON, async || {
            let said = pods.logs(&pod.name_any(), &LogParams::default()).await?;
            ensure!(!said.is_empty(), "nothing");
            anyhow::Ok(said)
        })
        .await;
        assert!(said.contains(&format!("DEVICES={device}\n")), "{said}");

        // and so do the node's topology, from its agent, and the actor's Instance, from the operator
        wait_for("the agent reports the allocation", SOON, async || {
            let held = topologies.get(&decided.node).await?.status.unwrap_or_default().allocations;
            let its = held.iter().find(|its| Some(&its.pod_uid) == pod.metadata.uid.as_ref());
            let its = its.with_context(|| format!("{actor} is not in {held:?}"))?;
            ensure!((&its.pod, its.container.as_str()) == (&pod.name_any(), "actor"), "{its:?}");
            ensure!(its.resource == RESOURCE && its.device_ids == [device.clone()], "{its:?}");
            anyhow::Ok(())
        })
        .await;
        wait_for("the operator reports the allocation", SOON, async || {
            let devices = instances.get(&pod.name_any()).await?.status.unwrap_or_default().devices;
            let [of_resource] = devices.as_slice() else { bail!("{devices:?}") };
            ensure!(of_resource.resource == RESOURCE, "{of_resource:?}");
            ensure!(of_resource.device_ids == [device.clone()], "{of_resource:?}");
            anyhow::Ok(())
        })
        .await;
    }
    assert_eq!(given.len(), all);

    // all devices are released
    namespace.kubectl(["delete", "actorapp", "app"]).await.unwrap();
    for (name, _) in DEVICES {
        wait_for("the devices are free again", SOON, async || {
            let held = topologies.get(name).await?.status.unwrap_or_default().allocations;
            ensure!(held.is_empty(), "{held:?}");
            anyhow::Ok(())
        })
        .await;
    }
}
