//! Counters that are shared by the task that follows the pods and by scrapes.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use kube::{ResourceExt, runtime::reflector::Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{MissedTickBehavior, interval};

use super::{Perf, Pod};
use crate::{
    metrics::{Metrics, Series},
    pods::{self, PodMeta},
};

/// How often the list of pods is refreshed.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of open descriptors, even if the process may open more.
const MAX_DESCRIPTORS: u64 = 16_384;

/// A shared [`Perf`]. It is used only on threads that may block, as opening a thousand events takes 40 ms.
#[derive(Clone, Debug)]
pub struct SharedPerf(Arc<Mutex<Perf>>);

impl SharedPerf {
    /// Shares it.
    pub fn new(perf: Perf) -> Self {
        Self(Arc::new(Mutex::new(perf)))
    }

    /// Observes the actors' pods among `pods`, and logs changes. Never returns.
    pub async fn run(&self, pods: &Store<PodMeta>, metrics: &Metrics) -> Infallible {
        let mut ticks = interval(PROBE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let actors = of_actors(pods);
            let states = self.blocking(move |perf| {
                perf.watch(&actors);
                perf.read();
                perf.states()
            });
            for (collector, (state, message)) in states.await {
                metrics.note_collector(collector, state, &message);
            }
        }
    }

    /// The series of the current counts, on `node`.
    pub async fn series(&self, node: String) -> Series {
        let read = move |perf: &mut Perf| {
            perf.read();
            let mut series = Series::default();
            perf.add(&mut series, &node);
            series
        };
        self.blocking(read).await
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&mut Perf) -> T + Send + 'static) -> T {
        let shared = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&mut shared.lock()));
        task.await.expect("it does not panic, and is not aborted")
    }

    fn lock(&self) -> MutexGuard<'_, Perf> {
        self.0.lock().expect("nothing panics while it holds this")
    }
}

/// The pods created by Cairn.
fn of_actors(pods: &Store<PodMeta>) -> BTreeSet<Pod> {
    let actor = |pod: &PodMeta| {
        pods::is_actor(pod).then_some(())?;
        Some(Pod { namespace: pod.namespace()?, name: pod.name_any(), uid: pod.uid()? })
    };
    pods.state().iter().filter_map(|pod| actor(pod)).collect()
}

/// The maximum number of open descriptors: half of the process' limit, as connections need the rest.
///
/// It raises the soft limit to the hard limit. Containers start with a soft limit of 1,024 for programs that use
/// `select`.
pub fn max_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = setrlimit(Resource::Nofile, raised).map_or(limit, |()| raised).current;
    let half = limit.map_or(MAX_DESCRIPTORS, |limit| limit / 2).min(MAX_DESCRIPTORS);
    usize::try_from(half).unwrap_or(usize::MAX)
}
