//! The agent's controller: publishes the topology of each described node whose Node exists.

use std::{convert::Infallible, sync::Arc};

use futures::{StreamExt, stream};
use kube::{
    Client, ResourceExt,
    runtime::{
        controller::{self, Action, applier},
        reflector::ObjectRef,
    },
};
use tracing::{debug, error, info, warn};

use crate::{
    agent::{Agent, Caches, MAX_CONCURRENT},
    events::{descriptions, node_events, topology_events},
    failure::Failure,
    problems::Problems,
    publish::{DesiredState, Outcome, publish},
    roster::{NodeMeta, Task},
    source::Source,
};

/// Publishes the topologies of `source`, and repairs them after changes by others. Never returns.
///
/// `problems` are those of the first reading, which the roster already contains.
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
        descriptions(source, problems, caches.requests, caches.published, Arc::clone(&agent)).boxed(),
        agent.allocations.changes().boxed(),
    ]);
    let queue =
        names.flat_map(stream::iter).map(|name| Ok::<_, Infallible>(ObjectRef::<NodeMeta>::new(&name)));
    let nodes = agent.roster.nodes();
    let config = controller::Config::default().concurrency(MAX_CONCURRENT);
    let reconcile = |node, agent| Box::pin(reconcile(node, agent));
    let retry = |node: Arc<NodeMeta>, failure: &Failure, agent: Arc<Agent>| retry(&node, failure, &agent);
    let published = applier(reconcile, retry, agent, nodes, queue, config);
    published
        .for_each(|outcome| async move {
            // A described node without a Node is not found here, and waits for it. `retry` logs failures.
            if let Err(error @ (controller::Error::QueueError(_) | controller::Error::RunnerError(_))) =
                outcome
            {
                error!("the workqueue of nodes failed: {error}");
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
    for is_done in [&agent.is_restored, &agent.drivers_applied] {
        if is_done.subscribe().wait_for(|is_done| *is_done).await.is_err() {
            return Ok(Action::await_change()); // the agent is stopping
        }
    }
    let (Task::Publish(spec), Some(uid)) = (agent.roster.task(&name), node.uid()) else {
        return Ok(Action::await_change());
    };
    let allocations = agent.allocations.of(&name);
    let allocations = allocations.as_ref().map(|current| current.list.as_slice());
    let release = agent.release(&name);
    let release = release.as_ref();
    let desired = DesiredState { node: &name, uid: &uid, spec: spec.as_deref(), allocations, release };
    let cached = agent.cache.get(&ObjectRef::new(&name));
    if cached.is_some_and(|cached| desired.matches(&cached)) {
        agent.roster.published(&name, &uid, spec.as_ref(), false);
        return Ok(Action::await_change());
    }
    if let Some(repair_delay) = agent.roster.repair_delay(&name, &uid) {
        return Ok(Action::requeue(repair_delay));
    }
    let outcome = publish(&agent.topologies, desired).await?;
    agent.roster.published(&name, &uid, spec.as_ref(), outcome == Outcome::Written);
    match outcome {
        Outcome::Written => {
            let devices =
                spec.map_or_else(|| "none, its description was removed".into(), |spec| spec.summary());
            info!(node = name, devices, "published the NodeTopology");
        }
        Outcome::Unchanged => debug!(node = name, "the NodeTopology is up to date"),
    }
    Ok(Action::await_change())
}

fn retry(node: &NodeMeta, failure: &Failure, agent: &Agent) -> Action {
    let name = node.name_any();
    let failures = agent.roster.failed(&name);
    agent.metrics.count_publish_error(failure.reason());
    let delay = failure.retry_after(failures);
    warn!(node = name, failures, "cannot publish the NodeTopology, retrying in {delay:?}: {failure}");
    Action::requeue(delay)
}
