//! Accounts for moves: history, events and metrics.

use control::ObjectId;
use crds::{
    ActorApplication, MoveOutcome, MoveProgress, MoveStep, OutcomeVerdict, Placement, PlacementStatus,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use world::ApplicationKey;

use crate::apply::moves::history::{History, outcome_of};
use crate::apply::pods::lifecycle::delete;
use crate::error::Error;
use crate::runtime::clock::micro_time;
use crate::runtime::context::Context;
use crate::status::moves::{move_events, outcome_event, transitions};
use crate::status::report::Outcome;

/// Adds the decisions whose moves a Placement lists to the history, unless it has them.
///
/// # Errors
/// When a write fails, or the lease is lost; it is retried.
pub async fn record_decisions(
    (application, key): (&ActorApplication, &ApplicationKey),
    decision: &Placement,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<History, Error> {
    let history = ctx.owned_resources.history(application);
    for revision in history.missing(application, decision, &ctx.moves.services(key)) {
        ctx.owned_resources.ensure_revision(revision, application, key, ctx, outcome).await?;
    }
    Ok(history)
}

/// Adds the decisions that moved actors and the outcomes of earlier ones to the history, and deletes the oldest decisions.
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
    let history = record_decisions((application, key), decision, ctx, outcome).await?;
    let judged = judged.and_then(|judged| {
        let revision = history.find(&judged.decided_at).filter(|it| outcome_of(it).is_none())?;
        Some((revision, judged.clone()))
    });
    let superseded = history.superseded(decision, &micro_time(Timestamp::now()));
    // An outcome that was judged is written first, and the other write of its version fails.
    for (revision, judged) in judged.into_iter().chain(superseded) {
        let judged = &judged;
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
    if judged.verdict == OutcomeVerdict::Withdrawn {
        // Each of its moves is counted.
        return;
    }
    ctx.metrics.move_outcomes.with_label_values(&[<&str>::from(judged.verdict)]).inc();
    if judged.verdict == OutcomeVerdict::Superseded {
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

/// Emits the events of moves that went on, and counts those that failed and how long their steps took.
pub async fn record_steps(
    application: &ActorApplication,
    (before, now): (&[MoveProgress], &PlacementStatus),
    ctx: &Context,
) {
    let transitions = transitions(before, &now.moves);
    for step in &transitions {
        let is_refused = || now.refusals.iter().any(|it| it.actor == step.progress.actor);
        // A move that another decision replaced before it began did not fail.
        if step.progress.step == MoveStep::Withdrawn && (step.from != MoveStep::Decided || is_refused()) {
            let withdrawn = <&str>::from(OutcomeVerdict::Withdrawn);
            ctx.metrics.move_outcomes.with_label_values(&[withdrawn]).inc();
        }
        ctx.metrics.move_step_seconds.with_label_values(&[<&str>::from(step.from)]).observe(step.seconds);
    }
    for event in move_events(&transitions) {
        ctx.emit_event(application, &event).await;
    }
}
