//! How an application is: its actors, the units that they are on, what is wrong, what to do.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Condition, Instance, InstancePhase, Placement, RefusalScope};
use kube::ResourceExt;
use serde::Serialize;
use world::{ApplicationKey, Index, Objects, Whose};

/// The conditions that are well when they are true; every other one says what is wrong, or worth knowing.
const GOOD: [&str; 3] = ["Ready", "Placed", "Accepted"];

/// How an application is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub application: String,
    pub phase: String,
    pub wanted: i32,
    pub placed: i32,
    pub running: i32,
    pub objective: BTreeMap<String, i64>,
    /// The criteria in the order in which they count, those of one level joined by `+`.
    pub levels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_moved: Option<String>,
    pub actors: Vec<Actor>,
    pub slots: Vec<Slot>,
    pub wrong: Vec<String>,
    pub to_do: Vec<String>,
}

/// Where an actor is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub state: String,
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
    pub fn of(application: &ActorApplication, objects: &Objects) -> Self {
        let key = ApplicationKey::of(application);
        let told = application.status.clone().unwrap_or_default();
        let counts = told.actors.clone().unwrap_or_default();
        let decision =
            objects.placements.iter().find(|placement| world::is_decision_for(placement, application));
        let decision = decision.map(AsRef::as_ref);
        let index = Index::of(objects);
        let is_own = |instance: &&Instance| matches!(index.of_instance(instance), Whose::Of(of) if ApplicationKey::of(of) == key);
        let own: Vec<(String, &Instance)> = (objects.instances.iter().map(AsRef::as_ref))
            .filter(is_own)
            .flat_map(|instance| world::actors_in(instance).into_iter().map(move |it| (it.short(), instance)))
            .collect();
        let instances: BTreeMap<&str, &Instance> =
            own.iter().map(|(actor, instance)| (actor.as_str(), *instance)).collect();
        let wanted = world::actors(&index, application);
        let kinds: BTreeMap<String, &str> =
            objects.pools.iter().map(|pool| (pool.name_any(), pool.spec.kind.as_str())).collect();
        let actors = actors(&wanted, decision, &instances, &kinds);
        let mut status = Self {
            application: key.to_string(),
            phase: told.phase.unwrap_or_default().to_string(),
            wanted: i32::try_from(actors.len()).unwrap_or(i32::MAX),
            placed: counts.placed,
            running: counts.running,
            objective: told.objective.clone(),
            levels: decision.map(|decision| decision.spec.levels.clone()).unwrap_or_default(),
            optimal: told.optimal,
            last_moved: told.last_moved.as_ref().map(|time| time.0.to_string()),
            slots: slots(&actors, objects, &key, &instances),
            actors,
            wrong: Vec::new(),
            to_do: Vec::new(),
        };
        status.judge(application, decision, &instances);
        for (name, unfit) in &wanted.refused {
            status.wrong.push(format!("Instance {name} is no actor: {}", unfit.message));
        }
        status
    }

    /// Says what is wrong, and what to do about it.
    fn judge(
        &mut self,
        application: &ActorApplication,
        decision: Option<&Placement>,
        instances: &BTreeMap<&str, &Instance>,
    ) {
        let namespace = application.namespace().unwrap_or_else(|| "default".to_owned());
        let name = application.name_any();
        let mut to_do = BTreeSet::new();
        let conditions = application.status.iter().flat_map(|status| &status.conditions);
        let is_bad = |it: &&Condition| (it.status == "False") == GOOD.contains(&it.type_.as_str());
        for condition in conditions.filter(is_bad) {
            // that not all run says nothing more than why they do not
            if condition.type_ != "Ready" || !["Unplaced", "NotAccepted"].contains(&condition.reason.as_str())
            {
                self.wrong.push(format!("{}: {}", condition.type_, condition.message));
            }
            to_do.extend(match condition.type_.as_str() {
                "Placed" => {
                    Some(format!("why, and what is full: kubectl cairn explain actorapp {name} -n {namespace}"))
                }
                "Accepted" => Some(format!("correct the manifest: kubectl edit actorapp {name} -n {namespace}")),
                "PolicyRefused" => Some("correct the policy, and try it with kubectl cairn check-policy".to_owned()),
                "NameTaken" => Some("delete or rename what has the name, or rename the application".to_owned()),
                "Paused" => Some(format!(
                    "go on: kubectl patch actorapp {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"paused\":false}}}}'"
                )),
                _ => None,
            });
        }
        if application.status.is_none() {
            self.wrong.push("nobody has looked at it yet".to_owned());
            to_do.insert("see whether the operator runs: kubectl cairn doctor".to_owned());
        }
        for refusal in
            decision.and_then(|decision| decision.status.as_ref()).into_iter().flat_map(|it| &it.refusals)
        {
            let until = &refusal.until.0;
            let by = match (&refusal.node, refusal.scope) {
                (Some(node), _) => node,
                (None, RefusalScope::Namespace) => "its namespace",
                (None, _) => "admission",
            };
            self.wrong
                .push(format!("{} was refused by {by} until {until}: {}", refusal.actor, refusal.reason));
        }
        for (actor, instance) in instances {
            let Some(status) = &instance.status else { continue };
            if status.phase == Some(InstancePhase::Failed) && status.pod.is_some() {
                let said = status.conditions.iter().find(|condition| condition.status == "False");
                let why = said.map(|condition| format!(": {}", condition.message)).unwrap_or_default();
                self.wrong.push(format!("{actor} failed{why}"));
                let pod = status.pod.clone().unwrap_or_else(|| instance.name_any());
                to_do.insert(format!("read its log: kubectl logs {pod} -n {namespace} --previous"));
            }
        }
        self.to_do = to_do.into_iter().collect();
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
    let wanted: Vec<String> = wanted.names.iter().map(world::ActorName::short).collect();
    let is_wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut actors: Vec<Actor> = wanted
        .iter()
        .map(|name| {
            let place = decided.get(name.as_str());
            let status = instances.get(name.as_str()).and_then(|instance| instance.status.as_ref());
            let phase = status.and_then(|status| status.phase);
            let is_there = place
                .is_none_or(|place| status.is_none_or(|status| status.unit.as_deref() == Some(&place.unit)));
            let state = match (place, phase) {
                (None, None) => "no place".to_owned(),
                (None, Some(phase)) => format!("{phase}, no place decided"),
                (Some(_), None) => "decided".to_owned(),
                (Some(_), Some(phase)) if is_there => phase.to_string(),
                (Some(_), Some(phase)) => {
                    let from = status.and_then(|status| status.unit.as_deref()).unwrap_or("nowhere");
                    format!("moves, {phase} on {from}")
                }
            };
            Actor {
                name: name.clone(),
                unit: place.map(|place| place.unit.clone()),
                kind: place.and_then(|place| kinds.get(&place.pool)).map(|kind| (*kind).to_owned()),
                pod: status.and_then(|status| status.pod.clone()),
                state,
            }
        })
        .collect();
    for (name, instance) in instances.iter().filter(|(name, _)| !is_wanted.contains(*name)) {
        let status = instance.status.as_ref();
        actors.push(Actor {
            name: (*name).to_owned(),
            unit: status.and_then(|status| status.unit.clone()),
            kind: instance.spec.template.kind.clone(),
            pod: status.and_then(|status| status.pod.clone()),
            state: "not wanted any more".to_owned(),
        });
    }
    actors
}

/// The units that its actors are on, with the devices that they hold and who else is there.
fn slots(
    actors: &[Actor],
    objects: &Objects,
    key: &ApplicationKey,
    instances: &BTreeMap<&str, &Instance>,
) -> Vec<Slot> {
    let mut slots: BTreeMap<&str, Slot> = BTreeMap::new();
    for actor in actors {
        let Some(unit) = &actor.unit else { continue };
        let slot = slots.entry(unit).or_insert_with(|| Slot {
            unit: unit.clone(),
            kind: actor.kind.clone().unwrap_or_default(),
            actors: Vec::new(),
            others: 0,
            devices: Vec::new(),
        });
        slot.actors.push(actor.name.clone());
        let status = instances.get(actor.name.as_str()).and_then(|instance| instance.status.as_ref());
        let status = status.filter(|status| status.unit.as_ref() == Some(unit));
        for held in status.into_iter().flat_map(|status| &status.devices) {
            slot.devices.extend(held.device_ids.iter().map(|device| format!("{}={device}", held.resource)));
        }
    }
    let application = |placement: &Placement| {
        let owner = objects.applications.iter().find(|found| world::is_decision_for(placement, found));
        owner.map(|found| ApplicationKey::of(found))
    };
    for placement in
        objects.placements.iter().filter(|placement| application(placement).is_some_and(|it| it != *key))
    {
        for assignment in &placement.spec.assignments {
            if let Some(slot) = slots.get_mut(assignment.unit.as_str()) {
                slot.others += 1;
            }
        }
    }
    let mut slots: Vec<Slot> = slots.into_values().collect();
    for slot in &mut slots {
        slot.devices.sort_unstable();
        slot.devices.dedup();
    }
    slots
}
