//! The HTTP endpoints: probes, metrics and snapshots, each at its own address.
//!
//! Separate listeners keep scrapes from exhausting the connections of the kubelet's probes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ::counters::WindowChoice;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use kube::ResourceExt;
use serving::MetricsCache;
use tokio::sync::watch;
use world::ApplicationKey;

use crate::counters::{LoadStore, shown};
use crate::plan::judged::Mismatches;
use crate::plan::policies::store::Policies;
use crate::runtime::liveness::Liveness;
use crate::runtime::metrics::Metrics;
use crate::watch::caches::Caches;

/// State of the handlers.
#[derive(Clone)]
pub struct Admin {
    pub metrics: Metrics,
    pub caches: Arc<Caches>,
    pub policies: Arc<Policies>,
    pub default_policy: String,
    /// Set when every cache is synced.
    pub warm: watch::Receiver<bool>,
    /// Detects stuck loops.
    pub liveness: Liveness,
    /// Snapshots of plans that clingo disagreed with.
    pub mismatches: Mismatches,
    /// Windows of counters, if they are read.
    pub loads: Option<Arc<LoadStore>>,
}

/// A scrape is reused until it is as many times as old as it took to compute, so scraping takes at most a tenth of a core.
const SCRAPE_COUNTS: u32 = 9;

/// Routes of the metrics listener.
pub fn public(admin: Admin) -> Router {
    let last = Arc::new(MetricsCache::default());
    Router::new().route("/metrics", get(async move || metrics(admin, &last).await))
}

/// Routes of the probe listener.
pub fn probes(admin: Admin) -> Router {
    Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready)).with_state(admin)
}

/// Routes of the debug listener: snapshots of the whole cluster, and of plans that clingo disagreed with; measured load.
pub fn debug(admin: Admin) -> Router {
    Router::new()
        .route("/debug/snapshot/{namespace}/{name}", get(snapshot))
        .route("/debug/snapshot/{namespace}/{name}/manifest", get(manifest_snapshot))
        .route("/debug/mismatch/{namespace}/{name}", get(mismatch))
        .route("/debug/load/{namespace}/{name}", get(load))
        .with_state(admin)
}

async fn healthy(State(admin): State<Admin>) -> (StatusCode, String) {
    match admin.liveness.stuck(Instant::now()) {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(stuck) => (StatusCode::SERVICE_UNAVAILABLE, stuck),
    }
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    if *admin.warm.borrow() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the caches are not synced yet")
    }
}

async fn metrics(admin: Admin, last: &MetricsCache) -> Response {
    let made = async {
        let scraped = tokio::task::spawn_blocking(move || scrape(&admin)).await;
        scraped.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    };
    last.respond(|took| took * SCRAPE_COUNTS, made).await
}

fn scrape(admin: &Admin) -> prometheus::Result<String> {
    let mut states = BTreeMap::from([("wanted", 0), ("placed", 0), ("running", 0), ("ready", 0)]);
    for application in admin.caches.applications.state() {
        let counts = application.status.as_ref().and_then(|status| status.actors.clone()).unwrap_or_default();
        for (state, count) in [
            ("wanted", counts.wanted),
            ("placed", counts.placed),
            ("running", counts.running),
            ("ready", counts.ready),
        ] {
            *states.entry(state).or_default() += i64::from(count);
        }
    }
    for (state, count) in states {
        admin.metrics.actors.with_label_values(&[state]).set(count);
    }
    let leads = admin.metrics.leading.get() == 1;
    let pods = if leads { pods(&admin.caches) } else { Vec::new() };
    let silent = if leads { silent_nodes(&admin.caches) } else { Vec::new() };
    admin.metrics.text(&pods, &silent)
}

/// The nodes of the cluster whose agent's Lease expired; a node that was removed has no agent.
fn silent_nodes(caches: &Caches) -> Vec<String> {
    let index = caches.index();
    index.stale_agents().filter(|node| index.has_node(node)).cloned().collect()
}

/// The labels of each pod of an actor, for the info metric.
fn pods(caches: &Caches) -> Vec<[String; 7]> {
    let index = caches.index();
    let mut all = Vec::new();
    for application in caches.applications.state() {
        for (instance, pod) in world::owned_objects(&index, &application).into_values() {
            let Some(pod) = pod else { continue };
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            for actor in world::actors_of_instance(&instance) {
                all.push([
                    pod.uid().unwrap_or_default(),
                    pod.namespace().unwrap_or_default(),
                    pod.name_any(),
                    application.name_any(),
                    actor.short(),
                    node.clone(),
                    world::unit_of(&pod).unwrap_or_default().to_owned(),
                ]);
            }
        }
    }
    all
}

/// The snapshot of the application's last plan that clingo disagreed with.
async fn mismatch(State(admin): State<Admin>, Path((namespace, name)): Path<(String, String)>) -> Response {
    match admin.mismatches.of(&ApplicationKey { namespace, name }) {
        Some(snapshot) => ([(header::CONTENT_TYPE, "application/json")], snapshot).into_response(),
        None => (StatusCode::NOT_FOUND, "clingo agreed on every plan").into_response(),
    }
}

/// The windows of the application's counters, and the numbers that all settled ones give.
async fn load(State(admin): State<Admin>, Path((namespace, name)): Path<(String, String)>) -> Response {
    let key = ApplicationKey { namespace, name };
    let Some(loads) = &admin.loads else {
        return (StatusCode::NOT_FOUND, "no counters are read; set --prometheus-url").into_response();
    };
    let (Some(windows), Some(application)) = (loads.windows(&key), admin.caches.application(&key)) else {
        return (StatusCode::NOT_FOUND, "the application has no window yet").into_response();
    };
    let policy = application.spec.policy.as_ref().unwrap_or(&admin.default_policy);
    let profiles = match admin.policies.in_force(policy, &key.namespace) {
        Ok((policy, _)) => world::group_profiles(&admin.caches.index(), &application, &policy),
        Err(e) => Err(e.to_string()),
    };
    let measured = profiles.ok().and_then(|profiles| loads.measured(&key, &profiles, WindowChoice::All));
    let search = loads.last_search(&key);
    axum::Json(shown(&windows, measured.as_ref(), search.as_deref())).into_response()
}

/// The snapshot that the application would be planned from now, as `kubectl-cairn plan --snapshot` reads it.
///
/// The header `x-cairn-now` gives its time; `plan -f … --now` with that time produces the same bytes from files.
async fn snapshot(State(admin): State<Admin>, Path((namespace, name)): Path<(String, String)>) -> Response {
    assembled(admin, ApplicationKey { namespace, name }, false).await
}

/// The same with the manifest's numbers, as `kubectl-cairn plan --windows` reads it.
async fn manifest_snapshot(
    State(admin): State<Admin>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    assembled(admin, ApplicationKey { namespace, name }, true).await
}

async fn assembled(admin: Admin, key: ApplicationKey, by_manifest: bool) -> Response {
    let application = admin.caches.applications.get(&crate::watch::caches::object_ref(&key));
    let policy =
        application.and_then(|application| application.spec.policy.clone()).unwrap_or(admin.default_policy);
    let policy = match admin.policies.in_force(&policy, &key.namespace) {
        Ok((policy, _)) => policy,
        Err(e) => return (StatusCode::CONFLICT, e.to_string()).into_response(),
    };
    let now = Timestamp::now();
    let caches = admin.caches.clone();
    let assemble = move || {
        let index = caches.index();
        let measured = index.measured(&key, policy.window).filter(|_| !by_manifest);
        world::assemble_measured(&index, &key, &policy, now, measured)
    };
    let world = tokio::task::spawn_blocking(assemble).await;
    match world {
        Ok(Ok(world)) => {
            let headers = [
                (header::CONTENT_TYPE.as_str(), "application/json".to_owned()),
                ("x-cairn-now", now.to_string()),
            ];
            (headers, world.snapshot.write()).into_response()
        }
        Ok(Err(e @ world::AssembleError::NotFound(..))) => {
            (StatusCode::NOT_FOUND, e.to_string()).into_response()
        }
        Ok(Err(e)) => (StatusCode::CONFLICT, e.to_string()).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use crds::ActorApplication;
    use futures::channel::mpsc;
    use kube::runtime::reflector;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// An operator with empty caches.
    fn fresh() -> Admin {
        let (applications, _) = reflector::store::<ActorApplication>();
        let (requests, _) = mpsc::unbounded();
        Admin {
            metrics: Metrics::new(prometheus::Registry::new()).unwrap(),
            caches: Arc::new(Caches::new(applications, requests, Arc::default(), Vec::new())),
            policies: Arc::default(),
            default_policy: "throughput".to_owned(),
            warm: watch::channel(false).1,
            liveness: Liveness::new(Duration::from_mins(1)),
            mismatches: Mismatches::default(),
            loads: None,
        }
    }

    async fn start(pages: Router) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serving::serve(listener, pages));
        address
    }

    /// The HTTP status of the answer.
    async fn ask(address: SocketAddr, page: &str) -> u16 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn probes_answer_while_all_metrics_connections_are_in_use() {
        let admin = fresh();
        let (scraped, probed) = (start(public(admin.clone())).await, start(probes(admin)).await);
        let mut held = Vec::new();
        for _ in 0..=serving::MAX_CONNECTIONS {
            held.push(TcpStream::connect(scraped).await.unwrap());
        }
        assert_eq!(ask(probed, "/healthz").await, 200);
        assert_eq!(ask(probed, "/readyz").await, 503, "the caches are not synced");
    }

    #[tokio::test]
    async fn frequent_scrapes_are_answered_from_one_computation() {
        let (admin, last) = (fresh(), MetricsCache::default());
        let body = |answer: Response| axum::body::to_bytes(answer.into_body(), usize::MAX);
        let text = || async { Ok::<_, String>("cairn 1\n".to_owned()) };
        assert_eq!(body(last.respond(|_| Duration::from_hours(1), text()).await).await.unwrap(), "cairn 1\n");
        assert_eq!(body(metrics(admin.clone(), &last).await).await.unwrap(), "cairn 1\n");
        let last = MetricsCache::default();
        assert_eq!(body(last.respond(|_| Duration::ZERO, text()).await).await.unwrap(), "cairn 1\n");
        let made = body(metrics(admin, &last).await).await.unwrap();
        assert!(String::from_utf8_lossy(&made).contains("cairn_operator_actors"));
    }

    #[tokio::test]
    async fn each_path_is_served_at_one_address() {
        let admin = fresh();
        let addresses = [start(public(admin.clone())).await, start(probes(admin)).await];
        for (page, statuses) in [("/metrics", [200, 404]), ("/healthz", [404, 200]), ("/readyz", [404, 503])]
        {
            for (address, status) in addresses.into_iter().zip(statuses) {
                assert_eq!(ask(address, page).await, status, "{page}");
            }
        }
    }
}
