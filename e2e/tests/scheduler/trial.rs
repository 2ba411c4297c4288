//! Recreates a world on a control plane and compares kube-scheduler's verdicts with a plan.

use std::{collections::BTreeMap, fmt};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{Cluster, Nodes, wait};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    TIMEOUT,
    plan::Plan,
    pods::{pod, relabelled},
    world::World,
};

/// A contradiction between a plan and kube-scheduler.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The short name of the actor.
    pub actor: String,
    /// What contradicts.
    pub what: Contradiction,
}

/// What contradicts.
#[derive(Clone, Debug)]
pub enum Contradiction {
    /// The plan places it, and kube-scheduler refuses its pod.
    Refused { node: String, message: String },
    /// The plan leaves it out, and kube-scheduler binds its pod; and the message if it refuses the pod that the operator would
    /// create for this node.
    Bound { node: String, reasons: Vec<String>, if_pinned: Option<String> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Contradiction::Refused { node, message } => {
                write!(f, "{} is placed on {node}, but kube-scheduler refuses it: {message}", self.actor)
            }
            Contradiction::Bound { node, reasons, if_pinned } => {
                let (actor, reasons) = (&self.actor, reasons.join("; "));
                write!(f, "{actor} is unplaced ({reasons}), but kube-scheduler binds it to {node}")?;
                if_pinned
                    .iter()
                    .try_for_each(|message| write!(f, ", although not if pinned there: {message}"))
            }
        }
    }
}

/// The suffix of pods that kube-scheduler may bind anywhere.
const UNPINNED: &str = "unpinned";

/// Kube-scheduler's verdict about a pod.
#[derive(Clone, Debug)]
enum Verdict {
    Bound(String),
    Refused(String),
}

/// A world on a control plane; its nodes are deleted on drop.
pub struct Trial<'a> {
    world: &'a World,
    client: Client,
    _nodes: Nodes<'a>,
}

impl<'a> Trial<'a> {
    /// Creates the objects of a world and waits until its foreign pods run.
    pub async fn start(cluster: &'a Cluster, client: &Client, world: &'a World) -> Result<Self> {
        create_all::<Namespace>(&Api::all(client.clone()), &world.namespaces).await?;
        create_all::<RuntimeClass>(&Api::all(client.clone()), world.runtime_class.as_slice()).await?;
        let names = world.nodes.iter().map(name_of);
        let nodes = cluster.adopt_nodes(names);
        create_all::<Node>(&Api::all(client.clone()), &world.nodes).await?;
        let trial = Self { world, client: client.clone(), _nodes: nodes };
        for namespace in world.namespaces.iter().map(name_of) {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
            let made = wait::until(TIMEOUT, async || accounts.get("default").await).await;
            made.map_err(|seen| anyhow!("no default ServiceAccount in {namespace}: {seen}"))?;
        }
        trial.create_volumes().await?;
        cluster.wait_nodes_ready(&world.nodes.iter().map(name_of).collect::<Vec<_>>()).await?;
        for foreign in &world.foreign {
            let namespace = foreign["metadata"]["namespace"].as_str().context("it has no namespace")?;
            let pod = serde_json::to_value(relabelled(foreign)?)?;
            create_all::<Pod>(&Api::namespaced(client.clone(), namespace), std::slice::from_ref(&pod))
                .await?;
        }
        trial.wait_foreign().await?;
        Ok(trial)
    }

    /// Creates the volumes with their claims and waits until they are bound.
    async fn create_volumes(&self) -> Result<()> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), self.world.namespace());
        for (volume, claim) in &self.world.volumes {
            create_all::<PersistentVolume>(&Api::all(self.client.clone()), std::slice::from_ref(volume))
                .await?;
            create_all::<PersistentVolumeClaim>(&claims, std::slice::from_ref(claim)).await?;
        }
        for name in self.world.volumes.iter().map(|(_, claim)| name_of(claim)) {
            let bound = wait::until(TIMEOUT, async || {
                let phase = claims.get(&name).await?.status.and_then(|status| status.phase);
                ensure!(phase.as_deref() == Some("Bound"), "{name} is {phase:?}");
                anyhow::Ok(())
            });
            bound.await.map_err(|seen| anyhow!("a claim is not bound: {seen}"))?;
        }
        Ok(())
    }

    /// Waits until the foreign pods run, so that kube-scheduler knows them.
    async fn wait_foreign(&self) -> Result<()> {
        for foreign in &self.world.foreign {
            let namespace = foreign["metadata"]["namespace"].as_str().unwrap_or_default();
            let (api, name) = (Api::<Pod>::namespaced(self.client.clone(), namespace), name_of(foreign));
            let runs = wait::until(TIMEOUT, async || {
                let phase = api.get(&name).await?.status.and_then(|status| status.phase);
                ensure!(phase.as_deref() == Some("Running"), "{name} is {phase:?}");
                anyhow::Ok(())
            });
            runs.await.map_err(|seen| anyhow!("a foreign pod does not run: {seen}"))?;
        }
        Ok(())
    }

    /// Creates the pods of a plan, then the others without a node, and returns the contradictions.
    pub async fn compare(&self, plan: &Plan) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        let placed =
            plan.placed.iter().map(|(actor, node)| (actor.clone(), pod(self.world, actor, Some(node))));
        for (actor, verdict) in self.settle(collect(placed)?).await? {
            let node = plan.placed[&actor].clone();
            match verdict {
                Verdict::Bound(at) => ensure!(at == node, "{actor} of {node} is bound to {at}"),
                Verdict::Refused(message) => {
                    differences.push(Difference { actor, what: Contradiction::Refused { node, message } });
                }
            }
        }
        // Refused pods leave room, and others may have needed them.
        if differences.is_empty() {
            differences = self.try_unplaced(plan).await?;
        }
        Ok(differences)
    }

    /// Where kube-scheduler binds the pods of all actors if nothing pins them; they are deleted afterwards.
    pub async fn unpinned(&self, plan: &Plan) -> Result<BTreeMap<String, String>> {
        let actors = plan.placed.keys().chain(plan.unplaced.keys());
        let pods = collect(actors.map(|actor| (actor.clone(), pod(self.world, actor, None))))?;
        self.create(&pods, UNPINNED).await?;
        let verdicts = self.verdicts(&pods, UNPINNED).await?;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api().delete_collection(&now, &ListParams::default()).await?;
        let gone = wait::until(TIMEOUT, async || {
            let left = self.api().list_metadata(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} are there");
            anyhow::Ok(())
        });
        gone.await.map_err(|seen| anyhow!("the pods are not deleted: {seen}"))?;
        let bound = verdicts.into_iter().filter_map(|(actor, verdict)| match verdict {
            Verdict::Bound(node) => Some((actor, node)),
            Verdict::Refused(_) => None,
        });
        Ok(bound.collect())
    }

    /// Creates the pods of unplaced actors without a node.
    async fn try_unplaced(&self, plan: &Plan) -> Result<Vec<Difference>> {
        let pods = plan.unplaced.keys().map(|actor| (actor.clone(), pod(self.world, actor, None)));
        let pods = collect(pods)?;
        self.create(&pods, UNPINNED).await?;
        let mut differences = Vec::new();
        for (actor, verdict) in self.verdicts(&pods, UNPINNED).await? {
            let Verdict::Bound(node) = verdict else { continue };
            let if_pinned = self.pin(&actor, &pods[&actor], &node).await?;
            let reasons = plan.unplaced[&actor].clone();
            differences.push(Difference { actor, what: Contradiction::Bound { node, reasons, if_pinned } });
        }
        Ok(differences)
    }

    /// Replaces a bound pod by one that is pinned to its node; returns the message if it is refused.
    async fn pin(&self, actor: &str, bound: &Pod, node: &str) -> Result<Option<String>> {
        let name = name_in(bound, UNPINNED);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api().delete(&name, &now).await?;
        let gone = wait::until(TIMEOUT, async || {
            ensure!(self.api().get_opt(&name).await?.is_none(), "{name} is there");
            anyhow::Ok(())
        });
        gone.await.map_err(|seen| anyhow!("a pod is not deleted: {seen}"))?;
        let pinned = BTreeMap::from([(actor.to_owned(), pod(self.world, actor, Some(node))?)]);
        Ok(match self.settle(pinned).await?.remove(actor) {
            Some(Verdict::Refused(message)) => Some(message),
            _ => None,
        })
    }

    /// Creates pods and returns the final verdicts; pods that are refused in the end are deleted.
    ///
    /// A pod may need another one that is bound later, and its condition does not tell when it was tried last. So refused pods are
    /// created again, until a round in which none is bound.
    async fn settle(&self, mut open: BTreeMap<String, Pod>) -> Result<BTreeMap<String, Verdict>> {
        let mut verdicts = BTreeMap::new();
        let mut round = 0;
        while !open.is_empty() {
            round += 1;
            let suffix = format!("round-{round}");
            self.create(&open, &suffix).await?;
            let mut found = self.verdicts(&open, &suffix).await?;
            for (actor, verdict) in &mut found {
                if matches!(verdict, Verdict::Refused(_))
                    && let Some(node) = self.withdraw(&name_in(&open[actor], &suffix)).await?
                {
                    *verdict = Verdict::Bound(node);
                }
            }
            let is_bound = |verdict: &Verdict| matches!(verdict, Verdict::Bound(_));
            let is_final = !found.values().any(is_bound);
            open.retain(|actor, _| !is_final && !is_bound(&found[actor]));
            verdicts.extend(found);
        }
        Ok(verdicts)
    }

    async fn create(&self, pods: &BTreeMap<String, Pod>, suffix: &str) -> Result<()> {
        for (actor, pod) in pods {
            let mut pod = pod.clone();
            pod.metadata.name = Some(name_in(&pod, suffix));
            let created = self.api().create(&PostParams::default(), &pod).await;
            created.with_context(|| format!("the pod of {actor} is not admitted"))?;
        }
        Ok(())
    }

    /// Waits until kube-scheduler has tried each pod.
    async fn verdicts(
        &self,
        pods: &BTreeMap<String, Pod>,
        suffix: &str,
    ) -> Result<BTreeMap<String, Verdict>> {
        let decided = wait::until(TIMEOUT, async || {
            let found = self.api().list(&ListParams::default()).await?;
            let found: BTreeMap<String, &Pod> = found.items.iter().map(|pod| (pod.name_any(), pod)).collect();
            let verdict = |(actor, pod): (&String, &Pod)| {
                let found = found.get(&name_in(pod, suffix));
                let verdict = found.and_then(|pod| verdict(pod));
                Ok((actor.clone(), verdict.with_context(|| format!("{actor} is not tried yet"))?))
            };
            pods.iter().map(verdict).collect::<Result<BTreeMap<_, _>>>()
        });
        decided.await.map_err(|seen| anyhow!("kube-scheduler does not decide: {seen}"))
    }

    /// Deletes an unbound pod; returns its node if it was bound meanwhile.
    async fn withdraw(&self, name: &str) -> Result<Option<String>> {
        let withdrawn = wait::until(TIMEOUT, async || {
            let pod = self.api().get(name).await?;
            if let Some(Verdict::Bound(node)) = verdict(&pod) {
                return anyhow::Ok(Some(node));
            }
            let unchanged = Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
            let asked = DeleteParams { preconditions: Some(unchanged), ..DeleteParams::default() };
            self.api().delete(name, &asked).await?;
            Ok(None)
        });
        withdrawn.await.map_err(|seen| anyhow!("cannot delete {name}: {seen}"))
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.world.namespace())
    }

    /// Deletes the world.
    pub async fn end(self) -> Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        for namespace in self.world.namespaces.iter().map(name_of) {
            let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
            pods.delete_collection(&now, &ListParams::default()).await?;
            Api::<Namespace>::all(self.client.clone()).delete(&namespace, &DeleteParams::default()).await?;
        }
        // Deleted once the claims are gone.
        for name in self.world.volumes.iter().map(|(volume, _)| name_of(volume)) {
            Api::<PersistentVolume>::all(self.client.clone()).delete(&name, &DeleteParams::default()).await?;
        }
        if let Some(class) = &self.world.runtime_class {
            Api::<RuntimeClass>::all(self.client.clone()).delete(&name_of(class), &now).await?;
        }
        Ok(())
    }
}

fn verdict(pod: &Pod) -> Option<Verdict> {
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
        return Some(Verdict::Bound(node));
    }
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let scheduled = conditions.find(|condition| condition.type_ == "PodScheduled")?;
    let is_refused = matches!(scheduled.reason.as_deref(), Some("Unschedulable" | "SchedulingGated"));
    // The part about preemption and devices does not depend on the pod.
    let message = scheduled.message.as_deref().unwrap_or_default().split(" no new claims").next();
    is_refused.then(|| Verdict::Refused(message.unwrap_or_default().to_owned()))
}

fn collect(pods: impl Iterator<Item = (String, Result<Pod>)>) -> Result<BTreeMap<String, Pod>> {
    pods.map(|(actor, pod)| Ok((actor, pod?))).collect()
}

fn name_in(pod: &Pod, suffix: &str) -> String {
    format!("{}-{suffix}", pod.name_any())
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn create_all<K>(api: &Api<K>, objects: &[Value]) -> Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    for object in objects {
        let typed: K = serde_json::from_value(object.clone())
            .with_context(|| format!("{} does not fit its kind", name_of(object)))?;
        match api.create(&PostParams::default(), &typed).await {
            Ok(_) => {}
            Err(error) => bail!("cannot create {}: {error}", name_of(object)),
        }
    }
    Ok(())
}
