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
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long an answer is valid without a newer one: longer than it takes to replace a kubelet.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(5);

/// The current allocations, with change notification.
#[derive(Debug)]
pub struct Allocations {
    node: Option<String>,
    known: watch::Sender<Option<Arc<Known>>>,
}

/// One answer of the kubelet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Sorted, and within the limits of a NodeTopology.
    pub list: Vec<Allocation>,
    /// The number of allocations beyond that limit.
    pub left_out: usize,
}

impl Allocations {
    /// For `node`, the one that the agent runs on; nothing is known yet.
    pub fn new(node: Option<&str>) -> Self {
        let node = node.filter(|node| !node.is_empty()).map(ToOwned::to_owned);
        Self { node, known: watch::Sender::new(None) }
    }

    /// The node that the agent runs on.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// The allocations of `node`; `None` if unknown, which differs from an empty list.
    pub fn of(&self, node: &str) -> Option<Arc<Known>> {
        (self.node.as_deref() == Some(node)).then(|| self.known.borrow().clone()).flatten()
    }

    /// Yields the node whenever its allocations change.
    pub fn changes(&self) -> impl Stream<Item = Vec<String>> + Send + use<> {
        let changes = (self.known.subscribe(), self.node.clone());
        stream::unfold(changes, |(mut known, node)| async move {
            if known.changed().await.is_err() {
                std::future::pending::<()>().await; // the agent is stopping
            }
            Some((node.iter().cloned().collect(), (known, node)))
        })
    }

    /// Stores an answer.
    fn learn(&self, now: Known) {
        self.known.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&now);
            if changed {
                *known = Some(Arc::new(now));
            }
            changed
        });
    }

    /// The series of the current allocations.
    pub fn add(&self, series: &mut Series, spec: Option<&NodeTopologySpec>) {
        let (Some(node), Some(known)) = (&self.node, self.known.borrow().clone()) else { return };
        for held in &known.list {
            let whose = [node.as_str(), &held.namespace, &held.pod, &held.container];
            if held.resource == join::CPU {
                let [node, namespace, pod, container] = whose;
                let cpus = u32::try_from(held.device_ids.len()).map_or(f64::INFINITY, f64::from);
                series.add(&POD_EXCLUSIVE_CPUS, &[node, namespace, pod, container], cpus);
            } else if !join::is_memory(&held.resource) {
                for id in &held.device_ids {
                    let device =
                        spec.and_then(|spec| spec.device_of(id)).map_or("", |device| device.id.as_str());
                    let [node, namespace, pod, container] = whose;
                    let labels = [node, namespace, pod, container, &held.resource, id, device];
                    series.add(&POD_DEVICE_INFO, &labels, 1.0);
                }
            }
        }
        let left_out = u32::try_from(known.left_out).map_or(f64::INFINITY, f64::from);
        series.add(&SERIES_DROPPED, &["allocations"], left_out);
    }
}

/// Polls the kubelet at an interval of `every`. Never returns.
pub async fn keep(
    allocations: &Allocations,
    metrics: &Metrics,
    mut kubelet: Kubelet,
    pods: Store<PodMeta>,
    every: Duration,
) -> Infallible {
    // Pods with an unknown uid are left out, so nothing is published before the pods are known.
    let waits = "waits for the API server to tell which pods this node has";
    metrics.tell_collector(COLLECTOR, CollectorState::Absent, waits);
    if pods.wait_until_ready().await.is_err() {
        std::future::pending::<()>().await; // the agent is stopping
    }
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut answered = Instant::now();
    let mut failing = None;
    loop {
        ticks.tick().await;
        let before = pods::uids(&pods);
        let began = Instant::now();
        let answer = kubelet.list().await;
        match answer {
            Ok(list) => {
                // A pod that was replaced by one of the same name is included next time.
                let after = pods::uids(&pods);
                let uid = |pod: &(String, String)| before.get(pod).filter(|uid| after.get(pod) == Some(*uid));
                allocations.learn(join::allocations(&list, uid));
                let words = format!("the kubelet at {} reports allocations", kubelet.socket().display());
                metrics.tell_collector(COLLECTOR, CollectorState::Ok, &words);
                (answered, failing) = (Instant::now(), None);
            }
            Err(error) => {
                note(metrics, &error, &mut failing);
                if answered.elapsed() > FORGOTTEN_AFTER {
                    allocations.learn(Known::default());
                }
            }
        }
        metrics.set_collect_duration(COLLECTOR, began.elapsed());
    }
}

/// Counts a new failure; rate limiting is counted each time, and is not a failure.
fn note(metrics: &Metrics, error: &ListError, failing: &mut Option<&'static str>) {
    let reason = error.reason();
    if matches!(error, ListError::Throttled(_)) {
        metrics.count_collect_error(COLLECTOR, reason);
        return;
    }
    // A missing kubelet is not a failure either.
    if *failing != Some(reason) && error.state() != CollectorState::Absent {
        metrics.count_collect_error(COLLECTOR, reason);
    }
    metrics.tell_collector(COLLECTOR, error.state(), &error.to_string());
    *failing = Some(reason);
}

#[cfg(test)]
mod tests;
