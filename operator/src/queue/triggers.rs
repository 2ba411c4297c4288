//! Replan triggers: events mark applications dirty; reconciles record what each waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{Moment, ResourceAmounts};
use world::{ApplicationKey, Index, NodeRoom, Policy, Unit};

/// How long an application yields at most, as the others may fail repeatedly.
const MAX_YIELD: Duration = Duration::from_secs(10);

/// The properties of a node that plans depend on.
#[derive(PartialEq)]
pub struct NodeCapacity {
    pub room: Option<NodeRoom>,
    pub units: BTreeMap<String, Unit>,
}

/// What an application waits for.
#[derive(Default)]
pub struct Waiting {
    /// Whether an actor waits for something that a pod or an Instance may free.
    pub any: bool,
    /// Pools at their instance limit.
    pub pools: BTreeSet<String>,
    /// Requests of unplaced actors, by kind.
    pub unplaced: Vec<(String, ResourceAmounts)>,
}

/// Dirty marks, waiting applications and background slots.
#[derive(Default)]
pub struct ReplanTriggers {
    dirty: BTreeSet<ApplicationKey>,
    /// Applications whose planning run took their mark and is not finished.
    in_planning: BTreeSet<ApplicationKey>,
    /// Since when applications yield capacity to others with precedence.
    yielding_since: BTreeMap<ApplicationKey, Moment>,
    /// Applications with actors that wait for something that a pod or an Instance may free, and the pools they wait for.
    waiting: BTreeMap<ApplicationKey, BTreeSet<String>>,
    /// Requests of unplaced actors, by kind.
    unplaced: BTreeMap<ApplicationKey, Vec<(String, ResourceAmounts)>>,
    /// Counts growth of capacity that unplaced actors may use.
    growth_counter: u64,
    /// Policies of the guards, shared.
    policies: Vec<Arc<Policy>>,
    /// By node with actors.
    guards: BTreeMap<String, BTreeMap<ApplicationKey, Guard>>,
    /// Nodes with guards of an application.
    guarded: BTreeMap<ApplicationKey, BTreeSet<String>>,
    /// Units and slots freed so far, by kind.
    freed: BTreeMap<String, u64>,
    /// When the last one of a kind was freed.
    last_freed: BTreeMap<String, Moment>,
    /// Those of them that the application freed itself.
    own_freed: BTreeMap<ApplicationKey, BTreeMap<String, u64>>,
    /// Since when an application waits for a background slot.
    background_since: BTreeMap<ApplicationKey, Moment>,
    /// The last background slot of an application.
    last_background: BTreeMap<ApplicationKey, Moment>,
    /// Applications with an unused background slot.
    has_background_slot: BTreeSet<ApplicationKey>,
}

/// Unit capacities below which an application would be overloaded.
struct Guard {
    policy: Arc<Policy>,
    needs: BTreeMap<String, u64>,
}

impl ReplanTriggers {
    pub fn mark_dirty(&mut self, key: &ApplicationKey) {
        self.dirty.insert(key.clone());
    }

    pub fn is_dirty(&self, key: &ApplicationKey) -> bool {
        self.dirty.contains(key)
    }

    /// Takes the dirty mark.
    pub fn take_dirty(&mut self, key: &ApplicationKey) -> bool {
        self.in_planning.insert(key.clone());
        self.dirty.remove(key)
    }

    /// Ends a planning run.
    pub fn planning_done(&mut self, key: &ApplicationKey) {
        self.in_planning.remove(key);
    }

    /// Whether an application leaves capacity to those `ahead`, which also have unplaced actors: as long as one of them is
    /// being planned, up to a limit.
    pub fn yields_to_priority(
        &mut self,
        key: &ApplicationKey,
        ahead: impl Iterator<Item = ApplicationKey>,
        is_searched: impl Fn(&ApplicationKey) -> bool,
        now: Moment,
    ) -> bool {
        let is_about = |key: &ApplicationKey| {
            self.dirty.contains(key) || self.in_planning.contains(key) || is_searched(key)
        };
        let mut ahead = ahead.filter(|key| self.unplaced.contains_key(key));
        if !ahead.any(|key| is_about(&key)) {
            self.yielding_since.remove(key);
            return false;
        }
        let since = *self.yielding_since.entry(key.clone()).or_insert(now);
        let yields_to_priority = now < since + MAX_YIELD;
        if !yields_to_priority {
            self.yielding_since.remove(key);
        }
        yields_to_priority
    }

    /// Drops a deleted application.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.dirty.remove(key);
        self.in_planning.remove(key);
        self.yielding_since.remove(key);
        self.has_background_slot.remove(key);
        self.own_freed.remove(key);
        self.last_background.remove(key);
        self.background_since.remove(key);
        self.set_waiting(key, Waiting::default());
        self.unguard(key);
    }

    /// Drops all other applications.
    pub fn keep(&mut self, there: &BTreeSet<ApplicationKey>) {
        let known = (self.dirty.iter().chain(&self.in_planning).chain(&self.has_background_slot))
            .chain(self.yielding_since.keys().chain(self.own_freed.keys()).chain(self.last_background.keys()))
            .chain(self.background_since.keys().chain(self.waiting.keys()))
            .chain(self.unplaced.keys().chain(self.guarded.keys()));
        let gone: BTreeSet<ApplicationKey> = known.filter(|key| !there.contains(*key)).cloned().collect();
        for key in &gone {
            self.forget(key);
        }
    }

    /// Records what an application waits for; returns whether its unplaced demand is new, as capacity freed before did not
    /// trigger it.
    pub fn set_waiting(&mut self, key: &ApplicationKey, waiting: Waiting) -> bool {
        let Waiting { any, pools, unplaced } = waiting;
        if any {
            self.waiting.insert(key.clone(), pools);
        } else {
            self.waiting.remove(key);
        }
        if unplaced.is_empty() {
            self.unplaced.remove(key);
            return false;
        }
        let is_new = self.unplaced.get(key) != Some(&unplaced);
        self.unplaced.insert(key.clone(), unplaced);
        is_new
    }

    pub fn guard(&mut self, key: &ApplicationKey, policy: &Policy, needs: BTreeMap<String, u64>) {
        self.unguard(key);
        let policy = self.shared(policy);
        for (unit, need) in needs {
            let Some((node, _)) = unit.rsplit_once('/') else { continue };
            let guards = self.guards.entry(node.to_owned()).or_default();
            let guard = guards
                .entry(key.clone())
                .or_insert_with(|| Guard { policy: policy.clone(), needs: BTreeMap::new() });
            self.guarded.entry(key.clone()).or_default().insert(node.to_owned());
            guard.needs.insert(unit, need);
        }
    }

    fn unguard(&mut self, key: &ApplicationKey) {
        for node in self.guarded.remove(key).unwrap_or_default() {
            if let Some(guards) = self.guards.get_mut(&node) {
                guards.remove(key);
                if guards.is_empty() {
                    self.guards.remove(&node);
                }
            }
        }
    }

    /// The shared copy of a policy.
    fn shared(&mut self, policy: &Policy) -> Arc<Policy> {
        self.policies.retain(|known| Arc::strong_count(known) > 1);
        if let Some(known) = self.policies.iter().find(|known| ***known == *policy) {
            return known.clone();
        }
        let policy = Arc::new(policy.clone());
        self.policies.push(policy.clone());
        policy
    }

    /// Applications that a node's present capacity overloads.
    pub fn overloaded(&self, index: &Index, node: &str) -> BTreeSet<ApplicationKey> {
        let is_overloaded = |guard: &Guard| {
            let units = world::units_at(index, node, &guard.policy);
            guard.needs.iter().any(|(unit, need)| units.get(unit).is_none_or(|unit| unit.capacity < *need))
        };
        let guards = self.guards.get(node).into_iter().flatten();
        guards.filter(|(_, guard)| is_overloaded(guard)).map(|(key, _)| key.clone()).collect()
    }

    /// Records freed units or slots of these kinds, freed `by` an application if known.
    pub fn capacity_freed<'a>(
        &mut self,
        kinds: impl Iterator<Item = &'a str>,
        by: Option<&ApplicationKey>,
        now: Moment,
    ) {
        for kind in kinds {
            self.last_freed.insert(kind.to_owned(), now);
            *self.freed.entry(kind.to_owned()).or_default() += 1;
            if let Some(key) = by {
                let own = self.own_freed.entry(key.clone()).or_default();
                *own.entry(kind.to_owned()).or_default() += 1;
            }
        }
    }

    /// Units and slots of these kinds freed so far by others.
    pub fn freed_counter<'a>(&self, key: &ApplicationKey, kinds: impl Iterator<Item = &'a str>) -> u64 {
        let own = self.own_freed.get(key);
        let of_kind = |kind: &str| {
            let own = own.and_then(|own| own.get(kind)).copied().unwrap_or(0);
            self.freed.get(kind).copied().unwrap_or(0) - own
        };
        kinds.map(of_kind).sum()
    }

    /// Grants background slots to applications for which a unit of their kinds was freed.
    pub fn grant_background_slots(
        &mut self,
        mut waiting: BTreeMap<ApplicationKey, BTreeSet<&str>>,
        now: Moment,
        most: usize,
    ) -> Vec<ApplicationKey> {
        self.background_since.retain(|key, _| waiting.contains_key(key));
        waiting.retain(|key, kinds| {
            let since = *self.background_since.entry(key.clone()).or_insert(now);
            let last_freed = kinds.iter().filter_map(|kind| self.last_freed.get(*kind)).max();
            last_freed.is_none_or(|last_freed| control::is_burst_over(*last_freed, since, now))
        });
        let last = |key: ApplicationKey| {
            let last = self.last_background.get(&key).copied();
            (key, last)
        };
        let last_background =
            control::background_slots(waiting.into_keys().map(last).collect::<Vec<_>>(), now, most);
        for key in &last_background {
            self.last_background.insert(key.clone(), now);
            self.has_background_slot.insert(key.clone());
        }
        last_background
    }

    /// Records a background search; the next slot comes later.
    pub fn background_started(&mut self, key: &ApplicationKey, now: Moment) {
        self.last_background.insert(key.clone(), now);
        self.has_background_slot.remove(key);
    }

    /// Whether it has an unused background slot.
    pub fn has_background_slot(&self, key: &ApplicationKey) -> bool {
        self.has_background_slot.contains(key)
    }

    /// Takes the background slot.
    pub fn take_background_slot(&mut self, key: &ApplicationKey) -> bool {
        self.has_background_slot.remove(key)
    }

    /// Applications with unplaced actors.
    pub fn with_unplaced_actors(&self) -> Vec<ApplicationKey> {
        self.unplaced.keys().cloned().collect()
    }

    /// Records growth of capacity anywhere; returns the applications with unplaced actors.
    pub fn capacity_grew(&mut self) -> Vec<ApplicationKey> {
        self.growth_counter += 1;
        self.with_unplaced_actors()
    }

    /// Counts growth of capacity that unplaced actors may use.
    pub fn growth_counter(&self) -> u64 {
        self.growth_counter
    }

    /// Applications with an unplaced actor that may fit on the changed node.
    ///
    /// `known`: the node itself changed, so capacity that existed before may be usable now.
    pub fn unplaced_that_fit(
        &mut self,
        before: &NodeCapacity,
        after: &NodeCapacity,
        known: bool,
    ) -> Vec<ApplicationKey> {
        let Some(room) = &after.room else { return Vec::new() };
        let grew = before.room.as_ref().is_none_or(|before| room.has_grown_since(before));
        let grew = known || grew || after.units.keys().any(|unit| !before.units.contains_key(unit));
        self.growth_counter += u64::from(grew);
        let fits = |(kind, asks): &(String, ResourceAmounts)| {
            let units = after.units.values().filter(|unit| unit.kind == *kind);
            units.into_iter().any(|unit| {
                known
                    || (unit.slots.is_none_or(|slots| room.pods_on(&unit.id) < slots)
                        && room.fits(asks, unit.resource.as_deref()))
            })
        };
        let waiting = self.unplaced.iter().filter(|(_, asks)| grew && asks.iter().any(fits));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Applications of this namespace that wait for a name or for capacity.
    pub fn waiting_in_namespace(&self, namespace: &str) -> BTreeSet<ApplicationKey> {
        self.waiting.keys().filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// Applications that wait for capacity on a node.
    pub fn waiting_on_node(&self, index: &Index, node: &str) -> Vec<ApplicationKey> {
        index.applications_on(node).filter(|key| self.waiting.contains_key(*key)).cloned().collect()
    }

    /// Applications that wait for an instance of a pool, on any node.
    pub fn waiting_for_pool(&self, pool: &str) -> Vec<ApplicationKey> {
        let waiting = self.waiting.iter().filter(|(_, pools)| pools.contains(pool));
        waiting.map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_of_moved_and_deleted_applications_are_removed() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let mut triggers = ReplanTriggers::default();
        let guard = |triggers: &mut ReplanTriggers, name: &str, unit: &str| {
            triggers.guard(&key(name), &Policy::builtin("plain"), [(unit.to_owned(), 1)].into());
        };
        guard(&mut triggers, "a", "one/cpus-0");
        guard(&mut triggers, "b", "one/cpus-0");
        guard(&mut triggers, "a", "two/cpus-0");
        let by_node = |triggers: &ReplanTriggers| {
            let names = |(node, of): (&String, &BTreeMap<ApplicationKey, Guard>)| {
                (node.clone(), of.keys().map(|key| key.name.clone()).collect::<String>())
            };
            triggers.guards.iter().map(names).collect::<Vec<_>>()
        };
        let expected = [("one", "b"), ("two", "a")].map(|(node, names)| (node.to_owned(), names.to_owned()));
        assert_eq!(by_node(&triggers), expected);
        triggers.keep(&[key("b")].into());
        assert_eq!(by_node(&triggers), expected[..1]);
        assert_eq!((triggers.guarded.len(), triggers.policies.len()), (1, 1));
        // Remaining objects may mark a deleted application as dirty.
        triggers.mark_dirty(&key("a"));
        triggers.capacity_freed(["cpu"].into_iter(), Some(&key("a")), Duration::ZERO);
        triggers.keep(&[key("b")].into());
        assert!(triggers.dirty.is_empty() && triggers.own_freed.is_empty());
    }

    #[test]
    fn a_background_search_delays_the_next_slot() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let mut triggers = ReplanTriggers::default();
        let start = Duration::from_secs(1000);
        triggers.background_started(&key("a"), start);
        let both = || [key("a"), key("b")].map(|key| (key, BTreeSet::new())).into();
        let early = start + control::BACKGROUND_INTERVAL / 2;
        assert_eq!(triggers.grant_background_slots(both(), early, 9), [key("b")]);
        assert!(triggers.take_background_slot(&key("b")) && !triggers.has_background_slot(&key("a")));
        let late = start + control::BACKGROUND_INTERVAL;
        assert_eq!(triggers.grant_background_slots(both(), late, 9), [key("a")]);
        // A resumed search uses up the slot.
        triggers.background_started(&key("a"), late);
        assert!(!triggers.has_background_slot(&key("a")));
        assert_eq!(triggers.grant_background_slots(both(), late, 9), []);
    }

    /// Seconds with a slot, when `cpu` and `gpu` units are freed at the given times.
    #[test]
    fn a_background_slot_waits_until_capacity_stops_changing_up_to_a_limit() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        for (events, expected) in [
            ("", Some(0)),
            ("cpu@0", Some(10)),
            ("cpu@0 gpu@3", Some(13)),
            ("cpu@0 fpga@3", Some(10)),
            ("cpu@0 gpu@9 gpu@18 cpu@27 cpu@36 gpu@45 gpu@54 cpu@63 cpu@72 gpu@81", Some(60)),
        ] {
            let mut triggers = ReplanTriggers::default();
            let slot = (0..100).find(|second| {
                for (kind, at) in events.split(' ').filter_map(|event| event.split_once('@')) {
                    if at.parse() == Ok(*second) {
                        triggers.capacity_freed(std::iter::once(kind), None, Duration::from_secs(*second));
                    }
                }
                let waiting = [(key.clone(), BTreeSet::from(["cpu", "gpu"]))].into();
                !triggers.grant_background_slots(waiting, Duration::from_secs(*second), 9).is_empty()
            });
            assert_eq!(slot, expected, "{events}");
        }
    }
}
