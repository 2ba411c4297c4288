//! The Cairn operator: decides where actors run, and runs them there.
//!
//! Each application is reconciled in five steps. Observe: [`watch`] keeps the caches. Validate and plan: [`plan`] asks `world`,
//! `control` and `placement`, in a queue of its own. Commit: [`commit`] writes the Placement. Apply: [`apply`] creates and
//! deletes pods. Report: [`status`]. Every write goes through [`api`], which requires the lease.
#![allow(missing_docs, reason = "a program: its items are documented where their name does not say it")]

mod api;
mod apply;
mod commit;
mod config;
mod counters;
mod error;
mod plan;
mod queue;
mod runtime;
mod status;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use crds::ActorApplication;
use futures::channel::mpsc::{self, UnboundedReceiver};
use futures::{FutureExt, StreamExt, stream};
use kube::Client;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch as tokio_watch};
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;
use world::{ApplicationKey, Index};

use crate::api::events;
use crate::api::leader;
use crate::api::leader::Campaign;
use crate::api::writes;
use crate::apply::moves::limits::MoveTracker;
use crate::apply::reconcile::reconcile;
use crate::commit::locks;
use crate::commit::slow;
use crate::config::{Config, LogFormat};
use crate::counters::{LoadMetrics, LoadStore, PrometheusClient, Reader};
use crate::plan::judged;
use crate::plan::load;
use crate::plan::planner;
use crate::plan::planning;
use crate::plan::planning::{commit_finished, plan};
use crate::plan::policies;
use crate::plan::searches;
use crate::queue::retries;
use crate::queue::solver_slots::SolverSlots;
use crate::queue::throttle;
use crate::queue::uid_tracker;
use crate::queue::workqueue::run_workqueue;
use crate::runtime::admin;
use crate::runtime::context::Context;
use crate::runtime::liveness;
use crate::runtime::metrics;
use crate::status::pools;
use crate::status::report;
use crate::watch::agents;
use crate::watch::caches;
use crate::watch::feeds;

/// Snapshots of megabytes are allocated and freed on many threads; jemalloc reuses that memory.
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Changes to one application within this time are one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How many applications are reconciled or planned concurrently.
const AT_ONCE: usize = 16;

fn main() -> ExitCode {
    portfolio::run_child_if_asked();
    let config = Config::parse();
    start_log(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(config))) {
        Ok(code) => code,
        Err(e) => {
            let mut text = e.to_string();
            let mut cause = e.source();
            while let Some(source) = cause {
                text = format!("{text}: {source}");
                cause = source.source();
            }
            tracing::error!(error = text, "exiting");
            ExitCode::FAILURE
        }
    }
}

/// The reader of counters, and the applications after each of their windows.
type CounterReader = (Arc<Reader>, UnboundedReceiver<ApplicationKey>);

/// Reads counters of applications, if a Prometheus is configured.
fn counter_reader(
    config: &Config,
    metrics: &metrics::Metrics,
    caches: &Arc<caches::Caches>,
    policies: &Arc<policies::store::Policies>,
) -> Result<Option<CounterReader>, Box<dyn std::error::Error>> {
    let Some(url) = &config.counters.prometheus_url else { return Ok(None) };
    let (ticked, windows) = mpsc::unbounded();
    caches.change(Index::expect_counters);
    let reader = Reader {
        client: PrometheusClient::new(url, &config.counters)?,
        selector: config.counters.counters_selector.clone(),
        caches: caches.clone(),
        policies: policies.clone(),
        default_policy: config.planning.default_policy.clone(),
        store: Arc::new(LoadStore::default()),
        metrics: LoadMetrics::new(metrics.registry())?,
        ticked,
    };
    Ok(Some((Arc::new(reader), windows)))
}

fn start_log(config: &Config) {
    let filter = EnvFilter::try_new(&config.logging.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.logging.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

async fn run(config: Config) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // The client must not retry a failed call: by then another replica may hold the lease.
    let mut connection = kube::Config::infer().await?;
    connection.default_retry = false;
    let client = Client::try_from(connection.clone())?;
    let metrics = metrics::Metrics::new(prometheus::Registry::new())?;
    let policies = Arc::new(policies::store::Policies::default());
    let (requests, mut wanted) = mpsc::unbounded();
    let (refused, refused_policies) = mpsc::unbounded();
    let pools_changed = Arc::new(Notify::new());
    let (caches, owned_resources, feeds) = feeds::watch(
        (&client, &metrics.watch_errors),
        &config.election.namespace,
        requests,
        pools_changed.clone(),
        policies.clone(),
        refused,
    );
    let (agent_leases, agent_feeds) =
        agents::start((&client, &metrics.watch_errors), &caches, &config.planning);
    let mut watches: JoinSet<()> = feeds.into_iter().chain(agent_feeds).collect();
    let (warm, is_warm) = tokio_watch::channel(false);
    let liveness = liveness::Liveness::new(config.election.stall_limit());
    let mismatches = judged::Mismatches::default();
    let reader = counter_reader(&config, &metrics, &caches, &policies)?;
    let admin = admin::Admin {
        metrics: metrics.clone(),
        caches: caches.clone(),
        policies: policies.clone(),
        default_policy: config.planning.default_policy.clone(),
        warm: is_warm.clone(),
        liveness: liveness.clone(),
        mismatches: mismatches.clone(),
        loads: reader.as_ref().map(|(reader, _)| reader.store.clone()),
    };
    serve(admin, &config.serving, &mut watches).await?;
    let (mut election, leadership) =
        leader::start(connection, config.election.clone(), metrics.clone(), liveness.clone(), is_warm)?;
    let writer = writes::Writer {
        client: client.clone(),
        leadership: leadership.clone(),
        metrics: metrics.clone(),
        liveness: liveness.clone(),
    };
    let (planner, planner::Receivers { to_plan, finished_searches, planned }) = planner::Planner::new();
    let context = Arc::new(Context {
        caches: caches.clone(),
        owned_resources,
        policies,
        events: events::Events::new(writer.clone(), config.election.identity.clone()),
        writer,
        metrics,
        mismatches,
        solver_slots: SolverSlots::new(config.planning.slots()),
        commit_locks: locks::CommitLocks::default(),
        snapshot_permits: Semaphore::new(config.planning.slots()),
        reconcile_permits: Semaphore::new(config.planning.slots()),
        plan_locks: searches::PlanLocks::default(),
        planner,
        plan_backoff: retries::Retries::default(),
        reconcile_backoff: retries::Retries::default(),
        slow_commits: slow::SlowCommits::default(),
        status_throttle: throttle::StatusThrottle::default(),
        recent_starts: throttle::RecentStarts::default(),
        expectations: throttle::Expectations::default(),
        load_reports: load::report::LoadReports::default(),
        moves: MoveTracker::default(),
        refusals: std::sync::Mutex::default(),
        uids: uid_tracker::UidTracker::default(),
        backoffs: std::sync::Mutex::default(),
        planning: config.planning.clone(),
    });
    let mut work = std::pin::pin!(async {
        discard_until_leading(
            &mut wanted,
            wait_for_leadership(&caches, agent_leases, &warm, leadership.clone()),
        )
        .await;
        caches.enqueue_all();
        let mut tasks = background_tasks(&context, refused_policies, reader, &config.election.namespace);
        tasks.spawn(pools::run(context.clone(), pools_changed));
        run_leader(&context, Queues { wanted, planned, to_plan, finished_searches }, &mut tasks).await;
    });
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        () = &mut work => Err("the queues or background tasks ended unexpectedly".into()),
        ended = first_end(&mut watches) => Err(format!("a watch or server ended: {ended}").into()),
        // Runs in the same task as the work, so a blocked executor stops the heartbeat.
        () = liveness.heartbeat() => Err("the heartbeat ended unexpectedly".into()),
        () = election.lost() => {
            leadership.close();
            tracing::error!("lost the lease to another replica; restarting as standby");
            Ok(ExitCode::FAILURE)
        }
        () = is_asked_to_stop(terminate) => {
            hand_over(&leadership, work, election, (client, &config.election)).await;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What the leader does beside its queues.
fn background_tasks(
    context: &Arc<Context>,
    refused_policies: mpsc::UnboundedReceiver<RefusedPolicy>,
    reader: Option<CounterReader>,
    namespace: &str,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(policies::revisions::run(context.clone(), namespace.to_owned()));
    tasks.spawn(enqueue_after_lapses(context.clone()));
    tasks.spawn(planning::background(context.clone()));
    tasks.spawn(report_refused_policies(context.clone(), refused_policies));
    if let Some((reader, windows)) = reader {
        tasks.spawn(load::run(context.clone(), (reader.store.clone(), reader.metrics.clone()), windows));
        tasks.spawn(counters::run(reader));
    }
    tasks
}

/// Enqueues all applications when the Lease is held again after a lapse, in which reconciles and plans failed.
async fn enqueue_after_lapses(context: Arc<Context>) {
    loop {
        context.writer.leadership.resumed().await;
        context.caches.enqueue_all();
    }
}

/// Runs the queues; ends only if they or a background task end.
async fn run_leader(context: &Arc<Context>, queues: Queues, tasks: &mut JoinSet<()>) {
    tokio::select! {
        () = run_queues(context, queues) => {}
        ended = first_end(tasks) => tracing::error!(error = ended, "a background task ended"),
    }
}

/// Waits until one of these tasks ends, which none does in a healthy process; returns why.
async fn first_end(tasks: &mut JoinSet<()>) -> String {
    match tasks.join_next().await {
        Some(Err(panicked)) => panicked.to_string(),
        Some(Ok(())) => "it returned".to_owned(),
        None => std::future::pending().await,
    }
}

/// Stops all writes, and releases the lease if no write is in flight.
async fn hand_over(
    leadership: &leader::Leadership,
    work: std::pin::Pin<&mut impl Future<Output = ()>>,
    election: leader::ElectionThread,
    (client, settings): (Client, &config::Election),
) {
    leadership.close();
    // Writes in flight may finish. A dropped one could still arrive when another replica leads.
    let is_idle = tokio::select! {
        is_idle = leadership.idle() => is_idle,
        () = work => false,
    };
    election.stop().await;
    if !is_idle {
        tracing::warn!("a write is still in flight; the lease is not released and will expire");
    } else if settings.leader_elect {
        Campaign::release(client, settings).await;
    }
    tracing::info!("stopped; running pods are not affected");
}

/// Waits until the caches are synced, which makes this replica eligible, and then until it leads.
async fn wait_for_leadership(
    caches: &caches::Caches,
    agent_leases: agents::AgentLeases,
    warm: &tokio_watch::Sender<bool>,
    mut leadership: leader::Leadership,
) {
    caches.warm().await;
    agent_leases.synced(caches).await;
    warm.send_replace(true);
    tracing::info!("caches synced");
    leadership.acquired().await;
}

/// Discards requests until this replica leads. All applications are enqueued then; meanwhile the queue would grow without
/// bound.
async fn discard_until_leading(
    wanted: &mut UnboundedReceiver<ObjectRef<ActorApplication>>,
    leads: impl Future<Output = ()>,
) {
    let mut leads = std::pin::pin!(leads);
    loop {
        tokio::select! {
            () = &mut leads => return,
            Some(_) = wanted.next() => {}
        }
    }
}

/// The queues of the main loop.
struct Queues {
    /// Applications concerned by an event.
    wanted: UnboundedReceiver<ObjectRef<ActorApplication>>,
    /// Applications whose planning finished.
    planned: UnboundedReceiver<ObjectRef<ActorApplication>>,
    to_plan: UnboundedReceiver<ApplicationKey>,
    finished_searches: UnboundedReceiver<ApplicationKey>,
}

/// Runs the reconcile, planning and commit queues; ends only with the watches.
///
/// The queues are independent: neither planning nor searches delay a reconcile.
async fn run_queues(context: &Arc<Context>, queues: Queues) {
    let Queues { wanted, planned, to_plan, finished_searches } = queues;
    let requests =
        stream::select(wanted.map(|key| (key, DEBOUNCE)), planned.map(|key| (key, Duration::ZERO)));
    let reconciles = run_workqueue(requests, AT_ONCE, |key| reconcile(key, context.clone()).boxed_local());
    let plans = to_plan.for_each_concurrent(AT_ONCE, |key| plan(key, context.clone()).boxed_local());
    let commits = finished_searches
        .for_each_concurrent(AT_ONCE, |key| commit_finished(key, context.clone()).boxed_local());
    tokio::select! {
        () = reconciles => {}
        () = plans => {}
        () = commits => {}
    }
}

/// Starts the HTTP servers for metrics, probes and debugging, each at its own address, among the tasks that never end.
async fn serve(
    admin: admin::Admin,
    addresses: &config::Serving,
    tasks: &mut JoinSet<()>,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(addresses.listen).await?;
    let probe_listener = TcpListener::bind(addresses.probe_listen).await?;
    let debug_listener = TcpListener::bind(addresses.debug_listen).await?;
    tasks.spawn(serving::serve(listener, admin::public(admin.clone())).map(drop));
    tasks.spawn(serving::serve(probe_listener, admin::probes(admin.clone())).map(drop));
    tasks.spawn(serving::serve(debug_listener, admin::debug(admin)).map(drop));
    Ok(())
}

/// Waits for SIGTERM or Ctrl-C.
async fn is_asked_to_stop(mut terminate: tokio::signal::unix::Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// A policy whose newest version is refused, and why.
type RefusedPolicy = (Arc<k8s_openapi::api::core::v1::ConfigMap>, world::PolicyError);

/// Emits events on policy ConfigMaps whose newest version is refused.
async fn report_refused_policies(context: Arc<Context>, mut refused: mpsc::UnboundedReceiver<RefusedPolicy>) {
    while let Some((config_map, problem)) = refused.next().await {
        let note = context.policies.instead_of_refused(&problem);
        context
            .emit_event(
                config_map.as_ref(),
                &report::event(EventType::Warning, "PolicyRefused", "Read", note),
            )
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_is_noticed() {
        let forever = || Box::pin(std::future::pending::<()>());
        let mut tasks: JoinSet<()> = [forever(), forever()].into_iter().collect();
        assert!(first_end(&mut tasks).now_or_never().is_none());
        tasks.spawn(async { panic!("a test") });
        assert!(first_end(&mut tasks).await.contains("panicked"));
        tasks.spawn(async {});
        assert_eq!(first_end(&mut tasks).await, "it returned");
    }

    /// Records on drop that a request was cancelled.
    struct Cancelled(Arc<Notify>);

    impl Drop for Cancelled {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// Each of these watches is a task of its own, and the process ends with any: here the one whose request for Leases is open.
    #[tokio::test]
    async fn the_end_of_the_watch_of_leases_is_noticed() {
        let (begun, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (entered, left) = (begun.clone(), cancelled.clone());
        let hangs = move || {
            let guard = Cancelled(left.clone());
            entered.notify_one();
            async move { std::future::pending::<()>().map(|()| drop(guard)).await }
        };
        let pages = axum::Router::new()
            .route("/apis/coordination.k8s.io/v1/namespaces/agents/leases", axum::routing::get(hangs));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, pages).into_future());
        let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
        let config = Config::parse_from(["cairn-operator", "--agent-namespace=agents"]);
        let metrics = metrics::Metrics::new(prometheus::Registry::new()).unwrap();
        let (store, _) = kube::runtime::reflector::store();
        let caches = Arc::new(caches::Caches::new(store, mpsc::unbounded().0, Arc::default(), Vec::new()));
        let (_agent_leases, feeds) =
            agents::start((&client, &metrics.watch_errors), &caches, &config.planning);
        assert_eq!(feeds.len(), 2, "the watch, and the periodic check");
        let mut watches = JoinSet::new();
        let tasks: Vec<_> = feeds.into_iter().map(|feed| watches.spawn(feed)).collect();
        begun.notified().await;
        assert!(first_end(&mut watches).now_or_never().is_none());
        tasks[0].abort();
        let ended = first_end(&mut watches).await;
        assert!(ended.contains("was cancelled"), "{ended}");
        cancelled.notified().await;
    }

    #[tokio::test]
    async fn requests_before_leadership_are_discarded() {
        let (requests, mut wanted) = mpsc::unbounded();
        for name in ["a", "b", "a"] {
            requests.unbounded_send(ObjectRef::new(name)).unwrap();
        }
        let leads = async {
            for _ in 0..9 {
                tokio::task::yield_now().await;
            }
        };
        discard_until_leading(&mut wanted, leads).await;
        assert!(wanted.try_recv().is_err(), "the queue is empty");
        requests.unbounded_send(ObjectRef::new("c")).unwrap();
        assert_eq!(wanted.try_recv().unwrap().name, "c");
    }
}
