//! Agents with the stub NVML library; a pod of an actor uses one of the GPUs.

use e2e::{
    Cluster, Namespace, Process,
    hardware::{Driver, FakeKubelet, PodCgroups, controller, holder},
    keeper,
    process::http_get,
    product::{AGENT, NAMESPACE, tree},
    wait_for,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

/// The pod of an actor, on the node `new`.
fn pod(controller: &OwnerReference) -> String {
    let metadata = json!({"name": "crop-0", "labels": {"cairn.dev/application": "vision"},
        "ownerReferences": [controller]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"nodeName": "new", "containers": [{"name": "actor", "image": "none"}]}})
    .to_string()
}

/// Two machines: one with current GPUs, one of which an actor uses, and one with old GPUs.
pub struct Gpus {
    /// By node name.
    pub agents: Vec<(&'static str, Process)>,
    _kubelets: [FakeKubelet; 2],
    _cgroups: Option<PodCgroups>,
}

impl Gpus {
    /// Upgrades the chart to agents that discover hardware, and starts them.
    pub async fn start(cluster: &Cluster, namespace: &Namespace<'_>) -> Self {
        let chart = tree("charts/cairn");
        let upgrade = ["upgrade", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE];
        let settings = [
            "--set=operator.replicas=0",
            "--set=agent.nodeSelector.nowhere=here",
            crate::NO_ADMISSION_POLICIES,
            "--set=agent.podResources=Enabled",
            "--set=agent.perf.enabled=true",
        ];
        cluster.helm(upgrade.into_iter().chain(settings)).await.unwrap();
        let client = cluster.client().await.unwrap();
        let controller = controller(&client, namespace.name(), "crop-0").await.unwrap();
        namespace.apply(&pod(&controller)).await.unwrap();
        let uid = namespace.kubectl(["get", "pod", "crop-0", "-ojsonpath={.metadata.uid}"]).await.unwrap();
        let cgroups = PodCgroups::make("metrics");
        if let Some(cgroups) = &cgroups {
            cgroups.add(&uid.stdout).unwrap();
        }
        let run = cluster.plane().state.join("run");
        // without a cgroup hierarchy the agent must report that
        let root = cgroups.as_ref().map_or(run.as_path(), PodCgroups::root);

        let crop = holder(namespace.name(), "crop-0", Some(1), &[2, 3]);
        let kubelets = [("new", vec![crop]), ("old", Vec::new())]
            .map(|(node, pods)| FakeKubelet::start(&run.join(format!("{node}.sock")), pods));
        let mut agents = Vec::new();
        for ((node, condition), kubelet) in [("new", ""), ("old", "old")].into_iter().zip(&kubelets) {
            let driver = Driver::new(run.join(format!("{node}.driver")), 3).unwrap();
            driver.set(condition).unwrap();
            let workload = cluster.gpu_agent(node, &driver, kubelet).await.unwrap();
            let workload = workload.arg(format!("--cgroup-root={}", root.display()));
            let process = workload.start(&keeper::built(AGENT).unwrap()).await.unwrap();
            process.wait_ready().await.unwrap();
            if node == "new" {
                // only events after the watch began are reported
                wait_for("XID errors are watched", crate::SOON, async || {
                    let (_, text) = http_get(process.port(9101)?, "/metrics").await?;
                    anyhow::ensure!(text.contains("kind=\"xid\""), "no count of them");
                    anyhow::Ok(())
                })
                .await;
                driver.set("xids=2").unwrap();
            }
            agents.push((node, process));
        }
        Self { agents, _kubelets: kubelets, _cgroups: cgroups }
    }

    /// The state of a collector of the agent on the actor's node.
    pub async fn collector(&self, name: &str) -> String {
        let (status, page) = http_get(self.agents[0].1.port(9101).unwrap(), "/collectors").await.unwrap();
        assert_eq!(status, 200, "{page}");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let state = line.and_then(|line| line.split([' ', ':']).nth(1));
        state.unwrap_or_else(|| panic!("no {name} in {page}")).to_owned()
    }
}
