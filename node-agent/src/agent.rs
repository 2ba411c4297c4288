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

/// The polling interval of a source; a change must be seen twice, so it is published within 2 s.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The maximum age of the last completed probe; hwloc and all drivers together have a quarter of it.
pub(crate) const STALE_AFTER: Duration = Duration::from_mins(1);

/// The maximum number of concurrent publications.
pub(crate) const AT_ONCE: u16 = 8;

/// The time-out of a scrape for device readings; Prometheus itself gives up after 10 s.
pub(crate) const READINGS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long drivers are not loaded after the start while the Node's label is unknown: without an API server it never
/// becomes known.
pub(crate) const LABEL_KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// A scrape that requests device readings.
pub(crate) type Question = oneshot::Sender<Vec<DeviceReading>>;

/// The NodeTopology of the agent's own node in the cluster; `None` if there is none.
pub(crate) type Held = Option<NodeTopologySpec>;

/// The state that the agent's tasks share.
#[derive(Debug)]
pub struct Agent {
    /// The nodes that are served.
    pub roster: Roster,
    /// Metrics.
    pub metrics: Metrics,
    /// Notified when a description or a Node was added or removed.
    pub nodes_changed: Notify,
    /// Allocations of the agent's own node.
    pub allocations: Allocations,
    /// CPU counters of actors' pods, if enabled.
    pub perf: Option<perf::shared::Shared>,
    pub(crate) questions: mpsc::Sender<Question>,
    pub(crate) nodes_known: AtomicBool,
    /// When the last probe of the source completed, whatever its result.
    pub(crate) looked: Mutex<Instant>,
    pub(crate) topologies: Api<NodeTopology>,
    pub(crate) cache: Store<NodeTopology>,
    /// The Nodes and NodeTopologies that are watched.
    pub(crate) watched: watcher::Config,
    /// The only node that it serves, if there is one.
    pub(crate) own: Option<String>,
    pub(crate) held: mpsc::UnboundedSender<Held>,
    /// Whether the source knows the published topology: before that, a lost device would be dropped instead of reported.
    pub(crate) heard: watch::Sender<bool>,
    /// Whether the label of the only node permits drivers, once known.
    pub(crate) drivers: watch::Sender<Option<Drivers>>,
    /// Whether the source knows that: before that, the topology would lack what drivers report.
    pub(crate) uses_drivers: watch::Sender<bool>,
    pub(crate) release: Mutex<Option<Release>>,
    pub(crate) outdated: watch::Sender<Option<String>>,
}

/// The writers of the caches, used by the watches.
pub struct Caches {
    pub(crate) nodes: Writer<NodeMeta>,
    pub(crate) topologies: Writer<NodeTopology>,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) held: mpsc::UnboundedReceiver<Held>,
}

#[cfg(test)]
impl Caches {
    /// Requests of scrapes for device readings, for a test that answers them itself.
    pub fn into_questions(self) -> mpsc::Receiver<Question> {
        self.questions
    }
}

impl Agent {
    /// An agent without nodes; `only` restricts it to one node: an agent on each of a thousand nodes that watched all of them
    /// would hold a million objects.
    pub fn new(
        client: Client,
        metrics: Metrics,
        allocations: Allocations,
        perf: Option<perf::shared::Shared>,
        only: Option<&str>,
    ) -> (Arc<Self>, Caches) {
        let all = watcher::Config::default();
        let watched = only.map_or(all.clone(), |node| all.fields(&format!("metadata.name={node}")));
        let (nodes, nodes_writer) = store();
        let (cache, topologies_writer) = store();
        let (questions, asked) = mpsc::channel(16);
        let (held, held_receiver) = mpsc::unbounded_channel();
        let agent = Self {
            roster: Roster::new(nodes),
            metrics,
            nodes_changed: Notify::new(),
            allocations,
            perf,
            questions,
            nodes_known: AtomicBool::new(false),
            looked: Mutex::new(Instant::now()),
            topologies: Api::all(client),
            cache,
            watched,
            own: only.map(ToOwned::to_owned),
            held,
            heard: watch::Sender::new(only.is_none()),
            drivers: watch::Sender::new(None),
            uses_drivers: watch::Sender::new(only.is_none()),
            release: Mutex::default(),
            outdated: watch::Sender::new(None),
        };
        let caches = Caches {
            nodes: nodes_writer,
            topologies: topologies_writer,
            questions: asked,
            held: held_receiver,
        };
        (Arc::new(agent), caches)
    }

    /// Whether each described node was published once, or waits for its Node; the only one must have been read first.
    pub fn is_ready(&self) -> bool {
        let is_seen = self.own.as_ref().is_none_or(|own| self.roster.topologies().contains_key(own));
        is_seen && self.nodes_known.load(Ordering::Relaxed) && self.roster.is_ready()
    }

    /// The age of the last completed probe if it is too old: the agent is blind then, and must not report otherwise.
    pub fn blind(&self) -> Option<Duration> {
        let since = self.last_probe().elapsed();
        (since > STALE_AFTER).then_some(since)
    }

    /// Records a completed probe.
    pub fn has_probed(&self) {
        *self.last_probe() = Instant::now();
        self.metrics.set_last_probe();
    }

    pub(crate) fn last_probe(&self) -> MutexGuard<'_, Instant> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current device readings; empty after a time-out, which is counted.
    pub async fn readings(&self) -> Vec<DeviceReading> {
        let ask = async {
            let (question, answer) = oneshot::channel();
            self.questions.send(question).await.ok()?;
            answer.await.ok()
        };
        let answer = timeout(READINGS_TIMEOUT, ask).await;
        if answer.is_err() {
            self.metrics.count_collect_error("nvml", "timeout");
        }
        answer.ok().flatten().unwrap_or_default()
    }

    /// Tells the source the published topology of its node; nothing is published before that.
    pub(crate) fn tell(&self, held: Held) {
        self.heard.send_replace(false);
        // the receiver is dropped when the agent stops
        let _ = self.held.send(held);
    }

    /// Waits until a new process could see more than this one, and returns why.
    pub async fn outdated(&self) -> String {
        let mut outdated = self.outdated.subscribe();
        match outdated.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(why)) => why.clone(),
            // the agent itself holds the sender
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Tells the source whether the label of its Node permits drivers.
    pub(crate) fn tell_drivers(&self, node: Option<&NodeMeta>) {
        let is_released = node.is_some_and(|node| labels::releases_drivers(node.labels()));
        let now = Some(if is_released { Drivers::Released } else { Drivers::Used });
        self.drivers.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// The state of the driver release of this node; `None` if it was not requested.
    pub(crate) fn release(&self, node: &str) -> Option<Release> {
        let release = self.release.lock().unwrap_or_else(PoisonError::into_inner);
        release.clone().filter(|_| self.own.as_deref() == Some(node))
    }

    /// Records that state, and returns whether it changed.
    pub(crate) fn note_release(&self, now: Option<Release>) -> bool {
        let mut release = self.release.lock().unwrap_or_else(PoisonError::into_inner);
        if *release == now {
            return false;
        }
        match &now {
            Some(Release::Done) => info!("the drivers of GPUs are released"),
            Some(Release::Waits(why)) => info!("the drivers of GPUs are to be released: {why}"),
            None => info!("the drivers of GPUs are used again"),
        }
        *release = now;
        true
    }

    /// Logs described nodes that wait for their Node, each once.
    pub(crate) fn log_waiting_nodes(&self) {
        if self.nodes_known.load(Ordering::Relaxed) {
            for node in self.roster.newly_waiting() {
                info!(node, "there is no Node of this name; its topology is published when there is one");
            }
        }
    }
}

/// Reads the source on a thread that may block.
pub(crate) async fn ask<T: Send + 'static>(
    mut source: Box<dyn Source>,
    question: impl FnOnce(&mut dyn Source) -> T + Send + 'static,
) -> (Box<dyn Source>, T) {
    let task = tokio::task::spawn_blocking(move || {
        let answer = question(source.as_mut());
        (source, answer)
    });
    task.await.expect("a source does not panic, and its task is not aborted")
}
