//! How an application is: its actors, the units that they are on, what is wrong, what to do.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Instance, InstancePhase, InstanceStatus, Placement};
use serde::Serialize;
use world::ApplicationKey;

use super::known::Known;
use super::wrong::{Wrong, wrong};

/// How an application is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub application: String,
    pub phase: String,
    pub wanted: i32,
    pub placed: i32,
    pub running: i32,
    pub ready: i32,
    /// How many are of the newest template, while others are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<i32>,
    pub objective: BTreeMap<String, i64>,
    /// The criteria in the order in which they count, those of one level joined by `+`.
    pub levels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<bool>,
    /// What found the decision, what proved it, and what clingo judged of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<String>,
    /// Who stays in a breach that was there before, and in which.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excused: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_moved: Option<String>,
    pub actors: Vec<Actor>,
    pub slots: Vec<Slot>,
    pub wrong: Vec<Wrong>,
}

/// Where an actor is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    pub name: String,
    pub group: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub state: String,
}

impl Actor {
    /// Whether it runs where it was placed, and is ready as far as it is known.
    pub fn is_well(&self) -> bool {
        self.state == InstancePhase::Running.to_string()
    }
}

/// A unit that hosts one of its actors.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    pub unit: String,
    pub kind: String,
    /// Its own actors there.
    pub actors: Vec<String>,
    /// How many of other applications.
    pub others: usize,
    /// What the kubelet gave to them: `resource=device`.
    pub devices: Vec<String>,
}

impl Status {
    /// How it is, by what is known of the cluster.
    pub fn of(application: &ActorApplication, known: &Known) -> Self {
        let key = ApplicationKey::of(application);
        let told = application.status.clone().unwrap_or_default();
        let counts = told.actors.clone().unwrap_or_default();
        let decision = known.decision(&key);
        let own = known.instances(&key);
        let instances: BTreeMap<&str, &Instance> =
            own.iter().map(|(actor, instance)| (actor.as_str(), *instance)).collect();
        let wanted = world::actors(&known.index, application);
        let actors = actors(&wanted, decision, &instances, &known.kinds);
        let decided = decision.map(|decision| decision.spec.clone()).unwrap_or_default();
        let excused = |one: &crds::ExcusedActor| match one.reasons.as_slice() {
            [] => one.actor.clone(),
            reasons => format!("{}: {}", one.actor, reasons.join("; ")),
        };
        Self {
            application: key.to_string(),
            phase: told.phase.unwrap_or_default().to_string(),
            wanted: i32::try_from(actors.len()).unwrap_or(i32::MAX),
            placed: counts.placed,
            running: counts.running,
            ready: counts.ready,
            // Operators of before did not count them: then there are no revisions either.
            updated: Some(counts.updated)
                .filter(|updated| told.revision.is_some() && *updated < counts.placed),
            objective: told.objective.clone(),
            optimal: told.optimal,
            excused: decided.excused.iter().map(excused).collect(),
            levels: decided.levels,
            found_by: decided.found_by,
            proven_by: decided.proven_by,
            judged: decided.judged,
            last_moved: told.last_moved.as_ref().map(|time| time.0.to_string()),
            slots: slots(&actors, known, decision, &instances),
            actors,
            wrong: wrong(application, decision, &instances, &wanted.refused),
        }
    }
}

/// The actors that are wanted, in the manifest's order, and those that still run without being wanted.
fn actors(
    wanted: &world::Actors,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
    kinds: &BTreeMap<String, &str>,
) -> Vec<Actor> {
    let assignments = decision.into_iter().flat_map(|decision| &decision.spec.assignments);
    let decided: BTreeMap<&str, _> = assignments.map(|it| (it.actor.as_str(), it)).collect();
    let wanted: Vec<(String, &str)> =
        wanted.names.iter().map(|actor| (actor.short(), actor.group.as_str())).collect();
    let is_wanted: BTreeSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let mut actors: Vec<Actor> = wanted
        .iter()
        .map(|(name, group)| {
            let place = decided.get(name.as_str());
            let status = instances.get(name.as_str()).and_then(|instance| instance.status.as_ref());
            let phase = status.and_then(|status| status.phase);
            let is_there = place
                .is_none_or(|place| status.is_none_or(|status| status.unit.as_deref() == Some(&place.unit)));
            let state = match (place, phase) {
                (None, None) => "no place".to_owned(),
                (None, Some(phase)) => format!("{phase}, no place decided"),
                (Some(_), None) => "decided".to_owned(),
                (Some(_), Some(phase @ InstancePhase::Running))
                    if is_there && status.is_some_and(is_not_ready) =>
                {
                    format!("{phase}, not ready")
                }
                (Some(_), Some(phase)) if is_there => phase.to_string(),
                (Some(_), Some(phase)) => {
                    let from = status.and_then(|status| status.unit.as_deref()).unwrap_or("nowhere");
                    format!("moves, {phase} on {from}")
                }
            };
            Actor {
                name: name.clone(),
                group: (*group).to_owned(),
                unit: place.map(|place| place.unit.clone()),
                kind: place.and_then(|place| kinds.get(&place.pool).map(|kind| (*kind).to_owned())),
                pod: status.and_then(|status| status.pod.clone()),
                state,
            }
        })
        .collect();
    for (name, instance) in instances.iter().filter(|(name, _)| !is_wanted.contains(*name)) {
        let status = instance.status.as_ref();
        actors.push(Actor {
            name: (*name).to_owned(),
            group: instance.spec.actor_group.clone().unwrap_or_default(),
            unit: status.and_then(|status| status.unit.clone()),
            kind: instance.spec.template.kind.clone(),
            pod: status.and_then(|status| status.pod.clone()),
            state: "not wanted any more".to_owned(),
        });
    }
    actors
}

/// Whether an Instance says that its pod is not ready.
pub fn is_not_ready(status: &InstanceStatus) -> bool {
    status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "False")
}

/// The units that its actors are on, with the devices that they hold and who else is there.
fn slots(
    actors: &[Actor],
    known: &Known,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
) -> Vec<Slot> {
    let mut slots: BTreeMap<&str, Slot> = BTreeMap::new();
    for actor in actors {
        let Some(unit) = &actor.unit else { continue };
        let slot = slots.entry(unit).or_insert_with(|| Slot {
            unit: unit.clone(),
            kind: actor.kind.clone().unwrap_or_default(),
            actors: Vec::new(),
            others: known.others(unit, decision),
            devices: Vec::new(),
        });
        slot.actors.push(actor.name.clone());
        let status = instances.get(actor.name.as_str()).and_then(|instance| instance.status.as_ref());
        let status = status.filter(|status| status.unit.as_ref() == Some(unit));
        for held in status.into_iter().flat_map(|status| &status.devices) {
            slot.devices.extend(held.device_ids.iter().map(|device| format!("{}={device}", held.resource)));
        }
    }
    let mut slots: Vec<Slot> = slots.into_values().collect();
    for slot in &mut slots {
        slot.devices.sort_unstable();
        slot.devices.dedup();
    }
    slots
}
