//! The agent's loop: reads descriptions, Nodes and NodeTopologies, and writes the differences.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crds::{NodeTopology, NodeTopologySpec, labels};
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ObjectMeta,
    runtime::{
        WatchStreamExt,
        controller::{self, Action, applier},
        reflector::{ObjectRef, Store, store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{debug, error, info, warn};

use crate::{
    allocations::Allocations,
    failure::{Failure, watch_words},
    hardware::reading::DeviceReading,
    metrics::Metrics,
    perf,
    problems::Problems,
    publish::{Outcome, Wanted, publish},
    roster::{NodeMeta, Roster, Task},
    source::{Drivers, Reading, Release, Source},
};

/// The polling interval of a source; a change must be seen twice, so it is published within 2 s.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The maximum age of the last completed probe; hwloc and all drivers together have a quarter of it.
const STALE_AFTER: Duration = Duration::from_mins(1);

/// The maximum number of concurrent publications.
const AT_ONCE: u16 = 8;

/// The time-out of a scrape for device readings; Prometheus itself gives up after 10 s.
const READINGS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long drivers are not loaded after the start while the Node's label is unknown: without an API server it never
/// becomes known.
const LABEL_KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// A scrape that requests device readings.
type Question = oneshot::Sender<Vec<DeviceReading>>;

/// The NodeTopology of the agent's own node in the cluster; `None` if there is none.
type Held = Option<NodeTopologySpec>;

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
    questions: mpsc::Sender<Question>,
    nodes_known: AtomicBool,
    /// When the last probe of the source completed, whatever its result.
    looked: Mutex<Instant>,
    topologies: Api<NodeTopology>,
    cache: Store<NodeTopology>,
    /// The Nodes and NodeTopologies that are watched.
    watched: watcher::Config,
    /// The only node that it serves, if there is one.
    own: Option<String>,
    held: mpsc::UnboundedSender<Held>,
    /// Whether the source knows the published topology: before that, a lost device would be dropped instead of reported.
    heard: watch::Sender<bool>,
    /// Whether the label of the only node permits drivers, once known.
    drivers: watch::Sender<Option<Drivers>>,
    /// Whether the source knows that: before that, the topology would lack what drivers report.
    uses_drivers: watch::Sender<bool>,
    release: Mutex<Option<Release>>,
    outdated: watch::Sender<Option<String>>,
}

/// The writers of the caches, used by the watches.
pub struct Caches {
    nodes: Writer<NodeMeta>,
    topologies: Writer<NodeTopology>,
    questions: mpsc::Receiver<Question>,
    held: mpsc::UnboundedReceiver<Held>,
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
        let (held, told) = mpsc::unbounded_channel();
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
        let caches =
            Caches { nodes: nodes_writer, topologies: topologies_writer, questions: asked, held: told };
        (Arc::new(agent), caches)
    }

    /// Whether each described node was published once, or waits for its Node; the only one must have been read first.
    pub fn is_ready(&self) -> bool {
        let is_seen = self.own.as_ref().is_none_or(|own| self.roster.topologies().contains_key(own));
        is_seen && self.nodes_known.load(Ordering::Relaxed) && self.roster.is_ready()
    }

    /// The age of the last completed probe if it is too old: the agent is blind then, and must not report otherwise.
    pub fn blind(&self) -> Option<Duration> {
        let since = self.looked().elapsed();
        (since > STALE_AFTER).then_some(since)
    }

    /// Records a completed probe.
    pub fn has_looked(&self) {
        *self.looked() = Instant::now();
        self.metrics.set_last_look();
    }

    fn looked(&self) -> MutexGuard<'_, Instant> {
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
    fn tell(&self, held: Held) {
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
    fn tell_drivers(&self, node: Option<&NodeMeta>) {
        let is_released = node.is_some_and(|node| {
            node.labels().get(labels::GPU_DRIVER).is_some_and(|value| value == labels::RELEASED)
        });
        let now = Some(if is_released { Drivers::Released } else { Drivers::Used });
        self.drivers.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// The state of the driver release of this node; `None` if it was not requested.
    fn release(&self, node: &str) -> Option<Release> {
        let release = self.release.lock().unwrap_or_else(PoisonError::into_inner);
        release.clone().filter(|_| self.own.as_deref() == Some(node))
    }

    /// Records that state, and returns whether it changed.
    fn note_release(&self, now: Option<Release>) -> bool {
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
    fn say_who_waits(&self) {
        if self.nodes_known.load(Ordering::Relaxed) {
            for node in self.roster.newly_waiting() {
                info!(node, "there is no Node of this name; its topology is published when there is one");
            }
        }
    }
}

/// Publishes what `source` reads, and keeps it published. Never returns.
///
/// `problems` are those of the first reading, which the roster already has.
pub async fn run(
    client: Client,
    agent: Arc<Agent>,
    caches: Caches,
    source: Box<dyn Source>,
    problems: Problems,
) -> Infallible {
    let names = stream::select_all([
        node_events(client.clone(), caches.nodes, Arc::clone(&agent)).boxed(),
        topology_events(client, caches.topologies, Arc::clone(&agent)).boxed(),
        descriptions(source, problems, caches.questions, caches.held, Arc::clone(&agent)).boxed(),
        agent.allocations.changes().boxed(),
    ]);
    let queue =
        names.flat_map(stream::iter).map(|name| Ok::<_, Infallible>(ObjectRef::<NodeMeta>::new(&name)));
    let nodes = agent.roster.nodes();
    let config = controller::Config::default().concurrency(AT_ONCE);
    let reconcile = |node, agent| Box::pin(reconcile(node, agent));
    let retry = |node: Arc<NodeMeta>, failure: &Failure, agent: Arc<Agent>| retry(&node, failure, &agent);
    let published = applier(reconcile, retry, agent, nodes, queue, config);
    published
        .for_each(|outcome| async move {
            // A described node without a Node is not found here: it waits. Failures are logged by `retry`.
            if let Err(error @ (controller::Error::QueueError(_) | controller::Error::RunnerError(_))) =
                outcome
            {
                error!("the queue of nodes is broken: {error}");
            }
        })
        .await;
    unreachable!("the watches of Nodes and NodeTopologies never end")
}

/// Publishes one node whose Node exists.
async fn reconcile(node: Arc<NodeMeta>, agent: Arc<Agent>) -> Result<Action, Failure> {
    let name = node.name_any();
    if agent.cache.wait_until_ready().await.is_err() {
        return Ok(Action::await_change()); // the agent is stopping
    }
    for knows in [&agent.heard, &agent.uses_drivers] {
        if knows.subscribe().wait_for(|knows| *knows).await.is_err() {
            return Ok(Action::await_change()); // the agent is stopping
        }
    }
    let (Task::Publish(spec), Some(uid)) = (agent.roster.task(&name), node.uid()) else {
        return Ok(Action::await_change());
    };
    let allocations = agent.allocations.of(&name);
    let allocations = allocations.as_ref().map(|known| known.list.as_slice());
    let release = agent.release(&name);
    let release = release.as_ref();
    let wanted = Wanted { node: &name, uid: &uid, spec: spec.as_deref(), allocations, release };
    let cached = agent.cache.get(&ObjectRef::new(&name));
    if cached.is_some_and(|cached| wanted.is_held_by(&cached)) {
        agent.roster.published(&name, &uid, spec.as_ref(), false);
        return Ok(Action::await_change());
    }
    if let Some(patience) = agent.roster.patience(&name, &uid) {
        return Ok(Action::requeue(patience));
    }
    let outcome = publish(&agent.topologies, wanted).await?;
    agent.roster.published(&name, &uid, spec.as_ref(), outcome == Outcome::Written);
    match outcome {
        Outcome::Written => {
            let devices =
                spec.map_or_else(|| "none, it is not described any more".into(), |spec| spec.summary());
            info!(node = name, devices, "published its topology");
        }
        Outcome::Unchanged => debug!(node = name, "its topology is published already"),
    }
    Ok(Action::await_change())
}

fn retry(node: &NodeMeta, failure: &Failure, agent: &Agent) -> Action {
    let name = node.name_any();
    let failures = agent.roster.failed(&name);
    agent.metrics.count_publish_error(failure.reason());
    let again = failure.retry_after(failures);
    warn!(node = name, failures, "cannot publish its topology, next attempt in {again:?}: {failure}");
    Action::requeue(again)
}

/// The names of the nodes affected by changes of Nodes.
fn node_events(
    client: Client,
    writer: Writer<NodeMeta>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let events = watcher(Api::<NodeMeta>::all(client), agent.watched.clone())
        .default_backoff()
        // Only the identity and one label are kept of the Nodes of a large cluster.
        .modify(|node: &mut NodeMeta| {
            let all = std::mem::take(&mut node.metadata);
            let ObjectMeta { name, uid, resource_version, mut labels, .. } = all;
            if let Some(labels) = &mut labels {
                labels.retain(|label, _| label == labels::GPU_DRIVER);
            }
            node.metadata = ObjectMeta { name, uid, resource_version, labels, ..ObjectMeta::default() };
        })
        .reflect(writer);
    log_errors(events, "nodes").map(move |event| {
        let names = match event {
            Event::Apply(node) => {
                let name = node.name_any();
                agent.roster.appeared(&name);
                agent.tell_drivers(Some(&node));
                vec![name]
            }
            Event::Delete(_) => {
                agent.say_who_waits();
                Vec::new()
            }
            Event::InitDone => {
                agent.nodes_known.store(true, Ordering::Relaxed);
                let own = agent.own.as_ref().map(|own| ObjectRef::new(own));
                let own = own.and_then(|own| agent.roster.nodes().get(&own));
                agent.tell_drivers(own.as_deref());
                agent.say_who_waits();
                agent.roster.names()
            }
            Event::Init | Event::InitApply(_) => return Vec::new(),
        };
        agent.nodes_changed.notify_one();
        names
    })
}

/// The names of the nodes whose NodeTopology changed or was deleted, or may have been during a gap of the watch.
fn topology_events(
    client: Client,
    writer: Writer<NodeTopology>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let served = Arc::clone(&agent);
    let events = watcher(Api::<NodeTopology>::all(client), agent.watched.clone())
        .default_backoff()
        .modify(move |topology: &mut NodeTopology| {
            topology.metadata.managed_fields = None;
            topology.metadata.annotations = None;
            // Nodes of other agents are ignored; one that is described here later is read again.
            if served.own.is_none() && served.roster.task(&topology.name_any()) == Task::None {
                topology.spec = crds::NodeTopologySpec::default();
                topology.status = None;
            }
        })
        .reflect(writer);
    let mut is_first = true;
    log_errors(events, "nodetopologies.cairn.dev").map(move |event| match event {
        Event::Apply(topology) => vec![topology.name_any()],
        Event::Delete(topology) => {
            if agent.own.is_some() {
                agent.tell(None);
            }
            vec![topology.name_any()]
        }
        Event::InitDone => {
            let held = |own: &String| Some(agent.cache.get(&ObjectRef::new(own))?.spec.clone());
            if let Some(held) = agent.own.as_ref().map(held)
                && (is_first || held.is_none())
            {
                agent.tell(held);
            }
            is_first = false;
            agent.roster.names()
        }
        Event::Init | Event::InitApply(_) => Vec::new(),
    })
}

/// The events of a watch that recovers by itself; each error is logged.
fn log_errors<K: Resource + Send>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    kind: &'static str,
) -> impl Stream<Item = Event<K>> + Send {
    events.filter_map(move |event| async move {
        event
            .inspect_err(|error| warn!("watching {kind} failed, trying again: {}", watch_words(error, kind)))
            .ok()
    })
}

/// The names of the nodes whose description changed, confirmed by a second probe; serves scrapes in between.
fn descriptions(
    source: Box<dyn Source>,
    problems: Problems,
    questions: mpsc::Receiver<Question>,
    held: mpsc::UnboundedReceiver<Held>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let words = Box::pin(words_on_drivers(agent.drivers.subscribe()));
    let state = (source, problems, questions, held, ticks, words);
    stream::unfold(state, move |(mut source, mut problems, mut questions, mut held, mut ticks, mut words)| {
        let agent = Arc::clone(&agent);
        async move {
            let (mut hears, mut knows) = (false, false);
            tokio::select! {
                _ = ticks.tick() => {}
                Some(question) = questions.recv() => {
                    let (source, readings) = ask(source, Source::counters).await;
                    // the scrape may be gone
                    let _ = question.send(readings);
                    return Some((Vec::new(), (source, problems, questions, held, ticks, words)));
                }
                Some(now) = held.recv() => {
                    (source, ()) = ask(source, move |source| source.recall(now.as_ref())).await;
                    hears = true;
                }
                Some(now) = words.next() => {
                    let drivers = now.unwrap_or(Drivers::Used);
                    (source, ()) = ask(source, move |source| source.use_drivers(drivers)).await;
                    knows = now.is_some();
                }
            }
            let began = Instant::now();
            let (source, reading) = ask(source, Source::read).await;
            agent.has_looked();
            problems.note(source.name(), &reading, &agent.metrics);
            if reading.as_ref().is_ok_and(|reading| reading.collectors.is_empty()) {
                agent.metrics.set_collect_duration(source.name(), began.elapsed());
            }
            let Reading { topologies, release, outdated, .. } = reading.unwrap_or_else(|_| Reading {
                topologies: agent.roster.topologies(),
                release: agent.release.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                ..Reading::default()
            });
            let mut changed = agent.roster.describe(&topologies);
            if !changed.is_empty() {
                agent.metrics.count_topology_changes(changed.len());
                agent.nodes_changed.notify_one();
                agent.say_who_waits();
            }
            if agent.note_release(release) {
                changed.extend(agent.own.clone());
            }
            if outdated.is_some() {
                agent.outdated.send_replace(outdated);
            }
            if hears {
                agent.heard.send_replace(held.is_empty());
            }
            if knows {
                agent.uses_drivers.send_replace(true);
            }
            Some((changed, (source, problems, questions, held, ticks, words)))
        }
    })
}

/// Whether drivers may be loaded, initially and on every change; "unknown" if that takes long at
/// the start.
fn words_on_drivers(said: watch::Receiver<Option<Drivers>>) -> impl Stream<Item = Option<Drivers>> + Send {
    stream::unfold((said, true), |(mut said, is_first)| async move {
        if is_first {
            drop(timeout(LABEL_KNOWN_WITHIN, said.wait_for(Option::is_some)).await);
        } else {
            said.changed().await.ok()?;
        }
        let now = *said.borrow_and_update();
        Some((now, (said, false)))
    })
}

/// Reads the source on a thread that may block.
async fn ask<T: Send + 'static>(
    mut source: Box<dyn Source>,
    question: impl FnOnce(&mut dyn Source) -> T + Send + 'static,
) -> (Box<dyn Source>, T) {
    let task = tokio::task::spawn_blocking(move || {
        let answer = question(source.as_mut());
        (source, answer)
    });
    task.await.expect("a source does not panic, and its task is not aborted")
}
