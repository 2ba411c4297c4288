//! Churn on the measured node: GPUs are lost and return, pods end and others start.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use crds::Instance;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::{GPUS, HERE, LIMIT, PODS};
use crate::{
    Cluster,
    hardware::{Driver, FakeKubelet, PodCgroups, controller, holder},
    process::http_get,
    wait,
};

/// How many of the pods are actors, whose CPU use is counted if enabled.
const ACTORS: usize = 16;

/// The node with its devices and pods; each step follows when the agent has noticed the previous one.
pub(super) struct Scene {
    /// The source of its GPUs.
    pub driver: Driver,
    /// Reports the GPU allocations.
    pub kubelet: FakeKubelet,
    /// The cgroups of the actors' pods; none if counting is disabled or not possible.
    pub cgroups: Option<PodCgroups>,
    client: Client,
    api: Api<Pod>,
    /// The names and uids of the pods, the oldest first.
    pods: VecDeque<(String, String)>,
    /// The number of pods so far.
    made: usize,
    step: usize,
    /// The number of losses and returns that the agent noticed.
    pub changes: usize,
}

impl Scene {
    /// All pods run and share the GPUs; no GPU is lost.
    pub async fn set(cluster: &Cluster, counted: bool) -> Result<Self> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}});
        cluster.kubectl_with(["apply", "-f-"], &namespace.to_string()).await?;
        let run = cluster.plane().state.join("run");
        let client = cluster.client().await?;
        let mut scene = Self {
            driver: Driver::new(run.join("driver"), GPUS)?,
            kubelet: FakeKubelet::start(&run.join("kubelet.sock"), Vec::new()),
            cgroups: counted.then(|| PodCgroups::make("footprint")).flatten(),
            api: Api::namespaced(client.clone(), HERE),
            client,
            pods: VecDeque::new(),
            made: 0,
            step: 0,
            changes: 0,
        };
        for _ in 0..PODS {
            scene.start_pod().await?;
        }
        Ok(scene)
    }

    /// The root of the cgroup hierarchy.
    pub fn cgroup_root(&self) -> Option<&Path> {
        self.cgroups.as_ref().map(PodCgroups::root)
    }

    async fn start_pod(&mut self) -> Result<()> {
        let (number, name) = (self.made, format!("pod-{:04}", self.made));
        let metadata = if is_actor(number) {
            let controller = controller(&self.client, HERE, &name).await?;
            json!({"name": name, "labels": {"cairn.dev/application": HERE}, "ownerReferences": [controller]})
        } else {
            json!({"name": name})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": HERE, "containers": [{"name": "actor", "image": "none"}]}});
        let made = self.api.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let uid = made.uid().context("a pod without a uid")?;
        if let (Some(cgroups), true) = (&self.cgroups, is_actor(number)) {
            cgroups.add(&uid)?;
        }
        self.kubelet.add(holder(HERE, &name, Some(number % GPUS), &[2]));
        self.pods.push_back((name, uid));
        self.made += 1;
        Ok(())
    }

    /// Ends the oldest pod.
    async fn end_pod(&mut self) -> Result<()> {
        let (name, uid) = self.pods.pop_front().context("there is no pod")?;
        self.kubelet.remove(&name);
        self.api.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        let was_actor = is_actor(self.made - PODS);
        if was_actor {
            let instances = Api::<Instance>::namespaced(self.client.clone(), HERE);
            instances.delete(&name, &DeleteParams::default()).await?;
        }
        if let (Some(cgroups), true) = (&self.cgroups, was_actor) {
            cgroups.remove(&uid)?;
        }
        Ok(())
    }

    /// The GPU that is lost now; none in every other step.
    fn lost(&self) -> Option<usize> {
        (self.step % 2 == 1).then_some(self.step / 2 % GPUS)
    }

    /// Takes the next step if the agent's `metrics` reflect the last one.
    pub async fn go_on(&mut self, metrics: &str) -> Result<()> {
        if lost(metrics) != usize::from(self.lost().is_some()) {
            return Ok(());
        }
        self.changes += 1;
        self.step += 1;
        // alternately reported as lost, or absent
        let how = if (self.step / 2).is_multiple_of(2) { "lost" } else { "gone" };
        self.driver.set(&self.lost().map(|gpu| format!("{how}={gpu}")).unwrap_or_default())?;
        self.end_pod().await?;
        self.start_pod().await
    }

    /// Restores all devices, waits until the agent reports exactly the current state, and returns the number of series
    /// of each name.
    pub async fn settle(&mut self, port: u16) -> Result<BTreeMap<String, usize>> {
        self.step += self.step % 2;
        self.driver.set("")?;
        let settled = wait::until(LIMIT, async || {
            let (_, text) = http_get(port, "/metrics").await?;
            ensure!(lost(&text) == 0, "a GPU is lost");
            // a GPU that was absent too briefly to be lost has no measurements until the next probe
            let measured = series(&text).get("cairn_device_energy_joules_total").copied().unwrap_or_default();
            ensure!(measured == GPUS, "{measured} of {GPUS} GPUs are measured");
            let there: BTreeSet<_> = self.pods.iter().map(|(name, _)| name.as_str()).collect();
            ensure!(pods_of(&text, "cairn_pod_device_info") == there, "the agent knows of other pods");
            if text.contains("cairn_agent_collector_state{collector=\"perf_software\",state=\"ok\"} 1") {
                let counted = pods_of(&text, "cairn_pod_cpu_task_clock_seconds_total");
                let actors = self.pods.iter().enumerate();
                let actors = actors.filter(|(place, _)| is_actor(self.made - PODS + place));
                let actors: BTreeSet<_> = actors.map(|(_, (name, _))| name.as_str()).collect();
                // on a machine with many CPUs the series limit excludes some pods
                let known = counted.len() + left_out(&text);
                ensure!(counted.is_subset(&actors), "the agent counts pods that are gone");
                ensure!(known == actors.len(), "the agent counts {} of {} pods", counted.len(), actors.len());
            }
            anyhow::Ok(series(&text))
        });
        settled.await.map_err(anyhow::Error::msg)
    }
}

/// Whether the pod with this number is an actor's: always the same share of the current ones.
fn is_actor(number: usize) -> bool {
    number % PODS < ACTORS
}

/// The number of lost devices in a scrape.
fn lost(metrics: &str) -> usize {
    let lost = |line: &&str| line.starts_with("cairn_device_health{") && line.ends_with("state=\"lost\"} 1");
    metrics.lines().filter(lost).count()
}

/// The pods with a series of this name.
fn pods_of<'a>(metrics: &'a str, name: &str) -> BTreeSet<&'a str> {
    let pod = |line: &'a str| {
        let (_, rest) = line.strip_prefix(name)?.split_once("pod=\"")?;
        Some(rest.split_once('"')?.0)
    };
    metrics.lines().filter_map(pod).collect()
}

/// The number of pods that a scrape reports as dropped.
fn left_out(metrics: &str) -> usize {
    let left_out = "cairn_agent_series_dropped{limit=\"perf_pods\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(left_out)?.parse().ok()).unwrap_or(0)
}

/// The number of series of each name in a scrape.
fn series(metrics: &str) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        *count.entry(name.to_owned()).or_default() += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_devices_pods_and_series_are_read_from_a_scrape() {
        let text = "# TYPE cairn_device_health gauge\n\
            cairn_device_health{device=\"gpu-0\",state=\"lost\"} 1\n\
            cairn_device_health{device=\"gpu-0\",state=\"ok\"} 0\n\
            cairn_device_health{device=\"gpu-1\",state=\"lost\"} 0\n\
            cairn_pod_device_info{namespace=\"busy\",pod=\"pod-1\",device_id=\"a\"} 1\n\
            cairn_agent_series_dropped{limit=\"perf_pods\"} 3\n";
        assert_eq!((lost(text), left_out(text), left_out("")), (1, 3, 0));
        assert_eq!(pods_of(text, "cairn_pod_device_info"), ["pod-1"].into());
        let counted =
            [("cairn_device_health", 3), ("cairn_pod_device_info", 1), ("cairn_agent_series_dropped", 1)];
        assert_eq!(series(text), counted.map(|(name, count)| (name.to_owned(), count)).into());
    }

    #[test]
    fn the_oldest_pod_is_replaced_by_one_of_its_kind() {
        let actors = |first: usize| (first..first + PODS).filter(|number| is_actor(*number)).count();
        assert!((0..2 * PODS).all(|first| actors(first) == ACTORS));
    }
}
