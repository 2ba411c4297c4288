//! What applications put on units, as the others see it: what was decided for them, and where their pods are until these are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use crds::{ActorApplication, Implementation};
use kube::ResourceExt;

use crate::demand::actors::actors_of_instance;
use crate::demand::application::{ActorName, GroupMember};
use crate::demand::pods::{Quantities, is_terminal, more_than, requests_with, unit_of};
use crate::demand::requested::desired_actors;
use crate::index::Held;
use crate::index::loads::{Known, Loads, Measure, Sum, There};
use crate::index::objects::{Name, namespace_of};
use crate::index::ownership::Ownership;
use crate::units::device_resource::{Gives, gives};
use crate::units::unit::pool_of;
use crate::{ApplicationKey, Index, Policy};

/// So many measures of policies are remembered at the same time.
const MOST_MEASURES: usize = 16;

impl Index {
    /// What other applications put on each unit, counted over the policy's window, and whose manifests cannot be read.
    ///
    /// `are_listed`: of those whose actors can be listed one by one nothing is counted.
    pub(crate) fn others(
        &self,
        key: &ApplicationKey,
        policy: &Policy,
        are_listed: bool,
    ) -> (BTreeMap<String, Sum>, Vec<(ApplicationKey, String)>) {
        let mut all = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MOST_MEASURES {
            all.clear();
        }
        let measure = Measure::of(policy);
        let loads = all.entry(measure).or_insert_with(|| Loads::unknown(self.applications.keys()));
        let of = |key: &ApplicationKey| {
            let application = self.application(key)?.as_ref();
            Some(Known {
                application,
                actors: desired_actors(self, application),
                decision: self.placement(key).map(AsRef::as_ref),
                pods: self.pods_of(application),
            })
        };
        loads.catch_up(policy, of, |pool| Some(self.pools.get(pool)?.spec.kind.as_str()));
        let sums = if are_listed { loads.unlisted_without(key) } else { loads.without(key) };
        (sums, loads.faults_without(key))
    }

    /// The pods of an application that are not over.
    pub(crate) fn pods_of<'a>(&'a self, application: &ActorApplication) -> Vec<There<'a>> {
        let pod = |instance: &crds::Instance| {
            let held = self.pods.get(&(namespace_of(instance), instance.name_any()))?;
            let is_own =
                !is_terminal(&held.pod) && matches!(self.owner_of_pod(&held.pod), Ownership::OwnedBy(_));
            Some((unit_of(&held.pod).filter(|_| is_own)?, &held.asks))
        };
        let instances = self.instances_of(application).into_iter();
        let found = instances.filter_map(|instance| Some((actors_of_instance(instance), pod(instance)?)));
        let there = |(actors, (unit, asks)): (Vec<ActorName>, (&'a str, &'a Quantities))| {
            actors.into_iter().map(move |actor| There { actor, unit, asks })
        };
        found.flat_map(there).collect()
    }

    /// A pod comes or goes: what its application puts on units is counted anew, if that makes a difference.
    pub(crate) fn pod_counts(&mut self, name: &Name) {
        let by = |held: &Held| {
            self.is_by_pods(held).or_else(|| self.asks_for_more(held)).or_else(|| self.has_stray(held))
        };
        let key = self.pods.get(name).and_then(by);
        if let Some(key) = key {
            self.changed(&key);
        }
    }

    /// The application of a pod, where what its actor takes is counted by its pod and not by the manifest: that is going away, cannot be
    /// read, or says nothing of where the pod is.
    fn is_by_pods(&self, held: &Held) -> Option<ApplicationKey> {
        let unit = unit_of(&held.pod)?;
        let Ownership::OwnedBy((application, instance)) = self.owner_of_pod(&held.pod) else { return None };
        let key = ApplicationKey::of(application);
        let is_going = application.metadata.deletion_timestamp.is_some();
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unlisted = || loads.values().any(|loads| loads.is_unlisted(&key));
        let kind = pool_of(unit).and_then(|pool| self.pools.get(pool)).map(|pool| pool.spec.kind.as_str());
        let way = instance.spec.actor_group.as_deref().zip(kind);
        let is_by_pods = is_going
            || is_unlisted()
            || way.is_none_or(|(group, kind)| way_of(application, group, kind).is_none());
        is_by_pods.then_some(key)
    }

    /// The application of a pod that asks for more than its template says, the device aside that its pool gives it.
    fn asks_for_more(&self, held: &Held) -> Option<ApplicationKey> {
        let pool = self.pools.get(pool_of(unit_of(&held.pod)?)?)?;
        let Ownership::OwnedBy((application, instance)) = self.owner_of_pod(&held.pod) else { return None };
        let way = way_of(application, instance.spec.actor_group.as_deref()?, &pool.spec.kind)?;
        let defaults = self.defaults(&namespace_of(application));
        let asked = way.template.spec.as_ref().map(|spec| requests_with(spec, &defaults));
        let asked = asked.transpose().ok()?.unwrap_or_default();
        let is_more = more_than(&held.asks, &asked).any(|resource| gives(pool, resource) == Gives::Nothing);
        is_more.then(|| ApplicationKey::of(application))
    }

    /// The application of a pod, where one of its pods on the same unit was not decided to be there. Where none was, its decision says
    /// all that it has there.
    fn has_stray(&self, held: &Held) -> Option<ApplicationKey> {
        let unit = unit_of(&held.pod)?;
        let Ownership::OwnedBy((application, _)) = self.owner_of_pod(&held.pod) else { return None };
        let key = ApplicationKey::of(application);
        let decided = self.placement(&key).into_iter().flat_map(|decision| &decision.spec.assignments);
        let decided: BTreeSet<&str> =
            decided.filter(|it| it.unit == unit).map(|it| it.actor.as_str()).collect();
        let is_stray =
            |actor: &ActorName| !is_listed(application, actor) || !decided.contains(actor.short().as_str());
        let at_node = held.node.iter().filter_map(|node| self.pods_at.get(node)).flatten();
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

/// How actors of a group run on a kind of device, as far as the manifest says so.
fn way_of<'a>(application: &'a ActorApplication, group: &str, kind: &str) -> Option<&'a Implementation> {
    let group = application.spec.actors.iter().find(|it| it.name == group)?;
    group.implementations.iter().find(|it| it.kind == kind)
}

/// Whether the manifest itself lists an actor: of one that was asked for only who counts them all knows whether it is one.
fn is_listed(application: &ActorApplication, actor: &ActorName) -> bool {
    let group = application.spec.actors.iter().find(|group| group.name == actor.group);
    match &actor.member {
        GroupMember::Index(index) => group.is_some_and(|group| *index < group.replicas),
        GroupMember::Requested(_) => false,
    }
}
