//! What the cluster knew of a machine is missed, also by an agent that starts after it was gone.

use std::{path::Path, time::Duration};

use anyhow::ensure;
use crds::NodeTopology;
use e2e::{
    Cluster, SimulatedNode,
    hardware::{Driver, FakeKubelet},
    keeper,
    product::{AGENT, NAMESPACE},
    wait_for,
};
use kube::Api;

const SOON: Duration = Duration::from_mins(3);

/// The second GPU of the stand-in.
const SECOND: &str = "gpu-0000:18:00.0";

#[tokio::test]
async fn a_gpu_that_went_while_the_agent_was_away_is_lost_until_it_is_forgotten() {
    let cluster = Cluster::shared();
    cluster.install(Path::new(""), &["--set=agent.podResources=Enabled"]).await.unwrap();
    let _nodes = cluster.nodes([SimulatedNode::new("left")]).await.unwrap();
    let run = cluster.plane().state.join("run");
    let kubelet = FakeKubelet::start(&run.join("left.sock"), Vec::new());
    let driver = Driver::new(run.join("left.driver"), 2).unwrap();
    let workload = cluster.gpu_agent("left", &driver, &kubelet).await.unwrap();
    let program = keeper::built(AGENT).unwrap();
    let topologies = Api::<NodeTopology>::all(cluster.client().await.unwrap());
    // the health of the second GPU; none when the NodeTopology is there without it
    let second = async || {
        let spec = topologies.get("left").await?.spec;
        anyhow::Ok(spec.devices.into_iter().find(|gpu| gpu.id == SECOND).map(|gpu| gpu.health.to_string()))
    };
    let becomes = async |wanted: Option<&str>| {
        wait_for("the second GPU is as it should be", SOON, async || {
            let health = second().await?;
            ensure!(health.as_deref() == wanted, "{health:?}, not {wanted:?}");
            anyhow::Ok(())
        })
        .await;
    };

    let mut agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    becomes(Some("ok")).await;
    agent.stop().await.unwrap();
    driver.set("gone=1").unwrap();
    let mut agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    // it is in what is published before the agent is ready, so at no moment was it forgotten
    assert!(second().await.unwrap().is_some());
    becomes(Some("lost")).await;

    // it comes back, and goes once more
    driver.set("").unwrap();
    becomes(Some("ok")).await;
    driver.set("gone=1").unwrap();
    becomes(Some("lost")).await;
    // taken away for good
    cluster.kubectl(["delete", "nodetopology", "left"]).await.unwrap();
    becomes(None).await;
    agent.stop().await.unwrap();
    cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
}
