//! Fake hardware for node agents: GPUs of a fake NVIDIA driver, a kubelet socket that reports allocations, and
//! pod cgroups.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result};
use crds::{Instance, InstanceOrigin, InstanceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource as _, api::PostParams};
use tokio::task::AbortHandle;

use crate::{
    Cluster, Workload, keeper,
    kubelet_api::{ContainerDevices, ContainerResources, PodResources, serve_pod_resources},
    product::{AGENT, NAMESPACE},
};

impl Cluster {
    /// The agent of `node`, ready to start, which probes this machine and the GPUs of `driver`.
    ///
    /// The chart must be installed without simulated topologies, and with `agent.podResources=Enabled`.
    pub async fn gpu_agent(
        &self,
        node: &str,
        driver: &Driver,
        kubelet: &FakeKubelet,
    ) -> Result<Workload<'_>> {
        let socket = text(&kubelet.socket)?;
        Ok(self.agent_beside(node, driver).await?.arg(format!("--pod-resources={socket}")))
    }

    /// As [`Cluster::gpu_agent`], without a kubelet that reports allocations.
    pub async fn agent_beside(&self, node: &str, driver: &Driver) -> Result<Workload<'_>> {
        let library = text(&keeper::built("libstub_nvml.so")?)?;
        let workload = self.daemon_set(NAMESPACE, AGENT).await?.field("spec.nodeName", node);
        let workload = workload.env("CAIRN_NVML_LIBRARY", library);
        Ok(workload.env("CAIRN_STUB_NVML", format!("@{}", text(&driver.file)?)))
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// The fake NVIDIA driver; its state is in a file that it reads on every call.
pub struct Driver {
    file: PathBuf,
    gpus: usize,
}

impl Driver {
    /// With so many healthy GPUs.
    pub fn new(file: PathBuf, gpus: usize) -> Result<Self> {
        let driver = Self { file, gpus };
        driver.set("")?;
        Ok(driver)
    }

    /// Changes its state, in the format of `node-agent/stubs/nvml`.
    pub fn set(&self, words: &str) -> Result<()> {
        // atomically, as a partial state would be another one
        let draft = self.file.with_extension("draft");
        fs::write(&draft, format!("gpus={} {words}", self.gpus))?;
        fs::rename(&draft, &self.file).with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// A fake kubelet's pod resources socket, until it is dropped.
pub struct FakeKubelet {
    socket: PathBuf,
    pods: Arc<Mutex<Vec<PodResources>>>,
    server: AbortHandle,
}

impl FakeKubelet {
    /// Serves at `socket`.
    pub fn start(socket: &Path, pods: Vec<PodResources>) -> Self {
        let path = socket.to_owned();
        let pods = Arc::new(Mutex::new(pods));
        let shared_pods = Arc::clone(&pods);
        let server = tokio::spawn(async move {
            if let Err(error) = serve_pod_resources(&path, shared_pods).await {
                eprintln!("the fake kubelet failed: {error:#}");
            }
        });
        Self { socket: socket.to_owned(), pods, server: server.abort_handle() }
    }

    /// Adds a pod.
    pub fn add(&self, pod: PodResources) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).push(pod);
    }

    /// Removes a pod.
    pub fn remove(&self, name: &str) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).retain(|pod| pod.name != name);
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.server.abort();
        // the next server needs the name; it is absent if listening failed
        let _ = fs::remove_file(&self.socket);
    }
}

/// A pod of one container with a fake GPU, by number, and exclusive CPUs.
pub fn holder(namespace: &str, name: &str, gpu: Option<usize>, cpus: &[i64]) -> PodResources {
    let gpu = gpu.map(|number| ContainerDevices {
        resource_name: "nvidia.com/gpu".into(),
        device_ids: vec![format!("GPU-00000000-0000-4000-8000-{number:012x}")],
    });
    let container = ContainerResources {
        name: "actor".into(),
        devices: gpu.into_iter().collect(),
        cpu_ids: cpus.to_vec(),
    };
    PodResources { name: name.into(), namespace: namespace.into(), containers: vec![container] }
}

/// Creates the Instance that owns an actor's pod of this name, and returns the owner reference.
///
/// It has no application, so no operator reconciles it. The pod is deleted with it.
pub async fn controller(client: &Client, namespace: &str, name: &str) -> Result<OwnerReference> {
    let spec = InstanceSpec {
        application_name: "no-application".to_owned(),
        origin: InstanceOrigin::Runtime,
        actor_group: Some("none".to_owned()),
        ..InstanceSpec::default()
    };
    let api = Api::<Instance>::namespaced(client.clone(), namespace);
    let made = api.create(&PostParams::default(), &Instance::new(name, spec)).await?;
    made.controller_owner_ref(&()).context("an Instance without a uid")
}

/// Pod cgroups like a kubelet's, in a hierarchy below the machine's; removed on drop, or by name when real nodes
/// are started next.
pub struct PodCgroups {
    root: PathBuf,
}

impl PodCgroups {
    /// None if the machine has no writable cgroup v2. `name` distinguishes it from others of this
    /// process.
    pub fn make(name: &str) -> Option<Self> {
        let is_v2 = |root: &&Path| root.join("cgroup.controllers").is_file();
        let machine = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root =
            machine.iter().copied().find(is_v2)?.join(format!("cairn-e2e-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("kubepods")).ok()?;
        Some(Self { root })
    }

    /// The root of the hierarchy.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates the cgroup of a pod.
    pub fn add(&self, uid: &str) -> Result<()> {
        let folder = self.of_pod(uid);
        fs::create_dir(&folder).with_context(|| format!("cannot make the cgroup {}", folder.display()))
    }

    /// Removes the cgroup of a pod.
    pub fn remove(&self, uid: &str) -> Result<()> {
        let folder = self.of_pod(uid);
        fs::remove_dir(&folder).with_context(|| format!("cannot remove the cgroup {}", folder.display()))
    }

    fn of_pod(&self, uid: &str) -> PathBuf {
        self.root.join("kubepods").join(format!("pod{uid}"))
    }
}

impl Drop for PodCgroups {
    fn drop(&mut self) {
        let kubepods = self.root.join("kubepods");
        let pods = fs::read_dir(&kubepods).into_iter().flatten().flatten().map(|entry| entry.path());
        for folder in pods.filter(|path| path.is_dir()).chain([kubepods, self.root.clone()]) {
            // it is empty; a remaining cgroup does no harm
            let _ = fs::remove_dir(folder);
        }
    }
}
