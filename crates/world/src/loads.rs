//! What the actors of applications put on units, where they were decided to be and where they are, summed up and kept up to date.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Placement};

use crate::actors::Actors;
use crate::application::ActorName;
use crate::demand::Numbers;
use crate::pods::asks;
use crate::unit::pool_of;
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
    pub actors: Actors,
    /// What was decided for it.
    pub decision: Option<&'a Placement>,
    /// Its pods that are not over, as actors and units.
    pub pods: Vec<(ActorName, &'a str)>,
}

/// What one application puts on units, or why that cannot be counted.
type Load = Result<BTreeMap<String, Sum>, String>;

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
        for key in std::mem::take(&mut self.changed) {
            if let Some(Ok(before)) = self.of.remove(&key) {
                for (unit, sum) in &before {
                    if let Some(total) = self.total.get_mut(unit) {
                        total.subtract(sum);
                    }
                }
            }
            let Some(load) = of(&key).and_then(|known| load(&known, policy, &kind)) else { continue };
            for (unit, sum) in load.iter().flatten() {
                self.total.entry(unit.clone()).or_default().add(sum);
            }
            self.of.insert(key, load);
        }
        self.total.retain(|_, sum| sum.count > 0);
    }

    /// What all but one put on units, and what cannot be counted.
    pub fn without(&self, key: &ApplicationKey) -> (BTreeMap<String, Sum>, Vec<(ApplicationKey, String)>) {
        let mut total = self.total.clone();
        for (unit, sum) in self.of.get(key).into_iter().flatten().flatten() {
            if let Some(total) = total.get_mut(unit) {
                total.subtract(sum);
            }
        }
        total.retain(|_, sum| sum.count > 0);
        let faults = self.of.iter().filter(|(other, _)| *other != key);
        let faults = faults.filter_map(|(other, load)| Some((other.clone(), load.as_ref().err()?.clone())));
        (total, faults.collect())
    }
}

/// What an application puts on units; nothing when it is going away, or is nowhere.
///
/// Who is on the move takes room where it is decided to be, and where it is until its pod is gone. On one unit, who goes makes room for
/// who comes: it counts for the more of what was decided to be there and of what is there.
fn load<'a>(known: &Known, policy: &Policy, kind: &impl Fn(&str) -> Option<&'a str>) -> Option<Load> {
    let Known { application, actors, decision, pods } = known;
    let is_nowhere = decision.is_none() && pods.is_empty();
    if application.metadata.deletion_timestamp.is_some() || is_nowhere {
        return None;
    }
    let numbers = match Numbers::of(application, actors, policy) {
        Ok(numbers) => numbers,
        Err(problem) => return Some(Err(problem)),
    };
    let position = |name: &str| application.spec.actors.iter().position(|group| group.name == name);
    let one = |group: Option<usize>, pool: Option<&str>| {
        let kind = pool.and_then(kind);
        let known = group.zip(kind).and_then(|(group, kind)| numbers.groups[group].kinds.get(kind));
        // It runs there, whatever the manifest says by now; what it did there is not known any more.
        known.map_or_else(
            || Sum { count: 1, ..Sum::default() },
            |(work, asked)| Sum { count: 1, work: *work, asks: asks(asked) },
        )
    };
    let group_of: BTreeMap<String, usize> =
        actors.names.iter().filter_map(|actor| Some((actor.short(), position(&actor.group)?))).collect();
    let (mut units, mut decided) = (BTreeMap::<String, Sum>::new(), BTreeSet::new());
    for assignment in decision.iter().flat_map(|decision| &decision.spec.assignments) {
        let Some(group) = group_of.get(&assignment.actor) else { continue };
        let sum = one(Some(*group), Some(assignment.pool.as_str()));
        units.entry(assignment.unit.clone()).or_default().add(&sum);
        decided.insert((assignment.actor.as_str(), assignment.unit.as_str()));
    }
    if !pods.iter().all(|(actor, unit)| decided.contains(&(actor.short().as_str(), *unit))) {
        let mut there: BTreeMap<&str, Sum> = BTreeMap::new();
        for (actor, unit) in pods {
            there.entry(unit).or_default().add(&one(position(&actor.group), pool_of(unit)));
        }
        for (unit, sum) in there {
            units.entry(unit.to_owned()).or_default().raise(&sum);
        }
    }
    Some(Ok(units))
}
