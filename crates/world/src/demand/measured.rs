//! What measured load is joined to: the running actors, and what the manifest states of each group.

use std::collections::{BTreeMap, BTreeSet};

use counters::{GroupProfile, KindProfile, RosterApplication, RunningActor};
use crds::{ActorApplication, MeasuredServiceTime, Placement, PlacementSpec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::demand::Numbers;
use crate::demand::actors::actors_of_instance;
use crate::demand::application::ActorName;
use crate::demand::pods::unit_of;
use crate::demand::requested::desired_actors;
use crate::index::objects::ApplicationKey;
use crate::numbers::{Exact, duration, rational};
use crate::snapshot::model::owned_objects;
use crate::units::unit::pool_of;
use crate::{Index, Policy};

/// The actors of an application that run on a unit of a known pool.
pub fn running_actors(index: &Index, application: &ActorApplication) -> RosterApplication {
    let mut actors = Vec::new();
    for (instance, pod) in owned_objects(index, application).into_values() {
        let Some(pod) = pod.filter(|pod| is_running(pod)) else { continue };
        let Some((kind, speed)) = unit_of(&pod).and_then(|unit| kind_and_speed(index, unit)) else {
            continue;
        };
        for actor in actors_of_instance(&instance) {
            actors.push(RunningActor {
                name: actor.short(),
                pod: pod.name_any(),
                service_microseconds: service(application, &actor.group, &kind),
                group: actor.group,
                kind: kind.clone(),
                speed,
            });
        }
    }
    let key = ApplicationKey::of(application);
    RosterApplication { namespace: key.namespace, name: key.name, actors }
}

/// The pods of an application, each with what changes when its actor starts, restarts, stops or moves.
pub fn members(index: &Index, application: &ActorApplication) -> BTreeSet<(String, String)> {
    let of_pod = |pod: &Pod| {
        let (is_running, unit) = (is_running(pod), unit_of(pod).unwrap_or_default());
        let since = ready_since(pod).map(|since| since.to_string()).unwrap_or_default();
        format!("{} {unit} {is_running} {since}", pod.uid().unwrap_or_default())
    };
    let owned = owned_objects(index, application);
    owned.into_iter().filter_map(|(name, (_, pod))| Some((name, of_pod(&*pod?)))).collect()
}

/// When a pod of the application last became ready or unready; `None` while one never did.
pub fn last_change(index: &Index, application: &ActorApplication) -> Option<Timestamp> {
    let pods = owned_objects(index, application).into_values().filter_map(|(_, pod)| pod);
    pods.map(|pod| ready_since(&pod)).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// When the condition `Ready` last changed; a restart of a container changes it.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
}

/// Kind and speed of a unit's pool.
fn kind_and_speed(index: &Index, unit: &str) -> Option<(String, f64)> {
    let pool = index.pools.get(pool_of(unit, &index.pools)?)?;
    Some((pool.spec.kind.clone(), float(rational(&pool.spec.speed).ok()?)))
}

/// Microseconds that the manifest states for one message; 0 if it has no such implementation.
fn service(application: &ActorApplication, group: &str, kind: &str) -> f64 {
    let group = application.spec.actors.iter().find(|it| it.name == group);
    let implementation = group.and_then(|group| group.implementations.iter().find(|it| it.kind == kind));
    implementation.and_then(|it| duration(&it.service_time).ok()).map_or(0.0, float)
}

/// Microseconds per message, by group and kind, that a decision recorded.
fn service_times(decision: &PlacementSpec) -> BTreeMap<(&str, &str), f64> {
    let recorded = decision.measured.iter().filter_map(|it| {
        let microseconds = duration(&it.service_time).ok().map(float).filter(|time| *time > 0.0)?;
        Some(((&*it.group, &*it.kind), microseconds))
    });
    recorded.collect()
}

/// The service times for the next decision: the last measured ones of each group and kind of the manifest, sorted.
pub fn measured_service_times(
    index: &Index,
    application: &ActorApplication,
    policy: &Policy,
    before: Option<&Placement>,
) -> Vec<MeasuredServiceTime> {
    let earlier = before.map(|before| service_times(&before.spec)).unwrap_or_default();
    let newest = index.measured(&ApplicationKey::of(application), policy.window);
    let mut all = Vec::new();
    for group in &application.spec.actors {
        for implementation in &group.implementations {
            let (group, kind) = (group.name.clone(), implementation.kind.clone());
            let measured = newest.and_then(|newest| newest.services.get(&(group.clone(), kind.clone())));
            let Some(time) = measured.or_else(|| earlier.get(&(&*group, &*kind))) else { continue };
            // Nanoseconds, so that a change far below the noise changes nothing.
            let service_time = format!("{}us", (time * 1e3).round().max(1.0) / 1e3);
            all.push(MeasuredServiceTime { group, kind, service_time });
        }
    }
    all.sort();
    all
}

/// What the manifest, and the application's decision, state of each group, under a policy.
///
/// # Errors
/// An invalid manifest: the path in `spec` and the problem.
pub fn group_profiles(
    index: &Index,
    application: &ActorApplication,
    policy: &Policy,
) -> Result<BTreeMap<String, GroupProfile>, String> {
    let actors = desired_actors(index, application);
    let numbers = Numbers::of(application, &actors, policy)?;
    let decision = index.placement(&ApplicationKey::of(application));
    let earlier = decision.map(|decision| service_times(&decision.spec)).unwrap_or_default();
    let of_group = |(group, numbers): (&crds::ActorGroup, &crate::demand::GroupNumbers)| {
        let of_kind = |(kind, (work, _)): (&String, &(u64, _))| {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let work_microseconds = *work as f64;
            let service_microseconds = service(application, &group.name, kind);
            let profile = KindProfile {
                work_microseconds,
                service_microseconds,
                measured_service_microseconds: earlier.get(&(&*group.name, &**kind)).copied(),
            };
            (kind.clone(), profile)
        };
        let channels = application.spec.channels.iter().filter(|channel| channel.from == group.name);
        let receivers: BTreeSet<&String> = channels.map(|channel| &channel.to).collect();
        let profile = GroupProfile {
            actors: actors.names.iter().filter(|it| it.group == group.name).map(ActorName::short).collect(),
            receivers: receivers.into_iter().cloned().collect(),
            kinds: numbers.kinds.iter().map(of_kind).collect(),
        };
        (group.name.clone(), profile)
    };
    Ok(application.spec.actors.iter().zip(&numbers.groups).map(of_group).collect())
}

/// The nearest floating point number.
fn float(exact: Exact) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "measured numbers have 24 bits")]
    let float = *exact.numer() as f64 / *exact.denom() as f64;
    float
}
