//! The assignment of actors to units.

use crate::ix::{ActorIx, IxVec, UnitIx};

/// Where each actor is: by position of the actor, the position of its unit, or `None` where it has no place.
pub type Assignment = IxVec<ActorIx, Option<UnitIx>>;
