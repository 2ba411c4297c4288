//! Keeps versions of policies across restarts of the operator: a `ControllerRevision` beside the ConfigMap holds the last version that a plan
//! was made with.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::runtime::events::EventType;

use crate::plan::policy_versions::config_map_of;
use crate::runtime::context::Context;
use crate::status::report::event;

/// How often a version that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(30);

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
                tracing::warn!(name = old.name, error = e.chain(), "failed to delete an old policy revision");
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
    tracing::warn!(policy = owner.name, problem, "failed to store a policy revision");
    ctx.emit_event(&config_map, &event(EventType::Warning, "PolicyNotKept", "Keep", note)).await;
}
