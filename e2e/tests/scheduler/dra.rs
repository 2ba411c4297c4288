//! Devices of `ResourceSlice`s: kube-scheduler allocates exactly the device that the plan chose.
//!
//! `CAIRN_DEVICE_WORLDS` is the number of random worlds and `CAIRN_DEVICE_WORLDS_FROM` the first seed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use crds::{DevicePool, Instance, NodeTopology, Placement, labels};
use e2e::{bench::size, wait_for};
use fastrand::Rng;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::TIMEOUT;
use crate::installed::{Env, read};
use crate::world::World;

/// The number of random worlds in `make test`.
const WORLDS: u64 = 6;

/// A device of a slice.
#[derive(Clone, Debug)]
struct Device {
    name: String,
    numa: usize,
    taint: Option<&'static str>,
    /// What it consumes of its GPU, for partitions.
    slices: Option<u32>,
}

impl Device {
    fn new(name: impl Into<String>, numa: usize) -> Self {
        Self { name: name.into(), numa, taint: None, slices: None }
    }
}

/// The slices of a node; with partitions, one more for the counters that they share.
fn slices(world: &str, node: &str, generation: u32, devices: &[Device]) -> Vec<Value> {
    let has_counters = devices.iter().any(|device| device.slices.is_some());
    let described = |(index, device): (usize, &Device)| {
        let uuid = format!("GPU-{node}-{}", device.name);
        let mut given = json!({"name": device.name, "capacity": {"memory": {"value": "80Gi"}}, "attributes": {
            "uuid": {"string": uuid}, "numaNode": {"int": device.numa},
            "resource.kubernetes.io/pciBusID": {"string": format!("0000:{:02x}:00.0", index + 1)}}});
        if let Some(effect) = device.taint {
            given["taints"] = json!([{"key": "example.com/broken", "effect": effect}]);
        }
        if let Some(slices) = device.slices {
            given["consumesCounters"] =
                json!([{"counterSet": "gpu", "counters": {"slices": {"value": slices.to_string()}}}]);
        }
        given
    };
    let described: Vec<Value> = devices.iter().enumerate().map(described).collect();
    let slice = |name: String, more: (&str, Value)| {
        let count = if has_counters { 2 } else { 1 };
        let mut slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {
            "driver": format!("{world}.example.com"), "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count}}});
        slice["spec"][more.0] = more.1;
        slice
    };
    let counters = json!([{"name": "gpu", "counters": {"slices": {"value": "7"}}}]);
    let shared = has_counters.then(|| slice(format!("{node}-counters"), ("sharedCounters", counters)));
    [slice(node.to_owned(), ("devices", json!(described)))].into_iter().chain(shared).collect()
}

/// A world with these devices by node, and its other objects.
fn world(name: &str, devices: &[(String, Vec<Device>)], replicas: usize) -> (World, Vec<Value>) {
    let node = |name: &String| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "50"}}})
    };
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {
        "selectors": [{"cel": {"expression": format!("device.driver == '{name}.example.com'")}}]}});
    let template = json!({"spec": {"containers": [{"name": "actor", "image": "none"}]}});
    let group = json!({"name": "worker", "replicas": replicas,
        "implementations": [{"kind": name, "serviceTime": "1ms", "template": template}]});
    let application = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
        "spec": {"actors": [group]}});
    let nodes = devices.iter().map(|(name, _)| node(name));
    let slices = devices.iter().flat_map(|(node, devices)| slices(name, node, 1, devices));
    let all: Vec<String> =
        nodes.chain([class, application]).chain(slices).map(|object| object.to_string()).collect();
    let (mut world, others) = read(name, &all.join("\n---\n"));
    world.pool = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name},
        "spec": {"kind": name, "resource": {"dra": {"deviceClassName": name}}}});
    (world, others)
}

/// A claim of others for a device, and the pod that uses it.
fn foreign(world: &str, node: &str, device: &str) -> [Value; 2] {
    let name = format!("foreign-{device}");
    let expression = format!("device.attributes['{world}.example.com'].uuid == 'GPU-{node}-{device}'");
    let exactly = json!({"deviceClassName": world, "selectors": [{"cel": {"expression": expression}}]});
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "d", "exactly": exactly}]}}});
    let container = json!({"name": "c", "image": "none", "resources": {"claims": [{"name": "d"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container],
        "resourceClaims": [{"name": "d", "resourceClaimName": name}]}});
    [claim, pod]
}

async fn hold(env: &Env<'_>, world: &str, node: &str, device: &str) {
    for object in foreign(world, node, device) {
        env.apply(&object).await;
    }
    let claims: Api<ResourceClaim> = env.api();
    wait_for(&format!("a foreign claim holds {device}"), TIMEOUT, async || {
        let claim = claims.get(&format!("foreign-{device}")).await?;
        ensure!(allocated(&claim) == Some(device.to_owned()), "{:?}", claim.status);
        anyhow::Ok(())
    })
    .await;
}

fn allocated(claim: &ResourceClaim) -> Option<String> {
    let allocation = claim.status.as_ref()?.allocation.as_ref()?;
    Some(allocation.devices.as_ref()?.results.as_ref()?.first()?.device.clone())
}

/// The unit of each actor, once each running pod has the device of its unit and no other claim of actors is left.
async fn devices_of_actors(env: &Env<'_>) -> Result<BTreeMap<String, String>> {
    let of_it = ListParams::default().labels(&format!("{}=app", labels::APPLICATION));
    let decision = env.api::<Placement>().get("app").await?.spec;
    let pods = env.api::<Pod>().list(&of_it).await?.items;
    let claims: BTreeMap<String, ResourceClaim> = env
        .api::<ResourceClaim>()
        .list(&of_it)
        .await?
        .items
        .into_iter()
        .map(|it| (it.name_any(), it))
        .collect();
    let mut found = BTreeMap::new();
    for place in &decision.assignments {
        let pod = pods.iter().find(|pod| pod.name_any() == format!("app-{}", place.actor));
        let pod = pod.with_context(|| format!("{} has no pod", place.actor))?;
        let unit = pod.annotations().get(labels::UNIT);
        ensure!(
            unit == Some(&place.unit),
            "{} is decided for {} and its pod is for {unit:?}",
            place.actor,
            place.unit
        );
        let used = pod.spec.as_ref().and_then(|spec| spec.resource_claims.clone()).unwrap_or_default();
        let name =
            used.into_iter().find_map(|used| used.resource_claim_name).context("the pod uses no claim")?;
        let device =
            claims.get(&name).and_then(allocated).with_context(|| format!("{name} is not allocated"))?;
        ensure!(
            place.unit.ends_with(&format!("-{device}")),
            "{} of {} got {device}",
            place.actor,
            place.unit
        );
        let instance = env.api::<Instance>().get(&pod.name_any()).await?.status.unwrap_or_default();
        let reported = instance.devices.iter().flat_map(|it| &it.device_ids).any(|id| id.ends_with(&device));
        ensure!(reported, "the status of {} lists {:?}", place.actor, instance.devices);
        found.insert(place.actor.clone(), place.unit.clone());
    }
    ensure!(claims.len() == found.len(), "claims: {:?}, placed: {}", claims.keys(), found.len());
    Ok(found)
}

async fn wait_devices(
    env: &Env<'_>,
    what: &str,
    is_it: impl Fn(&BTreeMap<String, String>) -> bool,
) -> BTreeMap<String, String> {
    wait_for(what, TIMEOUT, async || {
        let found = devices_of_actors(env).await?;
        ensure!(is_it(&found), "{found:?}");
        anyhow::Ok(found)
    })
    .await
}

/// Deletes the cluster-scoped objects of a world.
async fn clean_up(client: &Client, world: &str) {
    let (slices, classes) =
        (Api::<ResourceSlice>::all(client.clone()), Api::<DeviceClass>::all(client.clone()));
    for slice in slices.list(&ListParams::default()).await.unwrap().items {
        if slice.spec.driver == format!("{world}.example.com") {
            slices.delete(&slice.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    classes.delete(world, &DeleteParams::default()).await.unwrap();
}

/// The topology of a node with these GPUs, of which each two neighbours are linked, and an application whose actors talk in pairs.
fn linked_pairs(world: &str, node: &str, devices: &[Device]) -> [Value; 2] {
    let address = |index: usize| format!("0000:{:02x}:00.0", index + 1);
    let id = |index: usize| format!("gpu-{}", address(index));
    let gpu = |(index, device): (usize, &Device)| json!({"id": id(index), "type": "GPU", "pciBusId": address(index), "numaNode": device.numa});
    let links = (0..devices.len() / 2)
        .map(|pair| json!({"source": id(2 * pair), "destination": id(2 * pair + 1), "kind": "NVLink"}));
    let gpus: Vec<Value> = devices.iter().enumerate().map(gpu).collect();
    let links: Vec<Value> = links.collect();
    let topology = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": node},
        "spec": {"devices": gpus, "links": links}});
    let template = json!({"spec": {"containers": [{"name": "actor", "image": "none"}]}});
    let group = |name: &str| {
        json!({"name": name, "replicas": 2,
            "implementations": [{"kind": world, "serviceTime": "1ms", "template": template}]})
    };
    let channel = json!({"from": "left", "to": "right", "rate": "100/s", "pattern": "OneToOne"});
    let application = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": "app"},
        "spec": {"actors": [group("left"), group("right")], "channels": [channel]}});
    [topology, application]
}

/// The number of a GPU in the name of its unit.
fn number(unit: &str) -> usize {
    unit.rsplit_once('-').unwrap().1.parse().unwrap()
}

/// Eight GPUs in four linked pairs on two sockets; claims of others, taints and a device that vanishes.
#[tokio::test]
async fn actors_get_the_decided_devices_and_leave_tainted_ones() {
    let name = "dra-pairs";
    let node = format!("{name}-n1");
    let mut devices: Vec<Device> = (0..8).map(|gpu| Device::new(format!("gpu-{gpu}"), gpu / 4)).collect();
    devices[7].taint = Some("NoSchedule");
    let (world, others) = world(name, &[(node.clone(), devices.clone())], 4);
    let env = Env::new(&world, &others).await;
    hold(&env, name, &node, "gpu-0").await;
    let [topology, application] = linked_pairs(name, &node, &devices);
    env.apply(&topology).await;
    env.apply(&application).await;
    let before =
        wait_devices(&env, "four actors run on devices of their own", |found| found.len() == 4).await;
    let used: BTreeSet<&String> = before.values().collect();
    assert_eq!(used.len(), 4, "{before:?}");
    for barred in ["gpu-0", "gpu-7"] {
        assert!(used.iter().all(|unit| !unit.ends_with(barred)), "{barred}: {before:?}");
    }
    for index in 0..2 {
        let [left, right] = ["left", "right"].map(|group| number(&before[&format!("{group}-{index}")]));
        assert_eq!(left / 2, right / 2, "talking actors are on linked GPUs: {before:?}");
    }
    let pool = Api::<DevicePool>::all(env.client.clone());
    wait_for("the pool counts its units", TIMEOUT, async || {
        let status = pool.get(name).await?.status.unwrap_or_default();
        ensure!((status.units, status.healthy, status.allocated) == (8, 6, 4), "{status:?}");
        anyhow::Ok(())
    })
    .await;

    // A taint that does not evict leaves the actor there; one that evicts moves it.
    let first = before.values().next().unwrap().clone();
    let position = devices.iter().position(|it| first.ends_with(&format!("-{}", it.name))).unwrap();
    let update = async |generation: u32, devices: &[Device]| {
        for slice in slices(name, &node, generation, devices) {
            env.apply(&slice).await;
        }
    };
    devices[position].taint = Some("NoSchedule");
    update(2, &devices).await;
    let drained = |found: &BTreeMap<String, String>| !found.values().any(|unit| *unit == first);
    wait_for("the pool counts the taint", TIMEOUT, async || {
        let status = pool.get(name).await?.status.unwrap_or_default();
        ensure!(status.healthy == 5, "{status:?}");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(devices_of_actors(&env).await.unwrap(), before, "running actors stay");
    devices[position].taint = Some("NoExecute");
    update(3, &devices).await;
    let moved =
        wait_devices(&env, "the actor leaves the tainted device", |found| found.len() == 4 && drained(found))
            .await;
    let others_stay =
        before.iter().filter(|(_, unit)| **unit != first).all(|(actor, unit)| moved[actor] == *unit);
    assert!(others_stay, "{before:?} {moved:?}");

    // A device that vanishes, after the grace period.
    let second = moved.values().next_back().unwrap().clone();
    let left: Vec<Device> =
        devices.iter().filter(|it| !second.ends_with(&format!("-{}", it.name))).cloned().collect();
    update(4, &left).await;
    wait_devices(&env, "the actor leaves the device that vanished", |found| {
        found.len() == 4 && !found.values().any(|unit| *unit == second)
    })
    .await;
    let client = env.client.clone();
    env.end().await;
    clean_up(&client, name).await;
    Api::<NodeTopology>::all(client).delete(&node, &DeleteParams::default()).await.unwrap();
}

/// A GPU that is offered whole, as halves and as sevenths: overlapping partitions are never both allocated.
#[tokio::test]
async fn overlapping_partitions_are_never_both_chosen() {
    let name = "dra-parts";
    let node = format!("{name}-n1");
    let part = |name: &str, slices: u32| Device { slices: Some(slices), ..Device::new(name, 0) };
    let devices = [part("whole", 7), part("half-a", 3), part("half-b", 3), part("seventh", 1)];
    let (world, others) = world(name, &[(node, devices.to_vec())], 4);
    let env = Env::new(&world, &others).await;
    env.apply(&world.application).await;
    let found = wait_devices(&env, "three partitions are used", |found| found.len() == 3).await;
    assert!(found.values().all(|unit| !unit.ends_with("whole")), "{found:?}");
    env.wait_placed("app", 3, 1).await;
    env.assert_undisturbed().await;
    let client = env.client.clone();
    env.end().await;
    clean_up(&client, name).await;
}

/// kube-scheduler does not allocate from a pool whose newest generation is incomplete, and plans use it once it is complete.
#[tokio::test]
async fn pools_whose_newest_generation_is_incomplete_get_no_actors() {
    let name = "dra-half";
    let nodes = [1, 2].map(|index| (format!("{name}-n{index}"), vec![Device::new(format!("d{index}"), 0)]));
    let (world, others) = world(name, &nodes, 2);
    let env = Env::new(&world, &others).await;
    let node = &nodes[0].0;
    let half = |device: &str| {
        let mut half = slices(name, node, 2, &[Device::new(device, 0)]).remove(0);
        half["spec"]["pool"]["resourceSliceCount"] = json!(2);
        half
    };
    let mut first = half("d3");
    first["metadata"]["name"] = json!(format!("{node}-half"));
    env.apply(&first).await;
    env.apply(&world.application).await;
    let found = wait_devices(&env, "one actor runs", |found| found.len() == 1).await;
    assert!(found.values().all(|unit| unit.ends_with("-d2")), "{found:?}");
    env.apply(&half("d4")).await;
    wait_devices(&env, "the other actor runs", |found| found.len() == 2).await;
    let client = env.client.clone();
    env.end().await;
    clean_up(&client, name).await;
}

/// Devices, taints and claims of others at random: every claim is bound to the decided device, and actors are unplaced only if no
/// device is left.
#[tokio::test]
async fn claims_of_random_worlds_are_bound_to_the_decided_devices() {
    let worlds = size("CAIRN_DEVICE_WORLDS", WORLDS).unwrap();
    let first = size("CAIRN_DEVICE_WORLDS_FROM", 1).unwrap();
    let mut totals = (0, 0);
    for seed in first..first + worlds {
        let (placed, unplaced) = random_world(seed).await;
        totals = (totals.0 + placed, totals.1 + unplaced);
    }
    // With --nocapture, a row of docs/results/scheduler.md.
    println!("\n| devices of claims | {worlds} | {} | {} | 0 |", totals.0, totals.1);
}

async fn random_world(seed: u64) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let name = format!("dra-{seed}");
    let mut nodes = Vec::new();
    let mut usable = 0;
    let mut held = Vec::new();
    for index in 0..rng.usize(1..=3) {
        let node = format!("{name}-n{index}");
        let mut devices = Vec::new();
        for gpu in 0..rng.usize(1..=6) {
            let taint =
                [None, None, None, Some("NoSchedule"), Some("NoExecute"), Some("None")][rng.usize(..6)];
            let device = Device { taint, ..Device::new(format!("d{index}-{gpu}"), rng.usize(..2)) };
            if matches!(taint, None | Some("None")) {
                if rng.u8(..4) == 0 {
                    held.push((node.clone(), device.name.clone()));
                } else {
                    usable += 1;
                }
            }
            devices.push(device);
        }
        nodes.push((node, devices));
    }
    let wanted = rng.usize(1..=8);
    let (world, others) = world(&name, &nodes, wanted);
    let env = Env::new(&world, &others).await;
    for (node, device) in &held {
        hold(&env, &name, node, device).await;
    }
    env.apply(&world.application).await;
    let (placed, unplaced) = (wanted.min(usable), wanted.saturating_sub(usable));
    env.wait_placed("app", placed, unplaced).await;
    let found = wait_devices(&env, &format!("world {seed}: {placed} claims are bound"), |found| {
        found.len() == placed
    })
    .await;
    let distinct: BTreeSet<&String> = found.values().collect();
    assert_eq!(distinct.len(), placed, "world {seed}: {found:?}");
    env.assert_undisturbed().await;
    let client = env.client.clone();
    env.end().await;
    clean_up(&client, &name).await;
    (placed, unplaced)
}
