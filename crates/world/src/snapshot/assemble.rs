//! Assembles the snapshot of one application.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use counters::MeasuredNumbers;
use crds::{ActorApplication, ActorGroup, DevicePool, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use placement::file::{
    Actor, Drag, GroupMessage, Message, Policy as PolicyName, RunsOn, SnapshotFile, VERSION,
};
use placement::{Snapshot, SnapshotError};

use crate::constraints::constraints;
use crate::constraints::left_to_scheduler::left_to_scheduler;
use crate::constraints::nodes::refusals::ActiveRefusals;
use crate::constraints::nodes::unreachable::UnschedulablePods;
use crate::demand::Numbers;
use crate::demand::actors::{ApplicationActors, actors_of_instance};
use crate::demand::application::{ActorName, template_problem};
use crate::demand::pods::{Quantities, amounts_with_pod, is_terminal, resource_amounts, unit_of};
use crate::demand::requested::desired_actors;
use crate::demand::size::{self, size_problem};
use crate::digest::digest;
use crate::index::load::by_unit::{LoadSum, RunningPod};
use crate::index::objects::ApplicationKey;
use crate::numbers::floor;
use crate::snapshot::arriving::mark_arriving;
use crate::snapshot::entries::{ALWAYS_INCLUDED, file_nodes, file_units, program_mentions};
use crate::snapshot::larger_pods::add_requests_beyond_templates;
use crate::snapshot::links::add_links;
use crate::snapshot::measured::{ManifestNumbers, replace_measured};
use crate::snapshot::memory_units;
use crate::snapshot::model::owned_objects;
use crate::snapshot::return_room::room_for_return;
use crate::snapshot::saturated::saturated;
use crate::suggestions::suggestions;
use crate::units::free_nodes;
use crate::units::offer::Offer;
use crate::units::report::PoolReport;
use crate::units::unit::{Unit, Units};
use crate::{Index, Policy};

/// Most applications that a warning names.
const MAX_NAMED: usize = 3;

/// A snapshot and the facts beside it.
#[derive(Clone, Debug)]
pub struct AssembledSnapshot {
    /// The planner's input.
    pub snapshot: Arc<Snapshot>,
    /// Units by id, with what a pod has to request.
    pub units: Units,
    /// Pool reports by name.
    pub pools: BTreeMap<String, PoolReport>,
    /// Warnings for the application's status.
    pub warnings: Vec<SnapshotWarning>,
    /// Computed once: serializing a large snapshot takes milliseconds.
    pub(super) digests: Digests,
    /// What measured numbers replaced.
    pub(super) replaced: Option<Arc<ManifestNumbers>>,
    /// Whether measured numbers are expected.
    expects_counters: bool,
    pub(super) application: Arc<ActorApplication>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Digests {
    all: OnceLock<String>,
    pub(super) demand: OnceLock<String>,
}

impl AssembledSnapshot {
    /// Digest of the snapshot.
    pub fn digest(&self) -> String {
        self.digests.all.get_or_init(|| digest(&self.snapshot.write())).clone()
    }
}

/// A warning in the form of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotWarning {
    /// Condition type.
    pub condition: &'static str,
    /// Condition message.
    pub message: String,
}

/// Why no snapshot can be assembled.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
pub enum AssembleError {
    /// The application does not exist.
    #[error("there is no ActorApplication {0}; {1}")]
    NotFound(ApplicationKey, String),
    /// The manifest is invalid.
    #[error("{0}")]
    Invalid(String),
    /// It has too many actors or edges.
    #[error("{0}")]
    TooLarge(String),
    /// Its numbers are out of range.
    #[error("the manifest's numbers are out of range: {0}")]
    Snapshot(#[from] SnapshotError),
}

/// Assembles the snapshot of an application under a policy, as of `now`, with the numbers that are measured.
///
/// # Errors
/// The application does not exist, is invalid, or is too large.
pub fn assemble(
    index: &Index,
    key: &ApplicationKey,
    policy: &Policy,
    now: Timestamp,
) -> Result<AssembledSnapshot, AssembleError> {
    let mut world = assemble_measured(index, key, policy, now, index.measured(key, policy.window))?;
    world.expects_counters = index.is_judged_by_windows((key, &world.application), policy);
    Ok(world)
}

/// The same with other measured numbers of the application, such as those of a single window.
///
/// # Errors
/// The application does not exist, is invalid, or is too large.
pub fn assemble_measured(
    index: &Index,
    key: &ApplicationKey,
    policy: &Policy,
    now: Timestamp,
    measured: Option<&MeasuredNumbers>,
) -> Result<AssembledSnapshot, AssembleError> {
    let found = find(index, key)?;
    let application = found.as_ref();
    let actors = desired_actors(index, application);
    if let Some(problem) = size_problem(application, &actors) {
        return Err(AssembleError::TooLarge(problem));
    }
    let pools: Vec<&DevicePool> = index.pools().map(AsRef::as_ref).collect();
    check_templates(application, &pools)?;
    let numbers = Numbers::of(application, &actors, policy).map_err(AssembleError::Invalid)?;
    let free = free_nodes(index);
    let offer = index.offer(policy);
    let bound = index.bound_pods(application, now);
    let mut file = SnapshotFile {
        version: VERSION,
        application: Some(key.to_string()),
        window_microseconds: Some(floor(policy.window)),
        exchange_cost: policy.exchange_cost.clone(),
        policy: Some(PolicyName { name: policy.name.clone(), program: policy.rules() }),
        objectives: policy.objectives.clone(),
        constraints: constraints(index, (application, &actors), &free, &offer, (&bound, now)),
        left_to_scheduler: left_to_scheduler(index, (application, &actors), &offer),
        ..SnapshotFile::default()
    };
    let saturated = saturated((application, &actors), &numbers, measured, &offer).into_iter();
    let mut notes: Vec<SnapshotWarning> =
        saturated.map(|message| SnapshotWarning { condition: "Saturated", message }).collect();
    notes.extend(limited_priority(index, application));
    let refused = ActiveRefusals::of(index, application, now);
    let places = current_places(index, application, key, &offer);
    let kinds: BTreeMap<&str, BTreeSet<&str>> = application
        .spec
        .actors
        .iter()
        .map(|group| (group.name.as_str(), group.implementations.iter().map(|i| i.kind.as_str()).collect()))
        .collect();
    let outcasts = UnschedulablePods::of(index, application, &free, &bound);
    let place = |name: &ActorName, unit: &&Unit| {
        !outcasts.has(name, unit)
            && !refused.has(name, unit)
            && kinds[name.group.as_str()].contains(unit.kind.as_str())
            && actors.may_run_on(name, &unit.kind)
    };
    let current = |name: &ActorName| places.get(&name.short()).copied().filter(|unit| place(name, unit));
    add_application(&mut file, (application, &actors), &numbers, |name| {
        current(name).map(|unit| (unit, false))
    });
    mark_arriving(&mut file.actors, &bound);
    let replaced = measured.map(|measured| Arc::new(replace_measured(&mut file, key, measured)));
    // A program may refer to actors of other applications.
    let are_listed = policy.rules().is_some_and(|program| !program.trim().is_empty());
    if are_listed {
        list_others(&mut file, index, key, policy, &offer);
    }
    let (mut sums, faults) = index.others(key, policy, are_listed);
    if let Some(placement) = index.placement(key) {
        let by_name: OnceCell<BTreeMap<String, &ActorName>> = OnceCell::new();
        let named = |actor: &str| {
            let all = by_name.get_or_init(|| actors.names.iter().map(|name| (name.short(), name)).collect());
            all.get(actor).copied()
        };
        // an actor that cannot stay at its new unit keeps no room: its next unit is decided now
        let stays = |actor: &str| named(actor).is_some_and(|name| current(name).is_some());
        let demand = |actor: &str, unit: &str| {
            demand_on(application, &numbers, named(actor), offer.units.get(unit)).unwrap_or_default()
        };
        for (unit, sum) in room_for_return(placement, stays, demand) {
            sums.entry(unit).or_default().add(&sum);
        }
    }
    add_requests_beyond_templates(&mut sums, &file.actors, index.requests_beyond_templates(application));
    notes.extend(partial_warning(key, faults.iter().map(|(other, _)| other)));
    file.nodes = file_nodes(&free, &offer, &file, &sums);
    file.units = file_units(&offer.units, &sums, &index.pools);
    add_links(&mut file, index, &offer.units, policy);
    memory_units::choose(&mut file);
    let snapshot = Arc::new(Snapshot::new(file)?);
    let (units, pools) = (offer.units.clone(), offer.reports.clone());
    let (digests, application) = (Digests::default(), found.clone());
    Ok(AssembledSnapshot {
        snapshot,
        units,
        pools,
        warnings: notes,
        digests,
        replaced,
        expects_counters: false,
        application,
    })
}

/// Resources that an actor requests on a unit, without its work; `None` if it cannot run there.
fn demand_on(
    application: &ActorApplication,
    numbers: &Numbers,
    actor: Option<&ActorName>,
    unit: Option<&Unit>,
) -> Option<LoadSum> {
    let (actor, unit) = (actor?, unit?);
    let group = application.spec.actors.iter().position(|group| group.name == actor.group)?;
    let (_, asked) = numbers.groups[group].kinds.get(&unit.kind)?;
    Some(LoadSum { count: 1, asks: amounts_with_pod(asked, None), ..LoadSum::default() })
}

/// Lists the placed actors and messages of all other applications with a valid manifest.
fn list_others(file: &mut SnapshotFile, index: &Index, key: &ApplicationKey, policy: &Policy, offer: &Offer) {
    for other in other_applications(index, key) {
        let places = current_places(index, other, &ApplicationKey::of(other), offer);
        if places.is_empty() {
            continue;
        }
        let actors = desired_actors(index, other);
        let Ok(numbers) = Numbers::of(other, &actors, policy) else { continue };
        let first = file.actors.len();
        add_application(file, (other, &actors), &numbers, |name| {
            places.get(&name.short()).map(|unit| (*unit, true))
        });
        let other_key = ApplicationKey::of(other);
        if let Some(measured) = index.measured(&other_key, policy.window) {
            replace_measured(file, &other_key, measured);
        }
        raise_requests(&mut file.actors[first..], index, other);
    }
}

/// Raises the requests of actors whose pods request more than their templates.
fn raise_requests(listed: &mut [Actor], index: &Index, application: &ActorApplication) {
    let pods = index.pods_of(application).into_iter();
    let there: BTreeMap<String, RunningPod> = pods.map(|pod| (pod.actor.to_string(), pod)).collect();
    for actor in listed {
        let is_there = |pod: &&RunningPod| actor.current.as_deref() == Some(pod.unit);
        let Some(pod) = there.get(&actor.id).filter(is_there) else { continue };
        for (resource, amount) in resource_amounts(pod.asks) {
            for way in actor.runs_on.values_mut() {
                // Any other resource is the device, or not part of the snapshot.
                if ALWAYS_INCLUDED.contains(&resource.as_str()) || way.node_requires.contains_key(&resource) {
                    let most = way.node_requires.entry(resource.clone()).or_default();
                    *most = amount.max(*most);
                }
            }
        }
    }
}

/// Warns that manifests of other applications are invalid; names only those of the same namespace, and not all.
fn partial_warning<'a>(
    key: &ApplicationKey,
    invalid: impl Iterator<Item = &'a ApplicationKey>,
) -> Option<SnapshotWarning> {
    let invalid: Vec<&ApplicationKey> = invalid.collect();
    let own = invalid.iter().filter(|other| other.namespace == key.namespace);
    let mut named: Vec<String> = own.take(MAX_NAMED).map(|other| other.name.clone()).collect();
    let others = invalid.len() - named.len();
    if others > 0 {
        named.push(format!("{others} {}", if named.is_empty() { "other applications" } else { "others" }));
    }
    let message = format!(
        "the manifests of {} are invalid; only their current assignments and pod requests are considered",
        named.join(", ")
    );
    (!invalid.is_empty()).then_some(SnapshotWarning { condition: "Partial", message })
}

/// Warns that the priority is above what the namespace is allowed.
fn limited_priority(index: &Index, application: &ActorApplication) -> Option<SnapshotWarning> {
    let (asked, counts) = (application.spec.priority, index.priority(application));
    let message = format!(
        "spec.priority {asked} is limited to {counts} by the namespace label {}",
        labels::MAX_PRIORITY
    );
    (counts < asked).then_some(SnapshotWarning { condition: "PriorityLimited", message })
}

impl AssembledSnapshot {
    /// Whether measured numbers of the application are in the snapshot.
    pub fn is_measured(&self) -> bool {
        self.replaced.is_some()
    }

    /// Whether windows judge moves for load: it is measured, or counters are expected to return.
    pub fn is_judged_by_windows(&self) -> bool {
        self.is_measured() || self.expects_counters
    }
}

fn find<'a>(index: &'a Index, key: &ApplicationKey) -> Result<&'a Arc<ActorApplication>, AssembleError> {
    index.application(key).ok_or_else(|| {
        let known: Vec<String> = index.applications.keys().map(ToString::to_string).collect();
        let known = if known.is_empty() {
            "there are none".to_owned()
        } else {
            format!("known: {}", suggestions(&known, &key.to_string()))
        };
        AssembleError::NotFound(key.clone(), known)
    })
}

/// Other applications by name, except those that are being deleted.
fn other_applications<'a>(
    index: &'a Index,
    key: &ApplicationKey,
) -> impl Iterator<Item = &'a ActorApplication> {
    let others = index.applications.iter().filter(move |(other, _)| *other != key);
    others.map(|(_, it)| it.as_ref()).filter(|it| it.metadata.deletion_timestamp.is_none())
}

fn check_templates(application: &ActorApplication, pools: &[&DevicePool]) -> Result<(), AssembleError> {
    if let Some(problem) = size::template_problem(application) {
        return Err(AssembleError::Invalid(problem));
    }
    for group in &application.spec.actors {
        for implementation in &group.implementations {
            let spec = implementation.template.spec.clone().unwrap_or_default();
            if let Some(problem) = template_problem(&spec, pools) {
                let at =
                    format!("spec.actors[{}].implementations[{}].template", group.name, implementation.kind);
                return Err(AssembleError::Invalid(format!("{at}: {problem}")));
            }
        }
    }
    Ok(())
}

/// Decided units by short name, if they still exist.
fn decided_places<'a>(index: &Index, key: &ApplicationKey, offer: &'a Offer) -> BTreeMap<String, &'a Unit> {
    let Some(placement) = index.placement(key) else { return BTreeMap::new() };
    let place = |a: &crds::Assignment| Some((a.actor.clone(), offer.units.get(&a.unit)?));
    placement.spec.assignments.iter().filter_map(place).collect()
}

/// Decided units by short name, and actual ones of actors that the decision lacks.
fn current_places<'a>(
    index: &Index,
    application: &ActorApplication,
    key: &ApplicationKey,
    offer: &'a Offer,
) -> BTreeMap<String, &'a Unit> {
    let mut places = decided_places(index, key, offer);
    for (actor, unit) in undecided_places(index, application, key, offer) {
        places.entry(actor).or_insert(unit);
    }
    places
}

/// Actual units of actors that the decision lacks, by short name.
fn undecided_places<'a>(
    index: &Index,
    application: &ActorApplication,
    key: &ApplicationKey,
    offer: &'a Offer,
) -> BTreeMap<String, &'a Unit> {
    let decision = index.placement(key).map(|placement| &placement.spec);
    let spoken: BTreeSet<&String> = decision
        .into_iter()
        .flat_map(|spec| {
            let placed = spec.assignments.iter().map(|assignment| &assignment.actor);
            placed.chain(spec.unplaced.iter().map(|unplaced| &unplaced.actor))
        })
        .collect();
    let runs = |(instance, pod): &(Arc<crds::Instance>, Option<Arc<Pod>>)| {
        let pod = pod.as_ref().filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod));
        let unit = pod.and_then(|pod| offer.units.get(unit_of(pod)?));
        actors_of_instance(instance).into_iter().filter_map(move |actor| Some((actor.short(), unit?)))
    };
    let own = owned_objects(index, application);
    own.values().flat_map(runs).filter(|(actor, _)| !spoken.contains(actor)).collect()
}

/// Adds actors and edges of an application; `place` returns an actor's unit and whether it is fixed there.
///
/// Unplaced actors of other applications are left out.
fn add_application<'a>(
    file: &mut SnapshotFile,
    (application, actors): (&ActorApplication, &ApplicationActors),
    numbers: &Numbers,
    place: impl Fn(&ActorName) -> Option<(&'a Unit, bool)>,
) {
    let names = &actors.names;
    let is_planned =
        file.application.as_deref() == Some(ApplicationKey::of(application).to_string().as_str());
    let group_of: BTreeMap<&str, usize> =
        application.spec.actors.iter().enumerate().map(|(i, group)| (group.name.as_str(), i)).collect();
    let labelled = program_mentions(file, "actor_label");
    let of_group = |group: &ActorGroup| if labelled { shared_labels(group) } else { BTreeMap::new() };
    let labels: Vec<BTreeMap<String, String>> = application.spec.actors.iter().map(of_group).collect();
    let mut ids: Vec<Option<String>> = Vec::with_capacity(names.len());
    for name in names {
        let place = place(name);
        if place.is_none() && !is_planned {
            ids.push(None);
            continue;
        }
        let group = &numbers.groups[group_of[name.group.as_str()]];
        let mut runs_on: BTreeMap<String, RunsOn> =
            group.kinds.iter().map(|(kind, (work, asked))| (kind.clone(), runs_on(*work, asked))).collect();
        if let Some((unit, true)) = place {
            // It runs on a kind that the manifest may no longer have; then its work is unknown.
            runs_on.entry(unit.kind.clone()).or_default();
            runs_on.retain(|kind, _| *kind == unit.kind);
        } else {
            runs_on.retain(|kind, _| actors.may_run_on(name, kind));
        }
        file.actors.push(Actor {
            id: name.to_string(),
            group: Some(name.group.clone()),
            runs_on,
            move_cost: group.move_cost,
            fixed: !is_planned,
            current: place.map(|(unit, _)| unit.id.clone()),
            labels: labels[group_of[name.group.as_str()]].clone(),
            ..Actor::default()
        });
        ids.push(Some(name.to_string()));
    }
    let both = |a: usize, b: usize| Some((ids[a].clone()?, ids[b].clone()?));
    for &(from, to, count) in &numbers.messages {
        if let Some((from, to)) = both(from, to) {
            file.messages.push(Message { from, to, count });
        }
    }
    let has_any: BTreeSet<&str> =
        names.iter().zip(&ids).filter(|(_, id)| id.is_some()).map(|(name, _)| name.group.as_str()).collect();
    for flow in &numbers.of_groups {
        let [from, to] = [flow.from, flow.to].map(|group| &application.spec.actors[group].name);
        if has_any.contains(from.as_str()) && has_any.contains(to.as_str()) {
            let [from, to] = [from, to].map(|group| format!("{}/{group}", ApplicationKey::of(application)));
            file.group_messages.push(GroupMessage { from, to, count: flow.count, drag: flow.drag });
        }
    }
    for &(a, b, drag) in &numbers.drags {
        if let Some((a, b)) = both(a, b) {
            file.annoyance.push(Drag { a, b, drag });
        }
    }
}

/// Labels that all implementations of a group share.
fn shared_labels(group: &ActorGroup) -> BTreeMap<String, String> {
    let mut templates = group.implementations.iter().map(|implementation| {
        let metadata = implementation.template.metadata.as_ref();
        metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default()
    });
    let mut shared = templates.next().unwrap_or_default();
    for labels in templates {
        shared.retain(|key, value| labels.get(key) == Some(value));
    }
    shared
}

fn runs_on(work: u64, asked: &Quantities) -> RunsOn {
    RunsOn { work, requires: BTreeMap::new(), node_requires: resource_amounts(asked) }
}
