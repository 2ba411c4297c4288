//! Hardware that is not there, for node agents: GPUs of a stand-in for NVIDIA's driver, and a kubelet that says who
//! holds them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tokio::task::AbortHandle;

use crate::{
    Cluster, Workload, keeper,
    kubelet_api::{ContainerDevices, ContainerResources, PodResources, serve_pod_resources},
    product::{AGENT, NAMESPACE},
};

impl Cluster {
    /// The agent of `node`, to be started: it looks at this machine, and at the GPUs of `driver`.
    ///
    /// The chart must be installed without described machines, and with `agent.podResources=Enabled`.
    pub async fn gpu_agent(
        &self,
        node: &str,
        driver: &Driver,
        kubelet: &FakeKubelet,
    ) -> Result<Workload<'_>> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        let library = text(&keeper::built("libstub_nvml.so")?)?;
        let socket = text(&kubelet.socket)?;
        let workload = self.daemon_set(NAMESPACE, AGENT).await?.field("spec.nodeName", node);
        let workload = workload
            .env("CAIRN_NVML_LIBRARY", library)
            .env("CAIRN_STUB_NVML", format!("@{}", text(&driver.file)?));
        Ok(workload.arg(format!("--pod-resources={socket}")))
    }
}

/// The stand-in for NVIDIA's driver, whose condition is in a file that it reads anew each time.
pub struct Driver {
    file: PathBuf,
    gpus: usize,
}

impl Driver {
    /// With so many GPUs, all of them well.
    pub fn new(file: PathBuf, gpus: usize) -> Result<Self> {
        let driver = Self { file, gpus };
        driver.set("")?;
        Ok(driver)
    }

    /// Changes its condition: words as `node-agent/stubs/nvml` has them.
    pub fn set(&self, words: &str) -> Result<()> {
        // in one step: half a condition would be another one
        let draft = self.file.with_extension("draft");
        fs::write(&draft, format!("gpus={} {words}", self.gpus))?;
        fs::rename(&draft, &self.file).with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// A kubelet's socket that says which pod holds what, until it is dropped.
pub struct FakeKubelet {
    socket: PathBuf,
    server: AbortHandle,
}

impl FakeKubelet {
    /// Answers at `socket` from now on.
    pub fn start(socket: &Path, pods: Vec<PodResources>) -> Self {
        let path = socket.to_owned();
        let server = tokio::spawn(async move {
            if let Err(error) = serve_pod_resources(&path, pods).await {
                eprintln!("a kubelet that is none: {error:#}");
            }
        });
        Self { socket: socket.to_owned(), server: server.abort_handle() }
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.server.abort();
        // whoever comes next may want the name; it is gone already where listening failed
        let _ = fs::remove_file(&self.socket);
    }
}

/// A pod of one container, which holds a GPU of the stand-in, by its number, and CPUs of its own.
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
