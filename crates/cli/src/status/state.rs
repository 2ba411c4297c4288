//! The status of an application: actors, units, problems and remedies.

use std::collections::{BTreeMap, BTreeSet};

use crds::{
    ActorApplication, DecidedGain, Instance, InstancePhase, InstanceStatus, Placement, RebalanceMode,
};
use serde::Serialize;
use world::ApplicationKey;

use super::lookup::ClusterLookup;
use super::problems::{Problem, WOULD_MOVE, problems};

/// The status of an application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    pub application: String,
    pub phase: String,
    pub wanted: i32,
    pub placed: i32,
    pub running: i32,
    pub ready: i32,
    /// The number of actors with the newest template, during a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<i32>,
    pub objective: BTreeMap<String, i64>,
    /// The levels of the objective, highest priority first, with their criteria joined by `+`.
    pub levels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<bool>,
    /// Rules of pod templates that only kube-scheduler evaluates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_to_scheduler: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<String>,
    /// Actors with tolerated violations that existed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excused: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_moved: Option<String>,
    /// What is known of its measured load, if the operator reads counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadStatus>,
    pub actors: Vec<ActorStatus>,
    #[serde(rename = "slots")]
    pub units: Vec<UnitStatus>,
    #[serde(rename = "wrong")]
    pub problems: Vec<Problem>,
}

/// The measured load of an application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadStatus {
    /// The number of measured actors.
    pub covered: i32,
    pub wanted: i32,
    /// The mode of the application; absent if that of its policy holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RebalanceMode>,
    /// The policy of the application; absent if it has the default policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The mode of its policy; absent if the application has a mode, or the policy cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_mode: Option<RebalanceMode>,
    /// Whether moves would pay.
    pub would_move: bool,
    /// The reason of the condition `WouldMove`.
    pub reason: String,
    pub message: String,
    /// The last decision that moved actors for a gain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<LastDecision>,
}

/// The last decision that moved actors for a gain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastDecision {
    #[serde(flatten)]
    pub gain: DecidedGain,
    /// The gain that was measured after its moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realised_percent: Option<i64>,
}

impl LastDecision {
    fn of(decision: &Placement) -> Option<Self> {
        let gain = decision.spec.gain.clone()?;
        let moves = decision.status.iter().flat_map(|status| &status.moves);
        let mut moves = moves.filter(|it| it.decided_at == gain.decided_at);
        let realised_percent = moves.find_map(|it| it.realised_percent);
        Some(Self { gain, realised_percent })
    }
}

impl LoadStatus {
    fn of(
        application: &ActorApplication,
        decision: Option<&Placement>,
        modes: &BTreeMap<String, RebalanceMode>,
    ) -> Option<Self> {
        let status = application.status.as_ref()?;
        // The decision names the default policy.
        let decided_under = decision.map(|decision| &decision.spec.policy);
        let policy = application
            .spec
            .policy
            .as_ref()
            .or(decided_under)
            .filter(|_| application.spec.rebalance.is_none());
        let counters = status.counters?;
        let condition = status.conditions.iter().find(|it| it.type_ == WOULD_MOVE)?;
        Some(Self {
            covered: counters.covered,
            wanted: counters.wanted,
            mode: application.spec.rebalance,
            policy: application.spec.policy.clone(),
            policy_mode: policy.and_then(|policy| modes.get(policy)).copied(),
            would_move: condition.status == "True",
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_decision: decision.and_then(LastDecision::of),
        })
    }
}

/// The status of an actor.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorStatus {
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

impl ActorStatus {
    /// Whether it runs on its assigned unit and is not known to be unready.
    pub fn is_healthy(&self) -> bool {
        self.state == InstancePhase::Running.to_string()
    }
}

/// A unit that hosts actors of the application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitStatus {
    pub unit: String,
    pub kind: String,
    /// The application's actors on the unit.
    pub actors: Vec<String>,
    /// The number of actors of other applications.
    pub others: usize,
    /// The devices allocated by the kubelet: `resource=device`.
    pub devices: Vec<String>,
}

impl ApplicationStatus {
    /// The status of the application in the cluster.
    pub fn of(application: &ActorApplication, lookup: &ClusterLookup) -> Self {
        let key = ApplicationKey::of(application);
        let reported = application.status.clone().unwrap_or_default();
        let counts = reported.actors.clone().unwrap_or_default();
        let decision = lookup.decision(&key);
        let own = lookup.instances(&key);
        let instances: BTreeMap<&str, &Instance> =
            own.iter().map(|(actor, instance)| (actor.as_str(), *instance)).collect();
        let wanted = world::desired_actors(&lookup.index, application);
        let actors = actors(&wanted, decision, &instances, &lookup.kinds);
        let decided = decision.map(|decision| decision.spec.clone()).unwrap_or_default();
        let excused = |one: &crds::ExcusedActor| match one.reasons.as_slice() {
            [] => one.actor.clone(),
            reasons => format!("{}: {}", one.actor, reasons.join("; ")),
        };
        Self {
            application: key.to_string(),
            phase: reported.phase.unwrap_or_default().to_string(),
            wanted: i32::try_from(actors.len()).unwrap_or(i32::MAX),
            placed: counts.placed,
            running: counts.running,
            ready: counts.ready,
            // Older operators report neither `updated` nor `revision`.
            updated: Some(counts.updated)
                .filter(|updated| reported.revision.is_some() && *updated < counts.placed),
            objective: reported.objective.clone(),
            optimal: reported.optimal,
            left_to_scheduler: decided.left_to_scheduler,
            excused: decided.excused.iter().map(excused).collect(),
            levels: decided.levels,
            found_by: decided.found_by,
            proven_by: decided.proven_by,
            judged: decided.judged,
            load: LoadStatus::of(application, decision, &lookup.modes),
            last_moved: reported.last_moved.as_ref().map(|time| time.0.to_string()),
            units: units(&actors, lookup, decision, &instances),
            actors,
            problems: problems(application, decision, &instances, &wanted.rejected),
        }
    }
}

/// The wanted actors in the order of the manifest, and running actors that are no longer wanted.
fn actors(
    wanted: &world::ApplicationActors,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
    kinds: &BTreeMap<String, &str>,
) -> Vec<ActorStatus> {
    let assignments = decision.into_iter().flat_map(|decision| &decision.spec.assignments);
    let decided: BTreeMap<&str, _> = assignments.map(|it| (it.actor.as_str(), it)).collect();
    let wanted: Vec<(String, &str)> =
        wanted.names.iter().map(|actor| (actor.short(), actor.group.as_str())).collect();
    let is_wanted: BTreeSet<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let mut actors: Vec<ActorStatus> = wanted
        .iter()
        .map(|(name, group)| {
            let assignment = decided.get(name.as_str());
            let status = instances.get(name.as_str()).and_then(|instance| instance.status.as_ref());
            let phase = status.and_then(|status| status.phase);
            let is_on_unit = assignment.is_none_or(|assignment| {
                status.is_none_or(|status| status.unit.as_deref() == Some(&assignment.unit))
            });
            let state = match (assignment, phase) {
                (None, None) => "unplaced".to_owned(),
                (None, Some(phase)) => format!("{phase}, unplaced"),
                (Some(_), None) => "assigned".to_owned(),
                (Some(_), Some(phase @ InstancePhase::Running))
                    if is_on_unit && status.is_some_and(is_not_ready) =>
                {
                    format!("{phase}, not ready")
                }
                (Some(_), Some(phase)) if is_on_unit => phase.to_string(),
                (Some(_), Some(phase)) => {
                    let from = status.and_then(|status| status.unit.as_deref()).unwrap_or("nowhere");
                    format!("moves, {phase} on {from}")
                }
            };
            ActorStatus {
                name: name.clone(),
                group: (*group).to_owned(),
                unit: assignment.map(|assignment| assignment.unit.clone()),
                kind: assignment.and_then(|it| kinds.get(&it.pool).map(|kind| (*kind).to_owned())),
                pod: status.and_then(|status| status.pod.clone()),
                state,
            }
        })
        .collect();
    for (name, instance) in instances.iter().filter(|(name, _)| !is_wanted.contains(*name)) {
        let status = instance.status.as_ref();
        actors.push(ActorStatus {
            name: (*name).to_owned(),
            group: instance.spec.actor_group.clone().unwrap_or_default(),
            unit: status.and_then(|status| status.unit.clone()),
            kind: instance.spec.template.kind.clone(),
            pod: status.and_then(|status| status.pod.clone()),
            state: "being removed".to_owned(),
        });
    }
    actors
}

/// Whether an Instance reports that its pod is not ready.
pub fn is_not_ready(status: &InstanceStatus) -> bool {
    status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "False")
}

/// The units of the actors, with their devices and the number of other actors.
fn units(
    actors: &[ActorStatus],
    lookup: &ClusterLookup,
    decision: Option<&Placement>,
    instances: &BTreeMap<&str, &Instance>,
) -> Vec<UnitStatus> {
    let mut units: BTreeMap<&str, UnitStatus> = BTreeMap::new();
    for actor in actors {
        let Some(unit) = &actor.unit else { continue };
        let entry = units.entry(unit).or_insert_with(|| UnitStatus {
            unit: unit.clone(),
            kind: actor.kind.clone().unwrap_or_default(),
            actors: Vec::new(),
            others: lookup.others(unit, decision),
            devices: Vec::new(),
        });
        entry.actors.push(actor.name.clone());
        let status = instances.get(actor.name.as_str()).and_then(|instance| instance.status.as_ref());
        let status = status.filter(|status| status.unit.as_ref() == Some(unit));
        for allocated in status.into_iter().flat_map(|status| &status.devices) {
            let resource = &allocated.resource;
            entry.devices.extend(allocated.device_ids.iter().map(|device| format!("{resource}={device}")));
        }
    }
    let mut units: Vec<UnitStatus> = units.into_values().collect();
    for unit in &mut units {
        unit.devices.sort_unstable();
        unit.devices.dedup();
    }
    units
}
