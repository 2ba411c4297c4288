//! The environment of a test: the installed product, nodes, pools and a namespace.

mod app_state;
mod manifests;
mod pod_history;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Result, ensure};
use crds::{ActorApplication, DevicePool, Instance, Placement, labels};
use e2e::prometheus::Prometheus;
use e2e::{
    Namespace, Nodes, SimulatedNode,
    process::http,
    product::{NAMESPACE, tree},
    wait_for,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    events::v1::Event,
};
use kube::{Api, Client, Resource, ResourceExt as _, api::ListParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

pub use app_state::AppState;
pub use manifests::{Group, application, cpus, failing_webhook, gpus, implementation, unanswered, webhooks};
pub use pod_history::PodHistory;

use crate::installation::{GiveBack, Product, cluster, product};

/// The limit for everything the product should do, far above the usual time, for busy machines.
pub const TIMEOUT: Duration = Duration::from_mins(3);

/// Writes the topology of a node into a folder for an agent to publish; `ID:HEALTH` is an unhealthy device.
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
    // atomically, like a ConfigMap update: never a partial manifest
    let draft = folder.join(format!(".{node}.yaml"));
    fs::write(&draft, topology.to_string()).unwrap();
    fs::rename(draft, folder.join(format!("{node}.yaml"))).unwrap();
}

/// Creates or changes a policy.
pub async fn apply_policy(name: &str, text: &str) {
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"cairn.dev/policy": "true"}},
        "data": {"policy.yaml": text}});
    cluster().kubectl_with(["apply", "-f-"], &policy.to_string()).await.unwrap();
}

/// Deletes a policy.
pub async fn delete_policy(name: &str) {
    cluster().kubectl(["delete", "configmap", name, "-n", NAMESPACE]).await.unwrap();
}

/// The product with a test's own nodes, pools and namespace, which are removed on drop.
pub struct TestEnv {
    // in drop order
    pub namespace: Namespace<'static>,
    pub nodes: Nodes<'static>,
    _sweeper: Sweeper,
    pub client: Client,
    pub product: MutexGuard<'static, Product>,
    _give_back: GiveBack,
}

/// Removes the pools and the simulated topologies.
struct Sweeper {
    topologies: PathBuf,
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        for file in fs::read_dir(&self.topologies).into_iter().flatten().flatten() {
            // best effort: the whole cluster is deleted soon
            let _ = fs::remove_file(file.path());
        }
        let mut kubectl = cluster().command("kubectl");
        kubectl.args(["delete", "devicepools", "--all", "--wait=false"]);
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Drop for TestEnv {
    /// Deletes applications and pods before their nodes, because only nodes confirm that pods ended.
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

impl TestEnv {
    /// Waits for an empty cluster and creates nodes and pools.
    pub async fn new(
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
        wait_for("the cluster is empty", TIMEOUT, async || {
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

    /// Writes or changes the topology of a node for the agent to publish. `ID:HEALTH` is an unhealthy device.
    pub fn describe_devices(&self, node: &str, devices: &[(&str, &str)]) {
        describe(&self.product.topologies, node, devices);
    }

    /// Two nodes with two GPUs each, all offered.
    pub async fn with_gpu_nodes(prefix: &str) -> Self {
        let nodes = ["one", "two"].map(|name| SimulatedNode::new(name).resource("acme.com/gpu", 2));
        let env = Self::new(prefix, nodes, [cpus(), gpus()]).await;
        for node in ["one", "two"] {
            env.describe_devices(node, &[("gpu-0", "GPU"), ("gpu-1", "GPU")]);
        }
        env.wait_offered("gpus", 4).await;
        env
    }

    /// Waits until the operator counts so many healthy units in a pool.
    pub async fn wait_offered(&self, pool: &str, units: i32) {
        let pools: Api<DevicePool> = Api::all(self.client.clone());
        wait_for("the pool's units are offered", TIMEOUT, async || {
            let status = pools.get(pool).await?.status.unwrap_or_default();
            ensure!(status.healthy == units, "{status:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Copies the topologies of the examples.
    pub fn describe_example_devices(&self) {
        for file in fs::read_dir(tree("examples/topologies")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.product.topologies.join(file.file_name())).unwrap();
        }
    }

    /// Restarts the operator so that it reads counters from this Prometheus.
    pub async fn read_counters(&mut self, prometheus: &Prometheus) {
        self.read_counters_at(&prometheus.url().unwrap()).await;
    }

    /// Restarts the operator so that it reads counters from this URL.
    pub async fn read_counters_at(&mut self, url: &str) {
        self.product.operator.stop().await.unwrap();
        self.start_reading(url).await;
    }

    /// Starts an operator that reads counters from this URL, after one that has ended.
    pub async fn start_reading(&mut self, url: &str) {
        let url = format!("--prometheus-url={url}");
        let operator = cluster().operator().await.unwrap().arg(url);
        let program = e2e::keeper::built(e2e::product::OPERATOR).unwrap();
        self.product.operator = operator.start(&program).await.unwrap();
        self.product.operator.wait_ready().await.unwrap();
    }

    /// What the operator shows of an application's load.
    pub async fn load(&self, name: &str) -> Result<Value> {
        let port = self.product.operator.port(8081)?;
        let answer = http(port, &format!("/debug/load/{}/{name}", self.namespace)).await?;
        ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// Restarts the operator without a Prometheus.
    pub async fn read_no_counters(&mut self) {
        self.product.operator.stop().await.unwrap();
        self.product.operator = cluster().start_operator().await.unwrap();
    }

    /// Applies a manifest in the test's namespace.
    pub async fn apply(&self, manifest: &Value) {
        self.namespace.apply(&manifest.to_string()).await.unwrap();
    }

    /// Applies a JSON merge patch to an application.
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

    /// All objects of one application.
    pub async fn observe(&self, name: &str) -> Result<AppState> {
        let of_it = ListParams::default().labels(&format!("{}={name}", labels::APPLICATION));
        Ok(AppState {
            application: self.api::<ActorApplication>().get(name).await?,
            decision: self.api::<Placement>().get_opt(name).await?,
            instances: self.api::<Instance>().list(&of_it).await?.items,
            pods: self.api::<Pod>().list(&of_it).await?.items,
        })
    }

    /// Waits until the current generation is planned and applied, and `also` holds.
    #[track_caller]
    pub fn wait_reconciled(
        &self,
        name: &str,
        also: impl Fn(&AppState) -> Result<()>,
    ) -> impl Future<Output = AppState> {
        let what = format!("{name} is reconciled");
        let name = name.to_owned();
        wait_for_state(what, async move || {
            let state = self.observe(&name).await?;
            state.check_reconciled()?;
            also(&state)?;
            anyhow::Ok(state)
        })
    }

    /// Waits until `also` holds, applied or not.
    #[track_caller]
    pub fn wait_until(
        &self,
        name: &str,
        also: impl Fn(&AppState) -> Result<()>,
    ) -> impl Future<Output = AppState> {
        let what = format!("{name} has the expected state");
        let name = name.to_owned();
        wait_for_state(what, async move || {
            let state = self.observe(&name).await?;
            also(&state)?;
            anyhow::Ok(state)
        })
    }

    /// Reasons and notes of the events about an object, oldest first.
    pub async fn events(&self, namespace: &str, name: &str) -> Result<Vec<(String, String)>> {
        let events =
            Api::<Event>::namespaced(self.client.clone(), namespace).list(&ListParams::default()).await?;
        let about =
            |event: &Event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(name));
        let mut events: Vec<_> = events.into_iter().filter(about).collect();
        events.sort_by(|one, other| one.event_time.cmp(&other.event_time));
        let text = |event: Event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
        Ok(events.into_iter().map(text).collect())
    }

    /// Waits for an event about an object of the test's namespace, and returns its note.
    #[track_caller]
    pub fn wait_event(&self, name: &str, reason: &str, part: &str) -> impl Future<Output = String> {
        let (name, reason, part) = (name.to_owned(), reason.to_owned(), part.to_owned());
        wait_for_state(format!("an event {reason} about {name} containing {part:?}"), async move || {
            let events = self.events(self.namespace.name(), &name).await?;
            let found = events.iter().find(|(its, note)| *its == reason && note.contains(&part));
            found.map(|(_, note)| note.clone()).ok_or_else(|| anyhow::anyhow!("{events:?}"))
        })
    }

    /// Waits for an event about a ConfigMap of the operator's namespace, and returns its note.
    #[track_caller]
    pub fn wait_policy_event(&self, name: &str, reason: &str, part: &str) -> impl Future<Output = String> {
        let (name, reason, part) = (name.to_owned(), reason.to_owned(), part.to_owned());
        wait_for_state(format!("an event {reason} about policy {name}"), async move || {
            let events = self.events(NAMESPACE, &name).await?;
            let found = events.iter().find(|(its, note)| *its == reason && note.contains(&part));
            found.map(|(_, note)| note.clone()).ok_or_else(|| anyhow::anyhow!("{events:?}"))
        })
    }

    /// Records every state of the namespace's pods from now on.
    pub async fn watch_pods(&self) -> PodHistory {
        PodHistory::start(self.api()).await
    }
}

#[track_caller]
fn wait_for_state<T>(what: String, look: impl AsyncFnMut() -> Result<T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match e2e::wait::until(TIMEOUT, look).await {
            Ok(found) => found,
            Err(state) => panic!("{caller}: waited {TIMEOUT:?} in vain: {what}; last seen: {state}"),
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

/// Remaining objects that Cairn created.
async fn ours(client: &Client) -> Result<Vec<String>> {
    let made = ListParams::default().labels(labels::INSTANCE);
    let pods = Api::<Pod>::all(client.clone()).list(&made).await?;
    let pods = pods.iter().map(|pod| format!("Pod {}", pod.name_any()));
    Ok([names::<Placement>(client).await?, names::<Instance>(client).await?, pods.collect()].concat())
}
