//! Allocations of the node that the agent runs on: the kubelet's list, joined with the node's pods.

mod join;

use std::{convert::Infallible, sync::Arc, time::Duration};

use crds::{Allocation, NodeTopologySpec};
use futures::{Stream, stream};
use kube::runtime::reflector::Store;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use metric_names::agent::{POD_DEVICE_INFO, POD_EXCLUSIVE_CPUS, SERIES_DROPPED};

use crate::{
    metrics::{CollectorState, Metrics, Series},
    podresources::{Kubelet, ListError},
    pods::{self, PodMeta},
};

/// The `collector` label of this module's metrics.
pub const COLLECTOR: &str = "pod_resources";
/// The polling interval of the kubelet, which rate-limits all clients together.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a response is valid without a newer one: longer than a kubelet upgrade takes.
const EXPIRES_AFTER: Duration = Duration::from_mins(5);

/// The current allocations, with change notification; `None` before the first response.
#[derive(Debug)]
pub struct Allocations {
    node: Option<String>,
    current: watch::Sender<Option<Arc<NodeAllocations>>>,
}

/// The allocations of the node, from one response of the kubelet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeAllocations {
    /// Sorted and within the limits of a NodeTopology.
    pub list: Vec<Allocation>,
    /// The number of allocations and ids beyond these limits.
    pub dropped: usize,
}

impl Allocations {
    /// For `node`, the one that the agent runs on. Its allocations are unknown at first.
    pub fn new(node: Option<&str>) -> Self {
        let node = node.filter(|node| !node.is_empty()).map(ToOwned::to_owned);
        Self { node, current: watch::Sender::new(None) }
    }

    /// The node that the agent runs on.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The allocations of `node`; `None` if unknown, which differs from an empty list.
    pub fn of(&self, node: &str) -> Option<Arc<NodeAllocations>> {
        (self.node.as_deref() == Some(node)).then(|| self.current.borrow().clone()).flatten()
    }

    /// Yields the node whenever its allocations change.
    pub fn changes(&self) -> impl Stream<Item = Vec<String>> + Send + use<> {
        let changes = (self.current.subscribe(), self.node.clone());
        stream::unfold(changes, |(mut current, node)| async move {
            if current.changed().await.is_err() {
                std::future::pending::<()>().await; // the agent is stopping
            }
            Some((node.iter().cloned().collect(), (current, node)))
        })
    }

    /// Stores the allocations, and notifies subscribers if they changed.
    fn update(&self, now: NodeAllocations) {
        self.current.send_if_modified(|current| {
            let changed = current.as_deref() != Some(&now);
            if changed {
                *current = Some(Arc::new(now));
            }
            changed
        });
    }

    /// The series of the current allocations.
    pub fn add(&self, series: &mut Series, spec: Option<&NodeTopologySpec>) {
        let (Some(node), Some(current)) = (&self.node, self.current.borrow().clone()) else { return };
        for allocation in &current.list {
            let owner = [node.as_str(), &allocation.namespace, &allocation.pod, &allocation.container];
            if allocation.resource == join::CPU {
                let cpus = u32::try_from(allocation.device_ids.len()).map_or(f64::INFINITY, f64::from);
                series.add(&POD_EXCLUSIVE_CPUS, &owner, cpus);
            } else if !join::is_memory(&allocation.resource) {
                for id in &allocation.device_ids {
                    let device =
                        spec.and_then(|spec| spec.device_of(id)).map_or("", |device| device.id.as_str());
                    let [node, namespace, pod, container] = owner;
                    let labels = [node, namespace, pod, container, &allocation.resource, id, device];
                    series.add(&POD_DEVICE_INFO, &labels, 1.0);
                }
            }
        }
        let dropped = u32::try_from(current.dropped).map_or(f64::INFINITY, f64::from);
        series.add(&SERIES_DROPPED, &["allocations"], dropped);
    }
}

/// Polls the kubelet at an interval of `every`. Never returns.
pub async fn poll(
    allocations: &Allocations,
    metrics: &Metrics,
    mut kubelet: Kubelet,
    pods: Store<PodMeta>,
    every: Duration,
) -> Infallible {
    // Pods with an unknown uid are skipped, so nothing is published before the pods are listed.
    let message = "waiting for the list of the node's pods from the API server";
    metrics.record_collector(COLLECTOR, CollectorState::Absent, message);
    if pods.wait_until_ready().await.is_err() {
        std::future::pending::<()>().await; // the agent is stopping
    }
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_response = Instant::now();
    let mut failing = None;
    loop {
        ticks.tick().await;
        let before = pods::uids(&pods);
        let began = Instant::now();
        match kubelet.list().await {
            Ok(list) => {
                // A pod that was replaced by one of the same name is included in the next poll.
                let after = pods::uids(&pods);
                let uid = |pod: &(String, String)| before.get(pod).filter(|uid| after.get(pod) == Some(*uid));
                allocations.update(join::allocations(&list, uid));
                let message = format!("the kubelet at {} reports allocations", kubelet.socket().display());
                metrics.record_collector(COLLECTOR, CollectorState::Ok, &message);
                (last_response, failing) = (Instant::now(), None);
            }
            Err(error) => {
                record_failure(metrics, &error, &mut failing);
                if last_response.elapsed() > EXPIRES_AFTER {
                    allocations.update(NodeAllocations::default());
                }
            }
        }
        metrics.set_collect_duration(COLLECTOR, began.elapsed());
    }
}

/// Counts a failure if its reason is new. Rate limiting is counted each time, and does not change the collector's
/// state.
fn record_failure(metrics: &Metrics, error: &ListError, failing: &mut Option<&'static str>) {
    let reason = error.reason();
    if matches!(error, ListError::Throttled(_)) {
        metrics.count_collect_error(COLLECTOR, reason);
        return;
    }
    // A missing socket is not counted: the kubelet may be restarting.
    if *failing != Some(reason) && error.state() != CollectorState::Absent {
        metrics.count_collect_error(COLLECTOR, reason);
    }
    metrics.record_collector(COLLECTOR, error.state(), &error.to_string());
    *failing = Some(reason);
}

#[cfg(test)]
mod tests;
