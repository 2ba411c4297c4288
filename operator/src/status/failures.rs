//! Conditions of requests to the API server that fail again and again, and of work that panics.

use crds::{ActorApplication, ActorApplicationStatus};
use jiff::Timestamp;
use world::{ApplicationKey, SnapshotWarning};

use crate::error::Error;
use crate::runtime::context::Context;
use crate::status::report::{Finding, conditions};

/// Notes for the conditions: what fails of planning and, if the present reconcile `has_failed` as well, of reconciles.
pub fn failure_notes(key: &ApplicationKey, has_failed: bool, ctx: &Context) -> Vec<SnapshotWarning> {
    let of_reconciles = ctx.reconcile_backoff.lasting_failure(key).filter(|_| has_failed);
    let all = of_reconciles.into_iter().chain(ctx.plan_backoff.lasting_failure(key));
    all.map(|(condition, message)| SnapshotWarning { condition, message }).collect()
}

/// Adds the conditions of failures to the status that was reported last, while planning has not ended.
///
/// # Errors
/// When the write fails.
pub async fn report_failures(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
) -> Result<(), Error> {
    let notes = failure_notes(key, true, ctx);
    if notes.is_empty() {
        return Ok(());
    }
    let status = with_failures(application, notes, Timestamp::now());
    if application.status.as_ref() != Some(&status) {
        ctx.writer.apply_status(application, &status).await?;
    }
    Ok(())
}

/// The last status, with these conditions.
fn with_failures(
    application: &ActorApplication,
    notes: Vec<SnapshotWarning>,
    now: Timestamp,
) -> ActorApplicationStatus {
    let mut status = application.status.clone().unwrap_or_default();
    let finding = |note: SnapshotWarning| Finding {
        type_: note.condition,
        holds: true,
        reason: note.condition,
        message: note.message,
    };
    let findings = notes.into_iter().map(finding).collect();
    let added = conditions(&status.conditions, findings, application.metadata.generation, now);
    status.conditions.retain(|condition| added.iter().all(|it| it.type_ != condition.type_));
    status.conditions.extend(added);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_added_to_the_last_status_once() {
        let spec = serde_json::from_value(serde_json::json!({"actors": []})).unwrap();
        let mut application = ActorApplication::new("app", spec);
        let ready = Finding { type_: "Ready", holds: true, reason: "AllRunning", message: String::new() };
        let before = ActorApplicationStatus {
            observed_generation: Some(1),
            conditions: conditions(&[], vec![ready], Some(1), Timestamp::UNIX_EPOCH),
            ..ActorApplicationStatus::default()
        };
        (application.metadata.generation, application.status) = (Some(2), Some(before.clone()));
        let note =
            |message: &str| vec![SnapshotWarning { condition: "RequestFailed", message: message.to_owned() }];
        let at = |second| Timestamp::from_second(second).unwrap();
        for (message, second, since) in [("500", 10, 10), ("500", 20, 10), ("503", 30, 10)] {
            let status = with_failures(&application, note(message), at(second));
            let [ready, failed] = status.conditions.as_slice() else { panic!("{:?}", status.conditions) };
            assert_eq!((status.observed_generation, ready), (Some(1), &before.conditions[0]));
            assert_eq!((failed.reason.as_str(), failed.message.as_str()), ("RequestFailed", message));
            assert_eq!((failed.status.as_str(), failed.last_transition_time.0), ("True", at(since)));
            application.status = Some(status);
        }
    }
}
