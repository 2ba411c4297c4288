//! Election tests against an API server with one Lease that can lose answers.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;
use futures::FutureExt as _;
use serde_json::json;

use super::*;
use crate::config::Config;

/// A leadership that lasts this long from now.
fn leading(left: Duration) -> (watch::Sender<Option<Instant>>, Leadership) {
    let (sender, valid_until) = watch::channel(Some(Instant::now() + left));
    (sender, Leadership { valid_until, closed: Arc::default(), in_flight: Arc::default() })
}

#[test]
fn a_deleted_lease_is_recreated_by_the_leader_and_later_by_others() {
    let (short, long, duration) = (Duration::from_secs(1), Duration::from_secs(16), Duration::from_secs(15));
    let cases = [(true, short, true), (false, short, false), (false, duration, false), (false, long, true)];
    for (leads, missing, expected) in cases {
        assert_eq!(may_create(leads, missing, duration), expected, "{leads} {missing:?}");
    }
}

/// Without the main runtime the election still runs.
#[test]
fn the_election_runs_on_its_own_thread() {
    let connection = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let config = Config::parse_from(["cairn-operator", "--leader-elect=false"]);
    let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
    let liveness = Liveness::new(config.election.stall_limit());
    let (warm, is_warm) = watch::channel(false);
    let (running, leadership) = start(connection, config.election, metrics, liveness, is_warm).unwrap();
    assert!(leadership.check().is_err(), "a replica with cold caches does not lead");
    warm.send_replace(true);
    while leadership.check().is_err() {
        std::thread::yield_now();
    }
    drop(running);
}

#[test]
fn no_write_begins_without_the_lease() {
    let (sender, leadership) = leading(Duration::from_hours(1));
    assert!(leadership.begin().is_ok());
    sender.send_replace(Some(Instant::now()));
    assert!(leadership.begin().is_err(), "it ran out");
    sender.send_replace(Some(Instant::now() + Duration::from_hours(1)));
    assert!(leadership.begin().is_ok());
    leadership.close();
    assert!(leadership.begin().is_err(), "the process ends");
}

#[tokio::test]
async fn a_write_in_flight_is_cancelled_when_the_lease_expires() {
    let (_sender, leadership) = leading(Duration::from_millis(50));
    // On a slow machine the lease expires before the write begins.
    let Ok(permit) = leadership.begin() else { return };
    let answer = permit.within(std::future::pending::<Result<(), kube::Error>>()).await;
    assert!(answer.unwrap_err().to_string().contains("cancelled: the lease is no longer guaranteed"));
    leadership.close();
    assert!(!leadership.idle().await, "it is under way as long as its turn is there");
    drop(permit);
    assert!(leadership.idle().await);
    assert!(leadership.begin().is_err());
}

#[tokio::test]
async fn a_write_may_last_while_the_lease_is_renewed() {
    let (sender, leadership) = leading(Duration::from_hours(1));
    let permit = leadership.begin().unwrap();
    let (answers, answer) = oneshot::channel();
    let mut call =
        Box::pin(permit.within(async { answer.await.map_err(|e| kube::Error::Service(e.into())) }));
    assert!((&mut call).now_or_never().is_none());
    // After a renewal the write outlives the previous deadline.
    let renewed = Instant::now() + Duration::from_hours(2);
    sender.send_replace(Some(Instant::now() + Duration::from_millis(1)));
    sender.send_replace(Some(renewed));
    assert!((&mut call).now_or_never().is_none());
    answers.send("done").unwrap();
    assert_eq!(call.await.unwrap(), "done");
    // When the lease is lost, writes in flight are cancelled at once.
    let lost = permit.within(std::future::pending::<Result<(), kube::Error>>());
    let mut lost = Box::pin(lost);
    assert!((&mut lost).now_or_never().is_none());
    sender.send_replace(None);
    assert!(lost.await.is_err());
}

/// An API server with one Lease.
#[derive(Default)]
struct Server {
    lease: Lease,
    version: u64,
    /// Number of reads.
    reads: usize,
    /// Whether the next write succeeds but its answer is lost.
    loses_answer: bool,
    /// Whether requests get no answer.
    hangs: bool,
}

type Shared = Arc<std::sync::Mutex<Server>>;

async fn answers(server: &Shared) {
    if server.lock().unwrap().hangs {
        std::future::pending::<()>().await;
    }
}

async fn read(State(server): State<Shared>) -> Json<Lease> {
    answers(&server).await;
    let mut server = server.lock().unwrap();
    server.reads += 1;
    Json(server.lease.clone())
}

async fn write(State(server): State<Shared>, Json(mut lease): Json<Lease>) -> Response {
    answers(&server).await;
    let mut server = server.lock().unwrap();
    let refused = |code: u16| {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
        (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
    };
    if lease.metadata.resource_version != server.lease.metadata.resource_version {
        return refused(409);
    }
    server.version += 1;
    lease.metadata.resource_version = Some(server.version.to_string());
    server.lease = lease.clone();
    if std::mem::take(&mut server.loses_answer) { refused(504) } else { Json(lease).into_response() }
}

/// A candidate of such a server, and the server.
async fn candidate() -> (Campaign, Shared) {
    let server = Shared::default();
    server.lock().unwrap().lease.metadata = ObjectMeta {
        name: Some(LEASE.to_owned()),
        resource_version: Some("0".to_owned()),
        ..ObjectMeta::default()
    };
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/cairn-system/leases/{LEASE}");
    let pages = Router::new().route(&path, get(read).put(write)).with_state(server.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, pages).into_future());
    let mut connection = kube::Config::new(address.parse().unwrap());
    connection.default_retry = false;
    let config = Config::parse_from(["cairn-operator"]);
    let liveness = Liveness::new(config.election.stall_limit());
    let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
    let (valid_until, _) = watch::channel(None);
    let client = Client::try_from(connection).unwrap();
    (Campaign::new(client, config.election, metrics, liveness, valid_until), server)
}

/// Acquires the lease and leads.
async fn takes(campaign: &mut Campaign) {
    let requested_at = campaign.try_hold().await.unwrap().unwrap();
    campaign.valid_until.send_replace(Some(requested_at + campaign.election.deadline()));
}

#[tokio::test]
async fn the_leader_renews_without_reading_first() {
    let (mut campaign, server) = candidate().await;
    takes(&mut campaign).await;
    for _ in 0..3 {
        takes(&mut campaign).await;
    }
    let server = server.lock().unwrap();
    assert_eq!((server.version, server.reads), (4, 1));
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_does_not_end_leadership() {
    let (mut campaign, server) = candidate().await;
    takes(&mut campaign).await;
    server.lock().unwrap().loses_answer = true;
    assert!(campaign.try_hold().await.is_err(), "the outcome is unknown");
    takes(&mut campaign).await;
    assert_eq!(server.lock().unwrap().version, 3);
    // An unexpected version may come from its own renewal.
    server.lock().unwrap().lease.metadata.resource_version = Some("elsewhere".to_owned());
    takes(&mut campaign).await;
}

#[tokio::test]
async fn a_lease_that_another_took_is_lost() {
    let (mut campaign, server) = candidate().await;
    takes(&mut campaign).await;
    {
        let mut server = server.lock().unwrap();
        server.lease.metadata.resource_version = Some("another".to_owned());
        server.lease.spec.as_mut().unwrap().holder_identity = Some("another".to_owned());
    }
    assert_eq!(campaign.try_hold().await.unwrap(), None);
}

/// A Lease that is renewed after writes stopped, but before another replica may take it, is not lost.
#[tokio::test]
async fn an_outage_shorter_than_the_lease_does_not_end_leadership() {
    let (mut campaign, server) = candidate().await;
    let now = Instant::now;
    assert!(campaign.renew(now()).await.is_continue());
    let valid_until = campaign.valid_until.subscribe();
    let leadership = Leadership { valid_until, closed: Arc::default(), in_flight: Arc::default() };
    assert!(leadership.check().is_ok());
    let mut resumed = Box::pin(leadership.resumed());
    assert!((&mut resumed).now_or_never().is_none());
    // The API server does not answer until writes have stopped.
    server.lock().unwrap().hangs = true;
    campaign.attempt = Duration::from_millis(10);
    assert!(campaign.renew(now()).await.is_continue(), "one attempt does not use up the time of the next");
    campaign.valid_until.send_replace(Some(now()));
    assert!(leadership.check().is_err() && (&mut resumed).now_or_never().is_none());
    assert!(campaign.renew(now()).await.is_continue(), "no other replica can hold the Lease yet");
    server.lock().unwrap().hangs = false;
    campaign.attempt = campaign.election.duration();
    assert!(campaign.renew(now()).await.is_continue());
    assert!(leadership.check().is_ok());
    resumed.await;
    // Without an answer until the end of the Lease, it is lost.
    server.lock().unwrap().hangs = true;
    campaign.attempt = Duration::from_millis(10);
    campaign.lease_end = Some(now());
    assert!(campaign.renew(now()).await.is_break());
}

/// Another replica took the Lease between the deadline and its end, by the local clock.
#[tokio::test]
async fn a_lapsed_lease_that_another_took_is_lost() {
    let (mut campaign, server) = candidate().await;
    assert!(campaign.renew(Instant::now()).await.is_continue());
    {
        let mut server = server.lock().unwrap();
        server.lease.metadata.resource_version = Some("another".to_owned());
        server.lease.spec.as_mut().unwrap().holder_identity = Some("another".to_owned());
    }
    campaign.valid_until.send_replace(Some(Instant::now()));
    assert!(campaign.renew(Instant::now()).await.is_break());
}
