//! Who has to be planned again, and who waits for what: marked by events, asked by reconciles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{Amounts, Moment};
use world::{ApplicationKey, Index, Policy, Room, Unit};

/// So long an application gives way at most: whoever is ahead may fail again and again.
const MAX_YIELD: Duration = Duration::from_secs(10);

/// A node as plans depend on it.
#[derive(PartialEq)]
pub struct NodeCapacity {
    pub room: Option<Room>,
    pub units: BTreeMap<String, Unit>,
}

/// What an application waits for.
#[derive(Default)]
pub struct Waiting {
    /// Whether an actor waits for something that a pod or an Instance may give back.
    pub any: bool,
    /// The pools that have as many instances as they may, wherever those are.
    pub pools: BTreeSet<String>,
    /// What actors without a place ask for, by kind.
    pub unplaced: Vec<(String, Amounts)>,
}

/// Marks and requests of applications.
#[derive(Default)]
pub struct ReplanTriggers {
    dirty: BTreeSet<ApplicationKey>,
    /// Those whose mark was taken and that are being looked at.
    in_planning: BTreeSet<ApplicationKey>,
    /// Since when those give way that wait for room that others may take first.
    yielding_since: BTreeMap<ApplicationKey, Moment>,
    /// Those of which actors wait for something that a pod or an Instance may give back, with the pools that they wait for.
    waiting: BTreeMap<ApplicationKey, BTreeSet<String>>,
    /// What actors without a place ask for, by kind.
    unplaced: BTreeMap<ApplicationKey, Vec<(String, Amounts)>>,
    /// How often room came that an actor without a place may use.
    growth_counter: u64,
    /// The policies by which they are guarded, each once.
    policies: Vec<Arc<Policy>>,
    /// By node that hosts actors.
    guards: BTreeMap<String, BTreeMap<ApplicationKey, Guard>>,
    /// On which nodes an application has guards.
    guarded: BTreeMap<ApplicationKey, BTreeSet<String>>,
    /// How many units and slots of a kind came free so far.
    freed: BTreeMap<String, u64>,
    /// When the last one of a kind came free.
    last_freed: BTreeMap<String, Moment>,
    /// Of those, how many an application gave back itself.
    own_freed: BTreeMap<ApplicationKey, BTreeMap<String, u64>>,
    /// Since when an application waits for its turn.
    background_since: BTreeMap<ApplicationKey, Moment>,
    /// When an application last had its turn to look whether it could be better.
    last_background: BTreeMap<ApplicationKey, Moment>,
    /// Whose turn has come.
    has_background_turn: BTreeSet<ApplicationKey>,
}

/// At which capacities of units an application would be pressed.
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

    /// Whether it was touched since this was last asked.
    pub fn take_dirty(&mut self, key: &ApplicationKey) -> bool {
        self.in_planning.insert(key.clone());
        self.dirty.remove(key)
    }

    /// A look is over.
    pub fn planning_done(&mut self, key: &ApplicationKey) {
        self.in_planning.remove(key);
    }

    /// Whether an application leaves room that came to one of `ahead`, which wait for room as it does and are served first: as
    /// long as one of them may be about to take it, but no longer than a while.
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

    /// Forgets an application that is gone.
    pub fn forget(&mut self, key: &ApplicationKey) {
        self.dirty.remove(key);
        self.in_planning.remove(key);
        self.yielding_since.remove(key);
        self.has_background_turn.remove(key);
        self.own_freed.remove(key);
        self.last_background.remove(key);
        self.background_since.remove(key);
        self.set_waiting(key, Waiting::default());
        self.unguard(key);
    }

    /// Forgets all that are not among these.
    pub fn keep(&mut self, there: &BTreeSet<ApplicationKey>) {
        let known = (self.dirty.iter().chain(&self.in_planning).chain(&self.has_background_turn))
            .chain(self.yielding_since.keys().chain(self.own_freed.keys()).chain(self.last_background.keys()))
            .chain(self.background_since.keys().chain(self.waiting.keys()))
            .chain(self.unplaced.keys().chain(self.guarded.keys()));
        let gone: BTreeSet<ApplicationKey> = known.filter(|key| !there.contains(*key)).cloned().collect();
        for key in &gone {
            self.forget(key);
        }
    }

    /// Remembers what an application waits for; whether actors have no place of which that was not known: room that came before
    /// touched nobody.
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

    /// A policy as it is shared by all whom it guards.
    fn shared(&mut self, policy: &Policy) -> Arc<Policy> {
        self.policies.retain(|known| Arc::strong_count(known) > 1);
        if let Some(known) = self.policies.iter().find(|known| ***known == *policy) {
            return known.clone();
        }
        let policy = Arc::new(policy.clone());
        self.policies.push(policy.clone());
        policy
    }

    /// Those whose units on a node have less capacity by now than they need.
    pub fn overloaded(&self, index: &Index, node: &str) -> BTreeSet<ApplicationKey> {
        let is_overloaded = |guard: &Guard| {
            let units = world::units_at(index, node, &guard.policy);
            guard.needs.iter().any(|(unit, need)| units.get(unit).is_none_or(|unit| unit.capacity < *need))
        };
        let guards = self.guards.get(node).into_iter().flatten();
        guards.filter(|(_, guard)| is_overloaded(guard)).map(|(key, _)| key.clone()).collect()
    }

    /// Units or slots of these kinds came free, given back `by` an application or by nobody.
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

    /// How many units and slots of these kinds came free so far that the application did not give back itself.
    pub fn freed_counter<'a>(&self, key: &ApplicationKey, kinds: impl Iterator<Item = &'a str>) -> u64 {
        let own = self.own_freed.get(key);
        let of_kind = |kind: &str| {
            let own = own.and_then(|own| own.get(kind)).copied().unwrap_or(0);
            self.freed.get(kind).copied().unwrap_or(0) - own
        };
        kinds.map(of_kind).sum()
    }

    /// Lets those look whose turn it is, of those for whom something of their kinds came free.
    pub fn grant_background_turns(
        &mut self,
        mut waiting: BTreeMap<ApplicationKey, BTreeSet<&str>>,
        now: Moment,
        most: usize,
    ) -> Vec<ApplicationKey> {
        self.background_since.retain(|key, _| waiting.contains_key(key));
        waiting.retain(|key, kinds| {
            let since = *self.background_since.entry(key.clone()).or_insert(now);
            let last_freed = kinds.iter().filter_map(|kind| self.last_freed.get(*kind)).max();
            last_freed.is_none_or(|last_freed| control::is_whole(*last_freed, since, now))
        });
        let last = |key: ApplicationKey| {
            let last = self.last_background.get(&key).copied();
            (key, last)
        };
        let last_background = control::turns(waiting.into_keys().map(last).collect::<Vec<_>>(), now, most);
        for key in &last_background {
            self.last_background.insert(key.clone(), now);
            self.has_background_turn.insert(key.clone());
        }
        last_background
    }

    /// It is looked at in the background now, whatever for: the next time is later.
    pub fn background_started(&mut self, key: &ApplicationKey, now: Moment) {
        self.last_background.insert(key.clone(), now);
        self.has_background_turn.remove(key);
    }

    /// Whether its turn has come.
    pub fn has_background_turn(&self, key: &ApplicationKey) -> bool {
        self.has_background_turn.contains(key)
    }

    /// Whether its turn has come since this was last asked.
    pub fn take_background_turn(&mut self, key: &ApplicationKey) -> bool {
        self.has_background_turn.remove(key)
    }

    /// Those with actors without a place.
    pub fn with_unplaced_actors(&self) -> Vec<ApplicationKey> {
        self.unplaced.keys().cloned().collect()
    }

    /// Room came, wherever: those with actors without a place.
    pub fn capacity_grew(&mut self) -> Vec<ApplicationKey> {
        self.growth_counter += 1;
        self.with_unplaced_actors()
    }

    /// How often room came so far that an actor without a place may use.
    pub fn growth_counter(&self) -> u64 {
        self.growth_counter
    }

    /// Those with an actor without a place that what came at a node may be room for.
    ///
    /// `known`: what the node is has changed; then room that was there before may be for others now.
    pub fn unplaced_that_fit(
        &mut self,
        before: &NodeCapacity,
        after: &NodeCapacity,
        known: bool,
    ) -> Vec<ApplicationKey> {
        let Some(room) = &after.room else { return Vec::new() };
        let grew = before.room.as_ref().is_none_or(|before| room.grew(before));
        let grew = known || grew || after.units.keys().any(|unit| !before.units.contains_key(unit));
        self.growth_counter += u64::from(grew);
        let fits = |(kind, asks): &(String, Amounts)| {
            let units = after.units.values().filter(|unit| unit.kind == *kind);
            units.into_iter().any(|unit| {
                known
                    || (unit.slots.is_none_or(|slots| room.held(&unit.id) < slots)
                        && room.has(asks, unit.resource.as_deref()))
            })
        };
        let waiting = self.unplaced.iter().filter(|(_, asks)| grew && asks.iter().any(fits));
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// Those of this namespace that wait for a name or for room.
    pub fn waiting_in_namespace(&self, namespace: &str) -> BTreeSet<ApplicationKey> {
        self.waiting.keys().filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// Those that wait for room on a node.
    pub fn waiting_on_node(&self, index: &Index, node: &str) -> Vec<ApplicationKey> {
        index.hosted(node).filter(|key| self.waiting.contains_key(*key)).cloned().collect()
    }

    /// Those that wait until a pool may have one more instance, wherever one goes.
    pub fn waiting_for_pool(&self, pool: &str) -> Vec<ApplicationKey> {
        let waiting = self.waiting.iter().filter(|(_, pools)| pools.contains(pool));
        waiting.map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_moves_or_goes_is_guarded_no_more_where_it_was() {
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
        // What is left of who is gone marks it once more.
        triggers.mark_dirty(&key("a"));
        triggers.capacity_freed(["cpu"].into_iter(), Some(&key("a")), Duration::ZERO);
        triggers.keep(&[key("b")].into());
        assert!(triggers.dirty.is_empty() && triggers.own_freed.is_empty());
    }

    #[test]
    fn who_is_looked_at_in_the_background_has_no_other_turn_for_a_while() {
        let key = |name: &str| ApplicationKey { namespace: "shop".to_owned(), name: name.to_owned() };
        let mut triggers = ReplanTriggers::default();
        let start = Duration::from_secs(1000);
        triggers.background_started(&key("a"), start);
        let both = || [key("a"), key("b")].map(|key| (key, BTreeSet::new())).into();
        let early = start + control::BACKGROUND / 2;
        assert_eq!(triggers.grant_background_turns(both(), early, 9), [key("b")]);
        assert!(triggers.take_background_turn(&key("b")) && !triggers.has_background_turn(&key("a")));
        let late = start + control::BACKGROUND;
        assert_eq!(triggers.grant_background_turns(both(), late, 9), [key("a")]);
        // A second look that comes then takes the turn with it.
        triggers.background_started(&key("a"), late);
        assert!(!triggers.has_background_turn(&key("a")));
        assert_eq!(triggers.grant_background_turns(both(), late, 9), []);
    }

    /// Which seconds are a turn: `cpu` and `gpu` come when they are said to.
    #[test]
    fn a_turn_waits_for_the_last_piece_of_what_comes_but_not_for_ever() {
        let key = ApplicationKey { namespace: "shop".to_owned(), name: "app".to_owned() };
        for (comes, expected) in [
            ("", Some(0)),
            ("cpu@0", Some(10)),
            ("cpu@0 gpu@3", Some(13)),
            ("cpu@0 fpga@3", Some(10)),
            ("cpu@0 gpu@9 gpu@18 cpu@27 cpu@36 gpu@45 gpu@54 cpu@63 cpu@72 gpu@81", Some(60)),
        ] {
            let mut triggers = ReplanTriggers::default();
            let turn = (0..100).find(|second| {
                for (kind, at) in comes.split(' ').filter_map(|come| come.split_once('@')) {
                    if at.parse() == Ok(*second) {
                        triggers.capacity_freed(std::iter::once(kind), None, Duration::from_secs(*second));
                    }
                }
                let waiting = [(key.clone(), BTreeSet::from(["cpu", "gpu"]))].into();
                !triggers.grant_background_turns(waiting, Duration::from_secs(*second), 9).is_empty()
            });
            assert_eq!(turn, expected, "{comes}");
        }
    }
}
