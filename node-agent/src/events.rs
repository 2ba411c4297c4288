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

use crate::agent::{Agent, LABEL_TIMEOUT, POLL_INTERVAL, PublishedSpec, ReadingsRequest, with_source};
use crate::{
    failure::watch_message,
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
        // To limit memory in large clusters, only the identity and one label of a Node are cached.
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
                agent.set_drivers(Some(&node));
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
                agent.set_drivers(own.as_deref());
                agent.log_waiting_nodes();
                agent.roster.names()
            }
            Event::Init | Event::InitApply(_) => return Vec::new(),
        };
        agent.nodes_changed.notify_one();
        names
    })
}

/// The names of the nodes whose NodeTopology changed or was deleted; after a relist, of all nodes.
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
            // The topologies of other agents' nodes are not needed: a later description triggers another read.
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
                agent.send_published(None);
            }
            vec![topology.name_any()]
        }
        Event::InitDone => {
            let published = |own: &String| Some(agent.cache.get(&ObjectRef::new(own))?.spec.clone());
            if let Some(published) = agent.own.as_ref().map(published)
                && (is_first || published.is_none())
            {
                agent.send_published(published);
            }
            is_first = false;
            agent.roster.names()
        }
        Event::Init | Event::InitApply(_) => Vec::new(),
    })
}

/// The events of a watch that recovers by itself. Errors are logged and dropped.
fn log_errors<K: Resource + Send>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    kind: &'static str,
) -> impl Stream<Item = Event<K>> + Send {
    events.filter_map(move |event| async move {
        event
            .inspect_err(|error| warn!("watching {kind} failed, retrying: {}", watch_message(error, kind)))
            .ok()
    })
}

/// The names of the nodes whose description changed, confirmed by a second probe. Serves scrapes between probes.
pub(crate) fn descriptions(
    source: Box<dyn Source>,
    problems: Problems,
    requests: mpsc::Receiver<ReadingsRequest>,
    specs: mpsc::UnboundedReceiver<PublishedSpec>,
    agent: Arc<Agent>,
) -> impl Stream<Item = Vec<String>> + Send {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let modes = Box::pin(driver_modes(agent.drivers.subscribe()));
    let state = (source, problems, requests, specs, ticks, modes);
    stream::unfold(state, move |(mut source, mut problems, mut requests, mut specs, mut ticks, mut modes)| {
        let agent = Arc::clone(&agent);
        async move {
            let (mut is_restored, mut drivers_applied) = (false, false);
            tokio::select! {
                _ = ticks.tick() => {}
                Some(request) = requests.recv() => {
                    let (source, readings) = with_source(source, Source::counters).await;
                    // The scrape may have timed out.
                    let _ = request.send(readings);
                    return Some((Vec::new(), (source, problems, requests, specs, ticks, modes)));
                }
                Some(now) = specs.recv() => {
                    (source, ()) = with_source(source, move |source| source.recall(now.as_ref())).await;
                    is_restored = true;
                }
                Some(now) = modes.next() => {
                    let wanted = now.unwrap_or(Drivers::Used);
                    (source, ()) = with_source(source, move |source| source.use_drivers(wanted)).await;
                    drivers_applied = now.is_some();
                }
            }
            let began = Instant::now();
            let (source, reading) = with_source(source, Source::read).await;
            agent.record_probe();
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
            if agent.set_release(release) {
                changed.extend(agent.own.clone());
            }
            if outdated.is_some() {
                agent.outdated.send_replace(outdated);
            }
            if is_restored {
                agent.is_restored.send_replace(specs.is_empty());
            }
            if drivers_applied {
                agent.drivers_applied.send_replace(true);
            }
            Some((changed, (source, problems, requests, specs, ticks, modes)))
        }
    })
}

/// Whether drivers may be loaded: initially, and on every change. The first item is `None` after [`LABEL_TIMEOUT`].
fn driver_modes(drivers: watch::Receiver<Option<Drivers>>) -> impl Stream<Item = Option<Drivers>> + Send {
    stream::unfold((drivers, true), |(mut drivers, is_first)| async move {
        if is_first {
            drop(timeout(LABEL_TIMEOUT, drivers.wait_for(Option::is_some)).await);
        } else {
            drivers.changed().await.ok()?;
        }
        let now = *drivers.borrow_and_update();
        Some((now, (drivers, false)))
    })
}
