//! The counters as two tasks have them: one follows the pods, scrapes read.

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

/// How often the agent looks which pods there are to be watched.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How many descriptors are open at most, on a machine that allows more.
const MOST_DESCRIPTORS: u64 = 16_384;

/// One [`Perf`] for all. It is only ever used on threads that may block: to open a thousand events takes 40 ms.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Perf>>);

impl Shared {
    /// Shares it.
    pub fn new(perf: Perf) -> Self {
        Self(Arc::new(Mutex::new(perf)))
    }

    /// Watches the pods of actors among `pods`, and says so. Never ends.
    pub async fn keep(&self, pods: &Store<PodMeta>, metrics: &Metrics) -> Infallible {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let actors = of_actors(pods);
            let states = self.blocking(move |perf| {
                perf.watch(&actors);
                perf.read();
                perf.states()
            });
            for (collector, (state, words)) in states.await {
                metrics.note_collector(collector, state, &words);
            }
        }
    }

    /// The series of what was counted up to now, on `node`.
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

/// The pods that Cairn made.
fn of_actors(pods: &Store<PodMeta>) -> BTreeSet<Pod> {
    let actor = |pod: &PodMeta| {
        pods::is_actor(pod).then_some(())?;
        Some(Pod { namespace: pod.namespace()?, name: pod.name_any(), uid: pod.uid()? })
    };
    pods.state().iter().filter_map(|pod| actor(pod)).collect()
}

/// How many descriptors may be open: half of what the process may have, the rest is for connections.
///
/// The process may have as many as it may ask for: containers begin with 1,024 of them, for programs that use `select`.
pub fn most_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = setrlimit(Resource::Nofile, raised).map_or(limit, |()| raised).current;
    let half = limit.map_or(MOST_DESCRIPTORS, |limit| limit / 2).min(MOST_DESCRIPTORS);
    usize::try_from(half).unwrap_or(usize::MAX)
}
