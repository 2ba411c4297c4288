//! Time-based changes: expired agent leases, and units whose grace period ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{Heartbeats, Moment};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus::{IntCounter, IntCounterVec};
use tokio::sync::watch;

use crate::config::Planning;
use crate::runtime::clock::{from_wall_clock, moment, steady_now};
use crate::watch::caches::Caches;
use crate::watch::watches::Feed;

/// Check interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Prefix of the name of an agent's Lease, followed by the node.
const LEASE_OF: &str = "cairn-agent-";

/// Heartbeats of the agents, by node.
#[derive(Clone, Default)]
struct Agents(Arc<Mutex<Heartbeats<String>>>);

/// Signals when the agents' Leases are synced.
pub struct AgentLeases {
    agents: Agents,
    /// Whether all Leases were listed once.
    listed: watch::Receiver<bool>,
}

/// The periodic check, and the watch of the agents' Leases if their namespace is known; both must be run.
pub fn start(
    (client, errors): (&Client, &IntCounterVec),
    caches: &Arc<Caches>,
    planning: &Planning,
) -> (AgentLeases, Vec<Feed>) {
    caches.change(|index| {
        index.set_grace_period(planning.unit_grace());
        if planning.extended_resource_toleration {
            index.tolerate_extended_resources();
        }
    });
    let agents = Agents::default();
    // Sets the clock first: without it a lost unit would count as lost since 1970.
    agents.update(caches);
    let (synced, listed) = watch::channel(planning.agent_namespace.is_none());
    let mut feeds: Vec<Feed> = Vec::new();
    if let Some(namespace) = planning.agent_namespace.clone() {
        feeds.push(
            agents
                .clone()
                .watch(client.clone(), namespace, synced, errors.with_label_values(&["Lease"]))
                .boxed(),
        );
    }
    let (updated, caches) = (agents.clone(), caches.clone());
    feeds.push(Box::pin(async move {
        loop {
            updated.update(&caches);
            tokio::time::sleep(INTERVAL).await;
        }
    }));
    (AgentLeases { agents, listed }, feeds)
}

impl AgentLeases {
    /// Returns once expired Leases are known; nothing is planned before.
    pub async fn synced(mut self, caches: &Caches) {
        // Without Leases the channel is already set. If the watch ends, so does the process.
        if self.listed.wait_for(|listed| *listed).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.agents.update(caches);
    }
}

impl Agents {
    fn heartbeats(&self) -> MutexGuard<'_, Heartbeats<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the agents' Leases; ends only with the process.
    async fn watch(self, client: Client, namespace: String, listed: watch::Sender<bool>, errors: IntCounter) {
        let leases = Api::<Lease>::namespaced(client, &namespace);
        let mut known = BTreeSet::new();
        let mut events = watcher(leases, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(lease)) => drop(self.record(&lease)),
                Ok(watcher::Event::Delete(lease)) => {
                    if let Some(node) = node_of(&lease) {
                        self.heartbeats().forget(&node);
                    }
                }
                Ok(watcher::Event::Init) => known.clear(),
                Ok(watcher::Event::InitApply(lease)) => known.extend(self.record(&lease)),
                Ok(watcher::Event::InitDone) => {
                    self.heartbeats().retain(&known);
                    listed.send_replace(true);
                }
                Err(e) => {
                    errors.inc();
                    // Without permission or namespace every agent counts as alive.
                    if is_denied(&e) {
                        listed.send_replace(true);
                    }
                    tracing::warn!(namespace, error = %e, "failed to watch the agents' Leases; retrying");
                }
            }
        }
    }

    /// Records a Lease; returns its node.
    fn record(&self, lease: &Lease) -> Option<String> {
        let (node, (written, lasts)) = (node_of(lease)?, renewed(lease)?);
        self.heartbeats().record(node.clone(), written, lasts, moment());
        Some(node)
    }

    /// Advances the time of the caches.
    fn update(&self, caches: &Caches) {
        let silent = self.heartbeats().expired(moment());
        caches.advance_time(steady_now(), &silent);
    }
}

/// Whether the API server answered that the Leases cannot be read.
fn is_denied(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => matches!(status.code, 403 | 404),
        _ => false,
    }
}

fn node_of(lease: &Lease) -> Option<String> {
    lease.name_any().strip_prefix(LEASE_OF).map(str::to_owned)
}

/// When a Lease was renewed, and its duration; nothing if it has no holder.
fn renewed(lease: &Lease) -> Option<(Moment, Duration)> {
    let spec = lease.spec.as_ref()?;
    let at = spec.renew_time.as_ref()?.0.as_duration().try_into().ok()?;
    let seconds = u64::try_from(spec.lease_duration_seconds?).ok()?;
    Some((from_wall_clock(at), Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(name: &str, spec: &serde_json::Value) -> Lease {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_lease_names_its_node_and_expiry() {
        let whole = json!({"renewTime": "2026-01-01T00:00:00.500000Z", "leaseDurationSeconds": 60});
        let of_one = lease("cairn-agent-one", &whole);
        assert_eq!(node_of(&of_one).as_deref(), Some("one"));
        let (_, lasts) = renewed(&of_one).unwrap();
        assert_eq!(lasts, Duration::from_mins(1));
        assert_eq!(node_of(&lease("another-lease", &whole)), None);
        for unclear in [
            json!({}),
            json!({"renewTime": "2026-01-01T00:00:00.500000Z"}),
            json!({"leaseDurationSeconds": 60}),
            json!({"renewTime": "2026-01-01T00:00:00.500000Z", "leaseDurationSeconds": -1}),
        ] {
            assert_eq!(renewed(&lease("cairn-agent-one", &unclear)), None, "{unclear}");
        }
        let agents = Agents::default();
        assert_eq!(agents.record(&of_one).as_deref(), Some("one"));
        assert_eq!(
            agents.heartbeats().expired(moment()),
            ["one".to_owned()].into(),
            "it was renewed long ago"
        );
    }
}
