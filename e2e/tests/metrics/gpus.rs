//! Agents with GPUs of the stand-in for NVIDIA's driver, one of which serves a pod of an actor, too.

use std::{
    fs,
    path::{Path, PathBuf},
};

use e2e::{
    Cluster, Namespace, Process,
    hardware::{Driver, FakeKubelet, holder},
    keeper,
    product::{AGENT, NAMESPACE, tree},
};

/// A pod that looks like an actor's, on the node `new`.
const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "crop-0", "labels": {"cairn.dev/application": "vision"}},
    "spec": {"nodeName": "new", "containers": [{"name": "actor", "image": "none"}]}}"#;

/// Two machines: GPUs of now, of which an actor holds one, and GPUs of long ago.
pub struct Gpus {
    /// By name of the node.
    pub agents: Vec<(&'static str, Process)>,
    _kubelets: [FakeKubelet; 2],
    _cgroup: Option<Cgroup>,
}

impl Gpus {
    /// Upgrades the chart to agents that look at hardware, and starts them.
    pub async fn start(cluster: &Cluster, namespace: &Namespace<'_>) -> Self {
        let chart = tree("charts/cairn");
        let upgrade = ["upgrade", "cairn", chart.to_str().unwrap(), "-n", NAMESPACE];
        let settings = [
            "--set=operator.replicas=0",
            "--set=agent.nodeSelector.nowhere=here",
            "--set=agent.podResources=Enabled",
            "--set=agent.perf.enabled=true",
        ];
        cluster.helm(upgrade.into_iter().chain(settings)).await.unwrap();
        namespace.apply(POD).await.unwrap();
        let uid = namespace.kubectl(["get", "pod", "crop-0", "-ojsonpath={.metadata.uid}"]).await.unwrap();
        let cgroup = Cgroup::of_pod(&uid.stdout);
        let run = cluster.plane().state.join("run");
        // where there is no hierarchy, the agent is to say so
        let root = cgroup.as_ref().map_or(run.as_path(), |cgroup| &cgroup.root);

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
            agents.push((node, process));
        }
        Self { agents, _kubelets: kubelets, _cgroup: cgroup }
    }

    /// The state of a collector of the agent whose pod is an actor's.
    pub async fn collector(&self, name: &str) -> String {
        let (status, page) = self.agents[0].1.get("/collectors").await.unwrap();
        assert_eq!(status, 200, "{page}");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        let state = line.and_then(|line| line.split([' ', ':']).nth(1));
        state.unwrap_or_else(|| panic!("no {name} in {page}")).to_owned()
    }
}

/// A cgroup as a kubelet makes it for a pod, in a hierarchy below the machine's; removed when this is dropped, or when real
/// nodes are started next, by its name.
struct Cgroup {
    /// What stands for the hierarchy.
    root: PathBuf,
    pod: PathBuf,
}

impl Cgroup {
    /// None where the machine has no cgroup v2, or this process may not make one.
    fn of_pod(uid: &str) -> Option<Self> {
        let is_v2 = |root: &&Path| root.join("cgroup.controllers").is_file();
        let machine = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root =
            machine.iter().copied().find(is_v2)?.join(format!("cairn-e2e-{}-metrics", std::process::id()));
        let pod = root.join("kubepods").join(format!("pod{uid}"));
        fs::create_dir_all(&pod).ok()?;
        Some(Self { root, pod })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in self.pod.ancestors().take_while(|folder| folder.starts_with(&self.root)) {
            // nobody is in it; what cannot be removed harms nobody
            let _ = fs::remove_dir(folder);
        }
    }
}
