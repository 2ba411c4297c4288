//! Where something goes when there is no time to ask what that costs.

use placement::State;
use placement::ix::{ActorIx, UnitIx};

/// Places that are looked at for an actor, or a bundle, where there is no time left.
pub(crate) const LOOKED_AT: usize = 8;

/// Units that may be looked at for each actor until so many take it.
const NEAR: usize = 48;

/// Units that may be looked at beyond that, for all actors together: some hundredths of a second.
const FAR: usize = 1 << 18;

/// Looks in the time that it takes to put an actor somewhere and to take it off again.
pub(crate) const PUT: usize = 8;

/// Looks at units that may still be taken. The clock is over, so it is not asked: what is found is the same however late it is.
pub(crate) struct Looks {
    near: usize,
    far: usize,
}

impl Looks {
    pub fn new() -> Self {
        Self { near: 0, far: FAR }
    }

    /// So many actors are next.
    pub fn begin(&mut self, actors: usize) {
        self.near = NEAR * actors;
    }

    /// Takes so many; false where there are not as many left.
    pub fn take(&mut self, looks: usize) -> bool {
        let near = looks.min(self.near);
        let far = (looks - near).min(self.far);
        self.near -= near;
        self.far -= far;
        near + far == looks
    }

    /// Whether none are left for who is next now.
    pub fn are_over(&self) -> bool {
        self.near == 0 && self.far == 0
    }
}

/// The emptiest of the first few units that take the actor, and how full that becomes. Whom none of those takes that may still be looked
/// at finds no place.
pub(crate) fn emptiest<'a>(
    state: &State,
    actor: ActorIx,
    units: impl Iterator<Item = &'a UnitIx>,
    looks: &mut Looks,
) -> Option<(i64, UnitIx)> {
    let seen = units.take_while(|_| looks.take(1));
    let feasible = seen.filter(|unit| state.admits(actor, **unit)).take(LOOKED_AT);
    feasible.map(|unit| (state.fullness_with(actor, *unit), *unit)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a cluster that is full each actor is looked at all the same, and not at all units once that takes long.
    #[test]
    fn who_comes_last_in_a_full_cluster_is_still_looked_at() {
        let units: Vec<String> = (0..200).map(|unit| format!("u{unit}:cpu:9:slots=0")).collect();
        let units = format!("{} v:cpu:9", units.join(" "));
        let snapshot = testkit::line::world(&units, "a:cpu=1", "");
        let (state, actor) = (State::new(&snapshot), ActorIx::new(0));
        let candidates = snapshot.problem().candidates(actor);
        let (last, mut looks) = (UnitIx::new(200), Looks::new());
        looks.begin(1);
        assert_eq!(emptiest(&state, actor, candidates.iter(), &mut looks).map(|(_, unit)| unit), Some(last));
        assert_eq!((looks.near, looks.far), (0, FAR - (candidates.len() - NEAR)));
        looks.far = 100;
        looks.begin(1);
        assert_eq!(emptiest(&state, actor, candidates.iter(), &mut looks), None);
        assert!(looks.are_over());
        looks.begin(1);
        assert_eq!(
            emptiest(&state, actor, candidates.iter().rev(), &mut looks).map(|(_, unit)| unit),
            Some(last)
        );
    }

    #[test]
    fn looks_of_ones_own_are_taken_first() {
        let mut looks = Looks { near: 0, far: 10 };
        looks.begin(2);
        assert!(looks.take(2 * NEAR + 4));
        assert_eq!((looks.near, looks.far), (0, 6));
        assert!(!looks.take(7) && looks.are_over());
    }
}
