//! Leader election with one Lease; every write requires it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, oneshot, watch};

use crate::config::Election;
use crate::error::Error;
use crate::runtime::liveness::Liveness;
use crate::runtime::metrics::Metrics;

/// The name of the Lease.
const LEASE: &str = "cairn-operator";
/// Timeout for writes in flight before the Lease is released.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// Whether this replica may write; checked before every write.
#[derive(Clone)]
pub struct Leadership {
    valid_until: watch::Receiver<Option<Instant>>,
    /// Set on shutdown: no write may begin afterwards.
    closed: Arc<AtomicBool>,
    /// Read-locked by every write in flight.
    in_flight: Arc<RwLock<()>>,
}

/// Permission for one write, which must end before the Lease can be taken over.
pub struct WritePermit {
    valid_until: watch::Receiver<Option<Instant>>,
    _under_way: OwnedRwLockReadGuard<()>,
}

impl WritePermit {
    /// The answer of a call, which is cancelled when the Lease can no longer be guaranteed. A slow answer is fine while the
    /// Lease is renewed.
    pub async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let late = || kube::Error::Service("cancelled: the lease is no longer guaranteed".into());
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.expired() => Err(late()),
        }
    }

    /// Waits until the Lease is no longer guaranteed.
    async fn expired(&self) {
        let mut valid_until = self.valid_until.clone();
        loop {
            let until = *valid_until.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => {}
                renewed = valid_until.changed() => {
                    if renewed.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl Leadership {
    /// An error unless the Lease was renewed recently enough that no other replica can hold it.
    pub fn check(&self) -> Result<(), Error> {
        self.until().map(drop)
    }

    /// Until when no other replica can hold the Lease.
    fn until(&self) -> Result<Instant, Error> {
        let until = self.valid_until.borrow().filter(|until| Instant::now() < *until);
        until.filter(|_| !self.closed.load(Ordering::Acquire)).ok_or(Error::NotLeading)
    }

    /// Permits a write.
    pub fn begin(&self) -> Result<WritePermit, Error> {
        // Never blocks: the write lock is only taken on shutdown.
        let in_flight = self.in_flight.clone().try_read_owned().map_err(|_| Error::NotLeading)?;
        self.until()?;
        Ok(WritePermit { valid_until: self.valid_until.clone(), _under_way: in_flight })
    }

    /// Waits until this replica leads.
    pub async fn acquired(&mut self) {
        // The sender lives as long as the election, that is, the process.
        let _ = self.valid_until.wait_for(Option::is_some).await;
    }

    /// Waits until the Lease was not renewed in time, and is held again. Writes failed meanwhile.
    pub async fn resumed(&self) {
        let mut valid_until = self.valid_until.clone();
        let mut has_lapsed = false;
        loop {
            let until = *valid_until.borrow_and_update();
            let left = until.filter(|until| Instant::now() < *until);
            if left.is_some() && has_lapsed {
                return;
            }
            has_lapsed |= left.is_none();
            tokio::select! {
                () = sleep_until(left) => {}
                renewed = valid_until.changed() => {
                    if renewed.is_err() {
                        // The election ended, and the process ends with it.
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }

    /// Stops all writes for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Waits briefly for writes in flight and returns whether all ended; call it after [`close`](Self::close).
    pub async fn idle(&self) -> bool {
        tokio::time::timeout(LAST_WRITES, self.in_flight.write()).await.is_ok()
    }
}

/// The election: [`Campaign::run`] renews the Lease until it is lost.
pub struct Campaign {
    leases: Api<Lease>,
    accounts: Api<ServiceAccount>,
    election: Election,
    metrics: Metrics,
    liveness: Liveness,
    valid_until: watch::Sender<Option<Instant>>,
    /// The Lease as last written by this replica; nothing if unknown.
    held: Option<Lease>,
    /// The last observed record of another holder, and when it changed, by the local clock.
    seen: Option<(Option<MicroTime>, Instant)>,
    /// Since when no Lease exists, by the local clock.
    missing: Option<Instant>,
    /// From when another replica may take the Lease, by the local clock.
    lease_end: Option<Instant>,
    /// Timeout of one attempt.
    attempt: Duration,
}

/// The election's own thread, so that nothing else delays a renewal.
pub struct ElectionThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl ElectionThread {
    /// Waits until the Lease is lost.
    pub async fn lost(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Stops renewing the Lease.
    pub async fn stop(self) {
        drop(self.stop);
        let _ = self.ended.await;
    }
}

/// Starts the election on its own thread and connection; it campaigns once the caches are warm.
///
/// # Errors
/// When the thread or the connection cannot be created.
pub fn start(
    connection: kube::Config,
    election: Election,
    metrics: Metrics,
    liveness: Liveness,
    warm: watch::Receiver<bool>,
) -> std::io::Result<(ElectionThread, Leadership)> {
    let (valid_until, receiver) = watch::channel(None);
    let leadership = Leadership { valid_until: receiver, closed: Arc::default(), in_flight: Arc::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let (end, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = {
        // Connections belong to the runtime that creates them.
        let _inside = runtime.enter();
        Client::try_from(connection).map_err(std::io::Error::other)?
    };
    let campaign = Campaign::new(client, election, metrics, liveness, valid_until);
    std::thread::Builder::new().name("election".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = campaign.run(warm) => {}
                _ = stopped => {}
            }
        });
        let _ = end.send(());
    })?;
    Ok((ElectionThread { stop, ended }, leadership))
}

impl Campaign {
    fn new(
        client: Client,
        election: Election,
        metrics: Metrics,
        liveness: Liveness,
        valid_until: watch::Sender<Option<Instant>>,
    ) -> Self {
        let leases = Api::namespaced(client.clone(), &election.namespace);
        let accounts = Api::namespaced(client, &election.namespace);
        let attempt = election.duration() / 2;
        Self {
            leases,
            accounts,
            election,
            metrics,
            liveness,
            valid_until,
            held: None,
            seen: None,
            missing: None,
            lease_end: None,
            attempt,
        }
    }

    /// Acquires and renews the Lease; returns when it is lost.
    async fn run(mut self, mut warm: watch::Receiver<bool>) {
        // A replica with cold caches does not campaign.
        loop {
            self.liveness.election_heartbeat();
            if tokio::time::timeout(self.election.retry(), warm.wait_for(|warm| *warm)).await.is_ok() {
                break;
            }
        }
        if !self.election.leader_elect {
            self.metrics.leading.set(1);
            // Without election, a hundred years.
            let _ = self.valid_until.send(Some(Instant::now() + Duration::from_hours(24 * 36_500)));
            loop {
                self.liveness.election_heartbeat();
                tokio::time::sleep(self.election.retry()).await;
            }
        }
        loop {
            self.liveness.election_heartbeat();
            let began = Instant::now();
            if self.renew(began).await.is_break() {
                break;
            }
            // A late answer is followed by the next renewal at once.
            tokio::time::sleep_until((began + self.election.retry()).into()).await;
        }
        self.metrics.leading.set(0);
        let _ = self.valid_until.send(None);
    }

    /// Acquires or renews the Lease once; breaks when it is lost.
    ///
    /// Writes stop at the deadline, but the Lease is lost only when another replica may take it. If it is renewed before that,
    /// as after a restart of the API server, this replica goes on.
    async fn renew(&mut self, began: Instant) -> ControlFlow<()> {
        let end = self.lease_end.unwrap_or(began + self.election.duration());
        // A connection that died silently must not use up the time of the next attempt.
        let until = end.min(began + self.attempt);
        let answer = tokio::time::timeout_at(until.into(), self.try_hold()).await;
        let late = || kube::Error::Service("no answer in time".into());
        match answer.unwrap_or_else(|_| Err(late())) {
            Ok(Some(requested_at)) => {
                self.metrics.leading.set(1);
                self.lease_end = Some(requested_at + self.election.duration());
                let before = self.valid_until.send_replace(Some(requested_at + self.election.deadline()));
                match before {
                    None => tracing::info!(identity = self.election.identity, "leading"),
                    Some(until) if until <= began => {
                        tracing::warn!("the lease was renewed late; writing again");
                    }
                    Some(_) => {}
                }
            }
            Ok(None) => {
                if self.leads() {
                    return ControlFlow::Break(());
                }
            }
            Err(e) => tracing::warn!(error = %e, "failed to renew the lease"),
        }
        if self.lease_end.is_some_and(|end| Instant::now() >= end) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Releases the Lease on shutdown, so that a standby need not wait for it to expire.
    pub async fn release(client: Client, election: &Election) {
        let leases: Api<Lease> = Api::namespaced(client, &election.namespace);
        let Ok(Some(mut lease)) = leases.get_opt(LEASE).await else { return };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_ref() == Some(&election.identity) {
            spec.holder_identity = None;
            if let Err(e) = leases.replace(LEASE, &PostParams::default(), &lease).await {
                tracing::warn!(error = %e, "failed to release the lease");
            }
        }
    }

    fn leads(&self) -> bool {
        self.valid_until.borrow().is_some()
    }

    /// Since when this replica holds the Lease, measured before the write so that the local deadline precedes the Lease's;
    /// nothing if another holds it. The resource version makes concurrent writes conflict.
    async fn try_hold(&mut self) -> Result<Option<Instant>, kube::Error> {
        // The holder writes without reading first: one answer has to arrive in time, not two.
        if let Some(known) = self.held.take() {
            match self.write(known).await {
                // Another replica wrote it, it was deleted, or a renewal succeeded whose answer was lost.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => return other.map(Some),
            }
        }
        let Some(lease) = self.leases.get_opt(LEASE).await? else {
            let since = *self.missing.get_or_insert_with(Instant::now);
            if !may_create(self.leads(), since.elapsed(), self.election.duration()) {
                return Ok(None);
            }
            let metadata = ObjectMeta {
                name: Some(LEASE.to_owned()),
                owner_references: self.owner().await?.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            };
            tracing::warn!("the lease was deleted; recreating it");
            let lease = self.record(metadata, MicroTime(Timestamp::now()), None);
            let requested_at = Instant::now();
            let made = self.leases.create(&PostParams::default(), &lease).await;
            let made = made.map(|lease| self.keep(lease, requested_at));
            return self.resolve_conflict(made);
        };
        let held = lease.spec.clone().unwrap_or_default();
        // A Lease without a holder was recreated; the previous holder may not know yet.
        let knew_another = self.seen.as_ref().is_some_and(|(renewed, _)| renewed.is_some());
        if held.renew_time.is_none() && knew_another {
            let since = *self.missing.get_or_insert_with(Instant::now);
            if !may_create(self.leads(), since.elapsed(), self.election.duration()) {
                return Ok(None);
            }
        }
        self.missing = None;
        let holder = held.holder_identity.as_deref().unwrap_or_default();
        if holder != self.election.identity && !holder.is_empty() && !self.has_lapsed(&held) {
            return Ok(None);
        }
        let written = self.write(lease).await;
        self.resolve_conflict(written)
    }

    /// Writes this replica's record over exactly this version of the Lease; returns when the write began.
    async fn write(&mut self, lease: Lease) -> Result<Instant, kube::Error> {
        let requested_at = Instant::now();
        let held = lease.spec.unwrap_or_default();
        let lease = self.record(lease.metadata, MicroTime(Timestamp::now()), Some(&held));
        let written = self.leases.replace(LEASE, &PostParams::default(), &lease).await?;
        Ok(self.keep(written, requested_at))
    }

    /// Remembers the written Lease.
    fn keep(&mut self, written: Lease, requested_at: Instant) -> Instant {
        self.held = Some(written);
        requested_at
    }

    /// A conflict means that another replica was faster. For the leader the holder is then unknown: the conflicting write may
    /// have been its own renewal.
    fn resolve_conflict(
        &self,
        written: Result<Instant, kube::Error>,
    ) -> Result<Option<Instant>, kube::Error> {
        match written {
            Ok(requested_at) => Ok(Some(requested_at)),
            Err(kube::Error::Api(status)) if status.code == 409 && !self.leads() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The owner of the Lease: the operator's service account, so that uninstalling deletes it.
    async fn owner(&self) -> Result<Option<OwnerReference>, kube::Error> {
        let Some(name) = &self.election.service_account else { return Ok(None) };
        let account = self.accounts.get(name).await?;
        Ok(account.owner_ref(&()))
    }

    /// Whether another's record did not change for its whole duration, by the local clock, as remote clocks may be wrong.
    fn has_lapsed(&mut self, held: &LeaseSpec) -> bool {
        let now = Instant::now();
        let since = match &self.seen {
            Some((renewed, since)) if *renewed == held.renew_time => *since,
            _ => {
                self.seen = Some((held.renew_time.clone(), now));
                now
            }
        };
        let seconds = u64::try_from(held.lease_duration_seconds.unwrap_or(15)).unwrap_or(15);
        now.duration_since(since) > Duration::from_secs(seconds)
    }

    fn record(&self, metadata: ObjectMeta, now: MicroTime, before: Option<&LeaseSpec>) -> Lease {
        let same = before.is_some_and(|held| held.holder_identity.as_ref() == Some(&self.election.identity));
        let transitions = before.and_then(|held| held.lease_transitions).unwrap_or(0);
        let acquired = before.filter(|_| same).and_then(|held| held.acquire_time.clone());
        Lease {
            metadata: ObjectMeta { managed_fields: None, ..metadata },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.election.identity.clone()),
                lease_duration_seconds: i32::try_from(self.election.lease_seconds).ok(),
                acquire_time: acquired.or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions + i32::from(before.is_some() && !same)),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// Sleeps until then, or for ever.
async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

/// Whether a missing Lease may be created: by the leader at once, by others once any previous leader's Lease must have expired.
fn may_create(leads: bool, missing: Duration, duration: Duration) -> bool {
    leads || missing > duration
}

#[cfg(test)]
mod tests;
