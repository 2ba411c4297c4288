//! The domains of actors: the units on which each can be placed, which bound the grounding of a policy.

use placement::Problem;
use placement::ix::{ActorIx, UnitIx};

/// The units on which each actor can be placed.
pub(crate) struct Domains<'a> {
    problem: &'a Problem,
    /// If limits are suspended: the actors that may be on any unit at all, all others on any of their kinds.
    anywhere: Option<&'a [ActorIx]>,
    /// Whether pairs that the program forbids are dropped, except current ones.
    pub forbids: bool,
}

impl<'a> Domains<'a> {
    /// The domains of a problem.
    pub fn of(problem: &'a Problem) -> Self {
        Self { problem, anywhere: None, forbids: true }
    }

    /// The domains when limits are suspended: any unit of a kind that the actor supports, and any unit at all for `anywhere`.
    pub fn relaxed(problem: &'a Problem, anywhere: &'a [ActorIx]) -> Self {
        Self { problem, anywhere: Some(anywhere), forbids: false }
    }

    /// Fixed actors with their unit; all others with their candidates and their current unit, which a running actor may occupy in
    /// violation of a rule. Each pair once, and generated one by one: there are actors times units of them.
    pub fn places(&self) -> impl Iterator<Item = (ActorIx, UnitIx)> {
        let problem = self.problem;
        let strict = problem.current.positions().flat_map(move |actor| {
            let home = problem.fixed_at(actor);
            let candidates = if home.is_some() { &[][..] } else { problem.candidates(actor) };
            let here = || problem.current[actor].filter(|unit| !is_candidate(problem, actor, *unit));
            let more = home.or_else(here);
            candidates.iter().copied().chain(more).map(move |unit| (actor, unit))
        });
        let relaxed = self.anywhere.into_iter().flat_map(move |anywhere| {
            problem.movable.iter().flat_map(move |&actor| {
                let closed = move |unit: &UnitIx| {
                    !is_candidate(problem, actor, *unit) && problem.current[actor] != Some(*unit)
                };
                let of_kind = move |unit: &UnitIx| {
                    anywhere.contains(&actor) || problem.implementation(actor, *unit).is_some()
                };
                let more = problem.capacity.positions().filter(closed).filter(of_kind);
                more.map(move |unit| (actor, unit))
            })
        });
        strict.chain(relaxed)
    }
}

fn is_candidate(problem: &Problem, actor: ActorIx, unit: UnitIx) -> bool {
    problem.candidates(actor).binary_search(&unit).is_ok()
}
