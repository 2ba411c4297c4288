//! Evicts pods that move, as a drain does. If a disruption budget or admission refuses it, the eviction is retried with
//! backoff.

use control::{Moment, ObjectId, RefusalKey};
use world::ApplicationKey;

use crate::error::Error;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;

/// An operation that is refused for now and retried.
pub enum Deferred {
    /// The Instance was not admitted; retried at `until`.
    Create { actor: String, until: Moment, why: String, just_now: bool },
    /// The pod of this actor was not admitted; what the refusal is about, and its message.
    Start(String, RefusalKey, String),
    /// The pod of this actor may not be evicted until this time; the message.
    Evict(String, Moment, String),
    /// A pod or an Instance may not be deleted; retried at `until`.
    Remove { actor: String, until: Moment, why: String, just_now: bool },
}

/// Evicts the pod of an actor that moves, unless an eviction is backed off.
///
/// # Errors
/// When the API server fails, or the lease is lost.
pub async fn evict(
    ctx: &Context,
    key: &ApplicationKey,
    actor: String,
    pod: &ObjectId,
) -> Result<Option<Deferred>, Error> {
    let backoff_key = (key.clone(), format!("eviction of {actor}"));
    if let Some((until, why)) = ctx.backoff(&backoff_key) {
        return Ok(Some(Deferred::Evict(actor, until, why)));
    }
    let Err(why) = ctx.writer.evict(&key.namespace, &pod.name, &pod.uid).await? else { return Ok(None) };
    tracing::info!(actor, why, "eviction refused; backing off");
    ctx.moves.eviction_refused(key, &actor, &why, moment());
    let until = ctx.back_off(backoff_key, &why, None);
    Ok(Some(Deferred::Evict(actor, until, why)))
}
