//! The plugin with a kubelet that starts, restarts, refuses registrations, or does not watch devices.

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
    fake::FakeRegistrationServer,
    wire::{
        ALLOCATE, AllocateRequest, AllocateResponse, ContainerAllocateRequest,
        ContainerPreferredAllocationRequest, DevicePluginOptions, Empty, HEALTHY, OPTIONS, PRE_START,
        PREFERRED, PreferredAllocationRequest, PreferredAllocationResponse, UNHEALTHY, VERSION,
    },
};
use crate::metrics::Metrics;

const INTERVAL: Duration = Duration::from_millis(2);
/// Far above the usual duration, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running plugin with its topology.
struct Setup {
    topology: Arc<Mutex<Option<Arc<NodeTopologySpec>>>>,
    metrics: Arc<Metrics>,
    plugin: JoinHandle<()>,
}

impl Setup {
    fn start(plugin: Plugin, domains: &[u32]) -> Self {
        let topology = Arc::new(Mutex::new(None));
        let metrics = Arc::new(Metrics::new().unwrap());
        let (seen, counted) = (Arc::clone(&topology), Arc::clone(&metrics));
        let plugin = tokio::spawn(async move {
            match plugin.run(move || seen.lock().unwrap().clone(), &counted, INTERVAL).await {}
        });
        let setup = Self { topology, metrics, plugin };
        setup.set_domains(domains);
        setup
    }

    /// Changes the topology.
    fn set_domains(&self, domains: &[u32]) {
        let domain = |number| format!("{{id: numa-{number}, type: NUMA Domain, numaNode: {number}}}");
        let devices: Vec<_> = domains.iter().map(domain).collect();
        let spec = serde_yaml::from_str(&format!("devices: [{}]", devices.join(", "))).unwrap();
        *self.topology.lock().unwrap() = Some(Arc::new(spec));
    }

    /// Waits until the collectors page has this state of the plugin.
    async fn wait_for(&self, state: &str) {
        let page = || self.metrics.collectors_page();
        let reached = async {
            while !page().contains(&format!("{COLLECTOR} {state}")) {
                tokio::time::sleep(INTERVAL).await;
            }
        };
        assert!(timeout(TIMEOUT, reached).await.is_ok(), "not {state:?}: {}", page());
    }

    /// Stops the plugin, as the agent does when it stops.
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
    let mut kubelet = FakeRegistrationServer::start(folder.path());
    // the socket of a killed agent is left behind
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("cairn-numa-0.sock")).unwrap());
    let setup = Setup::start(Plugin::new(folder.path(), 3), &[0]);
    let first = kubelet.registration().await;
    assert_eq!((first.version.as_str(), first.resource_name.as_str()), (VERSION, "cairn.dev/numa-0"));
    let mut watched = kubelet.watch(&first.endpoint).await;
    let ids = |list: super::wire::ListAndWatchResponse| {
        let devices = list.devices.into_iter();
        devices.map(|device| format!("{} {}", device.id, device.health)).collect::<Vec<_>>()
    };
    let all = |health: &str| (0..3).map(|slot| format!("numa-0::{slot} {health}")).collect::<Vec<_>>();
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(HEALTHY));
    setup.wait_for("ok: the kubelet at ").await;

    setup.set_domains(&[1]);
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(UNHEALTHY));
    let second = kubelet.registration().await;
    assert_eq!(second.resource_name, "cairn.dev/numa-1");
    let mut also = kubelet.watch(&second.endpoint).await;
    assert_eq!(also.message().await.unwrap().unwrap().devices.len(), 3);
    let lost = "offers cairn.dev/numa-1 with 3 devices each; the domains of cairn.dev/numa-0 are lost";
    setup.wait_for(&format!("ok: the kubelet at {} {lost}", folder.path().display())).await;

    setup.set_domains(&[0, 1]);
    assert_eq!(ids(watched.message().await.unwrap().unwrap()), all(HEALTHY));
    assert_eq!(sockets(folder.path()), ["cairn-numa-0.sock", "cairn-numa-1.sock", "kubelet.sock"]);
    setup.stop().await;
    assert_eq!(sockets(folder.path()), ["kubelet.sock"]);
    // the stream ends with the plugin
    assert!(matches!(watched.message().await, Ok(None) | Err(_)));
}

#[tokio::test]
async fn resources_are_registered_with_each_started_kubelet() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::start(Plugin::new(folder.path(), 1), &[0, 1]);
    setup.wait_for("absent: there is no socket").await;
    let all = ["cairn.dev/numa-0", "cairn.dev/numa-1"];
    for _ in 0..3 {
        let mut kubelet = FakeRegistrationServer::start(folder.path());
        assert_eq!(kubelet.registered(2).await, all);
        let mut watches = Vec::new();
        for endpoint in ["cairn-numa-0.sock", "cairn-numa-1.sock"] {
            let mut stream = kubelet.watch(endpoint).await;
            assert!(stream.message().await.unwrap().is_some());
            watches.push(stream);
        }
        setup.wait_for("ok").await;
        drop(kubelet);
        setup.wait_for("absent").await;
    }
    // a killed kubelet leaves its socket, and the next one starts before the plugin's next check
    let mut killed = FakeRegistrationServer::start(folder.path());
    assert_eq!(killed.registered(2).await, all);
    let mut next = FakeRegistrationServer::start(folder.path());
    assert_eq!(next.registered(2).await, all);
    setup.stop().await;
}

#[tokio::test]
async fn a_resource_that_is_not_watched_is_registered_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeRegistrationServer::start(folder.path());
    let mut plugin = Plugin::new(folder.path(), 1);
    plugin.watch_timeout = INTERVAL;
    let setup = Setup::start(plugin, &[0]);
    for _ in 0..3 {
        assert_eq!(kubelet.registration().await.resource_name, "cairn.dev/numa-0");
    }
    setup.wait_for("error: the kubelet does not watch the devices of cairn.dev/numa-0").await;
    let watched = kubelet.watch("cairn-numa-0.sock").await;
    setup.wait_for("ok").await;
    // the connection breaks, but the kubelet does not restart
    drop(watched);
    setup.wait_for("error").await;
    setup.stop().await;
}

#[tokio::test]
async fn refused_registrations_are_reported_and_retried() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = FakeRegistrationServer::start(folder.path());
    kubelet.set_refusal(Some("unsupported version"));
    let setup = Setup::start(Plugin::new(folder.path(), 1), &[]);
    setup.wait_for("absent: the topology has no NUMA domain").await;
    setup.set_domains(&[0, 1]);
    setup.wait_for("error: the kubelet refuses to register cairn.dev/numa-0: unsupported version").await;
    let counted = || setup.metrics.render(&[].into(), crate::metrics::Series::default()).unwrap();
    let errors = r#"cairn_agent_collect_errors_total{collector="device_plugin",reason="error"} 1"#;
    assert!(counted().contains(errors), "repeated refusals count once: {}", counted());
    kubelet.set_refusal(None);
    let _watches = (kubelet.watch("cairn-numa-0.sock").await, kubelet.watch("cairn-numa-1.sock").await);
    setup.wait_for("ok").await;
    setup.stop().await;
}

#[tokio::test]
async fn a_socket_that_cannot_be_created_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let _kubelet = FakeRegistrationServer::start(folder.path());
    fs::create_dir(folder.path().join("cairn-numa-0.sock")).unwrap();
    let setup = Setup::start(Plugin::new(folder.path(), 1), &[0]);
    setup.wait_for("error: cannot listen on ").await;
    setup.stop().await;
}

#[tokio::test]
async fn a_container_gets_its_numa_node_in_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeRegistrationServer::start(folder.path());
    let setup = Setup::start(Plugin::new(folder.path(), 4), &[7]);
    let endpoint = kubelet.registration().await.endpoint;
    let options: DevicePluginOptions = kubelet.call(&endpoint, OPTIONS, Empty {}).await.unwrap();
    assert_eq!(options, DevicePluginOptions::default());
    let container = ContainerAllocateRequest { devices_ids: vec!["numa-7::2".into()] };
    let request = AllocateRequest { container_requests: vec![container.clone(), container] };
    let response: AllocateResponse = kubelet.call(&endpoint, ALLOCATE, request).await.unwrap();
    let node = [("CAIRN_NUMA_NODE".to_owned(), "7".to_owned())].into();
    assert_eq!(response.container_responses.len(), 2);
    assert!(response.container_responses.iter().all(|it| it.envs == node), "{response:?}");
    let one = ContainerPreferredAllocationRequest {
        available_device_ids: vec!["numa-7::0".into(), "numa-7::1".into()],
        must_include_device_ids: Vec::new(),
        allocation_size: 1,
    };
    let request = PreferredAllocationRequest { container_requests: vec![one] };
    let response: PreferredAllocationResponse = kubelet.call(&endpoint, PREFERRED, request).await.unwrap();
    assert_eq!(response.container_responses[0].device_ids, ["numa-7::0"]);
    kubelet.call::<_, Empty>(&endpoint, PRE_START, Empty {}).await.unwrap();
    let unknown = kubelet.call::<_, Empty>(&endpoint, "/v1beta1.DevicePlugin/Else", Empty {}).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    setup.stop().await;
}
