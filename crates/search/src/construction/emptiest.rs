//! Quick placement without pricing, when no time is left.

use placement::State;
use placement::ix::{ActorIx, UnitIx};

/// Feasible units that are compared for an actor, or places for a bundle.
pub(crate) const COMPARED: usize = 8;

/// Units that may be probed for each actor.
const PROBES_PER_ACTOR: usize = 48;

/// Further units that may be probed for all actors together: some hundredths of a second.
const SHARED_PROBES: usize = 1 << 18;

/// Probes in the time that it takes to place an actor and to unplace it.
pub(crate) const PROBES_PER_PLACEMENT: usize = 8;

/// Probes of units that are left. The clock is over and not checked again, so the result does not depend on it.
pub(crate) struct ProbeBudget {
    own: usize,
    shared: usize,
}

impl ProbeBudget {
    pub fn new() -> Self {
        Self { own: 0, shared: SHARED_PROBES }
    }

    /// Starts the budget of the next actors.
    pub fn start_actors(&mut self, actors: usize) {
        self.own = PROBES_PER_ACTOR * actors;
    }

    /// Spends probes; false where fewer are left.
    pub fn take(&mut self, probes: usize) -> bool {
        let own = probes.min(self.own);
        let shared = (probes - own).min(self.shared);
        self.own -= own;
        self.shared -= shared;
        own + shared == probes
    }

    /// Whether the present actors have none left.
    pub fn is_spent(&self) -> bool {
        self.own == 0 && self.shared == 0
    }
}

/// The emptiest of the first few units that admit the actor, and its fullness. `None` if no unit within the budget does.
pub(crate) fn emptiest<'a>(
    state: &State,
    actor: ActorIx,
    units: impl Iterator<Item = &'a UnitIx>,
    probes: &mut ProbeBudget,
) -> Option<(i64, UnitIx)> {
    let seen = units.take_while(|_| probes.take(1));
    let feasible = seen.filter(|unit| state.admits(actor, **unit)).take(COMPARED);
    feasible.map(|unit| (state.fullness_with(actor, *unit), *unit)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a full cluster each actor is probed all the same, but not all units once that takes long.
    #[test]
    fn the_last_actor_of_a_full_cluster_is_still_probed() {
        let units: Vec<String> = (0..200).map(|unit| format!("u{unit}:cpu:9:slots=0")).collect();
        let units = format!("{} v:cpu:9", units.join(" "));
        let snapshot = testkit::line::world(&units, "a:cpu=1", "");
        let (state, actor) = (State::new(&snapshot), ActorIx::new(0));
        let candidates = snapshot.problem().candidates(actor);
        let (last, mut probes) = (UnitIx::new(200), ProbeBudget::new());
        probes.start_actors(1);
        assert_eq!(emptiest(&state, actor, candidates.iter(), &mut probes).map(|(_, unit)| unit), Some(last));
        assert_eq!((probes.own, probes.shared), (0, SHARED_PROBES - (candidates.len() - PROBES_PER_ACTOR)));
        probes.shared = 100;
        probes.start_actors(1);
        assert_eq!(emptiest(&state, actor, candidates.iter(), &mut probes), None);
        assert!(probes.is_spent());
        probes.start_actors(1);
        assert_eq!(
            emptiest(&state, actor, candidates.iter().rev(), &mut probes).map(|(_, unit)| unit),
            Some(last)
        );
    }

    #[test]
    fn own_probes_are_spent_before_shared_ones() {
        let mut probes = ProbeBudget { own: 0, shared: 10 };
        probes.start_actors(2);
        assert!(probes.take(2 * PROBES_PER_ACTOR + 4));
        assert_eq!((probes.own, probes.shared), (0, 6));
        assert!(!probes.take(7) && probes.is_spent());
    }
}
