//! Keeps versions of policies across restarts of the operator: a `ControllerRevision` beside the ConfigMap holds the last version that a plan
//! was made with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::runtime::events::EventType;

use crate::api::writes::Created;
use crate::plan::policies::versions::config_map_of;
use crate::runtime::context::Context;
use crate::status::report::event;

/// How often a version that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Keeps proven versions in the cluster, and deletes older ones; ends only with the process.
pub async fn run(ctx: Arc<Context>, namespace: String) {
    let mut existed = BTreeSet::new();
    loop {
        tokio::select! {
            () = ctx.policies.changed.notified() => {}
            () = tokio::time::sleep(RETRY) => {}
        }
        for revision in ctx.policies.missing_revisions(&namespace) {
            let problem = match ctx.writer.create(&revision).await {
                Ok(Ok(Created::New)) => continue,
                // At first the watch may just not have delivered it.
                Ok(Ok(Created::Existed)) if existed.insert(revision.name_any()) => continue,
                Ok(Ok(Created::Existed)) => "another object has its name; delete that".to_owned(),
                Ok(Err(refused)) => refused.message,
                Err(failed) => failed.chain(),
            };
            let Some(owner) = config_map_of(&revision) else { continue };
            let note = format!(
                "ControllerRevision {} cannot be created: {problem}; until it is, a restarted operator cannot fall back to this version",
                revision.name_any()
            );
            let config_map = (owner.name.clone(), Some(owner.uid.clone()));
            report(config_map, &namespace, ("PolicyNotKept", note), &ctx).await;
        }
        for (config_map, old) in ctx.policies.surplus() {
            let problem = match ctx.writer.delete::<ControllerRevision>(&namespace, &old, false).await {
                Ok(Ok(())) => continue,
                Ok(Err(refused)) => refused,
                Err(failed) => failed.chain(),
            };
            let note =
                format!("ControllerRevision {} with an older version cannot be deleted: {problem}", old.name);
            report(config_map, &namespace, ("OldPolicyKept", note), &ctx).await;
        }
    }
}

/// Emits an event on the ConfigMap of a policy, of this name and uid.
async fn report(
    (name, uid): (String, Option<String>),
    namespace: &str,
    (reason, note): (&str, String),
    ctx: &Context,
) {
    tracing::warn!(policy = name, note, "failed to store or delete a policy revision");
    let metadata =
        ObjectMeta { name: Some(name), uid, namespace: Some(namespace.to_owned()), ..ObjectMeta::default() };
    let config_map = ConfigMap { metadata, ..ConfigMap::default() };
    ctx.emit_event(&config_map, &event(EventType::Warning, reason, "Keep", note)).await;
}
