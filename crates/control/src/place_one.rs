//! A place for an actor that was asked for while its application runs: the cheapest that is feasible, at once.

use std::collections::BTreeSet;

use placement::ix::ActorIx;
use placement::{Answer, Budget, NoPolicy, Plan, Snapshot, SolveError, Strategy, plan};

use crate::nouns::{Decision, Wanted};
use crate::observed::Observed;

/// What is asked of the strategy that places one after the other.
const ONCE: u64 = 1;

/// Whether all that an application wants otherwise than was decided are actors that it asked for, or took back, while it
/// runs: those whose name `is_asked`.
pub fn only_asked(wanted: &Wanted, decision: &Decision, is_asked: impl Fn(&str) -> bool) -> bool {
    if wanted.generation != decision.generation || wanted.policy != decision.policy {
        return false;
    }
    let decided = |name: &str| decision.places.contains_key(name) || decision.unplaced.contains(name);
    let mut names: Vec<&str> = wanted.actors.iter().map(|actor| actor.name.as_str()).collect();
    names.sort_unstable();
    let is_wanted = |name: &str| names.binary_search(&name).is_ok();
    let all = decision.places.keys().chain(&decision.unplaced).map(String::as_str);
    let gone = all.filter(|name| !is_wanted(name));
    let came = names.iter().copied().filter(|name| !decided(name));
    let mut changed = gone.chain(came).peekable();
    changed.peek().is_some() && changed.all(is_asked)
}

/// A plan in which everybody who has a place keeps it, and `quick` takes for each of the others the cheapest unit that
/// is feasible, one after the other.
///
/// `None` where that finds no place for somebody but those who `waited` before, by short name, where a limit is broken as
/// things are, and where a policy's rules say more than a quick look knows: then a search is needed.
pub fn place_one(snapshot: &Snapshot, waited: &BTreeSet<String>, quick: Box<dyn Strategy>) -> Option<Plan> {
    let runs = snapshot.incumbent();
    if snapshot.rules().is_some()
        || snapshot.file().policy.as_ref().is_some_and(|policy| policy.program.is_some())
        || !snapshot.violations(&runs).is_empty()
    {
        return None;
    }
    let budget = Budget { effort: Some(ONCE), seed: 0, stop: &|| false };
    let plan = plan(snapshot, &PlaceOne(Observed(quick)), &NoPolicy, &budget).ok()?;
    let is_served = |actor: ActorIx| {
        let name = snapshot.actor_id(actor);
        plan.assignment[actor].is_some() || waited.contains(name.rsplit('/').next().unwrap_or(name))
    };
    ActorIx::first(snapshot.actors()).all(is_served).then_some(plan)
}

/// What was observed, under the name by which people know it.
struct PlaceOne(Observed);

impl Strategy for PlaceOne {
    fn name(&self) -> &'static str {
        "place-one"
    }

    fn summary(&self) -> &'static str {
        "who has a place keeps it, and the others get the cheapest that is feasible"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        self.0.solve(snapshot, budget)
    }
}
