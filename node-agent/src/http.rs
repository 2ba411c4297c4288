//! HTTP servers: `/healthz` and `/readyz` at one address, `/metrics`, `/collectors` and `/topology` at another.
//!
//! The addresses are separate, so that clients that exhaust the connections of the second cannot block the kubelet's
//! probes.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use crds::NodeTopologySpec;
use serving::MetricsCache;

use crate::{
    agent::Agent,
    metrics::{Series, devices},
};

/// How long a scrape result is reused, so that concurrent scrapes read drivers once.
const SCRAPE_CACHED: Duration = Duration::from_secs(1);

/// Probe endpoints. They do not read a body.
pub fn probes(agent: Arc<Agent>) -> Router {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).with_state(agent)
}

/// All other endpoints. They do not read a body.
pub fn pages(agent: Arc<Agent>) -> Router {
    let last = Arc::new(MetricsCache::default());
    let scraped = {
        let agent = Arc::clone(&agent);
        async move || metrics(&agent, &last).await
    };
    Router::new()
        .route("/metrics", get(scraped))
        .route("/collectors", get(collectors))
        .route("/topology", get(topology))
        .route("/topology/{node}", get(topology_of))
        .with_state(agent)
}

/// Healthy while probes complete. The kubelet restarts an agent that hangs in a driver.
async fn healthz(State(agent): State<Arc<Agent>>) -> (StatusCode, String) {
    match agent.probe_overdue() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(since) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("no probe of the node has completed for {} s\n", since.as_secs()),
        ),
    }
}

async fn readyz(State(agent): State<Arc<Agent>>) -> (StatusCode, &'static str) {
    if agent.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not every described node is published yet\n")
    }
}

/// The state of each collector, with reason and remedy.
async fn collectors(State(agent): State<Arc<Agent>>) -> String {
    agent.metrics.collectors_page()
}

/// The topology of the only node as HiCR's JSON; with several nodes, links to their pages.
async fn topology(State(agent): State<Arc<Agent>>) -> Response {
    let topologies = agent.roster.topologies();
    match topologies.iter().next() {
        Some((_, spec)) if topologies.len() == 1 => hicr_json(spec),
        None => (
            StatusCode::NOT_FOUND,
            "no topology is available yet
",
        )
            .into_response(),
        Some(_) => {
            let pages = topologies.keys().fold(String::new(), |text, node| text + "/topology/" + node + "\n");
            (StatusCode::NOT_FOUND, format!("each node has its own path:\n{pages}")).into_response()
        }
    }
}

async fn topology_of(State(agent): State<Arc<Agent>>, Path(node): Path<String>) -> Response {
    match agent.roster.topologies().get(&node) {
        Some(spec) => hicr_json(spec),
        None => (StatusCode::NOT_FOUND, format!("no topology of node `{node}`\n")).into_response(),
    }
}

fn hicr_json(spec: &NodeTopologySpec) -> Response {
    let text = format!("{:#}\n", hicr::Topology::from(spec).to_json());
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

async fn metrics(agent: &Agent, last: &MetricsCache) -> Response {
    last.respond(|_| SCRAPE_CACHED, scrape(agent)).await
}

async fn scrape(agent: &Agent) -> prometheus::Result<String> {
    let topologies = agent.roster.topologies();
    let mut series = Series::default();
    devices::add(&mut series, &topologies, &agent.readings().await);
    if let (Some(perf), Some(node)) = (&agent.perf, agent.allocations.node()) {
        series.extend(perf.series(node.to_owned()).await);
    }
    let own = agent.allocations.node().and_then(|node| topologies.get(node));
    agent.allocations.add(&mut series, own.map(AsRef::as_ref));
    agent.metrics.render(&topologies, series)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        fs::File,
        io,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use axum::{body::Body, http::Request};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tower_test::mock;

    use super::*;
    use crate::{
        agent::Caches,
        allocations::Allocations,
        metrics::Metrics,
        perf::{Group, GroupReading, Layer, Perf, Pod, Set, shared::SharedPerf},
    };

    /// An agent that has not reached the API server, for one node if given.
    fn agent_of(node: Option<&str>, perf: Option<SharedPerf>) -> (Arc<Agent>, Caches) {
        let (service, _handle) = mock::pair::<Request<kube::client::Body>, http::Response<Body>>();
        let client = kube::Client::new(service, "default");
        Agent::new(client, Metrics::new().unwrap(), Allocations::new(node), perf, node)
    }

    fn alone() -> Arc<Agent> {
        agent_of(None, None).0
    }

    /// A fake kernel that counts reads of its counters.
    #[derive(Clone, Default)]
    struct Kernel(Arc<AtomicUsize>);

    impl Kernel {
        fn reads(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Layer for Kernel {
        fn open(&self, _: &File, _: usize, _: Set) -> io::Result<Box<dyn Group>> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Group for Kernel {
        fn read(&mut self) -> io::Result<GroupReading> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(GroupReading::default())
        }
    }

    /// The response of one of the two servers, without its date.
    async fn response_to(pages: Router, request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut response = String::new();
        let exchange = async {
            stream.write_all(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
            stream.read_to_string(&mut response).await.unwrap();
        };
        tokio::select! {
            () = exchange => {}
            never = serving::serve(listener, pages) => match never {},
        }
        response.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>().join("\n")
    }

    #[tokio::test]
    async fn the_agent_is_healthy_before_it_is_ready() {
        let healthy = response_to(probes(alone()), "GET /healthz HTTP/1.1\r\nHost: a").await;
        assert!(healthy.starts_with("HTTP/1.1 200 OK") && healthy.ends_with("\nok"), "{healthy}");
        let ready = response_to(probes(alone()), "GET /readyz HTTP/1.1\r\nHost: a").await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("published yet"), "{ready}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_completed_probes_is_unhealthy() {
        let agent = alone();
        let healthz = async || {
            let (status, message) = healthz(State(Arc::clone(&agent))).await;
            (status.as_u16(), message)
        };
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(healthz().await.0, 200);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(healthz().await, (503, "no probe of the node has completed for 61 s\n".to_owned()));
        agent.record_probe();
        assert_eq!(healthz().await.0, 200);
    }

    #[tokio::test]
    async fn metrics_are_text_and_nothing_else_is_served() {
        let pages = pages(alone());
        let metrics = response_to(pages.clone(), "GET /metrics HTTP/1.1\r\nHost: a").await;
        assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
        assert!(metrics.contains("cairn_agent_build_info{"), "{metrics}");
        for page in ["/", "/healthz", "/readyz"] {
            let absent = response_to(pages.clone(), &format!("GET {page} HTTP/1.1\r\nHost: a")).await;
            assert!(absent.starts_with("HTTP/1.1 404"), "{page}: {absent}");
        }
        for page in ["/topology", "/topology/a"] {
            let unknown = response_to(pages.clone(), &format!("GET {page} HTTP/1.1\r\nHost: a")).await;
            assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("topology"), "{unknown}");
        }
        assert!(response_to(pages, "POST /metrics HTTP/1.1\r\nHost: a").await.starts_with("HTTP/1.1 405"));
    }

    #[tokio::test(start_paused = true)]
    async fn scrapes_within_a_second_share_one_result() {
        let (agent, last) = (alone(), MetricsCache::default());
        let renewals = async || {
            let body = metrics(&agent, &last).await.into_body();
            let text = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            text.lines()
                .find_map(|line| line.strip_prefix("cairn_agent_lease_renewals_total "))
                .unwrap()
                .to_owned()
        };
        assert_eq!(renewals().await, "0");
        agent.metrics.lease_renewals.inc();
        assert_eq!(renewals().await, "0", "the cached result");
        tokio::time::advance(SCRAPE_CACHED).await;
        assert_eq!(renewals().await, "1");
    }
    #[tokio::test(start_paused = true)]
    async fn devices_and_cgroups_are_asked_once_for_all_scrapes_within_a_second() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
        fs::create_dir_all(root.path().join("kubepods/pod1")).unwrap();
        let kernel = Kernel::default();
        let mut perf = Perf::new(Box::new(kernel.clone()), root.path(), 100_000, &Metrics::new().unwrap());
        let pod = Pod { namespace: "vision".into(), name: "camera".into(), uid: "1".into() };
        perf.watch(&[pod].into());
        let (agent, caches) = agent_of(Some("node-a"), Some(SharedPerf::new(perf)));
        let received = Arc::new(AtomicUsize::new(0));
        let (mut requests, count) = (caches.into_requests(), Arc::clone(&received));
        tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                count.fetch_add(1, Ordering::Relaxed);
                request.send(Vec::new()).unwrap();
            }
        });

        let last = MetricsCache::default();
        let scrapes = async || {
            let three = [(); 3].map(|()| metrics(&agent, &last));
            let all_ok = futures::future::join_all(three).await.iter().all(|it| it.status() == 200);
            assert!(all_ok);
            (received.load(Ordering::Relaxed), kernel.reads())
        };
        let (devices, groups) = scrapes().await;
        assert!(devices == 1 && groups > 0, "{devices} requests, {groups} reads");
        assert_eq!(scrapes().await, (1, groups), "the cached result");
        tokio::time::advance(SCRAPE_CACHED).await;
        assert_eq!(scrapes().await, (2, 2 * groups));
    }
}
