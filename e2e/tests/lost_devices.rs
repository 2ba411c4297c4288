//! Devices that disappear are reported as lost, also by an agent that starts afterwards.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, bail, ensure};
use crds::NodeTopology;
use e2e::{
    Cluster, SimulatedNode,
    hardware::{Driver, FakeKubelet},
    keeper,
    product::{AGENT, NAMESPACE},
    wait_for,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Resource as _, api::PostParams, core::Request};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(3);

/// The second fake GPU.
const SECOND: &str = "gpu-0000:18:00.0";
/// A card that only the fake OpenCL driver reports.
const CARD: &str = "accelerator-opencl0d0";

#[tokio::test]
async fn a_gpu_removed_while_the_agent_is_down_is_lost() {
    let cluster = Cluster::shared();
    cluster.install(Path::new(""), &["--set=agent.podResources=Enabled"]).await.unwrap();
    let _nodes = cluster.nodes([SimulatedNode::new("left")]).await.unwrap();
    let run = cluster.plane().state.join("run");
    let kubelet = FakeKubelet::start(&run.join("left.sock"), Vec::new());
    let driver = Driver::new(run.join("left.driver"), 2).unwrap();
    let opencl = run.join("left.opencl");
    fs::write(&opencl, "").unwrap();
    let library = keeper::built("libstub_opencl.so").unwrap();
    let workload = cluster.gpu_agent("left", &driver, &kubelet).await.unwrap();
    let workload = workload
        .env("OPENCL_DYLIB_PATH", library.display().to_string())
        .env("CAIRN_STUB_OPENCL", format!("@{}", opencl.display()));
    let program = keeper::built(AGENT).unwrap();
    let topologies = Api::<NodeTopology>::all(cluster.client().await.unwrap());
    let device = async |id: &str| {
        let spec = topologies.get("left").await?.spec;
        anyhow::Ok(spec.devices.into_iter().find(|device| device.id == id))
    };
    // the health of the second GPU; none if the NodeTopology does not list it
    let second = async || anyhow::Ok(device(SECOND).await?.map(|gpu| gpu.health.to_string()));
    let becomes = async |wanted: Option<&str>| {
        wait_for("the second GPU has the expected state", SOON, async || {
            let health = second().await?;
            ensure!(health.as_deref() == wanted, "{health:?}, not {wanted:?}");
            anyhow::Ok(())
        })
        .await;
    };

    is_restricted_to_its_own_node(cluster).await;

    let mut agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    becomes(Some("ok")).await;
    let card = wait_for("OpenCL devices are published", SOON, async || {
        device(CARD).await?.context("the card is not published")
    })
    .await;
    agent.stop().await.unwrap();
    driver.set("gone=1").unwrap();
    fs::write(&opencl, "refuse").unwrap();
    let mut agent = workload.start(&program).await.unwrap();
    agent.wait_ready().await.unwrap();
    // it is in the first published topology, so it was never missing
    assert!(second().await.unwrap().is_some());
    becomes(Some("lost")).await;
    assert_eq!(device(CARD).await.unwrap(), Some(card), "OpenCL fails without reporting it as gone");

    // it returns, and is lost once more
    driver.set("").unwrap();
    becomes(Some("ok")).await;
    driver.set("gone=1").unwrap();
    becomes(Some("lost")).await;
    // removed for good
    cluster.kubectl(["delete", "nodetopology", "left"]).await.unwrap();
    becomes(None).await;
    agent.stop().await.unwrap();
    cluster.helm(["uninstall", "cairn", "-n", NAMESPACE]).await.unwrap();
}

/// R59: an agent that writes the topology or lease of another node is refused, as is one whose token names no node; and it has no
/// permissions beyond those it needs.
async fn is_restricted_to_its_own_node(cluster: &Cluster) {
    let client = cluster.client().await.expect("a client");
    let topologies = NodeTopology::url_path(&(), None);
    let leases = Lease::url_path(&(), Some("cairn-agents"));
    let topology = |name: &str| json!({"apiVersion": "cairn.dev/v1alpha1", "kind": "NodeTopology", "metadata": {"name": name}, "spec": {}});
    let lease = |node: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": format!("cairn-agent-{node}")}});
    let account = format!("system:serviceaccount:{NAMESPACE}:{AGENT}");
    let write = async |url: &str, body: &Value, node: Option<&str>| -> anyhow::Result<Value> {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let mut request = Request::new(url).create(&parameters, body.to_string().into_bytes())?;
        request.headers_mut().insert("impersonate-user", account.parse()?);
        if let Some(node) = node {
            let extra = "impersonate-extra-authentication.kubernetes.io%2fnode-name";
            request.headers_mut().insert(extra, node.parse()?);
        }
        Ok(client.request::<Value>(request).await?)
    };
    let words = "a node agent can write only the NodeTopology and the Lease of its own node";
    let own = Some("left");
    let refused = [
        (&topologies, topology("right"), own),
        (&topologies, topology("cairn-agent-left"), own),
        (&leases, lease("right"), own),
        (&topologies, topology("left"), None),
        (&leases, lease("left"), None),
    ];
    for (url, body, node) in refused {
        // a new admission policy takes effect after a moment
        wait_for("writes about another node are refused", SOON, async || {
            let Err(refused) = write(url, &body, node).await else { bail!("it is accepted") };
            // the agent's error counter distinguishes this code
            let is_forbidden =
                matches!(refused.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 403);
            let said = format!("{refused:#}");
            ensure!(is_forbidden && said.contains(words), "{said}");
            anyhow::Ok(())
        })
        .await;
    }
    for (url, body) in [(&topologies, topology("left")), (&leases, lease("left"))] {
        write(url, &body, own).await.expect("it speaks of its own node");
    }
    let grants = cluster.grants(NAMESPACE, AGENT).await.expect("its rights");
    let is_write = |verb: &str| !["get", "list", "watch"].contains(&verb);
    let writes: Vec<String> =
        grants.iter().filter(|grant| is_write(&grant.verb)).map(ToString::to_string).collect();
    let what_it_needs = [
        "create cairn.dev/nodetopologies",
        "create coordination.k8s.io/leases in cairn-agents",
        "patch cairn.dev/nodetopologies",
        "patch cairn.dev/nodetopologies/status",
        "patch coordination.k8s.io/leases in cairn-agents",
    ];
    assert_eq!(writes, what_it_needs, "it deletes nothing, and writes no pod, binding or Node");
}
