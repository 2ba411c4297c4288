//! Immediate placement of an actor that the runtime requests.

use std::collections::{BTreeMap, BTreeSet};

use placement::ix::ActorIx;
use placement::{Derived, FoundBy, Judged, Plan, Snapshot, Stage, State, StoppedBy, Unplaced};

use crate::commit::{full_cost, short_name};
use crate::model::{Decision, DesiredState};

/// Strategy name in status and metrics.
const NAME: &str = "place-one";
/// Reported effort.
const EFFORT: u64 = 1;

/// Whether desired state and decision differ only in actors requested or released at run time; `is_asked` tells which
/// those are.
pub fn only_requests_changed(
    desired: &DesiredState,
    decision: &Decision,
    is_asked: impl Fn(&str) -> bool,
) -> bool {
    if desired.generation != decision.generation || desired.policy != decision.policy {
        return false;
    }
    let decided = |name: &str| decision.places.contains_key(name) || decision.unplaced.contains(name);
    let mut names: Vec<&str> = desired.actors.iter().map(|actor| actor.name.as_str()).collect();
    names.sort_unstable();
    let is_wanted = |name: &str| names.binary_search(&name).is_ok();
    let all = decision.places.keys().chain(&decision.unplaced).map(String::as_str);
    let gone = all.filter(|name| !is_wanted(name));
    let added = names.iter().copied().filter(|name| !decided(name));
    let mut changed = gone.chain(added).peekable();
    changed.peek().is_some() && changed.all(is_asked)
}

/// Keeps all placements and greedily gives each other actor its cheapest feasible unit; ties go to the least loaded
/// unit, then to the first.
///
/// `None` means that a search is needed: an actor not in `waited` (short names) finds no unit, a limit is violated
/// already, or the policy has rules.
pub fn place_one(snapshot: &Snapshot, waited: &BTreeSet<String>) -> Option<Plan> {
    let incumbent = snapshot.incumbent();
    if snapshot.rules().is_some()
        || snapshot.file().policy.as_ref().is_some_and(|policy| policy.program.is_some())
        || !snapshot.violations(&incumbent).is_empty()
    {
        return None;
    }
    // One incremental state for all actors.
    let mut state = State::of(snapshot, &incumbent);
    let mut unplaced = Vec::new();
    for actor in ActorIx::first(snapshot.actors()).filter(|&actor| incumbent[actor].is_none()) {
        let units = snapshot.candidates(actor).iter().copied().filter(|&unit| state.admits(actor, unit));
        let cheapest =
            units.min_by_key(|&unit| (state.price(actor, unit), state.fullness_with(actor, unit), unit));
        match cheapest {
            Some(unit) => state.put(actor, unit),
            None if waited.contains(short_name(snapshot.actor_id(actor))) => {
                unplaced.push(Unplaced { actor, reasons: Vec::new(), holds: None });
            }
            None => return None,
        }
    }
    let assignment = state.assignment;
    // Never trust incremental checks alone.
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
        effort: EFFORT,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        judged: Judged::default(),
        stopped_by: StoppedBy::Effort,
        derived: Derived::default(),
        assignment,
    })
}
