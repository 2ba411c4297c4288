//! Accounts for moves: history, events and metrics.

use control::ObjectId;
use crds::{ActorApplication, MoveOutcome, MoveProgress, OutcomeVerdict, Placement};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use world::ApplicationKey;

use crate::apply::history::outcome_of;
use crate::apply::instance_pods::delete;
use crate::error::Error;
use crate::runtime::context::Context;
use crate::status::moves::{move_events, outcome_event, transitions};
use crate::status::report::Outcome;

/// Adds the last decision that moved actors and the outcome of an earlier one to the history, and deletes the oldest decisions.
///
/// # Errors
/// When a write fails, or the lease is lost; it is retried.
pub async fn record_history(
    (application, key): (&ActorApplication, &ApplicationKey),
    decision: &Placement,
    judged: Option<&MoveOutcome>,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let history = ctx.owned_resources.history(application);
    if let Some(revision) = history.missing(application, decision) {
        ctx.owned_resources.ensure_revision(revision, application, key, ctx, outcome).await?;
    }
    if let Some(judged) = judged
        && let Some(revision) = history.find(&judged.decided_at).filter(|it| outcome_of(it).is_none())
    {
        let text = serde_json::to_string(judged).unwrap_or_default();
        // Another reconcile may have written it before the watch delivers it: an outcome is counted once.
        if ctx.writer.annotate_revision(revision, crds::labels::OUTCOME, &text).await? {
            publish_outcome((application, key), decision, judged, ctx).await;
        }
    }
    for old in history.surplus() {
        let uid = old.uid().unwrap_or_default();
        let id = ObjectId { name: old.name_any(), uid, resource_version: None };
        delete::<ControllerRevision>(ctx, key, id.name.clone(), &id, false).await?;
    }
    Ok(())
}

/// Counts an outcome and emits its event.
async fn publish_outcome(
    (application, key): (&ActorApplication, &ApplicationKey),
    decision: &Placement,
    judged: &MoveOutcome,
    ctx: &Context,
) {
    ctx.metrics.move_outcomes.with_label_values(&[<&str>::from(judged.verdict)]).inc();
    if judged.verdict == OutcomeVerdict::Withdrawn {
        return;
    }
    let gain = decision.spec.gain.as_ref().filter(|gain| gain.decided_at == judged.decided_at);
    let expected = gain.map_or(0, |gain| gain.expected_percent);
    for (kind, percent) in [("expected", Some(expected)), ("realised", judged.realised_percent)] {
        let labels = [key.namespace.as_str(), key.name.as_str(), kind];
        ctx.metrics.gain_ratio.with_label_values(&labels).set(ratio(percent.unwrap_or_default()));
    }
    ctx.emit_event(application, &outcome_event(judged, expected)).await;
}

fn ratio(percent: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "percents are small")]
    let percent = percent as f64;
    percent / 100.0
}

/// Emits the events of moves that went on, and observes how long their steps took.
pub async fn record_steps(
    application: &ActorApplication,
    (before, now): (&[MoveProgress], &[MoveProgress]),
    ctx: &Context,
) {
    let transitions = transitions(before, now);
    for step in &transitions {
        ctx.metrics.move_step_seconds.with_label_values(&[<&str>::from(step.from)]).observe(step.seconds);
    }
    for event in move_events(&transitions) {
        ctx.emit_event(application, &event).await;
    }
}
