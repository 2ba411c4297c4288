//! The events that the agent reacts to: changes of Nodes, of NodeTopologies, and of the source's descriptions.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use crds::{NodeTopology, labels};
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::warn;

use crate::agent::{Agent, Held, LABEL_KNOWN_WITHIN, LOOK_EVERY, Question, ask};
use crate::{
    failure::watch_words,
    problems::Problems,
    roster::{NodeMeta, Task},
    source::{Drivers, Reading, Source},
};

/// The names of the nodes affected by changes of Nodes.
pub(crate) fn node_events(
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
                labels.retain(|label, _| labels::is_about_drivers(label));
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
                agent.log_waiting_nodes();
                Vec::new()
            }
            Event::InitDone => {
                agent.nodes_known.store(true, Ordering::Relaxed);
                let own = agent.own.as_ref().map(|own| ObjectRef::new(own));
                let own = own.and_then(|own| agent.roster.nodes().get(&own));
                agent.tell_drivers(own.as_deref());
                agent.log_waiting_nodes();
                agent.roster.names()
            }
            Event::Init | Event::InitApply(_) => return Vec::new(),
        };
        agent.nodes_changed.notify_one();
        names
    })
}

/// The names of the nodes whose NodeTopology changed or was deleted, or may have been during a gap of the watch.
pub(crate) fn topology_events(
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
pub(crate) fn descriptions(
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
            agent.has_probed();
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
                agent.log_waiting_nodes();
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
