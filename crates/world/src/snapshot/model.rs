//! Builds the inputs of `control` from Kubernetes objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{
    Decision, DesiredActor, DesiredState, FreeCapacity, MoveState, NameConflict, ObjectId, ObservedState,
    PodPhase, Refusal, RefusalKey, RefusalScope,
};
use crds::{ActorApplication, Instance, InstanceOrigin, MoveStep, Placement};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;

use crate::Index;
use crate::constraints::admission::admits::AdmittedSpecs;
use crate::demand::actors::actors_of_instance;
use crate::demand::application::{ActorName, GroupMember};
use crate::demand::pods::{is_terminal, resource_amounts, unit_of};
use crate::demand::requested::desired_actors;
use crate::index::names::namespace_of;
use crate::index::objects::ApplicationKey;
use crate::index::ownership::Ownership;
use crate::moves::{DecidedMove, elective, moves_in_progress};
use crate::numbers::duration;
use crate::units::unit::{Unit, pool_of};

/// Failure reasons with which a kubelet rejects a pod, besides `OutOf…`.
const REFUSED_BY_KUBELET: [&str; 5] =
    ["UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodePorts", "PodOSNotSupported"];

/// Name of an actor's Instance and pod; sharing it ensures that an actor never runs twice.
pub fn object_name(actor: &ActorName) -> String {
    match &actor.member {
        GroupMember::Index(_) => format!("{}-{}", actor.application.name, actor.short()),
        GroupMember::Requested(instance) => instance.clone(),
    }
}

/// Desired state of an application under the policy of this name.
pub fn desired_state(index: &Index, application: &ActorApplication, policy: &str) -> DesiredState {
    let groups = &application.spec.actors;
    let position: BTreeMap<&str, usize> =
        groups.iter().enumerate().map(|(position, group)| (group.name.as_str(), position)).collect();
    let actor = |name: &ActorName| DesiredActor { name: name.short(), group: position[name.group.as_str()] };
    let actors = desired_actors(index, application);
    let of_kind = |implementation: &crds::Implementation| {
        let asked = actors.admission.requests(implementation).unwrap_or_default();
        (implementation.kind.clone(), resource_amounts(&asked))
    };
    DesiredState {
        generation: application.metadata.generation.unwrap_or(0),
        policy: policy.to_owned(),
        paused: application.spec.paused,
        actors: actors.names.iter().map(actor).collect(),
        failover_after: application.spec.forced_after().and_then(|after| {
            let microseconds = duration(after).ok()?.to_integer();
            Some(Duration::from_micros(u64::try_from(microseconds).ok()?))
        }),
        max_unavailable: u64::try_from(application.spec.max_unavailable()).unwrap_or(0),
        requests: groups.iter().map(|group| group.implementations.iter().map(of_kind).collect()).collect(),
    }
}

/// Decision in a Placement.
pub fn decision(placement: &Placement) -> Decision {
    let spec = &placement.spec;
    Decision {
        generation: spec.application_generation,
        policy: spec.policy.clone(),
        demand: spec.demand_digest.clone(),
        places: spec.assignments.iter().map(|a| (a.actor.clone(), a.unit.clone())).collect(),
        unplaced: spec.unplaced.iter().map(|unplaced| unplaced.actor.clone()).collect(),
        elective: elective(placement),
    }
}

/// Refusals in a Placement's status; times are relative to the Unix epoch.
pub fn refusals(placement: &Placement) -> Vec<Refusal> {
    let moment = |time: &crds::Time| {
        let since = time.0.as_duration();
        since.try_into().unwrap_or_default()
    };
    let refusal = |refusal: &crds::Refusal| Refusal {
        key: refusal_key(refusal),
        actor: refusal.actor.clone(),
        reason: refusal.reason.clone(),
        count: refusal.count.and_then(|count| count.try_into().ok()).unwrap_or(1),
        until: moment(&refusal.until),
        cause: refusal.cause.clone(),
    };
    placement.status.iter().flat_map(|status| &status.refusals).map(refusal).collect()
}

/// What a refusal in a Placement's status is about.
pub(crate) fn refusal_key(refusal: &crds::Refusal) -> RefusalKey {
    RefusalKey {
        scope: match refusal.scope {
            crds::RefusalScope::Node => RefusalScope::Node(refusal.node.clone().unwrap_or_default()),
            crds::RefusalScope::Template => RefusalScope::Template,
            crds::RefusalScope::Namespace => RefusalScope::Namespace,
        },
        group: refusal.group.clone().unwrap_or_default(),
        kind: refusal.kind.clone().unwrap_or_default(),
    }
}

/// Observed state of an application, with the free capacity of these units and of its pods' nodes.
pub fn observed_state(
    index: &Index,
    application: &ActorApplication,
    units: &BTreeMap<String, Unit>,
) -> ObservedState {
    let mut observed = observed_objects(index, application);
    let pods = observed.instances.values().filter_map(|instance| instance.pod.as_ref()?.node.as_deref());
    observed.free = free_capacity(index, units, pods);
    let specs = AdmittedSpecs::of(index, application);
    for name in desired_actors(index, application).names {
        let pod = observed.instances.get_mut(&name.short()).and_then(|instance| instance.pod.as_mut());
        let Some(pod) = pod else { continue };
        let unit = pod.unit.as_ref().and_then(|unit| units.get(unit));
        if let Some(unit) = unit.filter(|_| pod.phase == PodPhase::Starting && pod.refusal.is_none()) {
            let instance = index.instances.get(&(name.application.namespace.clone(), object_name(&name)));
            pod.refusal = instance.and_then(|instance| index.misallocated(instance, unit));
        }
        pod.restart_blocked = unit.is_some_and(|it| it.cordoned.is_some() || specs.rejects(&name.group, it));
    }
    observed
}

/// Observed objects of an application, without free capacity.
pub(crate) fn observed_objects(index: &Index, application: &ActorApplication) -> ObservedState {
    let namespace = namespace_of(application);
    let prefix = format!("{}-", application.name_any());
    let is_own = |of: &ActorApplication| of.uid() == application.uid();
    let mut observed = ObservedState {
        unreachable: index.unreachable_nodes(),
        mass_outage: index.is_mass_outage(),
        ..ObservedState::default()
    };
    let mut taken: BTreeMap<String, NameConflict> = BTreeMap::new();
    let found = |instance: &Instance| control::Instance {
        id: id(instance),
        terminating: instance.metadata.deletion_timestamp.is_some(),
        requested: is_requested(instance),
        pod: None,
    };
    for instance in index.instances_named(&namespace, &prefix) {
        let name = instance.name_any();
        let Some(actor) = name.strip_prefix(&prefix) else { continue };
        match index.owner_of_instance(instance) {
            Ownership::OwnedBy(owner) if is_own(owner) && !is_requested(instance) => {
                observed.instances.insert(actor.to_owned(), found(instance));
            }
            Ownership::OwnedBy(owner) if is_own(owner) => {
                let ownership = format!("Instance {name}, which the application requested itself");
                taken.insert(actor.to_owned(), NameConflict::Foreign(ownership));
            }
            ownership => drop(taken.insert(actor.to_owned(), name_conflict("Instance", &name, &ownership))),
        }
    }
    let own = index.instances_of(application).into_iter();
    let own = own.filter(|it| matches!(index.owner_of_instance(it), Ownership::OwnedBy(_)));
    let (requested, own): (Vec<_>, Vec<_>) = own.partition(|instance| is_requested(instance));
    let surplus = own.into_iter().filter(|instance| !instance.name_any().starts_with(&prefix));
    observed.surplus = surplus.map(|instance| found(instance)).collect();
    for pod in index.pods_named(&namespace, &prefix) {
        let name = pod.name_any();
        let Some(actor) = name.strip_prefix(&prefix) else { continue };
        match index.owner_of_pod(pod) {
            Ownership::OwnedBy((owner, _)) if is_own(owner) => {
                if let Some(instance) = observed.instances.get_mut(actor) {
                    instance.pod = Some(observed_pod(pod));
                }
            }
            ownership => drop(taken.insert(actor.to_owned(), name_conflict("Pod", &name, &ownership))),
        }
    }
    for instance in requested {
        let name = instance.name_any();
        let hosted = actors_of_instance(instance).into_iter().map(|actor| actor.short());
        let mut seen_as = found(instance);
        let pod = index.pod(&namespace, &name).map(|pod| (pod, index.owner_of_pod(pod)));
        let by_another = match pod {
            Some((pod, Ownership::OwnedBy((_, of)))) if of.uid() == instance.uid() => {
                seen_as.pod = Some(observed_pod(pod));
                None
            }
            other => other.map(|(_, ownership)| name_conflict("Pod", &name, &ownership)),
        };
        for actor in hosted {
            taken.extend(by_another.clone().map(|taken| (actor.clone(), taken)));
            observed.instances.insert(actor, seen_as.clone());
        }
    }
    observed.surplus.sort_by(|a, b| a.id.cmp(&b.id));
    let desired: BTreeSet<String> =
        desired_actors(index, application).names.iter().map(ActorName::short).collect();
    taken.retain(|actor, _| desired.contains(actor));
    observed.name_conflicts = taken;
    observed
}

/// Own Instances by name, each with its pod.
pub type OwnedObjects = BTreeMap<String, (Arc<Instance>, Option<Arc<Pod>>)>;

/// Instances and pods that the application owns, by the Instance's name.
pub fn owned_objects(index: &Index, application: &ActorApplication) -> OwnedObjects {
    let mut own = OwnedObjects::new();
    for instance in index.instances_of(application) {
        if !matches!(index.owner_of_instance(instance), Ownership::OwnedBy(_)) {
            continue;
        }
        let name = instance.name_any();
        let pod = index.pod(&namespace_of(instance.as_ref()), &name);
        let pod =
            pod.filter(|pod| matches!(index.owner_of_pod(pod), Ownership::OwnedBy((_, by)) if by.uid() == instance.uid()));
        own.insert(name, (instance.clone(), pod.cloned()));
    }
    own
}

/// How many actors of each application are stopped for a gain, as recorded.
pub fn stopped_for_gain(index: &Index) -> BTreeMap<ApplicationKey, usize> {
    let is_stopped = |it: &DecidedMove| {
        it.progress.is_some_and(|it| it.step.is_in_progress() && it.step != MoveStep::Decided)
    };
    let count = |(key, placement): (&ApplicationKey, &Arc<Placement>)| {
        let stopped = moves_in_progress(placement).into_iter().filter(is_stopped).count();
        (stopped > 0).then(|| (key.clone(), stopped))
    };
    index.placements.iter().filter_map(count).collect()
}

/// How far a move to this unit is, as the actor's pod shows.
pub fn move_state(to: &str, pod: Option<&Pod>) -> MoveState {
    let instance = control::Instance { pod: pod.map(observed_pod), ..control::Instance::default() };
    MoveState::of(to, Some(&instance))
}

fn is_requested(instance: &Instance) -> bool {
    instance.spec.origin == InstanceOrigin::Runtime
}

fn id(object: &impl ResourceExt) -> ObjectId {
    ObjectId { name: object.name_any(), uid: object.uid().unwrap_or_default(), resource_version: None }
}

fn name_conflict<T>(kind: &str, name: &str, ownership: &Ownership<T>) -> NameConflict {
    match ownership {
        Ownership::Orphaned => {
            NameConflict::Orphaned(format!("{kind} {name}, whose owner no longer exists,"))
        }
        Ownership::OwnedBy(_) => NameConflict::Foreign(format!("{kind} {name} of another application")),
        Ownership::Foreign => {
            NameConflict::Foreign(format!("{kind} {name}, which is not of this application"))
        }
    }
}

fn observed_pod(pod: &Pod) -> control::Pod {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let state = match phase {
        _ if pod.metadata.deletion_timestamp.is_some() => PodPhase::Terminating,
        _ if is_terminal(pod) => PodPhase::Ended,
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Starting,
    };
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let version = if node.is_none() { pod.resource_version() } else { None };
    control::Pod {
        id: ObjectId { resource_version: version, ..id(pod) },
        unit: unit_of(pod).map(str::to_owned),
        node,
        phase: state,
        ready: is_ready(pod),
        // Set by the caller, which keeps earlier templates.
        outdated: false,
        restart_blocked: false,
        refusal: refusal(pod),
        refused_since: unschedulable(pod).and_then(|condition| {
            let since =
                condition.last_transition_time.as_ref().or(pod.metadata.creation_timestamp.as_ref())?;
            since.0.as_duration().try_into().ok()
        }),
    }
}

/// Whether a pod is ready and not terminating.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The condition of an unschedulable pod.
fn unschedulable(pod: &Pod) -> Option<&PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

/// Message with which the scheduler or the kubelet rejected the pod.
fn refusal(pod: &Pod) -> Option<String> {
    if let Some(condition) = unschedulable(pod) {
        return Some(condition.message.clone().unwrap_or_else(|| "unschedulable".to_owned()));
    }
    let status = pod.status.as_ref()?;
    let reason = status.reason.as_deref()?;
    let by_kubelet = status.phase.as_deref() == Some("Failed")
        && (REFUSED_BY_KUBELET.contains(&reason) || reason.starts_with("OutOf"));
    by_kubelet
        .then(|| format!("{reason}: {}", status.message.as_deref().unwrap_or("rejected by the kubelet")))
}

/// Free capacity; terminating pods still count as usage.
///
/// Every pod counts on the node it is bound to. Only our own pods count against slots, pool limits, and nodes that they
/// are merely pinned to, since foreign annotations are not trusted.
fn free_capacity<'a>(
    index: &Index,
    units: &'a BTreeMap<String, Unit>,
    more: impl Iterator<Item = &'a str>,
) -> FreeCapacity {
    let held = |unit: &Unit| {
        let room = index.room(&unit.node);
        room.and_then(|room| room.held.get(&unit.id)).copied().unwrap_or(0)
    };
    // Includes units that are no longer offered.
    let in_pool = |name: &str| {
        let held = index.node_rooms().values().flat_map(|room| &room.held);
        held.filter(|(unit, _)| pool_of(unit, &index.pools) == Some(name)).map(|(_, count)| count).sum()
    };
    let limit = |pool: &crds::DevicePool| {
        let most = u64::try_from(pool.spec.instances.as_ref()?.max).unwrap_or(0);
        let name = pool.name_any();
        let taken: u64 = in_pool(&name);
        Some((name, most.saturating_sub(taken)))
    };
    let free = |unit: &Unit| control::FreeUnit {
        kind: unit.kind.clone(),
        node: unit.node.clone(),
        pool: unit.pool.clone(),
        slots: unit.slots.map(|slots| slots.saturating_sub(held(unit))),
        resource: unit.resource.clone(),
    };
    let nodes: BTreeSet<&str> = units.values().map(|unit| unit.node.as_str()).chain(more).collect();
    FreeCapacity {
        units: units.iter().map(|(id, unit)| (id.clone(), free(unit))).collect(),
        pools: index.pools().filter_map(|pool| limit(pool)).collect(),
        nodes: nodes
            .into_iter()
            .filter_map(|node| Some((node.to_owned(), index.room(node)?.left.clone())))
            .collect(),
    }
}
