//! The pods of the node that the agent runs on: their names, uids and labels, and nothing else of them.

use std::{collections::BTreeMap, convert::Infallible};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::ObjectMeta,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher::{self, watcher},
    },
};
use tracing::warn;

use crate::failure::watch_words;

/// A pod as far as the agent knows it.
pub type PodMeta = PartialObjectMeta<Pod>;

/// Keeps the pods of `node` that have not ended. Ends never.
pub async fn watch(client: Client, node: &str, writer: Writer<PodMeta>) -> Infallible {
    // What a pod held is free when it has ended, whoever still lists it.
    let alive = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    let events = watcher(Api::<PodMeta>::all(client), watcher::Config::default().fields(&alive));
    let events = events.default_backoff().modify(slim).reflect(writer);
    events
        .for_each(|event| async move {
            if let Err(error) = event {
                warn!("watching pods failed, trying again: {}", watch_words(&error, "pods"));
            }
        })
        .await;
    unreachable!("a watch never ends")
}

/// Keeps whose it is, and the labels that Cairn gave it.
fn slim(pod: &mut PodMeta) {
    let ObjectMeta { name, namespace, uid, resource_version, labels, .. } = std::mem::take(&mut pod.metadata);
    let labels = labels.map(|mut labels| {
        labels.retain(|key, _| key == crds::labels::APPLICATION || key == crds::labels::ACTOR);
        labels
    });
    pod.metadata = ObjectMeta { name, namespace, uid, resource_version, labels, ..ObjectMeta::default() };
}

/// The uid of each pod, by namespace and name.
pub fn uids(pods: &Store<PodMeta>) -> BTreeMap<(String, String), String> {
    let uid_of = |pod: &PodMeta| Some(((pod.namespace()?, pod.name_any()), pod.uid()?));
    pods.state().iter().filter_map(|pod| uid_of(pod)).collect()
}
