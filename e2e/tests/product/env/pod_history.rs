//! Records all states of the pods of a namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex as SyncMutex},
    time::Duration,
};

use anyhow::ensure;
use crds::labels;
use e2e::wait_for;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};

use super::TIMEOUT;

/// The delay before a failed watch is retried.
const WATCH_RETRY: Duration = Duration::from_millis(100);

/// All recorded states of pods.
pub struct PodHistory {
    states: Arc<SyncMutex<Vec<Pod>>>,
    api: Api<Pod>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for PodHistory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodHistory {
    /// Records the current pods and every later change.
    pub async fn start(api: Api<Pod>) -> Self {
        let states = Arc::new(SyncMutex::new(Vec::new()));
        let kept = Arc::clone(&states);
        let start = api.list(&ListParams::default()).await.unwrap();
        states.lock().unwrap().extend(start.items);
        let (mut version, watched) = (start.metadata.resource_version.unwrap(), api.clone());
        let task = tokio::spawn(async move {
            loop {
                let Ok(events) = watched.watch(&WatchParams::default(), &version).await else {
                    tokio::time::sleep(WATCH_RETRY).await;
                    continue;
                };
                let mut events = events.boxed();
                while let Some(Ok(event)) = events.next().await {
                    if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) =
                        event
                    {
                        version = pod.resource_version().unwrap();
                        kept.lock().unwrap().push(pod);
                    }
                }
            }
        });
        Self { states, api, task }
    }

    /// Waits until the current state of every pod is recorded.
    pub async fn wait_synced(&self) -> &Self {
        wait_for("the watch has caught up", TIMEOUT, async || {
            let there = self.api.list(&ListParams::default()).await?.items;
            let version = |pod: &Pod| (pod.uid(), pod.resource_version());
            let known: BTreeSet<_> = self.states.lock().unwrap().iter().map(version).collect();
            let missing: Vec<_> = there.iter().filter(|pod| !known.contains(&version(pod))).collect();
            ensure!(missing.is_empty(), "{} states are missing", missing.len());
            anyhow::Ok(())
        })
        .await;
        self
    }

    pub fn states(&self) -> Vec<Pod> {
        self.states.lock().unwrap().clone()
    }

    /// The number of different pods per actor.
    pub fn pods_per_actor(&self) -> BTreeMap<String, usize> {
        let mut lives: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // Without a copy: long tests have many states.
        let states = self.states.lock().unwrap();
        for pod in states.iter().filter(|pod| pod.labels().contains_key(labels::ACTOR)) {
            lives.entry(pod.labels()[labels::ACTOR].clone()).or_default().insert(pod.uid().unwrap());
        }
        lives.into_iter().map(|(actor, uids)| (actor, uids.len())).collect()
    }

    /// The scheduler's messages about unschedulable pods.
    pub fn unschedulable(&self) -> Vec<String> {
        let states = self.states.lock().unwrap();
        let conditions = states.iter().flat_map(|pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.map(move |condition| (pod, condition))
        });
        let refused =
            conditions.filter(|(_, condition)| condition.reason.as_deref() == Some("Unschedulable"));
        refused
            .map(|(pod, condition)| {
                format!("{}: {}", pod.name_any(), condition.message.clone().unwrap_or_default())
            })
            .collect()
    }
}
