//! Where actors can be, which bounds what a policy has to be written out for.

use placement::Problem;
use placement::ix::{ActorIx, UnitIx};

/// Where actors can be.
pub(crate) struct Choices {
    /// Fixed actors where they are, the others on each of their candidates and where they run now: what runs breaks rules
    /// also from where it may not be. Each place once.
    pub places: Vec<(ActorIx, UnitIx)>,
    /// Whether what the program forbids is left out, but for where actors run now.
    pub forbids: bool,
}

/// Where actors could be if limits fell: on any unit of their kinds, and those of `anywhere` on any unit.
pub(crate) fn open_choices(problem: &Problem, anywhere: &[ActorIx]) -> Choices {
    let mut open = Choices { forbids: false, ..choices(problem) };
    for &actor in &problem.movable {
        let closed =
            |unit: &UnitIx| !is_candidate(problem, actor, *unit) && problem.current[actor] != Some(*unit);
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
        if let Some(home) = problem.fixed_at(actor) {
            choices.places.push((actor, home));
        } else {
            let here = problem.current[actor].filter(|unit| !is_candidate(problem, actor, *unit));
            let units = problem.candidates(actor).iter().copied().chain(here);
            choices.places.extend(units.map(|unit| (actor, unit)));
        }
    }
    choices
}

fn is_candidate(problem: &Problem, actor: ActorIx, unit: UnitIx) -> bool {
    problem.candidates(actor).binary_search(&unit).is_ok()
}
