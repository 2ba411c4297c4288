//! When an application has to be planned, why, and when to requeue it.

pub(crate) mod heartbeats;
pub(crate) mod quota;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use placement::file::Constraint;
use placement::ix::{ActorIx, GroupIx, IxVec, NodeIx, ResourceIx, SetIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot, State};

use crate::model::{Decision, DesiredState, Moment, Refusal};
use crate::trigger::quota::Quotas;

/// Requeue interval of an application without changes.
pub const RESYNC_PERIOD: Duration = Duration::from_mins(5);
/// How often an unfinished search is resumed.
const MAX_RESUMED_SEARCHES: u32 = 3;
/// Delay of a resumed search while other applications need the solver.
const POSTPONE_BY: Duration = Duration::from_secs(30);
/// Minimum requeue delay, in case the work that is due fails.
const MIN_REQUEUE: Duration = Duration::from_secs(1);

/// Minimum interval between two background searches for an improvement.
pub const BACKGROUND_INTERVAL: Duration = Duration::from_mins(10);

/// A new node appears in several events. Replanning starts once no further event arrived for this long,
const DEBOUNCE: Duration = Duration::from_secs(10);
/// and at the latest after this.
const MAX_DEBOUNCE: Duration = Duration::from_mins(1);

/// The inputs that an application was last planned with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanInputs {
    /// Generation of the manifest.
    pub generation: i64,
    /// Digest of the application's demand and objectives, without the state of the cluster.
    pub demand: String,
    /// Digest of the whole snapshot.
    pub digest: String,
    /// Violations and overload at the current placement.
    pub pressure: Pressure,
    /// Where unplaced actors could start.
    pub openings: Openings,
    /// Incremented whenever a unit or slot of its kinds becomes free.
    pub freed_counter: u64,
    /// Whether the application may run a background search now.
    pub background_slot: bool,
    /// Set if the deadline ended the last search.
    pub resume_search: Option<ResumeSearch>,
}

impl PlanInputs {
    /// Merges the inputs of a reconcile that did not plan: pressure that fell may rise again to its former level
    /// without being a reason to plan.
    #[must_use]
    pub fn merge_pressure(self, before: &Self) -> Self {
        let Pressure { violated: mut broken, mut overload } = self.pressure;
        broken.extend(before.pressure.violated.iter().cloned());
        for (unit, amount) in &before.pressure.overload {
            let now = overload.entry(unit.clone()).or_default();
            *now = (*now).max(*amount);
        }
        Self {
            pressure: Pressure { violated: broken, overload },
            freed_counter: before.freed_counter,
            ..self
        }
    }
}

/// Violations and overload caused by an application's actors at their current placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Violated limits, with digits removed.
    pub violated: BTreeSet<String>,
    /// Work above the capacity, by unit that hosts its actors.
    pub overload: BTreeMap<String, u64>,
}

/// Pressure of the actors that are not fixed in this assignment.
///
/// Overload counts only if an objective level names a load criterion.
pub fn pressure(snapshot: &Snapshot, assignment: &Assignment) -> Pressure {
    let own = |actor: &ActorIx| !snapshot.is_fixed(*actor);
    let mut without = assignment.clone();
    ActorIx::first(snapshot.actors()).filter(own).for_each(|actor| without[actor] = None);
    let broken = |assignment: &Assignment| -> BTreeSet<String> {
        // A grandfathered violation is still a reason to plan again.
        let found = snapshot.violations_after(&without, assignment).into_iter();
        found.map(|violation| violation.says.replace(|c: char| c.is_ascii_digit(), "")).collect()
    };
    let broken = &broken(assignment) - &broken(&without);
    let loads = loads(snapshot, assignment);
    let above = |(unit, load): (String, u64)| {
        let capacity = snapshot.unit(&unit).map_or(0, |unit| snapshot.capacity(unit));
        let above = load.saturating_sub(u64::try_from(capacity).unwrap_or(0));
        (above > 0).then_some((unit, above))
    };
    Pressure { violated: broken, overload: loads.into_iter().filter_map(above).collect() }
}

/// Work on every unit that hosts an actor that is not fixed; empty if no objective level names a load criterion.
pub fn loads(snapshot: &Snapshot, assignment: &Assignment) -> BTreeMap<String, u64> {
    let counts = |criterion| snapshot.objectives().names(criterion);
    if ![Criterion::Overload, Criterion::Bottleneck, Criterion::Busiest].into_iter().any(counts) {
        return BTreeMap::new();
    }
    let own = |actor: &ActorIx| !snapshot.is_fixed(*actor);
    let hosting: BTreeSet<UnitIx> =
        ActorIx::first(snapshot.actors()).filter(own).filter_map(|a| assignment[a]).collect();
    let mut loads: BTreeMap<UnitIx, i64> = BTreeMap::new();
    for (actor, unit) in assignment.enumerate().filter_map(|(actor, unit)| Some((actor, (*unit)?))) {
        if hosting.contains(&unit)
            && let Some(implementation) = snapshot.implementation(actor, unit)
        {
            *loads.entry(unit).or_default() += implementation.work;
        }
    }
    let named =
        |(unit, load): (UnitIx, i64)| (snapshot.unit_id(unit).to_owned(), u64::try_from(load).unwrap_or(0));
    loads.into_iter().map(named).collect()
}

/// A unit with room for an unplaced actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    /// One actor that represents all equivalent ones.
    pub actor: String,
    /// The unit.
    pub unit: String,
    /// Whether constraints between actors admit it beside those that are placed; such a unit is an opening without that, too.
    pub with_peers: bool,
}

/// Units with room for unplaced actors.
pub type Openings = BTreeSet<Opening>;

/// A search that reached its deadline is resumed a few times with other seeds, since the machine may have been busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSearch {
    /// Earliest time.
    pub at: Moment,
    /// Attempt number, from 1.
    pub attempt: u32,
}

impl ResumeSearch {
    /// The attempt after `before`, if any is left.
    pub fn after(before: Option<Self>, now: Moment) -> Option<Self> {
        let number = before.map_or(0, |resume| resume.attempt) + 1;
        (number <= MAX_RESUMED_SEARCHES).then_some(Self { at: now + BACKGROUND_INTERVAL, attempt: number })
    }

    /// Whether its time has come.
    pub fn is_due(self, now: Moment) -> bool {
        now >= self.at
    }

    /// The same attempt, postponed while other applications need the solver.
    #[must_use]
    pub fn postponed(self, now: Moment) -> Self {
        Self { at: now + POSTPONE_BY, ..self }
    }
}

/// Why an application has to be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PlanReason {
    /// There is no decision.
    Undecided,
    /// The manifest changed.
    Manifest,
    /// It names another policy.
    Policy,
    /// The decision lacks one of its actors.
    Incomplete,
    /// A decided placement is no longer feasible.
    Infeasible,
    /// Its demand or its objectives changed.
    Demand,
    /// An actor newly violates a limit at its current placement.
    Limit,
    /// A unit of its actors is more overloaded than before.
    Overload,
    /// An unplaced actor may fit now.
    Opening,
    /// A unit or slot of its kinds became free some time ago.
    CapacityFreed,
    /// The deadline ended the last search, and the next attempt is due.
    #[strum(serialize = "resume")]
    ResumeSearch,
    /// The measured load changed.
    Load,
}

impl PlanReason {
    /// Whether it is optional: planning could only improve a feasible placement.
    pub fn is_background(self) -> bool {
        matches!(self, Self::CapacityFreed | Self::ResumeSearch | Self::Load)
    }

    /// Whether a user or an administrator changed what is wanted. Otherwise measured load alone moves no actor.
    pub fn is_requested(self) -> bool {
        matches!(self, Self::Undecided | Self::Manifest | Self::Policy | Self::Incomplete | Self::Demand)
    }
}

/// Whether an application has to be planned, and why.
///
/// A changed manifest is no reason if its demand is that of the decision. `before` are the inputs of the last plan. If they are unknown, as after a restart, `now` stands for them, except for
/// openings. `infeasible` names the actors whose decided placement is no longer feasible. Changes by other applications
/// trigger a plan only if they add pressure or an opening.
pub fn plan_reason(
    before: Option<&PlanInputs>,
    now: &PlanInputs,
    desired: &DesiredState,
    decision: Option<&Decision>,
    infeasible: &BTreeSet<String>,
    at: Moment,
) -> Option<PlanReason> {
    let Some(decision) = decision else { return Some(PlanReason::Undecided) };
    // The plan of a paused application was computed for this manifest and is only proposed.
    let is_proposed = desired.paused && before.is_some_and(|before| before.generation == desired.generation);
    // An edit of what no plan depends on, such as an image, is a rollout under the same decision.
    let is_same_demand = decision.demand.as_deref() == Some(now.demand.as_str());
    if decision.generation != desired.generation && !is_proposed && !is_same_demand {
        return Some(PlanReason::Manifest);
    }
    if decision.policy != desired.policy {
        return Some(PlanReason::Policy);
    }
    if let Some(before) = before.filter(|before| before.digest == now.digest) {
        let resume_search =
            before.resume_search.filter(|resume| resume.is_due(at)).map(|_| PlanReason::ResumeSearch);
        return resume_search.or_else(|| capacity_freed(before, now));
    }
    let demand = before.map_or(decision.demand.as_deref(), |before| Some(before.demand.as_str()));
    let is_first = before.is_none();
    let before = before.unwrap_or(now);
    let decided = |name: &String| decision.places.contains_key(name) || decision.unplaced.contains(name);
    if !is_proposed && !desired.actors.iter().all(|actor| decided(&actor.name)) {
        return Some(PlanReason::Incomplete);
    }
    if !is_proposed && !infeasible.is_empty() {
        return Some(PlanReason::Infeasible);
    }
    if demand
        .is_none_or(|before| before != now.demand && digest_version(before) == digest_version(&now.demand))
    {
        return Some(PlanReason::Demand);
    }
    if !now.pressure.violated.is_subset(&before.pressure.violated) {
        return Some(PlanReason::Limit);
    }
    let known = |unit: &String| before.pressure.overload.get(unit).copied().unwrap_or(0);
    if now.pressure.overload.iter().any(|(unit, amount)| *amount > known(unit)) {
        return Some(PlanReason::Overload);
    }
    // Openings may predate the first reconcile.
    let has_new = || is_first && !now.openings.is_empty() || !now.openings.is_subset(&before.openings);
    if !decision.unplaced.is_empty() && has_new() {
        return Some(PlanReason::Opening);
    }
    capacity_freed(before, now)
}

/// Whether a decision needs no search, but a new record of what it was made for: the manifest changed in what no plan depends
/// on, or the digest is of another version.
pub fn is_record_outdated(decision: &Decision, desired: &DesiredState, demand: &str) -> bool {
    let is_same_version =
        || decision.demand.as_deref().is_some_and(|it| digest_version(it) == digest_version(demand));
    !desired.paused && (decision.generation != desired.generation || !is_same_version())
}

/// The version of a demand digest. Digests of different versions cannot be compared: after an upgrade of Cairn the first one
/// is taken for equal.
fn digest_version(digest: &str) -> Option<&str> {
    digest.split_once(':').map(|(version, _)| version)
}

/// Background search after capacity was freed, if the application holds a background slot.
fn capacity_freed(before: &PlanInputs, now: &PlanInputs) -> Option<PlanReason> {
    (before.freed_counter != now.freed_counter && now.background_slot).then_some(PlanReason::CapacityFreed)
}

/// The applications that get a background slot: those that waited longest, at most `most`.
///
/// `waiting` lists applications for which capacity was freed since their last search, with the time of their last slot.
pub fn background_slots<K: Ord>(
    waiting: impl IntoIterator<Item = (K, Option<Moment>)>,
    now: Moment,
    most: usize,
) -> Vec<K> {
    let may = |last: Option<Moment>| last.is_none_or(|last| now >= last + BACKGROUND_INTERVAL);
    let mut waiting: Vec<(Option<Moment>, K)> =
        waiting.into_iter().filter(|(_, last)| may(*last)).map(|(key, last)| (last, key)).collect();
    waiting.sort();
    waiting.into_iter().take(most).map(|(_, key)| key).collect()
}

/// Whether a burst of freed capacity is over: the `last` event was some time ago, or the first one, `since`, is long
/// past.
pub fn is_burst_over(last: Moment, since: Moment, now: Moment) -> bool {
    now >= last + DEBOUNCE || now >= since + MAX_DEBOUNCE
}

/// Units on which unplaced actors could start now: with a free slot and enough resources.
///
/// Necessary, not sufficient: constraints between actors only add an opening once they admit the actor beside those that are placed.
pub fn openings(snapshot: &Snapshot) -> Openings {
    let incumbent = snapshot.incumbent();
    let waits = |&actor: &ActorIx| !snapshot.is_fixed(actor) && incumbent[actor].is_none();
    // One actor represents all of its group with the same candidate units.
    let mut kinds: BTreeMap<(Option<GroupIx>, SetIx), ActorIx> = BTreeMap::new();
    for actor in ActorIx::first(snapshot.actors()).filter(waits) {
        kinds.entry((snapshot.group(actor), snapshot.candidate_set(actor))).or_insert(actor);
    }
    if kinds.is_empty() {
        return Openings::new();
    }
    let (left, quotas, file) = (Resources::of(snapshot), Quotas::of(snapshot), snapshot.file());
    let has_peers = file.constraints.iter().any(|it| matches!(it, Constraint::Peers { .. }));
    let placed = has_peers.then(|| State::of(snapshot, &incumbent));
    let mut openings = Openings::new();
    for &actor in kinds.values() {
        let has_room = |unit: UnitIx| {
            left.has_room(snapshot, actor, unit)
                && quotas.have_room(&file.actors[actor.at()], &file.units[unit.at()])
        };
        let units = snapshot.candidates(actor).iter().filter(|&&unit| has_room(unit));
        for &unit in units {
            let opening = |with_peers| Opening {
                actor: snapshot.actor_id(actor).to_owned(),
                unit: snapshot.unit_id(unit).to_owned(),
                with_peers,
            };
            let is_admitted = placed.as_ref().is_some_and(|placed| placed.admits(actor, unit));
            openings.extend(is_admitted.then(|| opening(true)));
            openings.insert(opening(false));
        }
    }
    openings
}

/// Free slots and resources under the incumbent.
struct Resources {
    hosted: IxVec<UnitIx, u64>,
    units: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    nodes: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
}

impl Resources {
    fn of(snapshot: &Snapshot) -> Self {
        let resources = || snapshot.resources().positions();
        let of_unit = |unit| resources().map(|resource| snapshot.provided_on(unit, resource)).collect();
        let of_node = |node| resources().map(|resource| snapshot.provided_at(node, resource)).collect();
        let mut taken = Self {
            hosted: IxVec::of(0, snapshot.units()),
            units: UnitIx::first(snapshot.units()).map(of_unit).collect(),
            nodes: snapshot.nodes().positions().map(of_node).collect(),
        };
        for (actor, place) in snapshot.incumbent().enumerate() {
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

    fn has_room(&self, snapshot: &Snapshot, actor: ActorIx, unit: UnitIx) -> bool {
        let Some(implementation) = snapshot.implementation(actor, unit) else { return false };
        let fits = |left: &IxVec<ResourceIx, i64>, asks: &[(ResourceIx, i64)]| {
            asks.iter().all(|&(resource, amount)| left[resource] >= amount)
        };
        snapshot.file().units[unit.at()].slots.is_none_or(|slots| self.hosted[unit] < slots)
            && fits(&self.units[unit], &implementation.requires)
            && fits(&self.nodes[snapshot.node_of(unit)], &implementation.node_requires)
    }
}

/// Requeue delay of an application without events.
///
/// `failed`: no decision was reached this time.
pub fn requeue_after(
    now: Moment,
    refusals: &[Refusal],
    resume_search: Option<ResumeSearch>,
    failed: bool,
) -> Duration {
    let forgotten = refusals.iter().map(|refusal| refusal.until).filter(|until| *until > now);
    let resume_search = resume_search.map(|resume| resume.at).filter(|_| !failed);
    let next = forgotten.chain(resume_search).min();
    next.map_or(RESYNC_PERIOD, |at| at.saturating_sub(now).clamp(MIN_REQUEUE, RESYNC_PERIOD))
}
