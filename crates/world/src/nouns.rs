//! From Kubernetes objects to the nouns of `control`: what an application wants, what was decided, what is there.

use std::collections::{BTreeMap, BTreeSet};

use control::{Actor, Amounts, Decision, Id, Left, Refusal, Seen, State, Taken, Wanted};
use crds::{ActorApplication, Instance, Placement, labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::Objects;
use crate::application::{ActorName, actors_of};
use crate::assemble::resource_unit;
use crate::numbers::{Exact, ceil, floor};
use crate::objects::namespace_of;
use crate::ownership::{Ownership, Whose};
use crate::pods::{Amounts as ExactAmounts, is_over, requests};
use crate::units::{Unit, allocatable};

/// Reasons of a failed pod that mean that the node did not take it.
const REFUSED_BY_KUBELET: [&str; 6] = [
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "NodeAffinity",
];

/// The name of an actor's Instance and of its pod: one name, so that it can never live twice.
pub fn object_name(actor: &ActorName) -> String {
    format!("{}-{}", actor.application.name, actor.short())
}

/// The unit that a pod was made for, as its annotation claims: to be believed of an application's own pods alone.
pub fn unit_of(pod: &Pod) -> Option<&str> {
    pod.annotations().get(labels::UNIT).map(String::as_str)
}

/// What an application asks for, under the policy of this name.
pub fn wanted(application: &ActorApplication, policy: &str) -> Wanted {
    let groups = &application.spec.actors;
    let position: BTreeMap<&str, usize> =
        groups.iter().enumerate().map(|(position, group)| (group.name.as_str(), position)).collect();
    let actor = |name: &ActorName| Actor { name: name.short(), group: position[name.group.as_str()] };
    let of_kind = |implementation: &crds::Implementation| {
        let spec = implementation.template.spec.as_ref();
        let asked = spec.and_then(|spec| requests(spec).ok()).unwrap_or_default();
        (implementation.kind.clone(), asks(&asked))
    };
    Wanted {
        generation: application.metadata.generation.unwrap_or(0),
        policy: policy.to_owned(),
        paused: application.spec.paused,
        actors: actors_of(application).iter().map(actor).collect(),
        asks: groups.iter().map(|group| group.implementations.iter().map(of_kind).collect()).collect(),
    }
}

/// What a pod with these requests takes of its node, itself included, in a snapshot's amounts.
pub(crate) fn asks(requests: &ExactAmounts) -> Amounts {
    let mut asks = Amounts::from([("pods".to_owned(), 1)]);
    for (resource, amount) in requests {
        let (name, scale) = resource_unit(resource);
        asks.insert(name, ceil(*amount * scale));
    }
    asks
}

/// What a Placement says.
pub fn decision(placement: &Placement) -> Decision {
    let spec = &placement.spec;
    Decision {
        generation: spec.application_generation,
        policy: spec.policy.clone(),
        places: spec.assignments.iter().map(|a| (a.actor.clone(), a.unit.clone())).collect(),
        unplaced: spec.unplaced.iter().map(|unplaced| unplaced.actor.clone()).collect(),
    }
}

/// The refusals that a Placement remembers; moments count from the Unix epoch.
pub fn refusals(placement: &Placement) -> Vec<Refusal> {
    let moment = |time: &crds::Time| {
        let since = time.0.as_duration();
        since.try_into().unwrap_or_default()
    };
    let refusal = |refusal: &crds::Refusal| Refusal {
        actor: refusal.actor.clone(),
        node: refusal.node.clone(),
        reason: refusal.reason.clone(),
        until: moment(&refusal.until),
    };
    placement.status.iter().flat_map(|status| &status.refusals).map(refusal).collect()
}

/// What is there of an application, and what is left for it on these units.
pub fn seen(objects: &Objects, application: &ActorApplication, units: &BTreeMap<String, Unit>) -> Seen {
    let owners = Ownership::of(objects);
    let namespace = namespace_of(application);
    let prefix = format!("{}-", application.name_any());
    let is_own = |of: &ActorApplication| of.uid() == application.uid();
    let mut seen = Seen { left: left(objects, &owners, units), ..Seen::default() };
    let mut taken: BTreeMap<String, Taken> = BTreeMap::new();
    for instance in objects.instances.iter().filter(|i| namespace_of(i.as_ref()) == namespace) {
        let name = instance.name_any();
        let found = control::Instance {
            id: id(instance.as_ref()),
            going: instance.metadata.deletion_timestamp.is_some(),
            pod: None,
        };
        match (owners.of_instance(instance), name.strip_prefix(&prefix)) {
            (Whose::Of(owner), Some(actor)) if is_own(owner) => {
                seen.instances.insert(actor.to_owned(), found);
            }
            (Whose::Of(owner), None) if is_own(owner) => seen.surplus.push(found),
            (whose, Some(actor)) => drop(taken.insert(actor.to_owned(), by("Instance", &name, &whose))),
            (_, None) => {}
        }
    }
    for pod in objects.pods.iter().filter(|pod| namespace_of(pod.as_ref()) == namespace) {
        let name = pod.name_any();
        let Some(actor) = name.strip_prefix(&prefix) else { continue };
        match owners.of_pod(pod) {
            Whose::Of((owner, _)) if is_own(owner) => {
                if let Some(instance) = seen.instances.get_mut(actor) {
                    instance.pod = Some(as_seen(pod));
                }
            }
            whose => drop(taken.insert(actor.to_owned(), by("Pod", &name, &whose))),
        }
    }
    seen.surplus.sort_by(|a, b| a.id.cmp(&b.id));
    let wanted: BTreeSet<String> = actors_of(application).iter().map(ActorName::short).collect();
    taken.retain(|actor, _| wanted.contains(actor));
    seen.taken = taken;
    seen
}

/// The Instances and pods of an application that are its own, by the Instance's name.
pub fn own<'a>(
    objects: &'a Objects,
    application: &ActorApplication,
) -> BTreeMap<String, (&'a Instance, Option<&'a Pod>)> {
    let owners = Ownership::of(objects);
    let is_own = |of: &ActorApplication| of.uid() == application.uid();
    let is_of =
        |instance: &Instance| matches!(owners.of_instance(instance), Whose::Of(owner) if is_own(owner));
    let instances = objects.instances.iter().filter(|instance| is_of(instance));
    let mut own: BTreeMap<String, (&Instance, Option<&Pod>)> =
        instances.map(|instance| (instance.name_any(), (instance.as_ref(), None))).collect();
    for pod in &objects.pods {
        if matches!(owners.of_pod(pod), Whose::Of((owner, _)) if is_own(owner))
            && let Some((_, found)) = own.get_mut(&pod.name_any())
        {
            *found = Some(pod);
        }
    }
    own
}

fn id(object: &impl ResourceExt) -> Id {
    Id { name: object.name_any(), uid: object.uid().unwrap_or_default() }
}

fn by<T>(kind: &str, name: &str, whose: &Whose<T>) -> Taken {
    match whose {
        Whose::Leaving => Taken::Leaving(format!("{kind} {name}, whose owner is gone,")),
        Whose::Of(_) => Taken::ByAnother(format!("{kind} {name} of another application")),
        Whose::Another => Taken::ByAnother(format!("{kind} {name}, which is not of this application")),
    }
}

fn as_seen(pod: &Pod) -> control::Pod {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let state = match phase {
        _ if pod.metadata.deletion_timestamp.is_some() => State::Going,
        _ if is_over(pod) => State::Over,
        Some("Running") => State::Runs,
        _ => State::Starting,
    };
    control::Pod {
        id: id(pod),
        unit: unit_of(pod).map(str::to_owned),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        state,
        refusal: refusal(pod),
    }
}

/// What the scheduler or the kubelet said against the pod.
fn refusal(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(condition) = unschedulable {
        return Some(condition.message.clone().unwrap_or_else(|| "unschedulable".to_owned()));
    }
    let reason = status.reason.as_deref()?;
    let by_kubelet = status.phase.as_deref() == Some("Failed") && REFUSED_BY_KUBELET.contains(&reason);
    by_kubelet
        .then(|| format!("{reason}: {}", status.message.as_deref().unwrap_or("the kubelet did not take it")))
}

/// What is left right now, with whoever is leaving still counted.
///
/// Every pod takes what it asks for on the node that it is bound to; slots of units and bounds of pools are taken by our
/// own pods alone, and so is the node of one that is not bound yet: of others nothing is believed that they say of
/// themselves.
fn left(objects: &Objects, owners: &Ownership, units: &BTreeMap<String, Unit>) -> Left {
    let mut hosted: BTreeMap<&str, u64> = BTreeMap::new();
    let mut nodes: BTreeMap<String, ExactAmounts> =
        objects.nodes.iter().map(|node| (node.name_any(), allocatable(node))).collect();
    for pod in objects.pods.iter().filter(|pod| !is_over(pod)) {
        let Some(spec) = &pod.spec else { continue };
        let is_ours = matches!(owners.of_pod(pod), Whose::Of(_));
        let unit = unit_of(pod).filter(|_| is_ours);
        if let Some(unit) = unit {
            *hosted.entry(unit).or_default() += 1;
        }
        // One of ours that is not bound yet is pinned to the node of its unit.
        let node = spec.node_name.as_deref().or_else(|| unit?.rsplit_once('/').map(|(node, _)| node));
        let Some(left) = node.and_then(|node| nodes.get_mut(node)) else { continue };
        *left.entry("pods".to_owned()).or_default() -= Exact::from(1);
        // The API server refuses quantities that cannot be read.
        for (resource, amount) in requests(spec).unwrap_or_default() {
            *left.entry(resource).or_default() -= amount;
        }
    }
    let told = |amounts: ExactAmounts| -> Amounts {
        let told = amounts.into_iter().map(|(resource, amount)| {
            let (name, scale) = resource_unit(&resource);
            (name, floor(amount * scale))
        });
        told.collect()
    };
    let limit = |pool: &crds::DevicePool| {
        let most = u64::try_from(pool.spec.instances.as_ref()?.max).unwrap_or(0);
        let name = pool.name_any();
        let taken = hosted.iter().filter(|(unit, _)| units.get(**unit).is_some_and(|unit| unit.pool == name));
        Some((name.clone(), most.saturating_sub(taken.map(|(_, count)| count).sum())))
    };
    let free = |unit: &Unit| control::Unit {
        kind: unit.kind.clone(),
        node: unit.node.clone(),
        pool: unit.pool.clone(),
        slots: unit
            .slots
            .map(|slots| slots.saturating_sub(hosted.get(unit.id.as_str()).copied().unwrap_or(0))),
        resource: unit.resource.clone(),
    };
    Left {
        units: units.iter().map(|(id, unit)| (id.clone(), free(unit))).collect(),
        pools: objects.pools.iter().filter_map(|pool| limit(pool)).collect(),
        nodes: nodes.into_iter().map(|(node, amounts)| (node, told(amounts))).collect(),
    }
}
