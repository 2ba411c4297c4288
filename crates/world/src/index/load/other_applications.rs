//! Load of the other applications: at decided places and where their pods still are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use crds::{ActorApplication, Implementation};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::demand::actors::actors_of_instance;
use crate::demand::application::{ActorName, GroupMember};
use crate::demand::pods::{
    Quantities, exceeded_resources, is_past_grace, is_terminal, resource_amounts, unit_of,
};
use crate::demand::requested::{admission, desired_actors};
use crate::index::IndexedPod;
use crate::index::load::by_unit::{ApplicationFacts, BoundPods, LoadSum, Loads, Measure, RunningPod};
use crate::index::names::{Name, namespace_of};
use crate::index::ownership::Ownership;
use crate::units::plugin::device_resource::{Provides, provides};
use crate::units::unit::pool_of;
use crate::{ApplicationKey, Index, Policy};

/// Number of measures that are cached.
const MAX_MEASURES: usize = 16;

impl Index {
    /// Load of the other applications by unit over the policy's window, and the invalid manifests among them.
    ///
    /// With `are_listed`, only applications whose actors cannot be listed individually are counted.
    pub(crate) fn others(
        &self,
        key: &ApplicationKey,
        policy: &Policy,
        are_listed: bool,
    ) -> (BTreeMap<String, LoadSum>, Vec<(ApplicationKey, String)>) {
        self.read_loads(policy, |loads| {
            let sums = if are_listed { loads.unlisted_without(key) } else { loads.without(key) };
            (sums, loads.problems_without(key))
        })
    }

    /// The present load of all applications over the policy's window.
    pub(crate) fn read_loads<T>(&self, policy: &Policy, read: impl FnOnce(&Loads) -> T) -> T {
        let mut all = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MAX_MEASURES {
            all.clear();
        }
        let measure = Measure::of(policy);
        let loads = all.entry(measure).or_insert_with(|| Loads::unknown(self.applications.keys()));
        let of = |key: &ApplicationKey| {
            let application = self.application(key)?.as_ref();
            Some(ApplicationFacts {
                application,
                actors: desired_actors(self, application),
                decision: self.placement(key).map(AsRef::as_ref),
                pods: self.pods_of(application),
                measured: self.measured(key, policy.window),
            })
        };
        loads.update(policy, of, &self.pools);
        read(loads)
    }

    /// The application's pods that have not ended.
    pub(crate) fn pods_of<'a>(&'a self, application: &ActorApplication) -> Vec<RunningPod<'a>> {
        let pod = |instance: &crds::Instance| {
            let held = self.pods.get(&(namespace_of(instance), instance.name_any()))?;
            let is_own =
                !is_terminal(&held.pod) && matches!(self.owner_of_pod(&held.pod), Ownership::OwnedBy(_));
            Some((unit_of(&held.pod).filter(|_| is_own)?, held))
        };
        let instances = self.instances_of(application).into_iter();
        let found = instances.filter_map(|instance| Some((actors_of_instance(instance), pod(instance)?)));
        let there = |(actors, (unit, held)): (Vec<ActorName>, (&'a str, &'a IndexedPod))| {
            let is_terminating = held.pod.metadata.deletion_timestamp.is_some();
            let pod =
                move |actor| RunningPod { actor, unit, asks: &held.asks, is_terminating, pod: &held.pod };
            actors.into_iter().map(pod)
        };
        found.flat_map(there).collect()
    }

    /// The application's pods that hold a node.
    pub(crate) fn bound_pods(&self, application: &ActorApplication, now: Timestamp) -> BoundPods<'_> {
        let pods = self.pods_of(application).into_iter();
        let bound = pods.filter(|pod| pod.node().is_some() && !is_past_grace(pod.pod, now));
        bound.map(|pod| (pod.actor.short(), pod)).collect()
    }

    /// What the application's pods request beyond their templates, such as an injected sidecar or a larger size after a resize.
    ///
    /// Successors of terminating pods have the template's size, and the devices of pools are in no template.
    pub(crate) fn requests_beyond_templates<'a>(
        &'a self,
        application: &ActorApplication,
    ) -> Vec<(RunningPod<'a>, BTreeMap<String, u64>)> {
        let admission = admission(self, &namespace_of(application));
        let ways = application.spec.actors.iter().flat_map(|group| {
            let ways = group.implementations.iter();
            ways.map(|way| ((group.name.as_str(), way.kind.as_str()), admission.requests(way)))
        });
        let templates: BTreeMap<(&str, &str), Quantities> =
            ways.filter_map(|(of, asked)| Some((of, asked.ok()?))).collect();
        let beyond = |pod: RunningPod<'a>| {
            let pool = self.pools.get(pool_of(pod.unit, &self.pools)?)?;
            let asked = templates.get(&(pod.actor.group.as_str(), pool.spec.kind.as_str()))?;
            let more = exceeded_resources(pod.asks, asked)
                .filter(|resource| provides(pool, resource) == Provides::None)
                .map(|resource| {
                    let asked = asked.get(resource).copied().unwrap_or_default();
                    (resource.clone(), pod.asks[resource] - asked)
                });
            let mut more = resource_amounts(&more.collect());
            more.remove("pods");
            (!more.is_empty()).then_some((pod, more))
        };
        let pods = self.pods_of(application).into_iter().filter(|pod| !pod.is_terminating);
        pods.filter_map(beyond).collect()
    }

    /// Called before and after a pod changes: marks its application's load for recounting if it depends on the pod.
    pub(crate) fn pod_changed(&mut self, name: &Name) {
        let by = |held: &IndexedPod| {
            self.counted_by_pods(held).or_else(|| self.asks_for_more(held)).or_else(|| self.has_stray(held))
        };
        let key = self.pods.get(name).and_then(by);
        if let Some(key) = key {
            self.load_changed(&key);
        }
    }

    /// The pod's application, if its load is counted from pods: it is being deleted, its manifest is invalid, or it has
    /// no implementation for the pod's unit.
    fn counted_by_pods(&self, held: &IndexedPod) -> Option<ApplicationKey> {
        let unit = unit_of(&held.pod)?;
        let Ownership::OwnedBy((application, instance)) = self.owner_of_pod(&held.pod) else { return None };
        let key = ApplicationKey::of(application);
        let is_going = application.metadata.deletion_timestamp.is_some();
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unlisted = || loads.values().any(|loads| loads.is_unlisted(&key));
        let kind = pool_of(unit, &self.pools)
            .and_then(|pool| self.pools.get(pool))
            .map(|pool| pool.spec.kind.as_str());
        let way = instance.spec.actor_group.as_deref().zip(kind);
        let is_by_pods = is_going
            || is_unlisted()
            || way.is_none_or(|(group, kind)| implementation_of(application, group, kind).is_none());
        is_by_pods.then_some(key)
    }

    /// The pod's application, if the pod requests more than its template, apart from the pool's device.
    fn asks_for_more(&self, held: &IndexedPod) -> Option<ApplicationKey> {
        let pool = self.pools.get(pool_of(unit_of(&held.pod)?, &self.pools)?)?;
        let Ownership::OwnedBy((application, instance)) = self.owner_of_pod(&held.pod) else { return None };
        let way = implementation_of(application, instance.spec.actor_group.as_deref()?, &pool.spec.kind)?;
        let asked = admission(self, &namespace_of(application)).requests(way).ok()?;
        let is_more =
            exceeded_resources(&held.asks, &asked).any(|resource| provides(pool, resource) == Provides::None);
        is_more.then(|| ApplicationKey::of(application))
    }

    /// The pod's application, if a pod on the same unit was not decided to be there.
    fn has_stray(&self, held: &IndexedPod) -> Option<ApplicationKey> {
        let unit = unit_of(&held.pod)?;
        let Ownership::OwnedBy((application, _)) = self.owner_of_pod(&held.pod) else { return None };
        let key = ApplicationKey::of(application);
        let decided = self.placement(&key).into_iter().flat_map(|decision| &decision.spec.assignments);
        let decided: BTreeSet<&str> =
            decided.filter(|it| it.unit == unit).map(|it| it.actor.as_str()).collect();
        let is_stray =
            |actor: &ActorName| !is_listed(application, actor) || !decided.contains(actor.short().as_str());
        let at_node = held.node.iter().filter_map(|node| self.pods_by_node.get(node)).flatten();
        let mut beside = at_node.filter_map(|name| self.pods.get(name));
        let has_stray = beside.any(|other| {
            if unit_of(&other.pod) != Some(unit) {
                return false;
            }
            match self.owner_of_pod(&other.pod) {
                Ownership::OwnedBy((of, instance)) if std::ptr::eq(of, application) => {
                    actors_of_instance(instance).iter().any(is_stray)
                }
                _ => false,
            }
        });
        has_stray.then_some(key)
    }
}

/// The group's implementation for a device kind.
fn implementation_of<'a>(
    application: &'a ActorApplication,
    group: &str,
    kind: &str,
) -> Option<&'a Implementation> {
    let group = application.spec.actors.iter().find(|it| it.name == group)?;
    group.implementations.iter().find(|it| it.kind == kind)
}

/// Whether the manifest itself lists an actor; requested ones never count as listed here.
fn is_listed(application: &ActorApplication, actor: &ActorName) -> bool {
    let group = application.spec.actors.iter().find(|group| group.name == actor.group);
    match &actor.member {
        GroupMember::Index(index) => group.is_some_and(|group| *index < group.replicas),
        GroupMember::Requested(_) => false,
    }
}
