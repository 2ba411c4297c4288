//! Load of applications on units, at decided and at actual places, updated incrementally.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use counters::MeasuredNumbers;
use crds::{ActorApplication, DevicePool, Placement};
use k8s_openapi::api::core::v1::Pod;

use crate::demand::Numbers;
use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::demand::pods::{Quantities, amounts_with_pod, resource_amounts};
use crate::moves::moves_in_progress;
use crate::numbers::Exact;
use crate::snapshot::measured::measured_work;
use crate::units::unit::pool_of;
use crate::{ApplicationKey, Policy};

/// Load of several actors on one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadSum {
    /// Number of actors.
    pub count: u64,
    /// Work per window.
    pub work: u64,
    /// Node resources that their pods request.
    pub asks: BTreeMap<String, u64>,
}

impl LoadSum {
    /// Adds the load of more actors, elementwise. Saturates.
    pub(crate) fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.work = self.work.saturating_add(more.work);
        for (resource, amount) in &more.asks {
            let total = self.asks.entry(resource.clone()).or_default();
            *total = total.saturating_add(*amount);
        }
    }

    fn subtract(&mut self, less: &Self) {
        self.count -= less.count;
        self.work = self.work.saturating_sub(less.work);
        for (resource, amount) in &less.asks {
            let total = self.asks.entry(resource.clone()).or_default();
            *total = total.saturating_sub(*amount);
        }
        self.asks.retain(|_, amount| *amount > 0);
    }

    /// What exceeds `less`, elementwise; at least zero.
    pub(crate) fn excess_over(&self, less: &Self) -> Self {
        let asks = self.asks.iter().map(|(resource, amount)| {
            (resource.clone(), amount.saturating_sub(less.asks.get(resource).copied().unwrap_or(0)))
        });
        Self {
            count: self.count.saturating_sub(less.count),
            work: self.work.saturating_sub(less.work),
            asks: asks.filter(|(_, amount)| *amount > 0).collect(),
        }
    }

    /// The elementwise maximum.
    fn raise_to(&mut self, to: &Self) {
        self.count = self.count.max(to.count);
        self.work = self.work.max(to.work);
        for (resource, amount) in &to.asks {
            let total = self.asks.entry(resource.clone()).or_default();
            *total = (*total).max(*amount);
        }
    }
}

/// An application with its actors, decision and pods.
pub(crate) struct ApplicationFacts<'a> {
    pub application: &'a ActorApplication,
    pub actors: ApplicationActors,
    /// Its decision.
    pub decision: Option<&'a Placement>,
    /// Its pods that have not ended.
    pub pods: Vec<RunningPod<'a>>,
    /// Its measured numbers.
    pub measured: Option<&'a MeasuredNumbers>,
}

/// A pod that has not ended.
pub(crate) struct RunningPod<'a> {
    /// Its actor.
    pub actor: ActorName,
    /// Its unit.
    pub unit: &'a str,
    /// Its actual requests, which may differ from the manifest.
    pub asks: &'a Quantities,
    /// Whether it is terminating.
    pub is_terminating: bool,
    /// The pod itself.
    pub pod: &'a Pod,
}

/// Pods that hold a node, by the short name of their actor: bound, not ended, and not past their grace period.
pub(crate) type BoundPods<'a> = BTreeMap<String, RunningPod<'a>>;

impl RunningPod<'_> {
    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }
}

/// Load of one application.
#[derive(Debug)]
struct Load {
    units: BTreeMap<String, LoadSum>,
    /// Why the manifest is invalid. The load is then counted from places and pods.
    problem: Option<String>,
    /// Whether its actors can be listed individually: the manifest is valid and the application is not being deleted.
    is_listed: bool,
    /// The part of `units` that is not that of listed actors at their places: all of it if none can be listed.
    unlisted: BTreeMap<String, LoadSum>,
}

/// Load of all applications, over one window.
#[derive(Debug)]
pub(crate) struct Loads {
    changed: BTreeSet<ApplicationKey>,
    by_application: BTreeMap<ApplicationKey, Load>,
    total: BTreeMap<String, LoadSum>,
}

impl Loads {
    /// No load is counted yet for these applications.
    pub fn unknown<'a>(keys: impl Iterator<Item = &'a ApplicationKey>) -> Self {
        Self { changed: keys.cloned().collect(), by_application: BTreeMap::new(), total: BTreeMap::new() }
    }

    /// Marks an application for recounting.
    pub fn changed(&mut self, key: &ApplicationKey) {
        self.changed.insert(key.clone());
    }

    /// Recounts the marked applications. `of` returns an application's facts.
    pub fn update<'a>(
        &mut self,
        policy: &Policy,
        of: impl Fn(&ApplicationKey) -> Option<ApplicationFacts<'a>>,
        pools: &BTreeMap<String, Arc<DevicePool>>,
    ) {
        // Unmark only after a successful count.
        while let Some(key) = self.changed.first().cloned() {
            let load = of(&key).and_then(|known| load(&known, policy, pools));
            if let Some(before) = self.by_application.remove(&key) {
                for (unit, sum) in &before.units {
                    if let Some(total) = self.total.get_mut(unit) {
                        total.subtract(sum);
                    }
                }
            }
            for (unit, sum) in load.iter().flat_map(|load| &load.units) {
                self.total.entry(unit.clone()).or_default().add(sum);
            }
            self.changed.remove(&key);
            self.by_application.extend(load.map(|load| (key, load)));
        }
        self.total.retain(|_, sum| sum.count > 0);
    }

    /// Units with load of an application: its own load, and that of all applications.
    pub fn own_units(&self, key: &ApplicationKey) -> impl Iterator<Item = (&String, &LoadSum, &LoadSum)> {
        let own = self.by_application.get(key).into_iter().flat_map(|load| &load.units);
        own.filter_map(|(unit, sum)| Some((unit, sum, self.total.get(unit)?)))
    }

    /// Load of all applications but one.
    pub fn without(&self, key: &ApplicationKey) -> BTreeMap<String, LoadSum> {
        let mut total = self.total.clone();
        for (unit, sum) in self.by_application.get(key).into_iter().flat_map(|load| &load.units) {
            if let Some(total) = total.get_mut(unit) {
                total.subtract(sum);
            }
        }
        total.retain(|_, sum| sum.count > 0);
        total
    }

    /// Load of all other applications that a snapshot with individually listed actors lacks: what their pods use on units where
    /// they are not listed, and all load of an application whose actors cannot be listed.
    pub fn unlisted_without(&self, key: &ApplicationKey) -> BTreeMap<String, LoadSum> {
        let mut total: BTreeMap<String, LoadSum> = BTreeMap::new();
        let others = self.by_application.iter().filter(|(other, _)| *other != key);
        for (unit, sum) in others.flat_map(|(_, load)| &load.unlisted) {
            total.entry(unit.clone()).or_default().add(sum);
        }
        total
    }

    /// Other applications with an invalid manifest, and why.
    pub fn problems_without(&self, key: &ApplicationKey) -> Vec<(ApplicationKey, String)> {
        let others = self.by_application.iter().filter(|(other, _)| *other != key);
        others.filter_map(|(other, load)| Some((other.clone(), load.problem.clone()?))).collect()
    }

    /// Whether the application's load was counted from its pods.
    pub fn is_unlisted(&self, key: &ApplicationKey) -> bool {
        self.by_application.get(key).is_some_and(|load| !load.is_listed)
    }
}

/// Policy parameters that the numbers of an application depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measure {
    window: Exact,
    message_quantum: Exact,
    bytes_per_point: Exact,
}

impl Measure {
    /// Those of this policy.
    pub fn of(policy: &Policy) -> Self {
        let Policy { window, message_quantum, bytes_per_point, .. } = *policy;
        Self { window, message_quantum, bytes_per_point }
    }
}

/// Load of one application; `None` if it is placed nowhere.
///
/// An application that is being deleted, or whose manifest is invalid, counts with the requests of its pods.
///
/// A moving actor counts at its decided unit and, until its pod is gone, at its old one; one that moves for a gain, until it is
/// ready on its new unit. On each unit the larger of decided and actual load counts, so a successor reuses the room of its
/// predecessor. The same holds for pods whose requests differ from the manifest.
fn load(
    known: &ApplicationFacts,
    policy: &Policy,
    pools: &BTreeMap<String, Arc<DevicePool>>,
) -> Option<Load> {
    let ApplicationFacts { application, actors, decision, pods, measured } = known;
    let is_going = application.metadata.deletion_timestamp.is_some();
    let decision = decision.filter(|_| !is_going);
    if decision.is_none() && pods.is_empty() {
        return None;
    }
    let numbers = Numbers::of(application, actors, policy);
    let position = |name: &str| application.spec.actors.iter().position(|group| group.name == name);
    let one = |actor: &str, group: Option<usize>, pool: Option<&str>, pod: Option<&Quantities>| {
        let kind = pool.and_then(|pool| pools.get(pool)).map(|pool| pool.spec.kind.as_str());
        let numbers = numbers.as_ref().ok();
        let work_now = kind.and_then(|kind| measured_work(*measured, actor, kind));
        let known = group.zip(kind).and_then(|(group, kind)| numbers?.groups[group].kinds.get(kind));
        // The pod runs on a kind that the manifest no longer has: its work is unknown, its requests are not.
        known.map_or_else(
            || LoadSum {
                count: 1,
                asks: pod.map(resource_amounts).unwrap_or_default(),
                ..LoadSum::default()
            },
            |(work, asked)| LoadSum {
                count: 1,
                work: work_now.unwrap_or(*work),
                asks: amounts_with_pod(asked, pod),
            },
        )
    };
    let group_of: BTreeMap<String, usize> =
        actors.names.iter().filter_map(|actor| Some((actor.short(), position(&actor.group)?))).collect();
    let there: BTreeMap<(String, &str), &Quantities> =
        pods.iter().map(|pod| ((pod.actor.short(), pod.unit), pod.asks)).collect();
    let (mut units, mut decided) = (BTreeMap::<String, LoadSum>::new(), BTreeSet::new());
    // actors are listed at their decided units, or where they are if none was decided
    let mut listed = BTreeMap::<String, LoadSum>::new();
    for assignment in decision.iter().flat_map(|decision| &decision.spec.assignments) {
        let Some(group) = group_of.get(&assignment.actor) else { continue };
        let place = (assignment.actor.clone(), assignment.unit.as_str());
        let pod = there.get(&place).copied();
        let sum = one(&assignment.actor, Some(*group), Some(assignment.pool.as_str()), pod);
        units.entry(assignment.unit.clone()).or_default().add(&sum);
        listed.entry(assignment.unit.clone()).or_default().add(&sum);
        decided.insert(place);
    }
    let unplaced = decision.iter().flat_map(|decision| &decision.spec.unplaced);
    let is_in_decision: BTreeSet<&String> =
        decided.iter().map(|(actor, _)| actor).chain(unplaced.map(|it| &it.actor)).collect();
    let moving = decision.map(moves_in_progress).unwrap_or_default();
    let reserved: Vec<(&str, &str)> = moving
        .iter()
        .map(|it| (it.actor, it.from))
        .filter(|(actor, from)| !there.contains_key(&((*actor).to_owned(), *from)))
        .collect();
    if !reserved.is_empty() || !there.keys().all(|place| decided.contains(place)) {
        let mut runs: BTreeMap<&str, LoadSum> = BTreeMap::new();
        for pod in pods {
            let (actor, group) = (pod.actor.short(), position(&pod.actor.group));
            let sum = one(&actor, group, pool_of(pod.unit, pools), Some(pod.asks));
            runs.entry(pod.unit).or_default().add(&sum);
            if group_of.contains_key(&actor) && !is_in_decision.contains(&actor) && !pod.is_terminating {
                listed.entry(pod.unit.to_owned()).or_default().add(&sum);
            }
        }
        for (actor, unit) in reserved {
            let sum = one(actor, group_of.get(actor).copied(), pool_of(unit, pools), None);
            runs.entry(unit).or_default().add(&sum);
        }
        for (unit, sum) in runs {
            units.entry(unit.to_owned()).or_default().raise_to(&sum);
        }
    }
    let is_listed = numbers.is_ok() && !is_going;
    let none = LoadSum::default();
    let excess = |(unit, sum): (&String, &LoadSum)| {
        let sum = sum.excess_over(listed.get(unit).filter(|_| is_listed).unwrap_or(&none));
        (sum != none).then(|| (unit.clone(), sum))
    };
    let unlisted = units.iter().filter_map(excess).collect();
    Some(Load { units, problem: numbers.err().filter(|_| !is_going), is_listed, unlisted })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn failed_counts_are_retried() {
        let keys =
            ["a", "b", "c"].map(|name| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() });
        let mut loads = Loads::unknown(keys.iter());
        let policy = Policy::builtin("p");
        let counted = RefCell::new(String::new());
        for (fails, expected) in [("b", "a"), ("", "bc"), ("", "")] {
            let of = |key: &ApplicationKey| -> Option<ApplicationFacts<'static>> {
                assert_ne!(key.name, fails, "it cannot be counted");
                counted.borrow_mut().push_str(&key.name);
                None
            };
            let done = catch_unwind(AssertUnwindSafe(|| loads.update(&policy, of, &BTreeMap::new())));
            assert_eq!((done.is_err(), counted.take()), (!fails.is_empty(), expected.to_owned()));
        }
    }
}
