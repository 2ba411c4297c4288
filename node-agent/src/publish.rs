//! Publishes a node's NodeTopology: reads first, and writes only differences.

use crds::{Allocation, Condition, NodeTopology, NodeTopologySpec, NodeTopologyStatus, Time};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    failure::{Failure, in_time},
    source::Release,
};

/// The field manager of all writes of the agent.
pub const FIELD_MANAGER: &str = "cairn-node-agent";

/// The condition type for whether the node's agent reports its devices.
const READY: &str = "Ready";
/// The condition type for whether the agent has released the GPU drivers; present while the Node's label requests it.
const DRIVER_RELEASED: &str = "DriverReleased";

/// The desired state of one node in the API server.
#[derive(Clone, Copy, Debug)]
pub struct DesiredState<'a> {
    /// The name of the Node and of the NodeTopology.
    pub node: &'a str,
    /// The uid of the Node.
    pub uid: &'a str,
    /// The devices; `None` empties the topology, as the description of the node was removed.
    pub spec: Option<&'a NodeTopologySpec>,
    /// The allocations; `None` keeps the published ones, as they are unknown.
    pub allocations: Option<&'a [Allocation]>,
    /// The state of the driver release; `None` if it is not requested.
    pub release: Option<&'a Release>,
}

/// The result of [`publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Up to date; only one read was sent.
    Unchanged,
    /// The spec, the status or both were written.
    Written,
}

/// The Node as owner of the agent's objects, which are deleted with it.
pub fn owner(node: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

impl DesiredState<'_> {
    /// Whether `actual` is up to date.
    pub fn matches(&self, actual: &NodeTopology) -> bool {
        self.spec_matches(actual) && self.status_change(actual, Timestamp::UNIX_EPOCH).is_none()
    }

    fn spec_matches(&self, actual: &NodeTopology) -> bool {
        self.devices_match(&actual.spec)
            && actual.owner_references().iter().any(|owner| owner.kind == "Node" && owner.uid == self.uid)
    }

    fn devices_match(&self, actual: &NodeTopologySpec) -> bool {
        self.spec.map_or_else(|| *actual == NodeTopologySpec::default(), |desired| desired == actual)
    }

    /// The body of the apply request.
    fn body(&self) -> Value {
        let spec = self.spec.cloned().unwrap_or_default();
        let mut body = part("spec", &json!(spec));
        if spec.devices.is_empty() {
            // An apply that drops all owned fields of `spec` sets it to null, which the schema rejects. The list of
            // links is atomic: even an empty one keeps `spec`.
            body["spec"]["links"] = json!(spec.links);
        }
        body["metadata"] = json!({"name": self.node, "ownerReferences": [owner(self.node, self.uid)]});
        body
    }

    /// The desired status; `None` if `actual` already has it.
    fn status_change(&self, actual: &NodeTopology, now: Timestamp) -> Option<NodeTopologyStatus> {
        let generation = actual.metadata.generation;
        let devices = self.spec.map(NodeTopologySpec::summary).filter(|summary| !summary.is_empty());
        let (status, reason, message) = if self.spec.is_some() {
            ("True", "Reported", "The agent of the node reports its devices.")
        } else {
            (
                "False",
                "NotDescribed",
                "The description of the node was removed; it has no devices until it is described again.",
            )
        };
        let current = actual.status.clone().unwrap_or_default();
        let condition = |(type_, status, reason, message): (&str, &str, &str, &str)| {
            let mut before = current.conditions.iter().filter(|it| it.type_ == type_ && it.status == status);
            let since = before.next().map(|before| before.last_transition_time.clone());
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                observed_generation: generation,
                last_transition_time: since.unwrap_or(Time(now)),
            }
        };
        let release = self.release.map(|release| match release {
            Release::Done => (DRIVER_RELEASED, "True", "Released", "The agent has released the GPU drivers."),
            Release::Waits(why) => (DRIVER_RELEASED, "False", "Waiting", why.as_str()),
        });
        let conditions = [Some((READY, status, reason, message)), release];
        let status = NodeTopologyStatus {
            observed_generation: generation,
            devices: Some(devices.unwrap_or_else(|| "none".to_owned())),
            allocations: self.allocations.map_or(current.allocations.clone(), <[_]>::to_vec),
            conditions: conditions.into_iter().flatten().map(condition).collect(),
        };
        let is_ours = |it: &&Condition| [READY, DRIVER_RELEASED].contains(&it.type_.as_str());
        let same = current.observed_generation == status.observed_generation
            && current.devices == status.devices
            && current.allocations == status.allocations
            && current.conditions.iter().filter(is_ours).eq(&status.conditions);
        (!same).then_some(status)
    }
}

/// Writes `desired` to the API server.
///
/// Reads first, so that a stale cache of the caller causes no write.
pub async fn publish(api: &Api<NodeTopology>, desired: DesiredState<'_>) -> Result<Outcome, Failure> {
    let current = in_time(api.get_opt(desired.node)).await?;
    let (object, spec_written) = match current {
        Some(current) if desired.spec_matches(&current) => (current, false),
        _ => (write_spec(api, desired).await?, true),
    };
    let Some(status) = desired.status_change(&object, Timestamp::now()) else {
        return Ok(if spec_written { Outcome::Written } else { Outcome::Unchanged });
    };
    in_time(api.patch_status(desired.node, &apply(), &Patch::Apply(part("status", &json!(status))))).await?;
    Ok(Outcome::Written)
}

async fn write_spec(api: &Api<NodeTopology>, desired: DesiredState<'_>) -> Result<NodeTopology, Failure> {
    let object = in_time(api.patch(desired.node, &apply(), &Patch::Apply(desired.body()))).await?;
    if desired.devices_match(&object.spec) {
        return Ok(object);
    }
    // Apply keeps list entries of other field managers; a merge patch replaces whole lists.
    let lists = desired.spec.cloned().unwrap_or_default();
    let lists = json!({"spec": {"devices": lists.devices, "links": lists.links}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    in_time(api.patch(desired.node, &params, &Patch::Merge(lists))).await
}

/// Server-side apply with force: the agent is authoritative for its node.
pub fn apply() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// One part of a NodeTopology, as the body of an apply.
fn part(name: &str, value: &Value) -> Value {
    json!({"apiVersion": format!("{}/{}", crds::GROUP, crds::VERSION), "kind": "NodeTopology", name: value})
}

#[cfg(test)]
mod tests;
