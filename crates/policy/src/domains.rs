//! The domains of actors: the units on which each can be placed, which bound the grounding of a policy.

use placement::Problem;
use placement::ix::{ActorIx, UnitIx};

/// The units on which each actor can be placed.
pub(crate) struct Domains {
    /// Fixed actors with their unit; all others with their candidates and their current unit, which a running actor may
    /// occupy in violation of a rule. Each pair once.
    pub places: Vec<(ActorIx, UnitIx)>,
    /// Whether pairs that the program forbids are dropped, except current ones.
    pub forbids: bool,
}

/// The domains when limits are suspended: any unit of a kind that the actor supports, and any unit at all for `anywhere`.
pub(crate) fn relaxed_domains(problem: &Problem, anywhere: &[ActorIx]) -> Domains {
    let mut open = Domains { forbids: false, ..domains(problem) };
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

/// The domains of a problem.
pub(crate) fn domains(problem: &Problem) -> Domains {
    let mut domains = Domains { places: Vec::new(), forbids: true };
    for actor in problem.current.positions() {
        if let Some(home) = problem.fixed_at(actor) {
            domains.places.push((actor, home));
        } else {
            let here = problem.current[actor].filter(|unit| !is_candidate(problem, actor, *unit));
            let units = problem.candidates(actor).iter().copied().chain(here);
            domains.places.extend(units.map(|unit| (actor, unit)));
        }
    }
    domains
}

fn is_candidate(problem: &Problem, actor: ActorIx, unit: UnitIx) -> bool {
    problem.candidates(actor).binary_search(&unit).is_ok()
}
