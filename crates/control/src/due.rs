//! When an application has to be planned, why, and when to look again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use placement::Snapshot;

use crate::nouns::{Decision, Moment, Refusal, Wanted};

/// When an application is looked at again though nothing seems to have changed.
pub const LOOK_AGAIN: Duration = Duration::from_mins(5);
/// How long after one another an unfinished search is taken up again.
const SECOND_LOOKS: [Duration; 3] =
    [Duration::from_secs(30), Duration::from_mins(2), Duration::from_mins(10)];
/// Whatever is due already is done no sooner, should it have failed.
const NO_SOONER: Duration = Duration::from_secs(1);

/// The state of the world that an application was last planned for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Considered {
    /// Grows with every change that may have made room for this application, its own decisions aside.
    pub releases: u64,
    /// The digest of what its plan answers to, without others and without where it runs.
    pub demand: String,
    /// The digest of everything that it was planned from.
    pub digest: String,
    /// Where its actors without a place could have been started.
    pub openings: Openings,
    /// Set when the clock ended the search before it was through.
    pub second_look: Option<SecondLook>,
}

/// Units with room for an actor that has no place: by the name of one actor for all that are like it.
pub type Openings = BTreeSet<(String, String)>;

/// A search that the clock ended is taken up again, a few times and with another seed each time: the machine may have
/// been busy, and what runs is only moved for a gain that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondLook {
    /// Not before.
    pub at: Moment,
    /// Which one it is, from 1.
    pub number: u32,
}

impl SecondLook {
    /// The look after `before`, where there is another.
    pub fn after(before: Option<Self>, now: Moment) -> Option<Self> {
        let done = before.map_or(0, |look| look.number);
        let wait = SECOND_LOOKS.get(usize::try_from(done).ok()?)?;
        Some(Self { at: now + *wait, number: done + 1 })
    }

    /// Whether its time has come.
    pub fn is_due(self, now: Moment) -> bool {
        now >= self.at
    }
}

/// Why an application has to be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Due {
    /// Nothing is decided for it.
    Undecided,
    /// Its manifest changed.
    Manifest,
    /// It names another policy.
    Policy,
    /// What was decided says nothing of one of its actors.
    Incomplete,
    /// A decided place may not be taken now.
    Infeasible,
    /// What its plan answers to changed.
    Demand,
    /// Room may have come.
    Room,
    /// Room came that an actor without a place can use.
    Opening,
    /// The clock ended the last search, and it is time for another.
    SecondLook,
}

/// Whether an application has to be planned, and why.
///
/// `infeasible` names the actors whose decided place may not be taken now. What others do to each other makes nobody
/// due, nor does an actor without a place, unless room came that it can use.
pub fn due(
    before: &Considered,
    now: &Considered,
    wanted: &Wanted,
    decision: Option<&Decision>,
    infeasible: &BTreeSet<String>,
    at: Moment,
) -> Option<Due> {
    let Some(decision) = decision else { return Some(Due::Undecided) };
    if decision.generation != wanted.generation {
        return Some(Due::Manifest);
    }
    if decision.policy != wanted.policy {
        return Some(Due::Policy);
    }
    if before.digest == now.digest {
        return before.second_look.is_some_and(|look| look.is_due(at)).then_some(Due::SecondLook);
    }
    let decided = |name: &String| decision.places.contains_key(name) || decision.unplaced.contains(name);
    if !wanted.actors.iter().all(|actor| decided(&actor.name)) {
        return Some(Due::Incomplete);
    }
    if !infeasible.is_empty() {
        return Some(Due::Infeasible);
    }
    if before.demand != now.demand {
        return Some(Due::Demand);
    }
    if before.releases != now.releases {
        return Some(Due::Room);
    }
    let came = || now.openings.difference(&before.openings).next().is_some();
    (!decision.unplaced.is_empty() && came()).then_some(Due::Opening)
}

/// Where the application's actors without a place could be started as things are: a free slot on a unit of theirs, and
/// what they ask for.
///
/// Necessary, not sufficient: rules between actors are not looked at.
pub fn openings(snapshot: &Snapshot) -> Openings {
    let incumbent = snapshot.incumbent();
    let waits = |&actor: &usize| !snapshot.is_fixed(actor) && incumbent[actor].is_none();
    // One actor for all of a group that may be at the same places.
    let mut kinds: BTreeMap<(Option<usize>, usize), usize> = BTreeMap::new();
    for actor in (0..snapshot.actors()).filter(waits) {
        kinds.entry((snapshot.group(actor), snapshot.candidate_set(actor))).or_insert(actor);
    }
    if kinds.is_empty() {
        return Openings::new();
    }
    let left = Resources::of(snapshot);
    let mut openings = Openings::new();
    for &actor in kinds.values() {
        let units = snapshot.candidates(actor).iter().filter(|&&unit| left.has_room(snapshot, actor, unit));
        let named = |unit: &usize| (snapshot.actor_id(actor).to_owned(), snapshot.unit_id(*unit).to_owned());
        openings.extend(units.map(named));
    }
    openings
}

/// What is taken of slots and resources by what has a place.
struct Resources {
    hosted: Vec<u64>,
    units: Vec<Vec<i64>>,
    nodes: Vec<Vec<i64>>,
}

impl Resources {
    fn of(snapshot: &Snapshot) -> Self {
        let mut taken = Self {
            hosted: vec![0; snapshot.units()],
            units: (0..snapshot.units()).map(|unit| snapshot.unit_provides(unit).to_vec()).collect(),
            nodes: (0..snapshot.nodes().len()).map(|node| snapshot.node_provides(node).to_vec()).collect(),
        };
        for (actor, place) in snapshot.incumbent().iter().enumerate() {
            let Some(unit) = *place else { continue };
            taken.hosted[unit] += 1;
            let Some(implementation) = snapshot.implementation(actor, unit) else { continue };
            for &(resource, amount) in &implementation.requires {
                taken.units[unit][resource] -= amount;
            }
            for &(resource, amount) in &implementation.node_requires {
                taken.nodes[snapshot.node_of(unit)][resource] -= amount;
            }
        }
        taken
    }

    fn has_room(&self, snapshot: &Snapshot, actor: usize, unit: usize) -> bool {
        let Some(implementation) = snapshot.implementation(actor, unit) else { return false };
        let fits = |left: &[i64], asks: &[(usize, i64)]| asks.iter().all(|&(r, amount)| left[r] >= amount);
        snapshot.file().units[unit].slots.is_none_or(|slots| self.hosted[unit] < slots)
            && fits(&self.units[unit], &implementation.requires)
            && fits(&self.nodes[snapshot.node_of(unit)], &implementation.node_requires)
    }
}

/// How long until an application is to be looked at again, should nothing ring before.
///
/// `failed`: nothing could be decided this time.
pub fn look_again(
    now: Moment,
    refusals: &[Refusal],
    second_look: Option<SecondLook>,
    failed: bool,
) -> Duration {
    let forgotten = refusals.iter().map(|refusal| refusal.until);
    let second_look = second_look.map(|look| look.at).filter(|_| !failed);
    let next = forgotten.chain(second_look).min();
    next.map_or(LOOK_AGAIN, |at| at.saturating_sub(now).clamp(NO_SOONER, LOOK_AGAIN))
}
