//! The pods of the node that the agent runs on: names, uids and labels only.

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

use crate::failure::watch_message;

/// The metadata of a pod, reduced to what the agent needs.
pub type PodMeta = PartialObjectMeta<Pod>;

/// Caches the pods of `node` that have not terminated. Never returns.
pub async fn watch(client: Client, node: &str, writer: Writer<PodMeta>) -> Infallible {
    // Devices of a terminated pod are free, even if the kubelet still lists them.
    let alive = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    let events = watcher(Api::<PodMeta>::all(client), watcher::Config::default().fields(&alive));
    let events = events.default_backoff().modify(slim).reflect(writer);
    events
        .for_each(|event| async move {
            if let Err(error) = event {
                warn!("watching pods failed, retrying: {}", watch_message(&error, "pods"));
            }
        })
        .await;
    unreachable!("a watch never ends")
}

/// Keeps the owner and Cairn's labels.
fn slim(pod: &mut PodMeta) {
    let ObjectMeta { name, namespace, uid, resource_version, labels, owner_references, .. } =
        std::mem::take(&mut pod.metadata);
    let labels = labels.map(|mut labels| {
        labels.retain(|key, _| key == crds::labels::APPLICATION || key == crds::labels::ACTOR);
        labels
    });
    pod.metadata = ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        labels,
        owner_references,
        ..ObjectMeta::default()
    };
}

/// Whether the pod runs an actor. Its controller decides: any user can set labels.
///
/// The controller is an Instance of the pod's own name: a namespace has one Instance and one pod of that name.
/// Kubernetes' garbage collector deletes pods whose Instance does not exist.
pub fn is_actor(pod: &PodMeta) -> bool {
    let mut owners = pod.owner_references().iter();
    pod.labels().contains_key(crds::labels::APPLICATION)
        && owners.any(|owner| {
            owner.controller == Some(true)
                && owner.api_version.starts_with("cairn.dev/")
                && owner.kind == "Instance"
                && owner.name == pod.name_any()
                && !owner.uid.is_empty()
        })
}

/// The uid of each pod, by namespace and name.
pub fn uids(pods: &Store<PodMeta>) -> BTreeMap<(String, String), String> {
    let uid_of = |pod: &PodMeta| Some(((pod.namespace()?, pod.name_any()), pod.uid()?));
    pods.state().iter().filter_map(|pod| uid_of(pod)).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::core::PartialObjectMetaExt;

    use super::*;

    #[test]
    fn a_pod_is_an_actors_if_an_instance_of_its_name_controls_it() {
        let owner = OwnerReference {
            api_version: "cairn.dev/v1alpha1".into(),
            kind: "Instance".into(),
            name: "web-server-0".into(),
            uid: "6f".into(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let counts = |owner: OwnerReference| {
            let labels = [(crds::labels::APPLICATION.to_owned(), "web".to_owned())].into();
            let mut pod: PodMeta = ObjectMeta {
                name: Some("web-server-0".into()),
                labels: Some(labels),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            }
            .into_response_partial();
            slim(&mut pod);
            is_actor(&pod)
        };
        assert!(counts(owner.clone()));
        for forged in [
            OwnerReference { api_version: "apps/v1".into(), ..owner.clone() },
            OwnerReference { kind: "ReplicaSet".into(), ..owner.clone() },
            OwnerReference { name: "web-server-1".into(), ..owner.clone() },
            OwnerReference { uid: String::new(), ..owner.clone() },
            OwnerReference { controller: None, ..owner },
        ] {
            assert!(!counts(forged.clone()), "{forged:?}");
        }
    }
}
