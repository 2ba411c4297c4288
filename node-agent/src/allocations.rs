//! Who holds what of the node that the agent runs on: the kubelet's list, joined with the node's pods.

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

/// The `collector` label of all that is here.
pub const COLLECTOR: &str = "pod_resources";
/// How often the kubelet is asked; it answers all who ask together so many times, and refuses the rest.
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long an answer counts when there is no newer one: longer than a kubelet takes to be replaced.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(5);

/// What is known, for whoever wants to read it or to hear of changes.
#[derive(Debug)]
pub struct Allocations {
    node: Option<String>,
    known: watch::Sender<Option<Arc<Known>>>,
}

/// One answer of the kubelet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Sorted, and no more than a NodeTopology takes.
    pub list: Vec<Allocation>,
    /// How many it would not take.
    pub left_out: usize,
}

impl Allocations {
    /// Of `node`, the one that the agent runs on; nothing is known yet.
    pub fn new(node: Option<&str>) -> Self {
        let node = node.filter(|node| !node.is_empty()).map(ToOwned::to_owned);
        Self { node, known: watch::Sender::new(None) }
    }

    /// The node that the agent runs on.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// What is known of `node`; none when nothing is, which is not the same as nobody holding anything.
    pub fn of(&self, node: &str) -> Option<Arc<Known>> {
        (self.node.as_deref() == Some(node)).then(|| self.known.borrow().clone()).flatten()
    }

    /// The node, each time that something else is known of it.
    pub fn changes(&self) -> impl Stream<Item = Vec<String>> + Send + use<> {
        let changes = (self.known.subscribe(), self.node.clone());
        stream::unfold(changes, |(mut known, node)| async move {
            if known.changed().await.is_err() {
                std::future::pending::<()>().await; // the agent is stopping
            }
            Some((node.iter().cloned().collect(), (known, node)))
        })
    }

    /// Takes over an answer.
    fn learn(&self, now: Known) {
        self.known.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&now);
            if changed {
                *known = Some(Arc::new(now));
            }
            changed
        });
    }

    /// The series of what is known.
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

/// Asks the kubelet `every` so often. Never ends.
pub async fn keep(
    allocations: &Allocations,
    metrics: &Metrics,
    mut kubelet: Kubelet,
    pods: Store<PodMeta>,
    every: Duration,
) -> Infallible {
    // Whose uid is not known is not told of, so nothing is until the pods are known.
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
                // A pod that was replaced by one of its name in the meantime is told of next time.
                let after = pods::uids(&pods);
                let uid = |pod: &(String, String)| before.get(pod).filter(|uid| after.get(pod) == Some(*uid));
                allocations.learn(join::allocations(&list, uid));
                let words = format!("the kubelet tells at {} who holds what", kubelet.socket().display());
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

/// Counts a failure that is new; being asked for patience is counted each time, and is no failure.
fn note(metrics: &Metrics, error: &ListError, failing: &mut Option<&'static str>) {
    let reason = error.reason();
    if matches!(error, ListError::Throttled(_)) {
        metrics.count_collect_error(COLLECTOR, reason);
        return;
    }
    // To have no kubelet is no failure either.
    if *failing != Some(reason) && error.state() != CollectorState::Absent {
        metrics.count_collect_error(COLLECTOR, reason);
    }
    metrics.tell_collector(COLLECTOR, error.state(), &error.to_string());
    *failing = Some(reason);
}

#[cfg(test)]
mod tests;
