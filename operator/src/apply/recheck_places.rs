//! Decided places that are lost while nobody is there: they are looked at anew where somebody waits for one, and others are
//! asked for.

use std::collections::BTreeSet;

use control::{Moment, Seen, Step, Todo, Wait};
use crds::{ActorApplication, Placement, StartPolicy};
use kube::ResourceExt;
use world::ApplicationKey;

use crate::error::Error;
use crate::plan::observe::infeasible;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// The actors whose decided place may not be taken now, where `known` is in doubt and that matters: somebody waits for a place, or
/// all start at once. If there are more than were known, other places are asked for.
///
/// The application's own actors that leave a place are no reason, nor are pods whose owner is gone.
///
/// # Errors
/// When it cannot be looked at.
pub async fn recheck(
    (application, decision): (&ActorApplication, &Placement),
    known: &BTreeSet<String>,
    (todo, seen): (&Todo, &Seen),
    ctx: &Context,
) -> Result<Option<BTreeSet<String>>, Error> {
    let key = ApplicationKey::of(application);
    let starts = application.spec.start == StartPolicy::AllOrNothing
        && !control::has_started(seen)
        && todo.steps.iter().any(|step| matches!(step, Step::Start { .. }));
    let matters = starts || todo.waiting.values().any(Wait::is_for_its_place);
    if !(matters && ctx.caches.recheck().take(&key, starts, moment())) {
        return Ok(None);
    }
    let recheck = infeasible(ctx, application, &world::decision(decision)).await?;
    if !ctx.is_in_force(&key, &(decision.uid(), decision.metadata.generation)) {
        // What is decided anew meanwhile is for the next look.
        ctx.caches.recheck().add([key]);
        return Ok(None);
    }
    ctx.set_infeasible(&key, application.metadata.generation, &recheck);
    if !recheck.is_subset(known) {
        ctx.enqueue_replan(&key);
    }
    Ok(Some(recheck))
}

/// When the places of an application that waits for one are to be looked at again: something happened where they are that rang
/// for nobody, as it was not known to wait. Where one may not be taken and no other was found, another is asked for after waits
/// that grow, as room may have come elsewhere.
pub fn next_recheck(key: &ApplicationKey, outcome: &Outcome, ctx: &Context) -> Option<Moment> {
    if !outcome.waiting.values().any(Wait::is_for_its_place) {
        return None;
    }
    let in_doubt = ctx.caches.recheck().next_check(key, moment());
    let is_lost = outcome.waiting.values().any(|wait| matches!(wait, Wait::Infeasible(_)));
    let asked = is_lost.then(|| enqueue_replan_with_backoff(key, ctx));
    asked.into_iter().chain(in_doubt).min()
}

/// Asks for other places, unless that was done a while ago; until when it is not done again.
fn enqueue_replan_with_backoff(key: &ApplicationKey, ctx: &Context) -> Moment {
    let backoff_key = (key.clone(), "its places".to_owned());
    if let Some((until, _)) = ctx.backoff(&backoff_key) {
        return until;
    }
    ctx.enqueue_replan(key);
    ctx.back_off(backoff_key, "one may not be taken", None)
}
