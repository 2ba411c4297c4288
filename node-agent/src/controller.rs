//! The agent's loop: reads descriptions, Nodes and NodeTopologies, and writes the differences.

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
    agent::{AT_ONCE, Agent, Caches},
    events::{descriptions, node_events, topology_events},
    failure::Failure,
    problems::Problems,
    publish::{Outcome, Wanted, publish},
    roster::{NodeMeta, Task},
    source::Source,
};

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
