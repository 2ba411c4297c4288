//! Who is to move is evicted, as a drain does it: disruption budgets are obeyed, and one that allows nothing now is waited for, as is
//! admission that refuses it.

use control::{About, Id, Moment};
use world::ApplicationKey;

use crate::error::Error;
use crate::runtime::context::Context;

/// What could not be done now, and is tried again.
pub enum Deferred {
    /// An actor whose Instance was not taken, until when it is not tried again, what was said, and whether that is news.
    Create { actor: String, until: Moment, why: String, just_now: bool },
    /// An actor whose pod was not admitted, what that concerns, and what was said.
    Start(String, About, String),
    /// An actor whose pod may not be evicted, until when it is not tried again, and what was said.
    Evict(String, Moment, String),
    /// An actor whose pod or Instance may not be taken away, until when it is not tried again, what was said, and whether that is
    /// news.
    Remove { actor: String, until: Moment, why: String, just_now: bool },
}

/// Evicts the pod of an actor that is to be elsewhere, unless that was refused a moment ago.
///
/// # Errors
/// When the API server cannot be asked, or the lease is lost.
pub async fn evict(
    ctx: &Context,
    key: &ApplicationKey,
    actor: String,
    pod: &Id,
) -> Result<Option<Deferred>, Error> {
    let backoff_key = (key.clone(), format!("eviction of {actor}"));
    if let Some((until, why)) = ctx.backoff(&backoff_key) {
        return Ok(Some(Deferred::Evict(actor, until, why)));
    }
    let Err(why) = ctx.writer.evict(&key.namespace, &pod.name, &pod.uid).await? else { return Ok(None) };
    tracing::info!(actor, why, "may not be evicted now");
    let until = ctx.back_off(backoff_key, &why, None);
    Ok(Some(Deferred::Evict(actor, until, why)))
}
