//! Refusals by nodes, admission and disruption budgets: reported, backed off, and kept in the Placement's status.

use std::collections::BTreeMap;

use control::{BlockedOn, Refusal, RefusalScope};
use crds::{Placement, PlacementStatus, Time};
use jiff::Timestamp;
use world::{ActorName, ApplicationKey, Unit};

use crate::apply::pods::eviction::Deferred;
use crate::error::Error;
use crate::runtime::clock::to_wall_clock;
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// Blocks the actors of refused operations. Returns the messages, and the refusals of pods by what they are about.
pub fn block_actors(
    deferred: impl Iterator<Item = Deferred>,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &mut Outcome,
) -> (Vec<String>, Vec<NewRefusal>) {
    let (mut messages, mut not_admitted) = (Vec::new(), Vec::new());
    for refused in deferred {
        let (actor, until, wait) = match refused {
            // Quota, policies and invalid templates are not specific to a node, so the actor keeps its unit.
            Deferred::Start(actor, about, reason) => {
                messages.push(format!("{actor}: {reason}"));
                not_admitted.push(NewRefusal {
                    key: about,
                    actor: actor.clone(),
                    reason: reason.clone(),
                    expires: true,
                });
                let until = ctx.back_off((key.clone(), actor.clone()), &reason, None);
                (actor, until, BlockedOn::Backoff(reason))
            }
            Deferred::Create { actor, until, why, just_now }
            | Deferred::Remove { actor, until, why, just_now } => {
                messages.extend(just_now.then(|| format!("{actor}: {why}")));
                (actor, until, BlockedOn::Backoff(why))
            }
            Deferred::Evict(actor, until, reason) => (actor, until, BlockedOn::Eviction(reason)),
        };
        outcome.requeue_at = Some(outcome.requeue_at.map_or(until, |at| at.min(until)));
        outcome.waiting.insert(actor, wait);
    }
    (messages, not_admitted)
}

/// A refusal that is not recorded yet.
pub struct NewRefusal {
    /// What it is about.
    key: control::RefusalKey,
    /// The refused actor.
    actor: String,
    /// Message of the component that refused.
    reason: String,
    /// Whether it expires even if its cause is unchanged.
    expires: bool,
}

/// Refusals by nodes that are not `known` yet, and their messages. Those of pods that never existed expire.
pub fn by_node(
    (refused, expires): (Vec<control::RefusedPod>, bool),
    units: &BTreeMap<String, Unit>,
    actors: &[ActorName],
    known: &[Refusal],
) -> (Vec<NewRefusal>, String) {
    let mut messages = Vec::new();
    let refused = refused.into_iter().filter_map(|it| {
        let kind = units.get(&it.unit).map_or(String::new(), |unit| unit.kind.clone());
        let group = actors.iter().find(|actor| actor.short() == it.actor).map(|actor| actor.group.clone());
        let words = format!("{} on {}: {}", it.actor, it.node, it.reason);
        let about = control::RefusalKey {
            scope: RefusalScope::Node(it.node),
            group: group.unwrap_or_default(),
            kind,
        };
        if known.iter().any(|known| known.key == about) {
            return None;
        }
        messages.push(words);
        Some(NewRefusal { key: about, actor: it.actor, reason: it.reason, expires })
    });
    let refused = refused.collect();
    (refused, messages.join("; "))
}

/// Writes refusals into the Placement's status; they are facts for the next plan.
///
/// # Errors
/// When the write fails, or the lease is lost; it is retried.
pub async fn record_refusals(
    key: &ApplicationKey,
    decision: &mut Placement,
    ctx: &Context,
    refusals: &mut Vec<Refusal>,
    refused: Vec<NewRefusal>,
) -> Result<(), Error> {
    // Concurrent refusals of one kind count once.
    for NewRefusal { key: about, actor, reason, expires } in refused {
        let reason: String = reason.chars().take(control::MAX_REASON_CHARS).collect();
        let cause = {
            let index = ctx.caches.index();
            let application = index.application(key).filter(|_| !expires);
            application.and_then(|of| world::refusal_cause(&index, of, &about, &reason))
        };
        ctx.record_refusal(key, &about, (&actor, &reason, cause));
    }
    *refusals = ctx.active_refusals(key, None);
    let before = decision.status.clone().unwrap_or_default();
    let status = PlacementStatus { refusals: to_status(refusals), ..before };
    *decision = ctx.writer.apply_status(decision, &status).await?;
    ctx.caches.record_written(decision.clone());
    Ok(())
}

/// Refusals in the form of a Placement's status.
pub fn to_status(refusals: &[Refusal]) -> Vec<crds::Refusal> {
    let time = |refusal: &Refusal| {
        let seconds = i64::try_from(to_wall_clock(refusal.until).as_secs()).unwrap_or(i64::MAX);
        Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
    };
    let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let refusal_of = |refusal: &Refusal| {
        let (scope, node) = match &refusal.key.scope {
            RefusalScope::Node(node) => (crds::RefusalScope::Node, Some(node.clone())),
            RefusalScope::Template => (crds::RefusalScope::Template, None),
            RefusalScope::Namespace => (crds::RefusalScope::Namespace, None),
        };
        crds::Refusal {
            scope,
            group: known(&refusal.key.group),
            kind: known(&refusal.key.kind),
            actor: refusal.actor.clone(),
            node,
            reason: refusal.reason.clone(),
            count: i32::try_from(refusal.count).ok(),
            until: time(refusal),
            cause: refusal.cause.clone(),
        }
    };
    refusals.iter().map(refusal_of).collect()
}
