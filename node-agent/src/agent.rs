//! The agent's loop: descriptions, Nodes and NodeTopologies come in, differences go out.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crds::NodeTopology;
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
    sync::{Notify, mpsc, oneshot},
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
    source::Source,
};

/// How often a source is asked; a change counts at the second look, so it is published within 2 s.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many nodes are published at once, at most.
const AT_ONCE: u16 = 8;

/// How long a scrape waits for what devices say; Prometheus gives up after 10 s.
const READINGS_TIMEOUT: Duration = Duration::from_secs(2);

/// A scrape that wants to know what devices say.
type Question = oneshot::Sender<Vec<DeviceReading>>;

/// What the tasks of the agent share.
#[derive(Debug)]
pub struct Agent {
    /// The nodes that are served.
    pub roster: Roster,
    /// What is counted.
    pub metrics: Metrics,
    /// Told when a description or a Node came or went.
    pub nodes_changed: Notify,
    /// Who holds what of the node that the agent runs on.
    pub allocations: Allocations,
    /// What pods of actors there do with the CPUs, where that is wanted.
    pub perf: Option<perf::Shared>,
    questions: mpsc::Sender<Question>,
    nodes_known: AtomicBool,
    topologies: Api<NodeTopology>,
    cache: Store<NodeTopology>,
    /// Of which Nodes and NodeTopologies changes are asked for.
    watched: watcher::Config,
}

/// The ends of the caches into which the watches write.
pub struct Caches {
    nodes: Writer<NodeMeta>,
    topologies: Writer<NodeTopology>,
    questions: mpsc::Receiver<Question>,
}

impl Agent {
    /// An agent that serves nobody yet, and `only` this node if there is one: an agent on each of a thousand nodes that
    /// watched all of them would be a million watched objects.
    pub fn new(
        client: Client,
        metrics: Metrics,
        allocations: Allocations,
        perf: Option<perf::Shared>,
        only: Option<&str>,
    ) -> (Arc<Self>, Caches) {
        let all = watcher::Config::default();
        let watched = only.map_or(all.clone(), |node| all.fields(&format!("metadata.name={node}")));
        let (nodes, nodes_writer) = store();
        let (cache, topologies_writer) = store();
        let (questions, asked) = mpsc::channel(16);
        let agent = Self {
            roster: Roster::new(nodes),
            metrics,
            nodes_changed: Notify::new(),
            allocations,
            perf,
            questions,
            nodes_known: AtomicBool::new(false),
            topologies: Api::all(client),
            cache,
            watched,
        };
        (Arc::new(agent), Caches { nodes: nodes_writer, topologies: topologies_writer, questions: asked })
    }

    /// Whether each described node was published once, or is known to wait for its Node.
    pub fn is_ready(&self) -> bool {
        self.nodes_known.load(Ordering::Relaxed) && self.roster.is_ready()
    }

    /// What the devices say about themselves now; nothing when they take too long, which is counted.
    pub async fn readings(&self) -> Vec<DeviceReading> {
        let ask = async {
            let (question, answer) = oneshot::channel();
            self.questions.send(question).await.ok()?;
            answer.await.ok()
        };
        let answer = timeout(READINGS_TIMEOUT, ask).await;
        if answer.is_err() {
            self.metrics.count_collect_error("devices", "timeout");
        }
        answer.ok().flatten().unwrap_or_default()
    }

    /// Says which described nodes wait for their Node, each once.
    fn say_who_waits(&self) {
        if self.nodes_known.load(Ordering::Relaxed) {
            for node in self.roster.newly_waiting() {
                info!(node, "there is no Node of this name; its topology is published when there is one");
            }
        }
    }
}

/// Publishes what `source` finds, and keeps it published. Ends never.
///
/// `problems` are those of the first reading, which the roster has already.
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
        descriptions(source, problems, caches.questions, Arc::clone(&agent)).boxed(),
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

/// Publishes one node, whose Node exists.
async fn reconcile(node: Arc<NodeMeta>, agent: Arc<Agent>) -> Result<Action, Failure> {
    let name = node.name_any();
    let (Task::Publish(spec), Some(uid)) = (agent.roster.task(&name), node.uid()) else {
        return Ok(Action::await_change());
    };
    if agent.cache.wait_until_ready().await.is_err() {
        return Ok(Action::await_change()); // the agent is stopping
    }
    let allocations = agent.allocations.of(&name);
    let allocations = allocations.as_ref().map(|known| known.list.as_slice());
    let wanted = Wanted { node: &name, uid: &uid, spec: spec.as_deref(), allocations };
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

/// The names of the nodes that a change of Nodes concerns.
fn node_events(
    client: Client,
    writer: Writer<NodeMeta>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let events = watcher(Api::<NodeMeta>::all(client), agent.watched.clone())
        .default_backoff()
        // The identity is all that is used of the Nodes of a large cluster.
        .modify(|node: &mut NodeMeta| {
            let all = std::mem::take(&mut node.metadata);
            let ObjectMeta { name, uid, resource_version, .. } = all;
            node.metadata = ObjectMeta { name, uid, resource_version, ..ObjectMeta::default() };
        })
        .reflect(writer);
    log_errors(events, "nodes").map(move |event| {
        let names = match event {
            Event::Apply(node) => {
                let name = node.name_any();
                agent.roster.appeared(&name);
                vec![name]
            }
            Event::Delete(_) => {
                agent.say_who_waits();
                Vec::new()
            }
            Event::InitDone => {
                agent.nodes_known.store(true, Ordering::Relaxed);
                agent.say_who_waits();
                agent.roster.names()
            }
            Event::Init | Event::InitApply(_) => return Vec::new(),
        };
        agent.nodes_changed.notify_one();
        names
    })
}

/// The names of the nodes whose NodeTopology changed, was deleted, or may have been while nobody watched.
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
            // Other agents' nodes are their business; should one be described here later, it is read again.
            if served.roster.task(&topology.name_any()) == Task::None {
                topology.spec = crds::NodeTopologySpec::default();
                topology.status = None;
            }
        })
        .reflect(writer);
    log_errors(events, "nodetopologies.cairn.dev").map(move |event| match event {
        Event::Apply(topology) | Event::Delete(topology) => vec![topology.name_any()],
        Event::InitDone => agent.roster.names(),
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

/// The names of the nodes whose description changed, from the second look on; answers scrapes in between.
fn descriptions(
    source: Box<dyn Source>,
    problems: Problems,
    questions: mpsc::Receiver<Question>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = (source, problems, questions, ticks);
    stream::unfold(state, move |(source, mut problems, mut questions, mut ticks)| {
        let agent = Arc::clone(&agent);
        async move {
            let question = tokio::select! {
                _ = ticks.tick() => None,
                Some(question) = questions.recv() => Some(question),
            };
            if let Some(question) = question {
                let (source, readings) = ask(source, Source::counters).await;
                // a scrape that is gone wants no answer
                let _ = question.send(readings);
                return Some((Vec::new(), (source, problems, questions, ticks)));
            }
            let began = Instant::now();
            let (source, reading) = ask(source, Source::read).await;
            problems.note(source.name(), &reading, &agent.metrics);
            agent.metrics.set_collect_duration(source.name(), began.elapsed());
            let changed =
                reading.map(|reading| agent.roster.describe(&reading.topologies)).unwrap_or_default();
            if !changed.is_empty() {
                agent.metrics.count_topology_changes(changed.len());
                agent.nodes_changed.notify_one();
                agent.say_who_waits();
            }
            Some((changed, (source, problems, questions, ticks)))
        }
    })
}

/// Asks the source on a thread where it may block.
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
