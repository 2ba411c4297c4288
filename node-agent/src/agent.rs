//! The state that the agent's tasks share.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crds::{NodeTopology, NodeTopologySpec, labels};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        reflector::{Store, store, store::Writer},
        watcher,
    },
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tracing::info;

use crate::{
    allocations::Allocations,
    hardware::reading::DeviceReading,
    metrics::Metrics,
    perf,
    roster::{NodeMeta, Roster},
    source::{Drivers, Release, Source},
};

/// The polling interval of a source. A change must be observed twice, so it is published within 2 s.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum age of the last completed probe. The timeouts of hwloc and all drivers add up to a quarter of it.
pub(crate) const STALE_AFTER: Duration = Duration::from_mins(1);

/// The maximum number of concurrent publications.
pub(crate) const MAX_CONCURRENT: u16 = 8;

/// The timeout of device readings in a scrape. Prometheus itself times out after 10 s.
pub(crate) const READINGS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the agent waits for the Node's label before it loads drivers. Without an API server the label stays
/// unknown.
pub(crate) const LABEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A scrape that requests device readings.
pub(crate) type ReadingsRequest = oneshot::Sender<Vec<DeviceReading>>;

/// The published NodeTopology of the agent's own node; `None` if there is none.
pub(crate) type PublishedSpec = Option<NodeTopologySpec>;

/// The state that the agent's tasks share.
#[derive(Debug)]
pub struct Agent {
    /// The served nodes.
    pub roster: Roster,
    /// Metrics.
    pub metrics: Metrics,
    /// Notified when a description or a Node is added or removed.
    pub nodes_changed: Notify,
    /// Allocations of the agent's own node.
    pub allocations: Allocations,
    /// CPU counters of actors' pods, if enabled.
    pub perf: Option<perf::shared::SharedPerf>,
    pub(crate) requests: mpsc::Sender<ReadingsRequest>,
    pub(crate) nodes_known: AtomicBool,
    /// When the last probe of the source completed, whatever its result.
    pub(crate) last_probed: Mutex<Instant>,
    pub(crate) topologies: Api<NodeTopology>,
    pub(crate) cache: Store<NodeTopology>,
    /// The selector of the watched Nodes and NodeTopologies.
    pub(crate) watched: watcher::Config,
    /// The agent's own node if it serves only that one.
    pub(crate) own: Option<String>,
    pub(crate) published: mpsc::UnboundedSender<PublishedSpec>,
    /// Whether the source has received the published topology. Before that, a lost device would be dropped.
    pub(crate) is_restored: watch::Sender<bool>,
    /// Whether the label of the own node permits drivers; `None` while unknown.
    pub(crate) drivers: watch::Sender<Option<Drivers>>,
    /// Whether the source has applied `drivers`. Before that, the topology lacks the data of drivers.
    pub(crate) drivers_applied: watch::Sender<bool>,
    pub(crate) release: Mutex<Option<Release>>,
    pub(crate) outdated: watch::Sender<Option<String>>,
}

/// The writers of the caches, used by the watches.
pub struct Caches {
    pub(crate) nodes: Writer<NodeMeta>,
    pub(crate) topologies: Writer<NodeTopology>,
    pub(crate) requests: mpsc::Receiver<ReadingsRequest>,
    pub(crate) published: mpsc::UnboundedReceiver<PublishedSpec>,
}

#[cfg(test)]
impl Caches {
    /// The requests for device readings, for tests that respond to them.
    pub fn into_requests(self) -> mpsc::Receiver<ReadingsRequest> {
        self.requests
    }
}

impl Agent {
    /// An agent without nodes; `only` restricts it to one node.
    ///
    /// In a cluster of a thousand nodes, agents that watch all Nodes would cache a million objects.
    pub fn new(
        client: Client,
        metrics: Metrics,
        allocations: Allocations,
        perf: Option<perf::shared::SharedPerf>,
        only: Option<&str>,
    ) -> (Arc<Self>, Caches) {
        let all = watcher::Config::default();
        let watched = only.map_or(all.clone(), |node| all.fields(&format!("metadata.name={node}")));
        let (nodes, nodes_writer) = store();
        let (cache, topologies_writer) = store();
        let (requests, requests_receiver) = mpsc::channel(16);
        let (published, published_receiver) = mpsc::unbounded_channel();
        let agent = Self {
            roster: Roster::new(nodes),
            metrics,
            nodes_changed: Notify::new(),
            allocations,
            perf,
            requests,
            nodes_known: AtomicBool::new(false),
            last_probed: Mutex::new(Instant::now()),
            topologies: Api::all(client),
            cache,
            watched,
            own: only.map(ToOwned::to_owned),
            published,
            is_restored: watch::Sender::new(only.is_none()),
            drivers: watch::Sender::new(None),
            drivers_applied: watch::Sender::new(only.is_none()),
            release: Mutex::default(),
            outdated: watch::Sender::new(None),
        };
        let caches = Caches {
            nodes: nodes_writer,
            topologies: topologies_writer,
            requests: requests_receiver,
            published: published_receiver,
        };
        (Arc::new(agent), caches)
    }

    /// Whether each described node was published once, or waits for its Node. An own node must have been read first.
    pub fn is_ready(&self) -> bool {
        let is_read = self.own.as_ref().is_none_or(|own| self.roster.topologies().contains_key(own));
        is_read && self.nodes_known.load(Ordering::Relaxed) && self.roster.is_ready()
    }

    /// The age of the last completed probe if it exceeds [`STALE_AFTER`]. The agent then fails its liveness probe and
    /// renews no Lease.
    pub fn probe_overdue(&self) -> Option<Duration> {
        let since = self.last_probe().elapsed();
        (since > STALE_AFTER).then_some(since)
    }

    /// Records a completed probe.
    pub fn record_probe(&self) {
        *self.last_probe() = Instant::now();
        self.metrics.set_last_probe();
    }

    pub(crate) fn last_probe(&self) -> MutexGuard<'_, Instant> {
        self.last_probed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current device readings; empty after a timeout, which is counted.
    pub async fn readings(&self) -> Vec<DeviceReading> {
        let query = async {
            let (request, response) = oneshot::channel();
            self.requests.send(request).await.ok()?;
            response.await.ok()
        };
        let response = timeout(READINGS_TIMEOUT, query).await;
        if response.is_err() {
            self.metrics.count_collect_error("nvml", "timeout");
        }
        response.ok().flatten().unwrap_or_default()
    }

    /// Sends the published topology of the own node to the source. Nothing is published before the source received it.
    pub(crate) fn send_published(&self, published: PublishedSpec) {
        self.is_restored.send_replace(false);
        // The receiver is dropped when the agent stops.
        let _ = self.published.send(published);
    }

    /// Waits until the agent has to restart to load a replaced driver library, and returns why.
    pub async fn outdated(&self) -> String {
        let mut outdated = self.outdated.subscribe();
        match outdated.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            // The agent itself holds the sender.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Sets whether the label of the Node permits drivers.
    pub(crate) fn set_drivers(&self, node: Option<&NodeMeta>) {
        let is_released = node.is_some_and(|node| labels::releases_drivers(node.labels()));
        let now = Some(if is_released { Drivers::Released } else { Drivers::Used });
        self.drivers.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// The state of the driver release of this node; `None` if it is not requested.
    pub(crate) fn release(&self, node: &str) -> Option<Release> {
        let release = self.release.lock().unwrap_or_else(PoisonError::into_inner);
        release.clone().filter(|_| self.own.as_deref() == Some(node))
    }

    /// Records the state of the driver release, and returns whether it changed.
    pub(crate) fn set_release(&self, now: Option<Release>) -> bool {
        let mut release = self.release.lock().unwrap_or_else(PoisonError::into_inner);
        if *release == now {
            return false;
        }
        match &now {
            Some(Release::Done) => info!("released the GPU drivers"),
            Some(Release::Waits(why)) => info!("waiting to release the GPU drivers: {why}"),
            None => info!("GPU drivers may be loaded again"),
        }
        *release = now;
        true
    }

    /// Logs each described node without a Node once.
    pub(crate) fn log_waiting_nodes(&self) {
        if self.nodes_known.load(Ordering::Relaxed) {
            for node in self.roster.newly_waiting() {
                info!(node, "no Node of this name exists; its topology is published once it is created");
            }
        }
    }
}

/// Calls the source on a thread that may block.
pub(crate) async fn with_source<T: Send + 'static>(
    mut source: Box<dyn Source>,
    call: impl FnOnce(&mut dyn Source) -> T + Send + 'static,
) -> (Box<dyn Source>, T) {
    let task = tokio::task::spawn_blocking(move || {
        let result = call(source.as_mut());
        (source, result)
    });
    task.await.expect("a source does not panic, and its task is not aborted")
}
