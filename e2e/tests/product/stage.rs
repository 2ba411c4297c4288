//! Where each test plays: the installed product, nodes, pools and a namespace of the test's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex as SyncMutex},
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use crds::{ActorApplication, Condition, DevicePool, Instance, Placement, PlacementSpec, labels};
use e2e::{
    Namespace, Nodes, SimulatedNode,
    product::{NAMESPACE, tree},
    wait_for,
};
use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::installed::{GiveBack, Product, cluster, product};

/// How long the product may take to do what it should; far more than it does, for machines with other things to do.
pub const SOON: Duration = Duration::from_mins(3);

/// When a watch that could not be begun is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Describes what a node has in a folder for an agent to publish; `ID:HEALTH` is a device that is not well.
pub fn describe(folder: &Path, node: &str, devices: &[(&str, &str)]) {
    let devices: Vec<_> = devices
        .iter()
        .map(|(id, type_)| {
            let (id, health) = id.split_once(':').unwrap_or((id, "ok"));
            json!({"id": id, "type": type_, "vendor": "acme", "model": "one", "health": health})
        })
        .collect();
    let topology = json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology",
        "metadata": {"name": node}, "spec": {"devices": devices}});
    // in one step, as a ConfigMap's files change: never half a manifest
    let draft = folder.join(format!(".{node}.yaml"));
    fs::write(&draft, topology.to_string()).unwrap();
    fs::rename(draft, folder.join(format!("{node}.yaml"))).unwrap();
}

/// The product with a test's own nodes, pools and namespace; what is left of them goes when this is dropped.
pub struct Stage {
    // in the order in which they go
    pub namespace: Namespace<'static>,
    pub nodes: Nodes<'static>,
    _sweeper: Sweeper,
    pub client: Client,
    pub product: MutexGuard<'static, Product>,
    _give_back: GiveBack,
}

/// Removes the pools and the described machines.
struct Sweeper {
    topologies: PathBuf,
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        for file in fs::read_dir(&self.topologies).into_iter().flatten().flatten() {
            // best effort: the whole cluster goes away soon
            let _ = fs::remove_file(file.path());
        }
        let mut kubectl = cluster().command("kubectl");
        kubectl.args(["delete", "devicepools", "--all", "--wait=false"]);
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Drop for Stage {
    /// Applications and their pods go while their nodes are still there: nobody else would confirm that pods ended.
    fn drop(&mut self) {
        let mut kubectl = cluster().command("kubectl");
        kubectl.args([
            "delete",
            "actorapplications,pods",
            "--all",
            "--timeout=20s",
            "-n",
            self.namespace.name(),
        ]);
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Stage {
    /// Waits for an empty cluster and sets it up: nodes, their machines where they have devices, and pools.
    pub async fn set(
        prefix: &str,
        nodes: impl IntoIterator<Item = SimulatedNode>,
        pools: impl IntoIterator<Item = Value>,
    ) -> Self {
        let cluster = cluster();
        let mut product = product().await;
        if product.operator.exit().is_some() {
            product.operator = cluster.start_operator().await.unwrap(); // a test that failed left it so
        }
        if product.agent.exit().is_some() {
            product.agent = cluster.start_agent().await.unwrap();
        }
        product.agent.thaw().unwrap(); // a test that failed left it so
        let client = cluster.client().await.unwrap();
        wait_for("the stage is empty", SOON, async || {
            let applications = names::<ActorApplication>(&client).await?;
            let (pools, nodes) = (names::<DevicePool>(&client).await?, names::<Node>(&client).await?);
            let left = [applications, pools, nodes, ours(&client).await?].concat();
            ensure!(left.is_empty(), "{left:?}");
            anyhow::Ok(())
        })
        .await;
        let sweeper = Sweeper { topologies: product.topologies.clone() };
        let nodes: Vec<_> = nodes.into_iter().collect();
        let nodes = cluster.nodes(nodes).await.unwrap();
        for pool in pools {
            cluster.kubectl_with(["apply", "-f-"], &pool.to_string()).await.unwrap();
        }
        let namespace = cluster.namespace(prefix).await.unwrap();
        Self { namespace, nodes, _sweeper: sweeper, client, product, _give_back: GiveBack }
    }

    /// Describes what a node has, for the agent to publish; once more, and it has changed. `ID:HEALTH` is one that is not
    /// well.
    pub fn machine(&self, node: &str, devices: &[(&str, &str)]) {
        describe(&self.product.topologies, node, devices);
    }

    /// Sets the scene with two nodes of two GPUs each, all of them offered.
    pub async fn with_two_nodes_of_gpus(prefix: &str) -> Self {
        let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 2));
        let stage = Self::set(prefix, nodes, [cpus(), gpus()]).await;
        for node in ["one", "two"] {
            stage.machine(node, &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
        }
        stage.offered("gpus", 4).await;
        stage
    }

    /// Waits until a pool has so many units that can take an actor, as the operator sees it.
    pub async fn offered(&self, pool: &str, units: i32) {
        let pools: Api<DevicePool> = Api::all(self.client.clone());
        wait_for("the pool's units are offered", SOON, async || {
            let status = pools.get(pool).await?.status.unwrap_or_default();
            ensure!(status.healthy == units, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Copies the described machines of the examples.
    pub fn example_machines(&self) {
        for file in fs::read_dir(tree("examples/topologies")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.product.topologies.join(file.file_name())).unwrap();
        }
    }

    /// Applies an application, or whatever else, to the test's namespace.
    pub async fn apply(&self, manifest: &Value) {
        self.namespace.apply(&manifest.to_string()).await.unwrap();
    }

    /// Changes an application: a JSON merge patch.
    pub async fn patch(&self, name: &str, patch: &Value) {
        let patch = patch.to_string();
        self.namespace.kubectl(["patch", "actorapp", name, "--type=merge", "-p", &patch]).await.unwrap();
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    /// Everything of one application, as it is now.
    pub async fn look(&self, name: &str) -> Result<Seen> {
        let of_it = ListParams::default().labels(&format!("{}={name}", labels::APPLICATION));
        Ok(Seen {
            application: self.api::<ActorApplication>().get(name).await?,
            decision: self.api::<Placement>().get_opt(name).await?,
            instances: self.api::<Instance>().list(&of_it).await?.items,
            pods: self.api::<Pod>().list(&of_it).await?.items,
        })
    }

    /// Waits until the newest manifest is decided on and carried out, and `also` holds.
    #[track_caller]
    pub fn settled(&self, name: &str, also: impl Fn(&Seen) -> Result<()>) -> impl Future<Output = Seen> {
        let what = format!("{name} is settled");
        let name = name.to_owned();
        wait_for_seen(what, async move || {
            let seen = self.look(&name).await?;
            seen.carried_out()?;
            also(&seen)?;
            anyhow::Ok(seen)
        })
    }

    /// Waits until `also` holds, whether or not everything is carried out.
    #[track_caller]
    pub fn seen(&self, name: &str, also: impl Fn(&Seen) -> Result<()>) -> impl Future<Output = Seen> {
        let what = format!("what is looked for is seen of {name}");
        let name = name.to_owned();
        wait_for_seen(what, async move || {
            let seen = self.look(&name).await?;
            also(&seen)?;
            anyhow::Ok(seen)
        })
    }

    /// Reasons and notes of the events about an object of any kind, oldest first.
    pub async fn events(&self, namespace: &str, name: &str) -> Result<Vec<(String, String)>> {
        let events =
            Api::<Event>::namespaced(self.client.clone(), namespace).list(&ListParams::default()).await?;
        let about =
            |event: &Event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(name));
        let mut events: Vec<_> = events.into_iter().filter(about).collect();
        events.sort_by(|one, other| one.event_time.cmp(&other.event_time));
        let told = |event: Event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
        Ok(events.into_iter().map(told).collect())
    }

    /// Waits for an event of this reason about an object of the test's namespace, and returns its note.
    #[track_caller]
    pub fn event(&self, name: &str, reason: &str, part: &str) -> impl Future<Output = String> {
        let (name, reason, part) = (name.to_owned(), reason.to_owned(), part.to_owned());
        wait_for_seen(format!("an event {reason} about {name} that says {part:?}"), async move || {
            let events = self.events(self.namespace.name(), &name).await?;
            let found = events.iter().find(|(its, note)| *its == reason && note.contains(&part));
            found.map(|(_, note)| note.clone()).ok_or_else(|| anyhow::anyhow!("{events:?}"))
        })
    }

    /// Waits for an event of this reason about a ConfigMap of the operator's namespace, and returns its note.
    #[track_caller]
    pub fn policy_event(&self, name: &str, reason: &str, part: &str) -> impl Future<Output = String> {
        let (name, reason, part) = (name.to_owned(), reason.to_owned(), part.to_owned());
        wait_for_seen(format!("an event {reason} about policy {name}"), async move || {
            let events = self.events(NAMESPACE, &name).await?;
            let found = events.iter().find(|(its, note)| *its == reason && note.contains(&part));
            found.map(|(_, note)| note.clone()).ok_or_else(|| anyhow::anyhow!("{events:?}"))
        })
    }

    /// Collects every state that a pod of the namespace is seen in from now on.
    pub async fn watch_pods(&self) -> PodHistory {
        let api = self.api::<Pod>();
        let states = Arc::new(SyncMutex::new(Vec::new()));
        let kept = Arc::clone(&states);
        let start = api.list(&ListParams::default()).await.unwrap();
        states.lock().unwrap().extend(start.items);
        let (mut version, watched) = (start.metadata.resource_version.unwrap(), api.clone());
        let task = tokio::spawn(async move {
            loop {
                let Ok(events) = watched.watch(&WatchParams::default(), &version).await else {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                };
                let mut events = events.boxed();
                while let Some(Ok(event)) = events.next().await {
                    if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) =
                        event
                    {
                        version = pod.resource_version().unwrap();
                        kept.lock().unwrap().push(pod);
                    }
                }
            }
        });
        PodHistory { states, api, task }
    }
}

#[track_caller]
fn wait_for_seen<T>(what: String, look: impl AsyncFnMut() -> Result<T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match e2e::wait::until(SOON, look).await {
            Ok(found) => found,
            Err(seen) => panic!("{caller}: waited {SOON:?} in vain: {what}; last seen: {seen}"),
        }
    }
}

async fn names<K>(client: &Client) -> Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(found.iter().map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect())
}

/// What Cairn made and that is still there.
async fn ours(client: &Client) -> Result<Vec<String>> {
    let made = ListParams::default().labels(labels::INSTANCE);
    let pods = Api::<Pod>::all(client.clone()).list(&made).await?;
    let pods = pods.iter().map(|pod| format!("Pod {}", pod.name_any()));
    Ok([names::<Placement>(client).await?, names::<Instance>(client).await?, pods.collect()].concat())
}

/// Everything of one application at one moment.
#[derive(Debug)]
pub struct Seen {
    pub application: ActorApplication,
    pub decision: Option<Placement>,
    pub instances: Vec<Instance>,
    pub pods: Vec<Pod>,
}

impl Seen {
    pub fn spec(&self) -> &PlacementSpec {
        &self.decision.as_ref().unwrap().spec
    }

    /// Where each actor was decided to be.
    pub fn places(&self) -> BTreeMap<&str, &str> {
        let assignments = self.decision.iter().flat_map(|decision| &decision.spec.assignments);
        assignments.map(|place| (&*place.actor, &*place.unit)).collect()
    }

    /// The nodes that were decided on.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.decision
            .iter()
            .flat_map(|decision| &decision.spec.assignments)
            .map(|place| &*place.node)
            .collect()
    }

    /// The objective's value at each level, the most important first.
    pub fn vector(&self) -> Vec<i64> {
        let spec = self.spec();
        let value = |criterion: &str| spec.objective.get(criterion).copied().unwrap_or_default();
        spec.levels.iter().map(|level| level.split('+').map(value).sum()).collect()
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.application.status.iter().flat_map(|status| &status.conditions).find(|c| c.type_ == type_)
    }

    /// The message of a condition that has this status, or what is there instead.
    pub fn message(&self, type_: &str, status: &str) -> Result<&str> {
        match self.condition(type_) {
            Some(condition) if condition.status == status => Ok(&condition.message),
            other => bail!("{type_} is {other:?}"),
        }
    }

    /// How many actors the manifest wants.
    pub fn wanted(&self) -> usize {
        self.application.spec.actors.iter().map(|group| usize::try_from(group.replicas).unwrap()).sum()
    }

    /// Whether the newest manifest is decided on, nobody is said to have a place and none, each placed actor runs exactly
    /// where that was decided, nothing else is there, and the status says so.
    pub fn carried_out(&self) -> Result<()> {
        let generation = self.application.metadata.generation;
        let status = self.application.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == generation, "the status is of an older manifest");
        let Some(decision) = &self.decision else { bail!("nothing is decided; {:?}", status.conditions) };
        ensure!(
            Some(decision.spec.application_generation) == generation,
            "the decision is for an older manifest"
        );
        let places = self.places();
        let has_both = decision.spec.unplaced.iter().find(|left| places.contains_key(&*left.actor));
        ensure!(has_both.is_none(), "decided {places:?}, and without a place is {has_both:?}");
        let mut run = BTreeMap::new();
        for pod in &self.pods {
            ensure!(pod.metadata.deletion_timestamp.is_none(), "pod {} is going", pod.name_any());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Running"), "pod {} is {phase:?}", pod.name_any());
            let unit = pod.annotations().get(labels::UNIT).map_or("", |unit| unit);
            ensure!(
                run.insert(&*pod.labels()[labels::ACTOR], unit).is_none(),
                "{} lives twice",
                pod.name_any()
            );
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            ensure!(node == unit.split('/').next(), "pod {} of {unit} is on {node:?}", pod.name_any());
        }
        ensure!(run == places, "decided {places:?}, run {run:?}");
        ensure!(self.instances.len() == self.wanted(), "{} Instances", self.instances.len());
        let counts = status.actors.unwrap_or_default();
        let counted =
            [counts.wanted, counts.placed, counts.running].map(|count| usize::try_from(count).unwrap());
        ensure!(counted == [self.wanted(), places.len(), places.len()], "the status counts {counted:?}");
        Ok(())
    }

    /// Whether every actor has a place.
    pub fn all_placed(&self) -> Result<()> {
        let placed = self.places().len();
        ensure!(
            placed == self.wanted(),
            "{placed} of {} have a place; {:?}",
            self.wanted(),
            self.condition("Placed")
        );
        Ok(())
    }
}

/// Every state that pods were seen in.
pub struct PodHistory {
    states: Arc<SyncMutex<Vec<Pod>>>,
    api: Api<Pod>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for PodHistory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodHistory {
    /// Waits until it has everything that there is now: a watch may be late.
    pub async fn caught_up(&self) -> &Self {
        wait_for("the watch has caught up", SOON, async || {
            let there = self.api.list(&ListParams::default()).await?.items;
            let version = |pod: &Pod| (pod.uid(), pod.resource_version());
            let known: BTreeSet<_> = self.states().iter().map(version).collect();
            let missing: Vec<_> = there.iter().filter(|pod| !known.contains(&version(pod))).collect();
            ensure!(missing.is_empty(), "{} states are missing", missing.len());
            anyhow::Ok(())
        })
        .await;
        self
    }

    pub fn states(&self) -> Vec<Pod> {
        self.states.lock().unwrap().clone()
    }

    /// How many different pods each actor had so far.
    pub fn lives(&self) -> BTreeMap<String, usize> {
        let mut lives: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in self.states().iter().filter(|pod| pod.labels().contains_key(labels::ACTOR)) {
            lives.entry(pod.labels()[labels::ACTOR].clone()).or_default().insert(pod.uid().unwrap());
        }
        lives.into_iter().map(|(actor, uids)| (actor, uids.len())).collect()
    }

    /// What the scheduler said against pods.
    pub fn unschedulable(&self) -> Vec<String> {
        let states = self.states();
        let conditions = states.iter().flat_map(|pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.map(move |condition| (pod, condition))
        });
        let refused =
            conditions.filter(|(_, condition)| condition.reason.as_deref() == Some("Unschedulable"));
        refused
            .map(|(pod, condition)| {
                format!("{}: {}", pod.name_any(), condition.message.clone().unwrap_or_default())
            })
            .collect()
    }
}

/// A group: its name, its replicas, and its service time by kind.
pub type Group<'a> = (&'a str, u32, &'a [(&'a str, &'a str)]);

/// An application: groups of a name, how many, and service times by kind. Each actor asks for half a core.
pub fn application(name: &str, groups: &[Group]) -> Value {
    let groups: Vec<_> = groups
        .iter()
        .map(|(group, replicas, kinds)| {
            let implementations: Vec<_> = kinds.iter().map(|(kind, time)| implementation(kind, time)).collect();
            json!({"name": group, "replicas": replicas, "arrivals": "1/s", "implementations": implementations})
        })
        .collect();
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "ActorApplication", "metadata": {"name": name},
        "spec": {"actors": groups}})
}

/// A way to run an actor.
pub fn implementation(kind: &str, service_time: &str) -> Value {
    let container = json!({"name": "actor", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}});
    json!({"kind": kind, "serviceTime": service_time, "template": {"spec": {"containers": [container]}}})
}

/// A webhook that nobody answers: the API server fails where it would ask it, for each of these that is to be made in a namespace.
pub fn unanswered(name: &str, namespace: &str, resource: &str) -> Value {
    let hook = json!({
        "name": "unanswered.cairn.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": [hook]})
}

/// A pool of whole nodes of kind `cpu`.
pub fn cpus() -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "cpus"}, "spec": {"kind": "cpu"}})
}

/// A pool of every GPU.
pub fn gpus() -> Value {
    json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": "gpus"},
        "spec": {"kind": "gpu", "resource": {"devicePlugin": "acme.com/gpu"}}})
}
