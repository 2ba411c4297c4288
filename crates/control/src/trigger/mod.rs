//! When an application has to be planned, why, and when to look again.

pub(crate) mod heartbeats;
pub(crate) mod quota;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use placement::ix::{ActorIx, GroupIx, IxVec, NodeIx, ResourceIx, SetIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot};

use crate::model::{Decision, DesiredState, Moment, Refusal};
use crate::trigger::quota::Quotas;

/// When an application is looked at again though nothing seems to have changed.
pub const RESYNC_PERIOD: Duration = Duration::from_mins(5);
/// How often an unfinished search is taken up again.
const SECOND_LOOKS: u32 = 3;
/// So long a second look is put off while others need the time.
const PUT_OFF: Duration = Duration::from_secs(30);
/// Whatever is due already is done no sooner, should it have failed.
const NO_SOONER: Duration = Duration::from_secs(1);

/// What could merely be better is looked at no more often, for whatever reason.
pub const BACKGROUND_INTERVAL: Duration = Duration::from_mins(10);

/// What comes with a node comes in pieces: looks are taken once nothing more came for so long,
const TOGETHER: Duration = Duration::from_secs(10);
/// and no later than this, however much comes.
const LAST_PIECE: Duration = Duration::from_mins(1);

/// The state of the world that an application was last planned for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanInputs {
    /// The generation of the manifest.
    pub generation: i64,
    /// The digest of what the application wants and by which measure, without what there is.
    pub demand: String,
    /// The digest of everything that it was planned from.
    pub digest: String,
    /// What presses it where it is.
    pub pressure: Pressure,
    /// Where its actors without a place could have been started.
    pub openings: Openings,
    /// Grows with every unit or slot of its kinds that came free.
    pub freed_counter: u64,
    /// Whether its turn has come to look whether it could be better.
    pub background_slot: bool,
    /// Set when the clock ended the search before it was through.
    pub resume_search: Option<ResumeSearch>,
}

impl PlanInputs {
    /// What is remembered when a look found nothing to do: what pressed less for a while may press as before again.
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

/// What presses an application where its actors are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// The limits that its actors break, their numbers left out.
    pub violated: BTreeSet<String>,
    /// By unit that hosts its actors: work above the capacity.
    pub overload: BTreeMap<String, u64>,
}

/// What presses the actors that are not fixed in this assignment.
///
/// Overload counts where a level names a criterion of load.
pub fn pressure(snapshot: &Snapshot, assignment: &Assignment) -> Pressure {
    let own = |actor: &ActorIx| !snapshot.is_fixed(*actor);
    let mut without = assignment.clone();
    ActorIx::first(snapshot.actors()).filter(own).for_each(|actor| without[actor] = None);
    let broken = |assignment: &Assignment| -> BTreeSet<String> {
        // What is broken already is excused, and a reason to look again all the same.
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

/// The work on every unit that hosts actors that are not fixed; nothing where no level names a criterion of load.
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

/// Units with room for an actor that has no place: by the name of one actor for all that are like it.
pub type Openings = BTreeSet<(String, String)>;

/// A search that the clock ended is taken up again, a few times and with another seed each time: the machine may have
/// been busy, and what runs is only moved for a gain that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSearch {
    /// Not before.
    pub at: Moment,
    /// Which one it is, from 1.
    pub attempt: u32,
}

impl ResumeSearch {
    /// The look after `before`, where there is another.
    pub fn after(before: Option<Self>, now: Moment) -> Option<Self> {
        let number = before.map_or(0, |look| look.attempt) + 1;
        (number <= SECOND_LOOKS).then_some(Self { at: now + BACKGROUND_INTERVAL, attempt: number })
    }

    /// Whether its time has come.
    pub fn is_due(self, now: Moment) -> bool {
        now >= self.at
    }

    /// The same, put off while others need the time.
    #[must_use]
    pub fn postponed(self, now: Moment) -> Self {
        Self { at: now + PUT_OFF, ..self }
    }
}

/// Why an application has to be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PlanReason {
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
    /// What it wants, or the measure, changed.
    Demand,
    /// Where an actor is, it breaks a limit that it did not break before.
    Limit,
    /// Where an actor is, there is more work above the capacity than before.
    Overload,
    /// Room came that an actor without a place can use.
    Opening,
    /// A unit or slot of its kinds came free some time ago.
    #[strum(serialize = "chance")]
    CapacityFreed,
    /// The clock ended the last search, and it is time for another.
    #[strum(serialize = "second-look")]
    ResumeSearch,
}

impl PlanReason {
    /// Whether nobody needs it: things could merely be better.
    pub fn is_background(self) -> bool {
        matches!(self, Self::CapacityFreed | Self::ResumeSearch)
    }
}

/// Whether an application has to be planned, and why.
///
/// `before` is what was considered when it was last planned; where that is not known, as after a restart, what is now
/// counts as considered, if the decision was made for the same demand, but for room that waits to be used. `infeasible` names the actors whose decided place
/// may not be taken now. What others do makes nobody due whom it does not press, nor does an actor without a place,
/// unless room came that it can use.
pub fn plan_reason(
    before: Option<&PlanInputs>,
    now: &PlanInputs,
    wanted: &DesiredState,
    decision: Option<&Decision>,
    infeasible: &BTreeSet<String>,
    at: Moment,
) -> Option<PlanReason> {
    let Some(decision) = decision else { return Some(PlanReason::Undecided) };
    // What a paused application would do was worked out for this manifest, and is not decided.
    let is_proposed = wanted.paused && before.is_some_and(|before| before.generation == wanted.generation);
    if decision.generation != wanted.generation && !is_proposed {
        return Some(PlanReason::Manifest);
    }
    if decision.policy != wanted.policy {
        return Some(PlanReason::Policy);
    }
    if let Some(before) = before.filter(|before| before.digest == now.digest) {
        let second_look =
            before.resume_search.filter(|look| look.is_due(at)).map(|_| PlanReason::ResumeSearch);
        return second_look.or_else(|| chance(before, now));
    }
    let demand = before.map_or(decision.demand.as_deref(), |before| Some(before.demand.as_str()));
    let is_first = before.is_none();
    let before = before.unwrap_or(now);
    let decided = |name: &String| decision.places.contains_key(name) || decision.unplaced.contains(name);
    if !is_proposed && !wanted.actors.iter().all(|actor| decided(&actor.name)) {
        return Some(PlanReason::Incomplete);
    }
    if !is_proposed && !infeasible.is_empty() {
        return Some(PlanReason::Infeasible);
    }
    if demand != Some(now.demand.as_str()) {
        return Some(PlanReason::Demand);
    }
    if !now.pressure.violated.is_subset(&before.pressure.violated) {
        return Some(PlanReason::Limit);
    }
    let known = |unit: &String| before.pressure.overload.get(unit).copied().unwrap_or(0);
    if now.pressure.overload.iter().any(|(unit, amount)| *amount > known(unit)) {
        return Some(PlanReason::Overload);
    }
    // At the first look room may have come while nobody looked.
    let came = || is_first && !now.openings.is_empty() || !now.openings.is_subset(&before.openings);
    if !decision.unplaced.is_empty() && came() {
        return Some(PlanReason::Opening);
    }
    chance(before, now)
}

/// What could merely be better, in its turn.
fn chance(before: &PlanInputs, now: &PlanInputs) -> Option<PlanReason> {
    (before.freed_counter != now.freed_counter && now.background_slot).then_some(PlanReason::CapacityFreed)
}

/// Whose turn it is to look whether it could be better: whoever waits longest, at most so many.
///
/// `waiting` is for whom a unit or slot came free since it was last searched for, with when it last had its turn.
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

/// Whether what came free of an application's kinds is there as a whole, for all that is known: the last of it `came` a while ago,
/// or it has waited for long, `since` then.
pub fn is_burst_over(came: Moment, since: Moment, now: Moment) -> bool {
    now >= came + TOGETHER || now >= since + LAST_PIECE
}

/// Where the application's actors without a place could be started as things are: a free slot on a unit of theirs, and
/// what they ask for.
///
/// Necessary, not sufficient: rules between actors are not looked at.
pub fn openings(snapshot: &Snapshot) -> Openings {
    let incumbent = snapshot.incumbent();
    let waits = |&actor: &ActorIx| !snapshot.is_fixed(actor) && incumbent[actor].is_none();
    // One actor for all of a group that may be at the same places.
    let mut kinds: BTreeMap<(Option<GroupIx>, SetIx), ActorIx> = BTreeMap::new();
    for actor in ActorIx::first(snapshot.actors()).filter(waits) {
        kinds.entry((snapshot.group(actor), snapshot.candidate_set(actor))).or_insert(actor);
    }
    if kinds.is_empty() {
        return Openings::new();
    }
    let (left, quotas, file) = (Resources::of(snapshot), Quotas::of(snapshot), snapshot.file());
    let mut openings = Openings::new();
    for &actor in kinds.values() {
        let has_room = |unit: UnitIx| {
            left.has_room(snapshot, actor, unit)
                && quotas.have_room(&file.actors[actor.at()], &file.units[unit.at()])
        };
        let units = snapshot.candidates(actor).iter().filter(|&&unit| has_room(unit));
        let named = |unit: &UnitIx| (snapshot.actor_id(actor).to_owned(), snapshot.unit_id(*unit).to_owned());
        openings.extend(units.map(named));
    }
    openings
}

/// What is taken of slots and resources by what has a place.
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

/// How long until an application is to be looked at again, should nothing ring before.
///
/// `failed`: nothing could be decided this time.
pub fn requeue_after(
    now: Moment,
    refusals: &[Refusal],
    second_look: Option<ResumeSearch>,
    failed: bool,
) -> Duration {
    let forgotten = refusals.iter().map(|refusal| refusal.until);
    let second_look = second_look.map(|look| look.at).filter(|_| !failed);
    let next = forgotten.chain(second_look).min();
    next.map_or(RESYNC_PERIOD, |at| at.saturating_sub(now).clamp(NO_SOONER, RESYNC_PERIOD))
}
