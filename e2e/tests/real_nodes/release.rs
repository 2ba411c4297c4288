//! The release images run in containers.

use std::{collections::BTreeSet, fs::File};

use e2e::product::{AGENT, NAMESPACE, OPERATOR};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

use crate::{
    live::image_of,
    scene::{DEVICES, alone, cluster, processes, product, released, status_of},
};

/// The digests in an archive: of the image, of its configuration, of its layer.
fn digests(name: &str) -> BTreeSet<String> {
    let archive = File::open(released().join(format!("{name}.tar"))).unwrap();
    let mut archive = tar::Archive::new(archive);
    let paths = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    paths.filter_map(|path| Some(format!("sha256:{}", path.strip_prefix("blobs/sha256/")?))).collect()
}

/// Whether a kubelet's image id belongs to this archive.
fn is_of(image: &str, name: &str) -> bool {
    digests(name).iter().any(|digest| image.ends_with(digest))
}

#[tokio::test]
async fn operator_and_agent_run_from_the_release_images() {
    let _alone = alone().await;
    let product = product().await;
    let agents = &product.live.images;
    assert!(agents.len() == DEVICES.len() && agents.iter().all(|image| is_of(image, AGENT)), "{agents:?}");

    let pods = Api::<Pod>::namespaced(cluster().await.client().await.unwrap(), NAMESPACE);
    let of_it = ListParams::default().labels("app.kubernetes.io/component=operator");
    let operators = pods.list(&of_it).await.unwrap().items;
    assert_eq!(operators.len(), 2);
    for pod in &operators {
        assert!(is_of(&image_of(pod), OPERATOR), "{}", image_of(pod));
        let mut processes = processes(pod);
        processes.retain(|process| status_of(*process, "Name").starts_with("cairn-operator"));
        assert!(!processes.is_empty(), "the operator runs");
        for process in processes {
            assert_eq!(status_of(process, "Uid"), "65532\t65532\t65532\t65532", "nobody");
        }
    }
}
