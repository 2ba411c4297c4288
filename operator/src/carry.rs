//! What to do next so that the cluster becomes what was decided: pure, one step per actor at a time.
//!
//! A move stops the actor, waits until it is gone, and starts it at its new place. The state between the steps is the
//! cluster itself, so an operator that dies between any two of them goes on where it was.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, HeldDevices, Instance, InstancePhase, InstanceStatus, Placement};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use world::{ActorName, Exact, Objects, Unit, actors_of, is_over, quantity, requests};

use crate::pods::{object_name, unit_of};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the Instance of an actor.
    CreateInstance(ActorName),
    /// Remove an Instance, and with it its pod.
    DeleteInstance {
        /// Its name.
        name: String,
        /// Exactly this one.
        uid: Option<String>,
    },
    /// Start an actor on a unit.
    CreatePod {
        /// The actor.
        actor: ActorName,
        /// The unit.
        unit: String,
    },
    /// Stop a pod.
    DeletePod {
        /// Its name.
        name: String,
        /// Exactly this one.
        uid: Option<String>,
        /// At once: its node is gone and nobody will ever confirm.
        at_once: bool,
    },
}

/// What the scheduler or the kubelet did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Short name of the actor.
    pub actor: String,
    /// The node.
    pub node: String,
    /// What was said.
    pub reason: String,
}

/// Steps, refusals, and what is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Todo {
    /// What to do now.
    pub steps: Vec<Step>,
    /// What was refused, to be remembered before the pods go.
    pub refused: Vec<Refused>,
    /// Actors that wait for room, with what they wait for.
    pub waiting: BTreeMap<String, String>,
}

/// Reasons of a failed pod that mean that the node did not take it.
const REFUSED_BY_KUBELET: [&str; 6] = [
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "NodeAffinity",
];

/// Compares what was decided with what is there.
pub fn todo(
    application: &ActorApplication,
    decision: &Placement,
    objects: &Objects,
    units: &BTreeMap<String, Unit>,
) -> Todo {
    let mut todo = Todo::default();
    let wanted = actors_of(application);
    let namespace = application.namespace().unwrap_or_default();
    let names: BTreeSet<String> = wanted.iter().map(object_name).collect();
    remove_unwanted(&mut todo, &names, &namespace, &application.name_any(), objects);
    let instances = instances_of(&namespace, objects);
    let pods = pods_of(&namespace, objects);
    let nodes: BTreeSet<String> = objects.nodes.iter().map(|node| node.name_any()).collect();
    let places: BTreeMap<&str, &str> =
        decision.spec.assignments.iter().map(|a| (a.actor.as_str(), a.unit.as_str())).collect();
    let mut room = Room::new(application, objects, units);
    for actor in &wanted {
        let (name, short) = (object_name(actor), actor.short());
        let place = places.get(short.as_str()).copied();
        let instance = instances.get(&name);
        if let Some(owner) =
            instance.map(|i| &i.spec.application_name).filter(|owner| **owner != application.name_any())
        {
            todo.waiting.insert(
                short,
                format!("the name {name} is taken by an actor of {owner}; rename one of the groups"),
            );
            continue;
        }
        if instance.is_none() {
            todo.steps.push(Step::CreateInstance(actor.clone()));
        }
        if let Some(pod) = pods.get(&name) {
            look_at(&mut todo, pod, &short, place, &nodes);
            continue;
        }
        let Some(unit) = place.and_then(|id| units.get(id)) else { continue };
        // The pod is owned by the Instance, so it comes with the next look.
        if instance.is_none_or(|instance| instance.metadata.deletion_timestamp.is_some()) {
            continue;
        }
        if let Err(waits_for) = room.take(&actor.group, unit) {
            todo.waiting.insert(short, waits_for);
        } else {
            todo.steps.push(Step::CreatePod { actor: actor.clone(), unit: unit.id.clone() });
        }
    }
    todo
}

/// Instances of the application that nobody wants any more; their pods go with them.
fn remove_unwanted(
    todo: &mut Todo,
    names: &BTreeSet<String>,
    namespace: &str,
    application: &str,
    objects: &Objects,
) {
    let of_application = |instance: &&std::sync::Arc<Instance>| {
        instance.namespace().as_deref() == Some(namespace) && instance.spec.application_name == application
    };
    for instance in objects.instances.iter().filter(of_application) {
        let name = instance.name_any();
        if !names.contains(&name) && instance.metadata.deletion_timestamp.is_none() {
            todo.steps.push(Step::DeleteInstance { name, uid: instance.uid() });
        }
    }
}

/// A pod that is there: refused, misplaced, ended, left behind by its node, or just right.
fn look_at(todo: &mut Todo, pod: &Pod, short: &str, place: Option<&str>, nodes: &BTreeSet<String>) {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let node_is_gone = node.is_some_and(|node| !nodes.contains(node));
    let is_going = pod.metadata.deletion_timestamp.is_some();
    if is_going && !node_is_gone {
        return;
    }
    let refusal = refusal(pod);
    if let Some(reason) = &refusal
        && let Some((node, _)) = unit_of(pod).and_then(|unit| unit.rsplit_once('/'))
        && !node_is_gone
    {
        todo.refused.push(Refused { actor: short.to_owned(), node: node.to_owned(), reason: reason.clone() });
    }
    let misplaced = place.is_none() || unit_of(pod) != place;
    if node_is_gone || misplaced || refusal.is_some() || is_over(pod) {
        todo.steps.push(Step::DeletePod { name: pod.name_any(), uid: pod.uid(), at_once: node_is_gone });
    }
}

/// What the scheduler or the kubelet said against the pod.
fn refusal(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(condition) = unschedulable {
        return Some(condition.message.clone().unwrap_or_else(|| "unschedulable".to_owned()));
    }
    let reason = status.reason.as_deref()?;
    let by_kubelet = status.phase.as_deref() == Some("Failed") && REFUSED_BY_KUBELET.contains(&reason);
    by_kubelet
        .then(|| format!("{reason}: {}", status.message.as_deref().unwrap_or("the kubelet did not take it")))
}

/// Instances of a namespace by name.
pub fn instances_of<'a>(namespace: &str, objects: &'a Objects) -> BTreeMap<String, &'a Instance> {
    let here = |instance: &&std::sync::Arc<Instance>| instance.namespace().as_deref() == Some(namespace);
    objects.instances.iter().filter(here).map(|instance| (instance.name_any(), instance.as_ref())).collect()
}

/// Pods of a namespace by name.
pub fn pods_of<'a>(namespace: &str, objects: &'a Objects) -> BTreeMap<String, &'a Pod> {
    let here = |pod: &&std::sync::Arc<Pod>| pod.namespace().as_deref() == Some(namespace);
    objects.pods.iter().filter(here).map(|pod| (pod.name_any(), pod.as_ref())).collect()
}

type Amounts = BTreeMap<String, Exact>;

/// What is left right now, with whoever is leaving still counted: a successor starts only when there is room for it.
struct Room<'a> {
    units: &'a BTreeMap<String, Unit>,
    taken: BTreeMap<String, u64>,
    /// By pool with a limit: how many instances it may still get.
    pools: BTreeMap<String, i64>,
    /// By node and resource.
    left: BTreeMap<String, Amounts>,
    /// By group and kind: what a pod asks for.
    asked: BTreeMap<(&'a str, &'a str), Amounts>,
}

impl<'a> Room<'a> {
    fn new(application: &'a ActorApplication, objects: &Objects, units: &'a BTreeMap<String, Unit>) -> Self {
        let mut taken: BTreeMap<String, u64> = BTreeMap::new();
        let limit =
            |pool: &crds::DevicePool| Some((pool.name_any(), pool.spec.instances.as_ref()?.max.into()));
        let mut pools: BTreeMap<String, i64> = objects.pools.iter().filter_map(|pool| limit(pool)).collect();
        let mut left: BTreeMap<String, Amounts> =
            objects.nodes.iter().map(|node| (node.name_any(), allocatable(node))).collect();
        for pod in objects.pods.iter().filter(|pod| !is_over(pod)) {
            let Some(spec) = &pod.spec else { continue };
            let unit = unit_of(pod);
            if let Some(unit) = unit {
                *taken.entry(unit.to_owned()).or_default() += 1;
                if let Some(left) = units.get(unit).and_then(|unit| pools.get_mut(&unit.pool)) {
                    *left -= 1;
                }
            }
            // One that is not bound yet is pinned to the node of its unit.
            let node = spec.node_name.as_deref().or_else(|| unit?.rsplit_once('/').map(|(node, _)| node));
            if let Some(left) = node.and_then(|node| left.get_mut(node)) {
                subtract(left, &whole_pod(requests(spec).unwrap_or_default()));
            }
        }
        let of_kind = |group: &'a crds::ActorGroup, implementation: &'a crds::Implementation| {
            let asked = implementation
                .template
                .spec
                .as_ref()
                .and_then(|spec| requests(spec).ok())
                .unwrap_or_default();
            ((group.name.as_str(), implementation.kind.as_str()), whole_pod(asked))
        };
        let groups = application.spec.actors.iter();
        let asked =
            groups.flat_map(|group| group.implementations.iter().map(move |i| of_kind(group, i))).collect();
        Self { units, taken, pools, left, asked }
    }

    /// Takes room for an actor of the group, or says what is waited for.
    fn take(&mut self, group: &str, unit: &Unit) -> Result<(), String> {
        if self.pools.get(&unit.pool).is_some_and(|left| *left <= 0) {
            return Err(format!("pool {} has as many instances as its spec.instances.max allows", unit.pool));
        }
        let slots = self.units.get(&unit.id).and_then(|unit| unit.slots);
        let taken = self.taken.entry(unit.id.clone()).or_default();
        if slots.is_some_and(|slots| *taken >= slots) {
            return Err(format!("{} is still in use", unit.id));
        }
        let mut asked = self.asked.get(&(group, unit.kind.as_str())).cloned().unwrap_or_default();
        if let Some(resource) = &unit.resource {
            asked.insert(resource.clone(), Exact::from(1));
        }
        if let Some(left) = self.left.get_mut(&unit.node) {
            let none = Exact::from(0);
            let short =
                asked.iter().find(|(resource, amount)| **amount > *left.get(*resource).unwrap_or(&none));
            if let Some((resource, _)) = short {
                return Err(format!("{resource} of {} is still in use", unit.node));
            }
            subtract(left, &asked);
        }
        if let Some(left) = self.pools.get_mut(&unit.pool) {
            *left -= 1;
        }
        *taken += 1;
        Ok(())
    }
}

fn allocatable(node: &Node) -> Amounts {
    let amounts = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    amounts
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), quantity(&amount.0).ok()?)))
        .collect()
}

/// With the pod itself, of which a node takes so many.
fn whole_pod(mut asked: Amounts) -> Amounts {
    asked.insert("pods".to_owned(), Exact::from(1));
    asked.retain(|_, amount| *amount > Exact::from(0));
    asked
}

fn subtract(left: &mut Amounts, taken: &Amounts) {
    for (resource, amount) in taken {
        *left.entry(resource.clone()).or_default() -= amount;
    }
}

/// What an Instance's status says of its actor.
pub fn instance_status(
    instance: &Instance,
    pod: Option<&Pod>,
    devices: Vec<HeldDevices>,
    root: bool,
) -> InstanceStatus {
    let before = instance.status.clone().unwrap_or_default();
    let phase = match pod {
        None => InstancePhase::Pending,
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => InstancePhase::Stopping,
        Some(pod) => match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => InstancePhase::Running,
            Some("Succeeded") => InstancePhase::Succeeded,
            Some("Failed") => InstancePhase::Failed,
            _ => InstancePhase::Starting,
        },
    };
    let unit = pod.and_then(unit_of).map(str::to_owned);
    InstanceStatus {
        observed_generation: instance.metadata.generation,
        phase: Some(phase),
        node: unit.as_ref().and_then(|unit| unit.rsplit_once('/')).map(|(node, _)| node.to_owned()),
        unit,
        pod: pod.map(ResourceExt::name_any),
        devices,
        endpoint: pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.pod_ip.clone()),
        root,
        conditions: before.conditions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn application(replicas: i32) -> ActorApplication {
        let template =
            json!({"spec": {"containers": [{"name": "actor", "resources": {"requests": {"cpu": "1"}}}]}});
        serde_json::from_value(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication",
            "metadata": {"name": "app", "namespace": "ns", "uid": "a"},
            "spec": {"actors": [{"name": "cam", "replicas": replicas, "implementations": [
                {"kind": "gpu", "serviceTime": "1ms", "template": template}]}]}}))
        .unwrap()
    }

    /// One line of world: `nodes=N…`, `max=N` of the pool, `decided=I:UNIT…`, `instances=I…`, `pods=I:UNIT:STATE…`.
    fn check(replicas: i32, world: &str) -> String {
        let mut objects = Objects::default();
        let mut assignments = Vec::new();
        for (what, items) in world.split_whitespace().filter_map(|part| part.split_once('=')) {
            for item in items.split(',') {
                let fields: Vec<&str> = item.split(':').collect();
                let name = format!("app-cam-{}", fields[0]);
                match what {
                    "nodes" => objects.nodes.push(object(json!({"metadata": {"name": item},
                        "status": {"allocatable": {"cpu": "2", "pods": "9", "nvidia.com/gpu": "2"}}}))),
                    "decided" => assignments.push(json!({"actor": format!("cam-{}", fields[0]), "unit": fields[1],
                        "node": fields[1].split('/').next(), "pool": "gpus"})),
                    "instances" => objects.instances.push(object(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance",
                        "metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"applicationName": "app",
                        "actorGroup": "cam", "actor": format!("cam-{}", fields[0]), "template": {}}}))),
                    "max" => objects.pools.push(object(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool",
                        "metadata": {"name": "gpus"}, "spec": {"kind": "gpu",
                        "instances": {"max": item.parse::<i32>().unwrap()}}}))),
                    "pods" => objects.pods.push(pod(&name, fields[1], fields[2])),
                    other => panic!("{other}"),
                }
            }
        }
        let decision: Placement = serde_json::from_value(json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "Placement",
            "metadata": {"name": "app", "namespace": "ns"}, "spec": {"application": "app", "applicationGeneration": 1, "policy": "p",
            "snapshotDigest": "d", "strategy": "s", "seed": 1, "effort": 1, "assignments": assignments}}))
        .unwrap();
        let units = ["n0/gpus-0", "n0/gpus-1", "n1/gpus-0"].map(|id| {
            let node = id.split('/').next().unwrap().to_owned();
            let unit = Unit {
                id: id.into(),
                kind: "gpu".into(),
                node,
                zone: None,
                numa: None,
                pool: "gpus".into(),
                capacity: 1,
                capacity_per_actor: 1,
                slots: Some(1),
                resource: Some("nvidia.com/gpu".into()),
            };
            (id.to_owned(), unit)
        });
        shown(&todo(&application(replicas), &decision, &objects, &units.into()))
    }

    fn pod(name: &str, unit: &str, state: &str) -> Arc<Pod> {
        let mut pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("{name}-pod"),
            "labels": {"cairn.dev/instance": name, "cairn.dev/application": "app"}, "annotations": {"cairn.dev/unit": unit},
            "ownerReferences": [{"apiVersion": "cairn.dev/v1alpha1", "kind": "Instance", "name": name, "uid": name}]},
            "spec": {"nodeName": unit.split('/').next(), "containers": [{"name": "actor", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running"}});
        match state {
            "going" => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "unschedulable" => {
                pod["status"] = json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]});
            }
            "failed" => pod["status"] = json!({"phase": "Failed"}),
            _ => {}
        }
        object(pod)
    }

    fn shown(todo: &Todo) -> String {
        let step = |step: &Step| match step {
            Step::CreateInstance(actor) => format!("make {}", actor.short()),
            Step::DeleteInstance { name, .. } => format!("remove {name}"),
            Step::CreatePod { actor, unit } => format!("start {} on {unit}", actor.short()),
            Step::DeletePod { name, at_once, .. } => {
                format!("stop {name}{}", if *at_once { " at once" } else { "" })
            }
        };
        let mut lines: Vec<String> = todo.steps.iter().map(step).collect();
        lines.extend(todo.refused.iter().map(|r| format!("refused {} on {}: {}", r.actor, r.node, r.reason)));
        lines.extend(todo.waiting.iter().map(|(actor, why)| format!("{actor} waits: {why}")));
        lines.join("; ")
    }

    #[test]
    fn the_next_step_of_every_actor() {
        let table = [
            ("nodes=n0 decided=0:n0/gpus-0", "make cam-0"),
            ("nodes=n0 decided=0:n0/gpus-0 instances=0", "start cam-0 on n0/gpus-0"),
            ("nodes=n0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:runs", ""),
            // A move: stop, wait until it is gone, start.
            ("nodes=n0,n1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:runs", "stop app-cam-0"),
            ("nodes=n0,n1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:going", ""),
            ("nodes=n0,n1 decided=0:n1/gpus-0 instances=0", "start cam-0 on n1/gpus-0"),
            // No place any more, ended, refused, left behind by its node.
            ("nodes=n0 instances=0 pods=0:n0/gpus-0:runs", "stop app-cam-0"),
            ("nodes=n0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:failed", "stop app-cam-0"),
            (
                "nodes=n0 decided=0:n0/gpus-0 instances=0 pods=0:n0/gpus-0:unschedulable",
                "stop app-cam-0; refused cam-0 on n0: no room",
            ),
            ("nodes=n1 decided=0:n1/gpus-0 instances=0 pods=0:n0/gpus-0:going", "stop app-cam-0 at once"),
            // Another one's instance, and one that nobody wants any more.
            ("nodes=n0 decided=0:n0/gpus-0 instances=0,1 pods=0:n0/gpus-0:runs", "remove app-cam-1"),
        ];
        for (world, expected) in table {
            assert_eq!(check(1, world), expected, "{world}");
        }
    }

    #[test]
    fn a_pool_gets_no_more_instances_than_it_may() {
        let two = "nodes=n0 decided=0:n0/gpus-0,1:n0/gpus-1 instances=0,1";
        let full = "cam-1 waits: pool gpus has as many instances as its spec.instances.max allows";
        assert_eq!(check(2, &format!("{two} max=2")), "start cam-0 on n0/gpus-0; start cam-1 on n0/gpus-1");
        assert_eq!(check(2, &format!("{two} max=1")), format!("start cam-0 on n0/gpus-0; {full}"));
        // Who is leaving counts until it is gone.
        assert_eq!(check(2, &format!("{two} max=1 pods=0:n0/gpus-0:going")), full);
    }

    #[test]
    fn a_successor_starts_only_when_its_place_is_free() {
        let swap = "nodes=n0 decided=0:n0/gpus-1,1:n0/gpus-0 instances=0,1";
        assert_eq!(
            check(2, &format!("{swap} pods=0:n0/gpus-0:runs,1:n0/gpus-1:runs")),
            "stop app-cam-0; stop app-cam-1"
        );
        assert_eq!(
            check(2, &format!("{swap} pods=1:n0/gpus-1:going")),
            "cam-0 waits: n0/gpus-1 is still in use"
        );
        assert_eq!(check(2, swap), "start cam-0 on n0/gpus-1; start cam-1 on n0/gpus-0");
        // Two cores on the node: the third actor waits for them, not for a unit.
        let full =
            "nodes=n0 decided=0:n0/gpus-0,1:n0/gpus-1 instances=0,1 pods=7:n0/cpus-0:going,8:n0/cpus-0:going";
        assert_eq!(
            check(2, full),
            "cam-0 waits: cpu of n0 is still in use; cam-1 waits: cpu of n0 is still in use"
        );
    }
}
