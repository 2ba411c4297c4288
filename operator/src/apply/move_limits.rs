//! How many actors of all applications are stopped for a gain, and evictions that are refused.

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
    /// Since when the eviction of an actor is refused, and why.
    not_evicted: BTreeMap<(ApplicationKey, String), (Moment, String)>,
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
        tracked.not_evicted.entry((key.clone(), actor.to_owned())).or_insert_with(|| (now, why.to_owned()));
    }

    /// Refused evictions of an application; those of actors that are not `wanted` to be evicted any more are forgotten.
    pub fn not_evicted(
        &self,
        key: &ApplicationKey,
        is_wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, (Moment, String)> {
        let mut tracked = self.tracked();
        tracked.not_evicted.retain(|(of, actor), _| of != key || is_wanted(actor));
        let own = tracked.not_evicted.iter().filter(|((of, _), _)| of == key);
        own.map(|((_, actor), refused)| (actor.clone(), refused.clone())).collect()
    }

    /// Forgets an application.
    pub fn forget(&self, key: &ApplicationKey) {
        let mut tracked = self.tracked();
        tracked.stopped.remove(key);
        tracked.not_evicted.retain(|(of, _), _| of != key);
    }
}
