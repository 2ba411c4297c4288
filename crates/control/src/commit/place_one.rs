//! A place for an actor that was asked for while its application runs: the cheapest that is feasible, at once.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::ActorIx;
use placement::{Derived, FoundBy, Judged, Plan, Snapshot, Stage, State, StoppedBy, Unplaced};

use crate::commit::{full_cost, short};
use crate::model::{Decision, DesiredState};

/// The name by which people know it.
const NAME: &str = "place-one";
/// What it spends.
const ONCE: u64 = 1;

/// Whether all that an application wants otherwise than was decided are actors that it asked for, or took back, while it
/// runs: those whose name `is_asked`.
pub fn only_requests_changed(
    wanted: &DesiredState,
    decision: &Decision,
    is_asked: impl Fn(&str) -> bool,
) -> bool {
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

/// A plan in which everybody who has a place keeps it, and each of the others takes the cheapest unit that is feasible, one
/// after the other: of equally cheap ones the one that is least full, then the first.
///
/// `None` where that finds no place for somebody but those who `waited` before, by short name, where a limit is broken as
/// things are, and where a policy's rules say more than a quick look knows: then a search is needed.
pub fn place_one(snapshot: &Snapshot, waited: &BTreeSet<String>) -> Option<Plan> {
    let runs = snapshot.incumbent();
    if snapshot.rules().is_some()
        || snapshot.file().policy.as_ref().is_some_and(|policy| policy.program.is_some())
        || !snapshot.violations(&runs).is_empty()
    {
        return None;
    }
    // One state of the world as it is: nothing is made again for whoever comes.
    let mut state = State::of(snapshot, &runs);
    let mut unplaced = Vec::new();
    for actor in ActorIx::first(snapshot.actors()).filter(|&actor| runs[actor].is_none()) {
        let units = snapshot.candidates(actor).iter().copied().filter(|&unit| state.admits(actor, unit));
        let cheapest =
            units.min_by_key(|&unit| (state.price(actor, unit), state.fullness_with(actor, unit), unit));
        match cheapest {
            Some(unit) => state.put(actor, unit),
            None if waited.contains(short(snapshot.actor_id(actor))) => {
                unplaced.push(Unplaced { actor, reasons: Vec::new(), holds: None });
            }
            None => return None,
        }
    }
    let assignment = state.assignment;
    // What is followed step by step is never believed unchecked.
    if !snapshot.violations(&assignment).is_empty() {
        return None;
    }
    Some(Plan {
        cost: full_cost(snapshot, &assignment),
        unplaced,
        excused: snapshot.excused(&assignment),
        moves: Vec::new(),
        bound: BTreeMap::new(),
        optimal: false,
        strategy: NAME,
        seed: 0,
        effort: ONCE,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        judged: Judged::default(),
        stopped_by: StoppedBy::Effort,
        derived: Derived::default(),
        assignment,
    })
}
