//! What the actors of applications put on units, where they were decided to be and where they are, summed up and kept up to date.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Placement};

use crate::demand::Numbers;
use crate::demand::actors::ApplicationActors;
use crate::demand::application::ActorName;
use crate::demand::pods::{Quantities, asks, asks_there};
use crate::numbers::Exact;
use crate::units::unit::pool_of;
use crate::{ApplicationKey, Policy};

/// Several actors on one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// How many they are.
    pub count: u64,
    /// Their work in one window.
    pub work: u64,
    /// What their pods ask of the node.
    pub asks: BTreeMap<String, u64>,
}

impl Sum {
    fn add(&mut self, more: &Self) {
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

    /// As much of everything as there is of it in either.
    fn raise(&mut self, to: &Self) {
        self.count = self.count.max(to.count);
        self.work = self.work.max(to.work);
        for (resource, amount) in &to.asks {
            let total = self.asks.entry(resource.clone()).or_default();
            *total = (*total).max(*amount);
        }
    }
}

/// What is known of an application and of where its actors are.
pub(crate) struct Known<'a> {
    pub application: &'a ActorApplication,
    pub actors: ApplicationActors,
    /// What was decided for it.
    pub decision: Option<&'a Placement>,
    /// Its pods that are not over.
    pub pods: Vec<There<'a>>,
}

/// A pod that is there.
pub(crate) struct There<'a> {
    /// The actor that it was made for.
    pub actor: ActorName,
    /// Where it is.
    pub unit: &'a str,
    /// What it asks for itself, whatever the manifest says by now.
    pub asks: &'a Quantities,
}

/// What one application puts on units.
#[derive(Debug)]
struct Load {
    units: BTreeMap<String, Sum>,
    /// Why its manifest cannot be read: the places that it has are counted all the same, with what its pods ask for.
    fault: Option<String>,
    /// Whether its actors can be listed one by one: neither has its manifest a fault, nor is it going away.
    is_listed: bool,
}

/// What all applications put on units, counted over one window.
#[derive(Debug)]
pub(crate) struct Loads {
    changed: BTreeSet<ApplicationKey>,
    of: BTreeMap<ApplicationKey, Load>,
    total: BTreeMap<String, Sum>,
}

impl Loads {
    /// Nothing is counted yet of these applications.
    pub fn unknown<'a>(keys: impl Iterator<Item = &'a ApplicationKey>) -> Self {
        Self { changed: keys.cloned().collect(), of: BTreeMap::new(), total: BTreeMap::new() }
    }

    /// The application, its decision or its being there changed.
    pub fn changed(&mut self, key: &ApplicationKey) {
        self.changed.insert(key.clone());
    }

    /// Counts anew what changed: `of` says what is known of an application, `kind` that of a pool.
    pub fn catch_up<'a>(
        &mut self,
        policy: &Policy,
        of: impl Fn(&ApplicationKey) -> Option<Known<'a>>,
        kind: impl Fn(&str) -> Option<&'a str>,
    ) {
        // One that could not be counted, whatever the reason, is to be counted still.
        while let Some(key) = self.changed.first().cloned() {
            let load = of(&key).and_then(|known| load(&known, policy, &kind));
            if let Some(before) = self.of.remove(&key) {
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
            self.of.extend(load.map(|load| (key, load)));
        }
        self.total.retain(|_, sum| sum.count > 0);
    }

    /// What all but one put on units.
    pub fn without(&self, key: &ApplicationKey) -> BTreeMap<String, Sum> {
        let mut total = self.total.clone();
        for (unit, sum) in self.of.get(key).into_iter().flat_map(|load| &load.units) {
            if let Some(total) = total.get_mut(unit) {
                total.subtract(sum);
            }
        }
        total.retain(|_, sum| sum.count > 0);
        total
    }

    /// What all but one put on units whose actors cannot be listed one by one.
    pub fn unlisted_without(&self, key: &ApplicationKey) -> BTreeMap<String, Sum> {
        let mut total: BTreeMap<String, Sum> = BTreeMap::new();
        let unlisted = self.of.iter().filter(|(other, load)| *other != key && !load.is_listed);
        for (unit, sum) in unlisted.flat_map(|(_, load)| &load.units) {
            total.entry(unit.clone()).or_default().add(sum);
        }
        total
    }

    /// Whose manifests cannot be read, of all but one, and why.
    pub fn faults_without(&self, key: &ApplicationKey) -> Vec<(ApplicationKey, String)> {
        let others = self.of.iter().filter(|(other, _)| *other != key);
        others.filter_map(|(other, load)| Some((other.clone(), load.fault.clone()?))).collect()
    }

    /// Whether what an application puts on units was counted by its pods.
    pub fn is_unlisted(&self, key: &ApplicationKey) -> bool {
        self.of.get(key).is_some_and(|load| !load.is_listed)
    }
}

/// By what of a policy the numbers of applications are worked out, and whether they are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measure {
    window: Exact,
    message_quantum: Exact,
    bytes_per_point: Exact,
}

impl Measure {
    /// That of this policy.
    pub fn of(policy: &Policy) -> Self {
        let Policy { window, message_quantum, bytes_per_point, .. } = *policy;
        Self { window, message_quantum, bytes_per_point }
    }
}

/// What an application puts on units; nothing when it is nowhere.
///
/// Of one that is going away nobody comes any more, and its pods take room until they are gone. Where a manifest cannot be read it is
/// not known what its actors do and ask for, but that they are there, and what their pods ask for.
///
/// Who is on the move takes room where it is decided to be, and where it is until its pod is gone. On one unit, who goes makes room for
/// who comes: it counts for the more of what was decided to be there and of what is there. So does whose pod asks for something else than
/// the manifest says: for the more of both.
fn load<'a>(known: &Known, policy: &Policy, kind: &impl Fn(&str) -> Option<&'a str>) -> Option<Load> {
    let Known { application, actors, decision, pods } = known;
    let is_going = application.metadata.deletion_timestamp.is_some();
    let decision = decision.filter(|_| !is_going);
    if decision.is_none() && pods.is_empty() {
        return None;
    }
    let numbers = Numbers::of(application, actors, policy);
    let position = |name: &str| application.spec.actors.iter().position(|group| group.name == name);
    let one = |group: Option<usize>, pool: Option<&str>, pod: Option<&Quantities>| {
        let (numbers, kind) = (numbers.as_ref().ok(), pool.and_then(kind));
        let known = group.zip(kind).and_then(|(group, kind)| numbers?.groups[group].kinds.get(kind));
        // It runs there, whatever the manifest says by now; what it did there is not known any more, what its pod asks for is.
        known.map_or_else(
            || Sum { count: 1, asks: pod.map(asks).unwrap_or_default(), ..Sum::default() },
            |(work, asked)| Sum { count: 1, work: *work, asks: asks_there(asked, pod) },
        )
    };
    let group_of: BTreeMap<String, usize> =
        actors.names.iter().filter_map(|actor| Some((actor.short(), position(&actor.group)?))).collect();
    let there: BTreeMap<(String, &str), &Quantities> =
        pods.iter().map(|pod| ((pod.actor.short(), pod.unit), pod.asks)).collect();
    let (mut units, mut decided) = (BTreeMap::<String, Sum>::new(), BTreeSet::new());
    for assignment in decision.iter().flat_map(|decision| &decision.spec.assignments) {
        let Some(group) = group_of.get(&assignment.actor) else { continue };
        let place = (assignment.actor.clone(), assignment.unit.as_str());
        let sum = one(Some(*group), Some(assignment.pool.as_str()), there.get(&place).copied());
        units.entry(assignment.unit.clone()).or_default().add(&sum);
        decided.insert(place);
    }
    if !there.keys().all(|place| decided.contains(place)) {
        let mut runs: BTreeMap<&str, Sum> = BTreeMap::new();
        for pod in pods {
            let sum = one(position(&pod.actor.group), pool_of(pod.unit), Some(pod.asks));
            runs.entry(pod.unit).or_default().add(&sum);
        }
        for (unit, sum) in runs {
            units.entry(unit.to_owned()).or_default().raise(&sum);
        }
    }
    let is_listed = numbers.is_ok() && !is_going;
    Some(Load { units, fault: numbers.err().filter(|_| !is_going), is_listed })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn who_could_not_be_counted_is_counted_the_next_time() {
        let keys =
            ["a", "b", "c"].map(|name| ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() });
        let mut loads = Loads::unknown(keys.iter());
        let policy = Policy::builtin("p");
        let counted = RefCell::new(String::new());
        for (fails, expected) in [("b", "a"), ("", "bc"), ("", "")] {
            let of = |key: &ApplicationKey| -> Option<Known<'static>> {
                assert_ne!(key.name, fails, "it cannot be counted");
                counted.borrow_mut().push_str(&key.name);
                None
            };
            let done = catch_unwind(AssertUnwindSafe(|| loads.catch_up(&policy, of, |_| None)));
            assert_eq!((done.is_err(), counted.take()), (!fails.is_empty(), expected.to_owned()));
        }
    }
}
