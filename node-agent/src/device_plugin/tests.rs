//! The plugin beside a kubelet that starts, restarts, refuses, or ignores it.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use crds::NodeTopologySpec;
use tokio::{task::JoinHandle, time::timeout};
use tonic::Code;

use super::{
    COLLECTOR, Plugin,
    fake::FakeKubelet,
    wire::{
        ALLOCATE, AllocateRequest, AllocateResponse, ContainerAllocateRequest,
        ContainerPreferredAllocationRequest, DevicePluginOptions, Empty, HEALTHY, OPTIONS, PRE_START,
        PREFERRED, PreferredAllocationRequest, PreferredAllocationResponse, UNHEALTHY, VERSION,
    },
};
use crate::metrics::Metrics;

const OFTEN: Duration = Duration::from_millis(2);
/// Far above the usual time, for busy machines.
const SOON: Duration = Duration::from_secs(30);

/// A running plugin with its topology.
struct Scene {
    topology: Arc<Mutex<Option<Arc<NodeTopologySpec>>>>,
    metrics: Arc<Metrics>,
    plugin: JoinHandle<()>,
}

impl Scene {
    fn start(plugin: Plugin, domains: &[u32]) -> Self {
        let topology = Arc::new(Mutex::new(None));
        let metrics = Arc::new(Metrics::new().unwrap());
        let (seen, counted) = (Arc::clone(&topology), Arc::clone(&metrics));
        let plugin = tokio::spawn(async move {
            match plugin.keep(move || seen.lock().unwrap().clone(), &counted, OFTEN).await {}
        });
        let scene = Self { topology, metrics, plugin };
        scene.has(domains);
        scene
    }

    /// Changes the topology.
    fn has(&self, domains: &[u32]) {
        let domain = |number| format!("{{id: numa-{number}, type: NUMA Domain, numaNode: {number}}}");
        let devices: Vec<_> = domains.iter().map(domain).collect();
        let spec = serde_yaml::from_str(&format!("devices: [{}]", devices.join(", "))).unwrap();
        *self.topology.lock().unwrap() = Some(Arc::new(spec));
    }

    /// Waits until the collectors page has these words about the plugin.
    async fn says(&self, words: &str) {
        let page = || self.metrics.collectors_page();
        let says = async {
            while !page().contains(&format!("{COLLECTOR} {words}")) {
                tokio::time::sleep(OFTEN).await;
            }
        };
        assert!(timeout(SOON, says).await.is_ok(), "not {words:?}: {}", page());
    }

    /// Stops the plugin, as the end of the agent does.
    async fn stop(self) {
        self.plugin.abort();
        let _ = self.plugin.await;
    }
}

fn sockets(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_domain_is_registered_and_its_devices_follow_the_topology() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    // an agent that was killed left its socket, and another program a file
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("cairn-numa-0.sock")).unwrap());
    let scene = Scene::start(Plugin::new(folder.path(), 3), &[0]);
    let first = kubelet.registration().await;
    assert_eq!((first.version.as_str(), first.resource_name.as_str()), (VERSION, "cairn.dev/numa-0"));
    let mut watched = kubelet.watch(&first.endpoint).await;
    let ids = |list: super::wire::ListAndWatchResponse| {
        let devices = list.devices.into_iter();
        devices.map(|device| format!("{} {}", device.id, device.health)).collect::<Vec<_>>()
    };
    let all = |health: &str| (0..3).map(|slot| format!("numa-0::{slot} {health}")).collect::<Vec<_>>();
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(HEALTHY));
    scene.says("ok: the kubelet at ").await;

    scene.has(&[1]);
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(UNHEALTHY));
    let second = kubelet.registration().await;
    assert_eq!(second.resource_name, "cairn.dev/numa-1");
    let mut also = kubelet.watch(&second.endpoint).await;
    assert_eq!(also.message().await.unwrap().unwrap().devices.len(), 3);
    let lost = "offers cairn.dev/numa-1 with 3 devices each; the domains of cairn.dev/numa-0 are lost";
    scene.says(&format!("ok: the kubelet at {} {lost}", folder.path().display())).await;

    scene.has(&[0, 1]);
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(HEALTHY));
    assert_eq!(sockets(folder.path()), ["cairn-numa-0.sock", "cairn-numa-1.sock", "kubelet.sock"]);
    scene.stop().await;
    assert_eq!(sockets(folder.path()), ["kubelet.sock"]);
    // the kubelet sees that the plugin ended
    assert!(matches!(watched.message().await, Ok(None) | Err(_)));
}

#[tokio::test]
async fn every_kubelet_that_starts_gets_the_resources() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::start(Plugin::new(folder.path(), 1), &[0, 1]);
    scene.says("absent: there is no socket").await;
    let all = ["cairn.dev/numa-0", "cairn.dev/numa-1"];
    for _ in 0..3 {
        let mut kubelet = FakeKubelet::start(folder.path());
        assert_eq!(kubelet.registered(2).await, all);
        let mut watches = Vec::new();
        for endpoint in ["cairn-numa-0.sock", "cairn-numa-1.sock"] {
            let mut stream = kubelet.watch(endpoint).await;
            assert!(stream.message().await.unwrap().is_some());
            watches.push(stream);
        }
        scene.says("ok").await;
        drop(kubelet);
        scene.says("absent").await;
    }
    // a kubelet that was killed leaves its socket, and the next one starts before that is noticed
    let mut killed = FakeKubelet::start(folder.path());
    assert_eq!(killed.registered(2).await, all);
    let mut next = FakeKubelet::start(folder.path());
    assert_eq!(next.registered(2).await, all);
    scene.stop().await;
}

#[tokio::test]
async fn a_resource_that_is_not_watched_is_registered_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let mut plugin = Plugin::new(folder.path(), 1);
    plugin.watched_within = OFTEN;
    let scene = Scene::start(plugin, &[0]);
    for _ in 0..3 {
        assert_eq!(kubelet.registration().await.resource_name, "cairn.dev/numa-0");
    }
    scene.says("error: the kubelet does not watch the devices of cairn.dev/numa-0").await;
    let watched = kubelet.watch("cairn-numa-0.sock").await;
    scene.says("ok").await;
    // the connection breaks, and the kubelet is the same
    drop(watched);
    scene.says("error").await;
    scene.stop().await;
}

#[tokio::test]
async fn refusals_are_reported_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = FakeKubelet::start(folder.path());
    kubelet.refuse(Some("the version is not supported"));
    let scene = Scene::start(Plugin::new(folder.path(), 1), &[]);
    scene.says("absent: the topology has no NUMA domain").await;
    scene.has(&[0, 1]);
    scene.says("error: the kubelet refuses to register cairn.dev/numa-0: the version is not supported").await;
    let counted = || scene.metrics.render(&[].into(), crate::metrics::Series::default()).unwrap();
    let errors = r#"cairn_agent_collect_errors_total{collector="device_plugin",reason="error"} 1"#;
    assert!(counted().contains(errors), "a refusal that is repeated counts once: {}", counted());
    kubelet.refuse(None);
    let _watches = (kubelet.watch("cairn-numa-0.sock").await, kubelet.watch("cairn-numa-1.sock").await);
    scene.says("ok").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let _kubelet = FakeKubelet::start(folder.path());
    fs::create_dir(folder.path().join("cairn-numa-0.sock")).unwrap();
    let scene = Scene::start(Plugin::new(folder.path(), 1), &[0]);
    scene.says("error: cannot listen on ").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_container_learns_its_numa_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let scene = Scene::start(Plugin::new(folder.path(), 4), &[7]);
    let endpoint = kubelet.registration().await.endpoint;
    let options: DevicePluginOptions = kubelet.call(&endpoint, OPTIONS, Empty {}).await.unwrap();
    assert_eq!(options, DevicePluginOptions::default());
    let container = ContainerAllocateRequest { devices_ids: vec!["numa-7::2".into()] };
    let asked = AllocateRequest { container_requests: vec![container.clone(), container] };
    let answer: AllocateResponse = kubelet.call(&endpoint, ALLOCATE, asked).await.unwrap();
    let node = [("CAIRN_NUMA_NODE".to_owned(), "7".to_owned())].into();
    assert_eq!(answer.container_responses.len(), 2);
    assert!(answer.container_responses.iter().all(|its| its.envs == node), "{answer:?}");
    let one = ContainerPreferredAllocationRequest {
        available_device_ids: vec!["numa-7::0".into(), "numa-7::1".into()],
        must_include_device_ids: Vec::new(),
        allocation_size: 1,
    };
    let asked = PreferredAllocationRequest { container_requests: vec![one] };
    let answer: PreferredAllocationResponse = kubelet.call(&endpoint, PREFERRED, asked).await.unwrap();
    assert_eq!(answer.container_responses[0].device_ids, ["numa-7::0"]);
    kubelet.call::<_, Empty>(&endpoint, PRE_START, Empty {}).await.unwrap();
    let unknown = kubelet.call::<_, Empty>(&endpoint, "/v1beta1.DevicePlugin/Else", Empty {}).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    scene.stop().await;
}
