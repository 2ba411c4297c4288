//! How many actors of all applications are stopped for a gain, evictions that are refused, and what actors were like before moves.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::{Moment, MoveLimits};
use world::{ApplicationKey, Index, Rebalance};

/// Actors that are stopped for a gain, by application.
#[derive(Debug, Default)]
pub struct MoveTracker(Mutex<Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    /// Whether the moves that were in progress when this replica began to lead are counted.
    is_seeded: bool,
    stopped: BTreeMap<ApplicationKey, usize>,
    /// Refused evictions by actor.
    not_evicted: BTreeMap<(ApplicationKey, String), NotEvicted>,
    /// Microseconds per message of actors before their last move for measured load, until the history has them.
    services: BTreeMap<ApplicationKey, BTreeMap<String, f64>>,
}

/// Since when the eviction of an actor is refused, and why.
#[derive(Debug)]
struct NotEvicted {
    since: Moment,
    why: String,
    /// The unit that it was to move to, once a reconcile has seen both.
    to: Option<String>,
}

impl MoveTracker {
    fn tracked(&self) -> MutexGuard<'_, Tracked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits of an application of which `stopped` actors are stopped for a gain. What it may use up is reserved until
    /// [`set`](Self::set).
    pub fn reserve(
        &self,
        key: &ApplicationKey,
        stopped: usize,
        rebalance: &Rebalance,
        index: &Index,
    ) -> MoveLimits {
        let mut tracked = self.tracked();
        if !tracked.is_seeded {
            tracked.is_seeded = true;
            tracked.stopped = world::stopped_for_gain(index);
        }
        let others: usize = tracked.stopped.iter().filter(|(of, _)| *of != key).map(|(_, count)| count).sum();
        let left_in_cluster = rebalance.cluster.saturating_sub(others + stopped);
        let more = rebalance.at_once.saturating_sub(stopped).min(left_in_cluster);
        tracked.stopped.insert(key.clone(), stopped + more);
        MoveLimits { at_once: rebalance.at_once, left_in_cluster, give_up: rebalance.give_up }
    }

    /// Sets how many actors of an application are stopped, or about to be stopped.
    pub fn set(&self, key: &ApplicationKey, stopped: usize) {
        let mut tracked = self.tracked();
        if stopped == 0 {
            tracked.stopped.remove(key);
        } else {
            tracked.stopped.insert(key.clone(), stopped);
        }
    }

    /// Records that an eviction was refused.
    pub fn eviction_refused(&self, key: &ApplicationKey, actor: &str, why: &str, now: Moment) {
        let mut tracked = self.tracked();
        let refused = || NotEvicted { since: now, why: why.to_owned(), to: None };
        tracked.not_evicted.entry((key.clone(), actor.to_owned())).or_insert_with(refused);
    }

    /// Refused evictions of an application, where `goal` is the unit that an actor is to move to. Those of actors that are to stay, or to
    /// move elsewhere, are forgotten: another move has its own time.
    pub fn not_evicted<'a>(
        &self,
        key: &ApplicationKey,
        goal: impl Fn(&str) -> Option<&'a str>,
    ) -> BTreeMap<String, (Moment, String)> {
        let mut tracked = self.tracked();
        tracked.not_evicted.retain(|(of, actor), refused| {
            of != key || goal(actor).is_some_and(|to| refused.to.get_or_insert_with(|| to.to_owned()) == to)
        });
        let own = tracked.not_evicted.iter().filter(|((of, _), _)| of == key);
        own.map(|((_, actor), refused)| (actor.clone(), (refused.since, refused.why.clone()))).collect()
    }

    /// Sets the service times of actors that are about to be moved for measured load.
    pub fn set_services(&self, key: &ApplicationKey, services: BTreeMap<String, f64>) {
        self.tracked().services.insert(key.clone(), services);
    }

    /// Service times of actors before their last move for measured load.
    pub fn services(&self, key: &ApplicationKey) -> BTreeMap<String, f64> {
        self.tracked().services.get(key).cloned().unwrap_or_default()
    }

    /// Forgets an application.
    pub fn forget(&self, key: &ApplicationKey) {
        let mut tracked = self.tracked();
        tracked.stopped.remove(key);
        tracked.services.remove(key);
        tracked.not_evicted.retain(|(of, _), _| of != key);
    }
}

#[cfg(test)]
mod tests {
    use world::{Objects, Policy};

    use super::*;

    fn key(name: &str) -> ApplicationKey {
        ApplicationKey { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    /// The index of an application of which two actors are stopped for a gain, as recorded, and others are not.
    fn index() -> Index {
        let at = "'1970-01-01T00:00:00.000000Z'";
        let actors = [("a-0", "Stopping"), ("a-1", "Starting"), ("a-2", "Decided"), ("a-3", "Running")];
        let all =
            |one: &dyn Fn(&str, &str) -> String| actors.map(|(actor, step)| one(actor, step)).join(", ");
        let to = "from: n/u-0, to: n/u-1";
        let yaml = format!(
            "{{apiVersion: cairn.dev/v1alpha1, kind: Placement, metadata: {{name: before, namespace: ns}}, spec: {{application: before, \
             applicationGeneration: 1, policy: p, snapshotDigest: d, strategy: s, seed: 1, effort: 1, assignments: [{}], moves: [{}]}}, \
             status: {{moves: [{}]}}}}",
            all(&|actor, _| format!("{{actor: {actor}, unit: n/u-1, node: n, pool: u}}")),
            all(&|actor, _| format!("{{actor: {actor}, {to}, reason: r, gainPercent: 9, decidedAt: {at}}}")),
            all(&|actor, step| format!(
                "{{actor: {actor}, {to}, decidedAt: {at}, step: {step}, since: {at}}}"
            ))
        );
        let mut objects = Objects::default();
        objects.read("test", &yaml).unwrap();
        Index::of(&objects)
    }

    #[test]
    fn a_refused_eviction_counts_for_its_own_move_only() {
        let (tracker, app) = (MoveTracker::default(), key("app"));
        let at = Moment::from_secs;
        let since = |goal: Option<&'static str>| {
            tracker
                .not_evicted(&app, |_| goal)
                .into_values()
                .map(|(since, _)| since.as_secs())
                .collect::<Vec<_>>()
        };
        tracker.eviction_refused(&app, "a-0", "budget", at(10));
        tracker.eviction_refused(&app, "a-0", "budget", at(20));
        assert_eq!(since(Some("n/u")), [10]);
        assert_eq!(since(Some("n/v")), [0; 0], "another move");
        tracker.eviction_refused(&app, "a-0", "budget", at(30));
        assert_eq!(since(Some("n/v")), [30]);
        assert_eq!(since(None), [0; 0], "it stays");
    }

    #[test]
    fn applications_share_the_limit_of_the_cluster() {
        let (tracker, index) = (MoveTracker::default(), index());
        let rebalance = Rebalance { at_once: 2, cluster: 5, ..Policy::builtin("p").rebalance };
        let left = |name: &str, stopped: usize| {
            tracker.reserve(&key(name), stopped, &rebalance, &index).left_in_cluster
        };
        // Two of `before` are stopped when this replica begins to lead; `one` reserves two, as many as it may stop at once.
        assert_eq!(left("one", 0), 3);
        assert_eq!(left("two", 0), 1);
        assert_eq!(left("three", 0), 0, "two, two and one are reserved");
        // One is stopped, and no more are about to be.
        tracker.set(&key("one"), 1);
        assert_eq!(left("three", 0), 1);
        tracker.set(&key("before"), 0);
        assert_eq!(left("two", 1), 2, "one of `one`, and one of `three`, are others");
        tracker.forget(&key("one"));
        assert_eq!(left("three", 0), 3, "`two` has reserved two");
    }
}
