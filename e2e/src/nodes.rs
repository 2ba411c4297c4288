//! Simulated nodes: real Node objects whose kubelet is KWOK. Their pods are Running without processes.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use futures::{TryStreamExt, stream};
use k8s_openapi::{
    api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{Cluster, wait};

/// KWOK manages only nodes with this annotation.
pub const ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// The name of the policy that keeps KWOK from deleting pods whose deletion was not requested.
const GUARD: &str = "kwok-ends-what-was-asked-to-go";

/// A simulated node: by default four cores, 16 GiB, 110 pods, no devices and no taints.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedNode {
    /// The node's name, a DNS label.
    pub name: String,
    /// Additional labels.
    pub labels: BTreeMap<String, String>,
    /// Its capacity by resource name: `cpu`, `memory`, `pods` and extended resources, as quantities.
    pub resources: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
}

impl SimulatedNode {
    /// A node with the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        let resources = [("cpu", "4"), ("memory", "16Gi"), ("pods", "110")];
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            resources: resources.map(|(name, quantity)| (name.into(), quantity.into())).into(),
            taints: Vec::new(),
        }
    }

    /// Sets its cores, for example `"4"` or `"3500m"`.
    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.quantity("cpu", quantity)
    }

    /// Sets its memory, for example `"64Gi"`.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.quantity("memory", quantity)
    }

    /// Sets the maximum number of pods.
    #[must_use]
    pub fn pods(self, count: u32) -> Self {
        self.resource("pods", count)
    }

    /// Sets the amount of an extended resource, for example two of `nvidia.com/gpu`.
    #[must_use]
    pub fn resource(self, name: &str, count: u32) -> Self {
        self.quantity(name, &count.to_string())
    }

    fn quantity(mut self, name: &str, quantity: &str) -> Self {
        self.resources.insert(name.into(), quantity.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets its zone, by the well-known label.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/zone", zone)
    }

    /// Adds a taint; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let (key, value, effect) = (key.into(), Some(value.into()), effect.into());
        self.taints.push(Taint { key, value, effect, ..Taint::default() });
        self
    }

    /// The Node object. The API server keeps the status of a new Node, and KWOK keeps what it finds there.
    fn object(&self) -> Node {
        let common = [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ];
        let mut labels: BTreeMap<_, _> =
            common.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        labels.extend(self.labels.clone());
        let (annotation, value) = ANNOTATION;
        let resources: BTreeMap<_, _> = self
            .resources
            .iter()
            .map(|(name, quantity)| (name.clone(), Quantity(quantity.clone())))
            .collect();
        // both: with the IP alone, a node that becomes NotReady loses its addresses
        let addresses = [("InternalIP", "127.0.0.1"), ("Hostname", self.name.as_str())]
            .map(|(type_, address)| NodeAddress { type_: type_.into(), address: address.into() });
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                annotations: Some([(annotation.to_owned(), value.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { taints: Some(self.taints.clone()), ..NodeSpec::default() }),
            status: Some(NodeStatus {
                addresses: Some(addresses.into()),
                allocatable: Some(resources.clone()),
                capacity: Some(resources),
                ..NodeStatus::default()
            }),
        }
    }
}

/// Simulated nodes that are deleted on drop.
pub struct Nodes<'a> {
    cluster: &'a Cluster,
    names: Vec<String>,
}

impl Cluster {
    /// Creates simulated nodes and waits until pods can be scheduled to them.
    pub async fn nodes(&self, nodes: impl IntoIterator<Item = SimulatedNode>) -> Result<Nodes<'_>> {
        let api = Api::<Node>::all(self.client().await?);
        self.guard_successors().await?;
        let mut made = Nodes { cluster: self, names: Vec::new() };
        let nodes: Vec<_> = nodes.into_iter().collect();
        made.names.extend(nodes.iter().map(|node| node.name.clone()));
        stream::iter(nodes.into_iter().map(Ok))
            .try_for_each_concurrent(16, |node| {
                let api = api.clone();
                async move {
                    let created = api.create(&PostParams::default(), &node.object()).await;
                    created.map(drop).with_context(|| format!("cannot create node {}", node.name))
                }
            })
            .await?;
        self.wait_nodes_ready(&made.names).await?;
        Ok(made)
    }

    /// Refuses deletions by KWOK of pods whose deletion was not requested. A kubelet would name the uid.
    ///
    /// KWOK deletes by name, often twice: the second request would hit the successor of the same name.
    async fn guard_successors(&self) -> Result<()> {
        let client = self.client().await?;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": GUARD},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]},
                "matchConditions": [{"name": "by-kwok", "expression": "request.userInfo.username == 'kwok'"}],
                "validations": [{"expression": "has(oldObject.metadata.deletionTimestamp)",
                    "message": "the deletion of this pod was not requested"}]}});
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": GUARD}, "spec": {"policyName": GUARD, "validationActions": ["Deny"]}});
        let by = PatchParams::apply("cairn-e2e").force();
        let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
        policies.patch(GUARD, &by, &Patch::Apply(policy)).await.context("cannot guard pods from KWOK")?;
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client);
        bindings.patch(GUARD, &by, &Patch::Apply(binding)).await.context("cannot guard pods from KWOK")?;
        Ok(())
    }

    /// Adopts existing nodes: they are deleted when the returned value is dropped.
    pub fn adopt_nodes<S: Into<String>>(&self, names: impl IntoIterator<Item = S>) -> Nodes<'_> {
        Nodes { cluster: self, names: names.into_iter().map(Into::into).collect() }
    }

    /// Waits at most a minute until these nodes are Ready and without the not-ready taint.
    pub async fn wait_nodes_ready(&self, names: &[impl AsRef<str>]) -> Result<()> {
        let api = Api::<Node>::all(self.client().await?);
        let ready = wait::until(Duration::from_mins(3), async || {
            let nodes = api.list(&ListParams::default()).await?;
            let ready: Vec<_> =
                nodes.iter().filter(|node| is_ready(node)).map(ResourceExt::name_any).collect();
            match names.iter().map(AsRef::as_ref).find(|name| !ready.iter().any(|ready| ready == name)) {
                Some(waiting) => bail!("{} of {} nodes Ready, not {waiting}", ready.len(), nodes.items.len()),
                None => Ok(()),
            }
        });
        ready.await.map_err(|seen| anyhow!("nodes do not become Ready: {seen}"))
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        && !taints.any(|taint| taint.key == "node.kubernetes.io/not-ready")
}

impl Nodes<'_> {
    /// Their names, in order of creation.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Adds a node, which is deleted with the others.
    pub async fn add(&mut self, node: SimulatedNode) -> Result<()> {
        let mut made = self.cluster.nodes([node]).await?;
        self.names.append(&mut made.names);
        Ok(())
    }

    /// Makes a node unreachable: not Ready, and tainted. Its pods stay unchanged.
    pub async fn silence(&self, name: &str) -> Result<()> {
        self.annotate(name, Value::Null).await?;
        let api = Api::<Node>::all(self.cluster.client().await?);
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({"type": "Ready", "status": "False", "reason": "Silent", "message": "the kubelet does not report",
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        let status = json!({"status": {"conditions": [ready]}});
        let silent = wait::until(Duration::from_mins(3), async || {
            let node = api.get(name).await?;
            let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            let is_tainted = taints
                .any(|taint| taint.key == "node.kubernetes.io/not-ready" && taint.effect == "NoExecute");
            if is_ready(&node) || !is_tainted {
                // KWOK may still send a last heartbeat.
                api.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
                bail!("{name} is not tainted yet");
            }
            Ok(())
        });
        silent.await.map_err(|seen| anyhow!("a node does not become unreachable: {seen}"))
    }

    /// Makes a node reachable again.
    pub async fn answer(&self, name: &str) -> Result<()> {
        self.annotate(name, ANNOTATION.1.into()).await?;
        self.cluster.wait_nodes_ready(&[name]).await
    }

    async fn annotate(&self, name: &str, value: Value) -> Result<()> {
        let api = Api::<Node>::all(self.cluster.client().await?);
        let patch = json!({"metadata": {"annotations": {ANNOTATION.0: value}}});
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(drop).with_context(|| format!("cannot patch node {name}"))
    }

    /// Deletes a node now.
    pub async fn delete(&mut self, name: &str) -> Result<()> {
        let api = Api::<Node>::all(self.cluster.client().await?);
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("cannot delete node {name}"))?;
        self.names.retain(|other| other != name);
        Ok(())
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let mut kubectl = self.cluster.command("kubectl");
        kubectl.args(["delete", "node", "--wait=false", "--ignore-not-found"]).args(&self.names);
        // best effort: the whole cluster is deleted soon
        let _ = kubectl.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::SimulatedNode;

    #[test]
    fn requested_properties_are_in_the_node_object() {
        let node = SimulatedNode::new("n").cpu("8").resource("nvidia.com/gpu", 2).zone("a").taint(
            "k",
            "v",
            "NoExecute",
        );
        let object = serde_json::to_value(node.object()).unwrap();
        assert_eq!(object["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
        assert_eq!(object["spec"]["taints"][0]["effect"], "NoExecute");
        let expected =
            serde_json::json!({"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "2"});
        assert_eq!(object["status"]["allocatable"], expected);
        assert_eq!(object["status"]["capacity"], expected);
    }
}
