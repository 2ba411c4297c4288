//! The operator's HTTP: metrics and probes for everybody, snapshots on loopback.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::watch;
use world::ApplicationKey;

use crate::caches::Caches;
use crate::judged::Mismatches;
use crate::metrics::Metrics;
use crate::policies::Policies;
use crate::pulse::Pulse;

/// What the handlers read.
#[derive(Clone)]
pub struct Admin {
    pub metrics: Metrics,
    pub caches: Arc<Caches>,
    pub policies: Arc<Policies>,
    pub default_policy: String,
    /// Set when every cache has been filled once.
    pub warm: watch::Receiver<bool>,
    /// Whether the loops turn.
    pub pulse: Pulse,
    /// Plans on which clingo did not agree.
    pub mismatches: Mismatches,
}

/// Metrics and probes.
pub fn public(admin: Admin) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(admin)
}

/// Snapshots of the whole cluster, and of plans on which clingo did not agree.
pub fn debug(admin: Admin) -> Router {
    Router::new()
        .route("/debug/snapshot/{namespace}/{name}", get(snapshot))
        .route("/debug/mismatch/{namespace}/{name}", get(mismatch))
        .with_state(admin)
}

async fn healthy(State(admin): State<Admin>) -> (StatusCode, String) {
    match admin.pulse.stuck(Instant::now()) {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(stuck) => (StatusCode::SERVICE_UNAVAILABLE, stuck),
    }
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    if *admin.warm.borrow() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet")
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
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
    match admin.metrics.text(&pods) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

/// The labels of every pod of an actor.
fn pods(caches: &Caches) -> Vec<[String; 7]> {
    let index = caches.index();
    let mut all = Vec::new();
    for application in caches.applications.state() {
        for (instance, pod) in world::own(&index, &application).into_values() {
            let Some(pod) = pod else { continue };
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            for actor in world::actors_in(&instance) {
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

/// The snapshot of the application's last plan on which clingo did not agree.
async fn mismatch(State(admin): State<Admin>, Path((namespace, name)): Path<(String, String)>) -> Response {
    match admin.mismatches.of(&ApplicationKey { namespace, name }) {
        Some(snapshot) => ([(header::CONTENT_TYPE, "application/json")], snapshot).into_response(),
        None => (StatusCode::NOT_FOUND, "clingo agreed on every plan").into_response(),
    }
}

/// The snapshot that the application would be planned from now, as `kubectl-cairn plan --snapshot` reads it.
///
/// The header `x-cairn-now` gives the time that it is of; `plan -f … --now` with it makes the same bytes from files.
async fn snapshot(State(admin): State<Admin>, Path((namespace, name)): Path<(String, String)>) -> Response {
    let key = ApplicationKey { namespace, name };
    let application = admin.caches.applications.get(&crate::caches::object_ref(&key));
    let policy =
        application.and_then(|application| application.spec.policy.clone()).unwrap_or(admin.default_policy);
    let policy = match admin.policies.in_force(&policy, &key.namespace) {
        Ok((policy, _)) => policy,
        Err(e) => return (StatusCode::CONFLICT, e.to_string()).into_response(),
    };
    let now = Timestamp::now();
    let caches = admin.caches.clone();
    let look = move || world::snapshot(&caches.index(), &key, &policy, now);
    let world = tokio::task::spawn_blocking(look).await;
    match world {
        Ok(Ok(world)) => {
            let headers = [
                (header::CONTENT_TYPE.as_str(), "application/json".to_owned()),
                ("x-cairn-now", now.to_string()),
            ];
            (headers, world.snapshot.write()).into_response()
        }
        Ok(Err(e @ world::WorldError::NotFound(..))) => {
            (StatusCode::NOT_FOUND, e.to_string()).into_response()
        }
        Ok(Err(e)) => (StatusCode::CONFLICT, e.to_string()).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}
