//! Leader election: one Lease, and no write without it.

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
/// How long the last writes get before the lease is given back.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// Whether this operator may write, asked before every write.
#[derive(Clone)]
pub struct Leadership {
    valid_until: watch::Receiver<Option<Instant>>,
    /// Set when the process is to end: from then on nothing is written.
    closed: Arc<AtomicBool>,
    /// Held by every write that is under way.
    in_flight: Arc<RwLock<()>>,
}

/// A write that may begin, and that must have ended before the lease may be another's; dropped when it has.
pub struct WritePermit {
    valid_until: watch::Receiver<Option<Instant>>,
    _under_way: OwnedRwLockReadGuard<()>,
}

impl WritePermit {
    /// The answer of a call, which is given up before anybody else can lead, and at once when the lease is known to be lost. As
    /// long as the lease is renewed it may take its time: an API server that answers late is none that does not answer.
    pub async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let late = || kube::Error::Service("no answer while the lease was sure to be held".into());
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.expired() => Err(late()),
        }
    }

    /// Waits until the lease is not sure to be held any more.
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
    /// An error unless the lease was renewed recently enough that nobody else can hold it.
    pub fn check(&self) -> Result<(), Error> {
        self.until().map(drop)
    }

    /// Until when nobody else can hold the lease.
    fn until(&self) -> Result<Instant, Error> {
        let until = self.valid_until.borrow().filter(|until| Instant::now() < *until);
        until.filter(|_| !self.closed.load(Ordering::Acquire)).ok_or(Error::NotLeading)
    }

    /// Lets a write begin.
    pub fn begin(&self) -> Result<WritePermit, Error> {
        // Nobody waits here: it is taken for good when the process ends.
        let in_flight = self.in_flight.clone().try_read_owned().map_err(|_| Error::NotLeading)?;
        self.until()?;
        Ok(WritePermit { valid_until: self.valid_until.clone(), _under_way: in_flight })
    }

    /// Waits until this operator leads.
    pub async fn acquired(&mut self) {
        // The sender lives as long as the election, which ends with the process.
        let _ = self.valid_until.wait_for(Option::is_some).await;
    }

    /// Ends all writing for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Waits a moment until nothing is under way, and says whether that is so; call it after [`close`](Self::close).
    pub async fn idle(&self) -> bool {
        tokio::time::timeout(LAST_WRITES, self.in_flight.write()).await.is_ok()
    }
}

/// The election: [`Campaign::run`] renews the lease until it is lost.
pub struct Campaign {
    leases: Api<Lease>,
    accounts: Api<ServiceAccount>,
    election: Election,
    metrics: Metrics,
    liveness: Liveness,
    valid_until: watch::Sender<Option<Instant>>,
    /// The lease as this operator wrote it last; nothing where that is not known.
    held: Option<Lease>,
    /// The record of another holder as it was last seen to change, and when that was on our own clock.
    seen: Option<(Option<MicroTime>, Instant)>,
    /// Since when there is no lease at all, on our own clock.
    missing: Option<Instant>,
}

/// The election, on a thread of its own: nothing else that this process does puts the renewal of the lease off.
pub struct ElectionThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl ElectionThread {
    /// Waits until the lease is lost.
    pub async fn lost(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Renews the lease no more.
    pub async fn stop(self) {
        drop(self.stop);
        let _ = self.ended.await;
    }
}

/// Begins the election, with a connection of its own, as soon as the caches are warm; with the leadership that it grants.
///
/// # Errors
/// When there can be no thread or no connection.
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
        // Connections belong to the runtime in which they are made.
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
        }
    }

    /// Takes the lease and renews it; returns when it had it and lost it.
    async fn run(mut self, mut warm: watch::Receiver<bool>) {
        // Who knows nothing yet leaves the lease to who can decide.
        loop {
            self.liveness.election_heartbeat();
            if tokio::time::timeout(self.election.retry(), warm.wait_for(|warm| *warm)).await.is_ok() {
                break;
            }
        }
        if !self.election.leader_elect {
            self.metrics.leading.set(1);
            // A hundred years: without election there is nobody to lose it to.
            let _ = self.valid_until.send(Some(Instant::now() + Duration::from_hours(24 * 36_500)));
            loop {
                self.liveness.election_heartbeat();
                tokio::time::sleep(self.election.retry()).await;
            }
        }
        loop {
            self.liveness.election_heartbeat();
            let began = Instant::now();
            // What is answered after the end of the lease is of no use to who holds it.
            let until = self.valid_until.borrow().unwrap_or(began + self.election.deadline());
            let answer = tokio::time::timeout_at(until.into(), self.try_hold()).await;
            let late = || kube::Error::Service("no answer in time".into());
            match answer.unwrap_or_else(|_| Err(late())) {
                Ok(Some(requested_at)) => {
                    self.metrics.leading.set(1);
                    let before = self.valid_until.send_replace(Some(requested_at + self.election.deadline()));
                    if before.is_none() {
                        tracing::info!(identity = self.election.identity, "leading");
                    }
                }
                Ok(None) => {
                    if self.leads() {
                        break;
                    }
                }
                Err(e) => tracing::warn!(error = %e, "the lease could not be renewed"),
            }
            if self.valid_until.borrow().is_some_and(|until| Instant::now() >= until) {
                break;
            }
            // Where the answer took its time, the next is asked for at once.
            tokio::time::sleep_until((began + self.election.retry()).into()).await;
        }
        self.metrics.leading.set(0);
        let _ = self.valid_until.send(None);
    }

    /// Gives the lease back, so that the next operator need not wait for its end; once it is renewed no more.
    pub async fn release(client: Client, election: &Election) {
        let leases: Api<Lease> = Api::namespaced(client, &election.namespace);
        let Ok(Some(mut lease)) = leases.get_opt(LEASE).await else { return };
        let Some(spec) = &mut lease.spec else { return };
        if spec.holder_identity.as_ref() == Some(&election.identity) {
            spec.holder_identity = None;
            if let Err(e) = leases.replace(LEASE, &PostParams::default(), &lease).await {
                tracing::warn!(error = %e, "the lease could not be given back");
            }
        }
    }

    fn leads(&self) -> bool {
        self.valid_until.borrow().is_some()
    }

    /// Since when the lease is ours, counted from before it was written, so that our deadline passes before the lease's; nothing
    /// where it is another's. The resource version makes sure that only one of several writes it.
    async fn try_hold(&mut self) -> Result<Option<Instant>, kube::Error> {
        // Who knows what it wrote last does not ask first: one answer has to come in time, not two.
        if let Some(known) = self.held.take() {
            match self.write(known).await {
                // It was written by another, it is gone, or a renewal came through whose answer did not.
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
            tracing::warn!("the lease was deleted; it is made again");
            let lease = self.record(metadata, MicroTime(Timestamp::now()), None);
            let requested_at = Instant::now();
            let made = self.leases.create(&PostParams::default(), &lease).await;
            let made = made.map(|lease| self.keep(lease, requested_at));
            return self.resolve_conflict(made);
        };
        let held = lease.spec.clone().unwrap_or_default();
        // One that nobody has held yet was made anew: whoever held the one before may not know of it yet.
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

    /// Writes our record over exactly this version of the lease; when that was begun.
    async fn write(&mut self, lease: Lease) -> Result<Instant, kube::Error> {
        let requested_at = Instant::now();
        let held = lease.spec.unwrap_or_default();
        let lease = self.record(lease.metadata, MicroTime(Timestamp::now()), Some(&held));
        let written = self.leases.replace(LEASE, &PostParams::default(), &lease).await?;
        Ok(self.keep(written, requested_at))
    }

    /// Remembers what was written.
    fn keep(&mut self, written: Lease, requested_at: Instant) -> Instant {
        self.held = Some(written);
        requested_at
    }

    /// A conflict means that another was faster: no error, and not ours. To who leads it means only that it is not known whose
    /// it is: what came first may have been a renewal of its own.
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

    /// What the lease goes with when the operator is taken off the cluster: the account that it runs as.
    async fn owner(&self) -> Result<Option<OwnerReference>, kube::Error> {
        let Some(name) = &self.election.service_account else { return Ok(None) };
        let account = self.accounts.get(name).await?;
        Ok(account.owner_ref(&()))
    }

    /// Whether another's record stood still for its whole duration, by our own clock: theirs may be wrong.
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

/// Whether a lease that is not there may be made: by who leads at once, by others when whoever led before cannot lead any
/// more, as if it had been there and stood still.
fn may_create(leads: bool, missing: Duration, duration: Duration) -> bool {
    leads || missing > duration
}

#[cfg(test)]
mod tests;
