//! Where something goes when there is no time to ask what that costs.

use placement::State;
use placement::ix::{ActorIx, UnitIx};

/// Places that are looked at for an actor, or a bundle, where there is no time left.
pub(crate) const LOOKED_AT: usize = 8;

/// The emptiest of the first few units that take the actor, and how full that becomes.
pub(crate) fn emptiest<'a>(
    state: &State,
    actor: ActorIx,
    units: impl Iterator<Item = &'a UnitIx>,
) -> Option<(i64, UnitIx)> {
    let feasible = units.filter(|unit| state.admits(actor, **unit)).take(LOOKED_AT);
    feasible.map(|unit| (state.fullness_with(actor, *unit), *unit)).min()
}
