//! Versions of policies that survive a restart of the operator: a `ControllerRevision` beside the ConfigMap holds the last version that a plan
//! was made with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::ObjectId;
use crds::labels;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::ObjectMeta;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use world::Policy;

use crate::plan::policies::check_program;
use crate::runtime::context::Context;
use crate::status::report::event;

/// How often a version that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// The data of a policy's ConfigMap.
pub type Text = BTreeMap<String, String>;

/// A version that the cluster keeps.
#[derive(Clone, Debug)]
pub struct KeptVersion {
    /// The revision that holds it.
    pub id: ObjectId,
    /// The policy.
    pub policy: Policy,
    /// Its text.
    pub text: Text,
}

impl KeptVersion {
    /// The version of this policy in a revision; nothing if this release of Cairn cannot read it.
    pub fn read(name: &str, revision: &ControllerRevision) -> Option<Self> {
        let text: Text = serde_json::from_value(revision.data.as_ref()?.0.clone()).ok()?;
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let config_map = ConfigMap { metadata, data: Some(text.clone()), ..ConfigMap::default() };
        let policy = Policy::read(&config_map).and_then(check_program).ok()?;
        let id = ObjectId { name: revision.name_any(), uid: revision.uid()?, resource_version: None };
        Some(Self { id, policy, text })
    }
}

/// The policy whose version a revision holds.
pub fn policy_of(revision: &ControllerRevision) -> Option<&str> {
    config_map_of(revision).map(|owner| owner.name.as_str())
}

/// The ConfigMap whose version it is.
fn config_map_of(revision: &ControllerRevision) -> Option<&OwnerReference> {
    let mut owners = revision.owner_references().iter();
    owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == "ConfigMap" && owner.api_version == "v1"
    })
}

/// The revision of a version of this policy, which its ConfigMap, of this uid, owns.
pub fn revision((namespace, name): (&str, &str), uid: &str, number: i64, text: &Text) -> ControllerRevision {
    let owner = OwnerReference {
        api_version: ConfigMap::api_version(&()).into_owned(),
        kind: ConfigMap::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{name}-policy-{number}")),
            namespace: Some(namespace.to_owned()),
            labels: Some([(labels::POLICY_VERSION.to_owned(), number.to_string())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        revision: number,
        data: serde_json::to_value(text).ok().map(RawExtension),
    }
}

/// Keeps proven versions in the cluster, and deletes older ones; ends only with the process.
pub async fn run(ctx: Arc<Context>, namespace: String) {
    loop {
        tokio::select! {
            () = ctx.policies.changed.notified() => {}
            () = tokio::time::sleep(RETRY) => {}
        }
        for revision in ctx.policies.unkept(&namespace) {
            let problem = match ctx.writer.create(&revision).await {
                Ok(Ok(_)) => continue,
                Ok(Err(refused)) => refused.message,
                Err(failed) => failed.chain(),
            };
            report_unkept(&revision, &problem, &ctx).await;
        }
        for old in ctx.policies.surplus() {
            // A version that cannot be deleted is merely surplus.
            if let Err(e) = ctx.writer.delete::<ControllerRevision>(&namespace, &old, false).await {
                tracing::warn!(
                    name = old.name,
                    error = e.chain(),
                    "an old version of a policy is not deleted"
                );
            }
        }
    }
}

/// Emits an event on a policy whose version could not be kept.
async fn report_unkept(revision: &ControllerRevision, problem: &str, ctx: &Context) {
    let Some(owner) = config_map_of(revision) else { return };
    let (name, uid) = (Some(owner.name.clone()), Some(owner.uid.clone()));
    let metadata = ObjectMeta { name, uid, namespace: revision.namespace(), ..ObjectMeta::default() };
    let config_map = ConfigMap { metadata, ..ConfigMap::default() };
    let note = format!(
        "ControllerRevision {} cannot be created: {problem}; until it is, a restarted operator cannot fall back to this version",
        revision.name_any()
    );
    tracing::warn!(policy = owner.name, problem, "a version of a policy is not kept");
    ctx.emit_event(&config_map, &event(EventType::Warning, "PolicyNotKept", "Keep", note)).await;
}
