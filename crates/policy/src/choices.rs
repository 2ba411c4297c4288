//! Where actors can be, which bounds what a policy has to be written out for.

use placement::Problem;
use placement::ix::{ActorIx, UnitIx};

/// Where actors can be.
pub(crate) struct Choices {
    /// Fixed actors where they are, the others on each of their candidates.
    pub places: Vec<(ActorIx, UnitIx)>,
    /// Whether what the program forbids is left out.
    pub forbids: bool,
}

/// Where actors could be if limits fell: on any unit of their kinds, and those of `anywhere` on any unit.
pub(crate) fn open_choices(problem: &Problem, anywhere: &[ActorIx]) -> Choices {
    let mut open = Choices { forbids: false, ..choices(problem) };
    for &actor in &problem.movable {
        let closed = |unit: &UnitIx| problem.candidates(actor).binary_search(unit).is_err();
        let of_kind =
            |unit: &UnitIx| anywhere.contains(&actor) || problem.implementation(actor, *unit).is_some();
        let more = problem.capacity.positions().filter(closed).filter(of_kind);
        open.places.extend(more.map(|unit| (actor, unit)));
    }
    open
}

/// Where actors can be.
pub(crate) fn choices(problem: &Problem) -> Choices {
    let mut choices = Choices { places: Vec::new(), forbids: true };
    for actor in problem.current.positions() {
        match problem.fixed_at(actor) {
            Some(home) => choices.places.push((actor, home)),
            None => choices.places.extend(problem.candidates(actor).iter().map(|unit| (actor, *unit))),
        }
    }
    choices
}
