//! The installed product, and worlds whose application its operator places.

use std::fs;

use anyhow::{Result, ensure};
use crds::{ActorApplication, Instance, Placement, labels};
use e2e::{Cluster, Process, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    TIMEOUT,
    pod_history::PodHistory,
    trial::Trial,
    world::{World, documents},
};

/// The programs of the product.
pub struct Installed {
    pub operator: Process,
    _agent: Process,
}

/// The product on the shared control plane, installed on the first call.
pub async fn installed() -> &'static Installed {
    static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
    let install = async || {
        let cluster = Cluster::shared();
        let topologies = cluster.plane().state.join("run/topologies");
        fs::create_dir(&topologies).unwrap();
        cluster.install(&topologies, &[]).await.unwrap();
        let agent = cluster.start_agent().await.unwrap();
        Installed { operator: cluster.start_operator().await.unwrap(), _agent: agent }
    };
    INSTALLED.get_or_init(install).await
}

/// A world on the control plane with the product; its application is not created yet.
pub struct Env<'a> {
    pub trial: Trial<'a>,
    pub world: &'a World,
    pub client: Client,
    pub history: PodHistory,
    pub installed: &'static Installed,
}

/// What the operator decided, and the pods of actors.
pub struct State {
    /// The nodes of placed actors, sorted.
    pub nodes: Vec<String>,
    /// The unplaced actors with their reasons.
    pub unplaced: Vec<(String, String)>,
    /// The message of the condition `Placed`.
    pub message: String,
}

/// The world of a case: `WORLD` in its manifests is its name. Other objects than nodes, foreign pods and the application are
/// returned as text.
pub fn read(name: &str, manifests: &str) -> (World, Vec<Value>) {
    let mut world = World {
        name: name.to_owned(),
        namespaces: vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"world": name}}}),
        ],
        runtime_class: None,
        volumes: Vec::new(),
        nodes: Vec::new(),
        foreign: Vec::new(),
        pool: json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "DevicePool", "metadata": {"name": name},
            "spec": {"kind": name, "unit": "Node", "nodeSelector": {"matchLabels": {"world": name}}}}),
        application: Value::Null,
    };
    let mut others = Vec::new();
    for mut object in documents(&manifests.replace("WORLD", name)).unwrap() {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "Node" => {
                let (annotation, value) = e2e::nodes::ANNOTATION;
                object["metadata"]["annotations"] = json!({annotation: value});
                object["metadata"]["labels"]["world"] = json!(name);
                object["metadata"]["labels"]["kubernetes.io/hostname"] = object["metadata"]["name"].clone();
                object["status"]["capacity"] = object["status"]["allocatable"].clone();
                let addresses = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
                object["status"]["addresses"] = addresses;
                world.nodes.push(object);
            }
            "Pod" => {
                object["metadata"]["namespace"] = json!(name);
                world.foreign.push(object);
            }
            "RuntimeClass" => world.runtime_class = Some(object),
            "ActorApplication" => world.application = object,
            _ => others.push(object),
        }
    }
    (world, others)
}

impl<'a> Env<'a> {
    /// Creates the world, without its application.
    pub async fn new(world: &'a World, others: &[Value]) -> Self {
        let (cluster, installed) = (Cluster::shared(), installed().await);
        let client = cluster.client().await.unwrap();
        let trial = Trial::start(cluster, &client, world).await.unwrap();
        let history = PodHistory::start(Api::namespaced(client.clone(), world.namespace())).await;
        let env = Self { trial, world, client, history, installed };
        for other in others {
            env.apply(other).await;
        }
        env.report_resizes().await;
        env.apply(&world.pool).await;
        env
    }

    /// Applies a manifest, in the namespace of the world if it has one.
    pub async fn apply(&self, manifest: &Value) {
        let namespace = format!("--namespace={}", self.world.namespace());
        let arguments = [namespace.as_str(), "apply", "-f-"];
        Cluster::shared().kubectl_with(arguments, &manifest.to_string()).await.unwrap();
    }

    /// Writes the statuses of foreign pods that name containers, as a kubelet does during a resize.
    async fn report_resizes(&self) {
        let pods: Api<Pod> = self.api();
        for foreign in &self.world.foreign {
            if foreign["status"].get("containerStatuses").is_none() {
                continue;
            }
            let (name, patch) =
                (foreign["metadata"]["name"].as_str().unwrap(), json!({"status": foreign["status"]}));
            let by = PatchParams::default();
            pods.patch_status(name, &by, &Patch::Strategic(&patch)).await.unwrap();
        }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.world.namespace())
    }

    /// Waits until so many actors of an application run and so many are unplaced with a reason.
    ///
    /// # Panics
    /// At once, if kube-scheduler refuses a pod.
    pub async fn wait_placed(&self, name: &str, placed: usize, unplaced: usize) -> State {
        let what = format!("{placed} actors of {name} run and {unplaced} are unplaced");
        wait_for(&what, TIMEOUT, async || {
            assert_eq!(self.history.unschedulable(), Vec::<String>::new(), "refused by kube-scheduler");
            let state = self.observe(name).await?;
            let found = (state.nodes.len(), state.unplaced.len());
            ensure!(found == (placed, unplaced), "{} run, unplaced: {:?}", found.0, state.unplaced);
            anyhow::Ok(state)
        })
        .await
    }

    /// The state of an application, once the operator reports its latest generation.
    async fn observe(&self, name: &str) -> Result<State> {
        let application = self.api::<ActorApplication>().get(name).await?;
        let status = application.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == application.metadata.generation, "not reported yet");
        let of_it = ListParams::default().labels(&format!("{}={name}", labels::APPLICATION));
        let decision = self.api::<Placement>().get(name).await?.spec;
        let pods = self.api::<Pod>().list(&of_it).await?.items;
        let running = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        let counts = (pods.iter().filter(running).count(), pods.len(), decision.assignments.len());
        ensure!(counts.0 == counts.1 && counts.1 == counts.2, "running, pods and assignments: {counts:?}");
        let wanted = counts.2 + decision.unplaced.len();
        let instances = self.api::<Instance>().list(&of_it).await?.items.len();
        ensure!(instances == wanted, "{instances} Instances of {wanted} actors");
        let actors = status.actors.unwrap_or_default();
        let reported = (usize::try_from(actors.wanted)?, usize::try_from(actors.running)?);
        ensure!(reported == (wanted, counts.0), "the status counts {reported:?}");
        let placed = status.conditions.iter().find(|condition| condition.type_ == "Placed");
        let mut nodes: Vec<String> =
            pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        nodes.sort_unstable();
        let unplaced = decision.unplaced.into_iter().map(|it| (it.actor, it.reasons.join("; "))).collect();
        Ok(State { nodes, unplaced, message: placed.map(|it| it.message.clone()).unwrap_or_default() })
    }

    /// Checks that kube-scheduler refused no pod, and that each actor has had one pod.
    pub async fn assert_undisturbed(&self) {
        let history = self.history.wait_synced().await;
        assert_eq!(history.unschedulable(), Vec::<String>::new());
        let lives = history.pods_per_actor();
        assert!(lives.values().all(|pods| *pods == 1), "pods per actor: {lives:?}");
        let ended = history.states().into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        let ended: Vec<String> =
            ended.filter(|pod| pod.labels().contains_key(labels::ACTOR)).map(|pod| pod.name_any()).collect();
        assert_eq!(ended, Vec::<String>::new(), "no actor is evicted");
    }

    /// Deletes the world and its pool.
    pub async fn end(self) {
        let applications: Api<ActorApplication> = self.api();
        let all = ListParams::default();
        applications.delete_collection(&kube::api::DeleteParams::default(), &all).await.unwrap();
        Cluster::shared().kubectl(["delete", "devicepool", &self.world.name, "--wait=false"]).await.unwrap();
        wait_for("the pods of its actors are gone", TIMEOUT, async || {
            let of_actors = ListParams::default().labels(labels::ACTOR);
            let left = self.api::<Pod>().list(&of_actors).await?.items.len();
            ensure!(left == 0, "{left} pods");
            anyhow::Ok(())
        })
        .await;
        self.trial.end().await.unwrap();
    }

    /// The finished reconciles of the operator.
    pub async fn reconciles(&self) -> Result<f64> {
        let port = self.installed.operator.port(8080)?;
        let text = e2e::process::http(port, "/metrics").await?.body;
        let lines = text.lines().filter(|line| line.starts_with("cairn_operator_reconciles_total{"));
        Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }
}
