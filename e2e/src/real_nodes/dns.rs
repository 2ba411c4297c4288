//! A cluster DNS: `CoreDNS` on every real node, at the address in its pods' resolv.conf.
//!
//! One per node, as with `NodeLocal` `DNSCache`, so that no Service routing is needed.

use anyhow::{Result, anyhow, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;

use super::NAMESPACES_LIMIT;
use crate::{Cluster, images::Image, wait};

/// The image in the manifest.
const IMAGE: &str = "registry.local/coredns:e2e";

/// The manifest: permissions and the DaemonSet.
const MANIFEST: &str = include_str!("../../control-plane/coredns/manifest.yaml");

impl Cluster {
    /// Starts a DNS server on every real node, and waits until each is ready.
    pub async fn start_dns(&self) -> Result<()> {
        let plane = self.plane();
        let image = Image::new(IMAGE, "/coredns").program(&plane.bin.join("coredns"), "/coredns")?;
        self.load(&image).await?;
        self.kubectl_with(["apply", "-f-"], MANIFEST).await?;
        let sets = Api::<DaemonSet>::namespaced(self.client().await?, "kube-system");
        let ready = wait::until(NAMESPACES_LIMIT, async || {
            let ready = sets.get("coredns").await?.status.unwrap_or_default().number_ready;
            ensure!(usize::try_from(ready)? == plane.nodes.len(), "{ready} of them");
            anyhow::Ok(())
        });
        ready.await.map_err(|seen| anyhow!("not every node has a DNS server that is ready: {seen}"))
    }
}
