//! The Lease of each served node. Its renewal signals that the node's agent is alive and its probes complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference},
};
use kube::{
    Api,
    api::{ObjectMeta, Patch},
};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use crate::{
    agent::Agent,
    failure::{Failure, in_time},
    publish::{apply, owner},
};

/// The maximum number of concurrent renewals.
const MAX_CONCURRENT: usize = 8;
/// The minimum interval of log lines about failed renewals, as an outage affects all nodes at once.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How often an agent without completed probes checks whether one has completed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Lease parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the Leases.
    pub namespace: String,
    /// The duration in seconds.
    pub seconds: i32,
    /// The renewal interval.
    pub renew_every: Duration,
}

/// A node whose Lease is renewed.
struct Holder {
    node: String,
    owner: Option<OwnerReference>,
    api: Api<Lease>,
    settings: Settings,
    slots: Arc<Semaphore>,
    failing: Arc<Failing>,
    agent: Arc<Agent>,
}

/// The nodes whose last renewal failed.
#[derive(Debug, Default)]
struct Failing(Mutex<(BTreeSet<String>, Option<Instant>)>);

/// Renews the Lease of each described node whose Node exists. Never returns.
pub async fn run(api: Api<Lease>, settings: Settings, agent: Arc<Agent>) -> Infallible {
    let (slots, failing) = (Arc::new(Semaphore::new(MAX_CONCURRENT)), Arc::new(Failing::default()));
    let mut tasks = JoinSet::new();
    let mut running = BTreeMap::<String, (String, AbortHandle)>::new();
    loop {
        let alive = agent.roster.alive();
        running.retain(|node, (uid, task)| {
            let stays = alive.get(node) == Some(uid);
            if !stays {
                task.abort();
                failing.end(node);
                info!(node, "stopped renewing the Lease");
            }
            stays
        });
        let new: Vec<_> = alive.into_iter().filter(|(node, _)| !running.contains_key(node)).collect();
        let now = Instant::now();
        let spacing = spacing(settings.renew_every, new.len());
        for ((node, uid), first) in new.into_iter().zip((0..).map(|nth| now + spacing * nth)) {
            let holder = Holder {
                node: node.clone(),
                owner: Some(owner(&node, &uid)),
                api: api.clone(),
                settings: settings.clone(),
                slots: Arc::clone(&slots),
                failing: Arc::clone(&failing),
                agent: Arc::clone(&agent),
            };
            running.insert(node, (uid, tasks.spawn(holder.run(first))));
        }
        while tasks.try_join_next().is_some() {}
        agent.nodes_changed.notified().await;
    }
}

impl Holder {
    /// Renews at `first`, then at the node's own offset within each period. Never returns.
    async fn run(self, first: Instant) -> Infallible {
        let since = Timestamp::now();
        let mut next = first;
        let mut wait = first_wait(&self.node, self.settings.renew_every);
        let mut failures = 0;
        loop {
            sleep_until(next).await;
            if let Some(since) = self.agent.probe_overdue() {
                self.failing.log_overdue(&self.node, since);
                next = Instant::now() + RECHECK_INTERVAL;
                continue;
            }
            match self.renew(since).await {
                Ok(()) => {
                    self.failing.end(&self.node);
                    failures = 0;
                    self.agent.metrics.lease_renewals.inc();
                    next = (next + wait).max(Instant::now());
                    wait = self.settings.renew_every;
                }
                Err(failure) => {
                    failures += 1;
                    self.agent.metrics.count_lease_error(failure.reason());
                    self.failing.begin(&self.node, &self.settings.namespace, &failure);
                    let delay = failure.retry_after(failures).min(self.settings.renew_every / 2);
                    next = Instant::now() + delay;
                }
            }
        }
    }

    async fn renew(&self, since: Timestamp) -> Result<(), Failure> {
        let _slot = self.slots.acquire().await.expect("the semaphore is never closed");
        let lease = lease(&self.node, self.owner.as_ref(), &self.settings, since, Timestamp::now());
        let name = lease.metadata.name.as_deref().expect("`lease` sets the name");
        in_time(self.api.patch(name, &apply(), &Patch::Apply(&lease))).await?;
        Ok(())
    }
}

impl Failing {
    fn begin(&self, node: &str, namespace: &str, failure: &Failure) {
        let (nodes, last_logged) = &mut *self.0.lock().expect("no task panics while it holds this");
        nodes.insert(node.to_owned());
        if last_logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            *last_logged = Some(Instant::now());
            warn!(node, failing = nodes.len(), "cannot renew Leases in {namespace}: {failure}");
        }
    }

    /// Logs that the node's Lease is not renewed, as no probe has completed for too long.
    fn log_overdue(&self, node: &str, since: Duration) {
        let (nodes, last_logged) = &mut *self.0.lock().expect("no task panics while it holds this");
        nodes.insert(node.to_owned());
        if last_logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            *last_logged = Some(Instant::now());
            warn!(node, "no probe has completed for {} s; the Lease is not renewed", since.as_secs());
        }
    }

    fn end(&self, node: &str) {
        let (nodes, last_logged) = &mut *self.0.lock().expect("no task panics while it holds this");
        if nodes.remove(node) && nodes.is_empty() {
            *last_logged = None;
            info!("all Leases are renewed again");
        }
    }
}

/// The spacing of the first renewals of `nodes` nodes that are added together.
fn spacing(renew_every: Duration, nodes: usize) -> Duration {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
    Duration::from_millis(20).min(renew_every / nodes)
}

/// The delay between the first and second renewal of a node: between half a period and a whole one.
///
/// It differs by node, which spreads the renewals of nodes that were added together.
fn first_wait(node: &str, renew_every: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 500).expect("below 500");
    renew_every * (500 + share) / 1000
}

/// The Lease of `node`, renewed at `now`.
///
/// It is deleted with its owner, the Node, and with its namespace when the chart is uninstalled.
fn lease(
    node: &str,
    owner: Option<&OwnerReference>,
    settings: &Settings,
    since: Timestamp,
    now: Timestamp,
) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(format!("cairn-agent-{node}")),
            namespace: Some(settings.namespace.clone()),
            owner_references: owner.map(|owner| vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(settings.seconds),
            acquire_time: Some(MicroTime(since)),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Response};
    use tokio::time::timeout;
    use tower_test::mock;

    use super::*;
    use crate::{allocations::Allocations, metrics::Metrics};

    const PERIOD: Duration = Duration::from_secs(20);

    #[test]
    fn a_lease_names_its_holder_and_time() {
        let settings = Settings { namespace: "cairn-agents".into(), seconds: 60, renew_every: PERIOD };
        let since = Timestamp::UNIX_EPOCH;
        let now = since + Duration::from_millis(90_500);
        let lease = lease("node-a", Some(&owner("node-a", "uid-1")), &settings, since, now);
        insta::assert_snapshot!(serde_json::to_string_pretty(&lease).unwrap());
    }

    #[test]
    fn two_hundred_nodes_are_spread_over_the_period() {
        assert_eq!(spacing(PERIOD, 1), Duration::from_millis(20));
        assert_eq!(spacing(PERIOD, 200) * 200, Duration::from_secs(4));
        assert_eq!(spacing(PERIOD, 4000) * 4000, PERIOD);
        let waits: Vec<_> = (0..200).map(|n| first_wait(&format!("node-{n}"), PERIOD)).collect();
        assert!(waits.iter().all(|wait| (PERIOD / 2..PERIOD).contains(wait)));
        for second in 10..20 {
            let in_second = waits.iter().filter(|wait| wait.as_secs() == second).count();
            assert!((5..40).contains(&in_second), "{in_second} of 200 in second {second}");
        }
    }
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_only_while_probes_complete() {
        let (service, mut server) = mock::pair::<Request<kube::client::Body>, Response<kube::client::Body>>();
        let client = kube::Client::new(service, "default");
        let metrics = Metrics::new().unwrap();
        let (agent, _caches) = Agent::new(client.clone(), metrics, Allocations::new(None), None, None);
        let holder = Holder {
            node: "node-a".into(),
            owner: None,
            api: Api::namespaced(client, "cairn-system"),
            settings: Settings { namespace: "cairn-system".into(), seconds: 60, renew_every: PERIOD },
            slots: Arc::new(Semaphore::new(1)),
            failing: Arc::default(),
            agent: Arc::clone(&agent),
        };
        tokio::time::advance(Duration::from_secs(61)).await;
        let task = tokio::spawn(holder.run(Instant::now()));
        let nothing = timeout(Duration::from_mins(3), server.next_request()).await;
        assert!(nothing.is_err(), "no probe completed for too long");
        agent.record_probe();
        let (request, _) = timeout(Duration::from_mins(1), server.next_request()).await.unwrap().unwrap();
        assert_eq!(request.method(), "PATCH");
        assert!(request.uri().path().ends_with("/leases/cairn-agent-node-a"), "{}", request.uri());
        task.abort();
    }
}
