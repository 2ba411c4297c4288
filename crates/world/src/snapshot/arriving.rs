//! Actors whose pods are scheduled again even if they stay.

use placement::file::Actor;

use crate::index::load::by_unit::BoundPods;

/// Marks the actors with a place and without a bound pod: what binds new pods binds them at their place.
///
/// An actor that moves runs until its pod ends, and is not marked before.
pub(super) fn mark_arriving(planned: &mut [Actor], bound: &BoundPods) {
    for actor in planned.iter_mut().filter(|actor| actor.current.is_some()) {
        actor.arriving = !bound.contains_key(actor.id.rsplit('/').next().unwrap_or_default());
    }
}
