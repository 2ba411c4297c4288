//! Control planes with the product installed. Each test has one exclusively.

use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    sync::{Condvar, Mutex as SyncMutex, OnceLock, PoisonError},
    time::Instant,
};

use e2e::{Cluster, Process};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The maximum number of control planes, and so of concurrent tests. Each takes about a gigabyte of memory and is started by the
/// first test that finds no idle one.
const MOST: usize = 3;

/// The installed product.
pub struct Product {
    pub operator: Process,
    /// Publishes the simulated topologies and renews the Leases of their nodes.
    pub agent: Process,
    /// The folder of the simulated topologies.
    pub topologies: PathBuf,
}

struct Installed {
    cluster: Cluster,
    product: OnceCell<Mutex<Product>>,
}

/// The control planes in use.
static TAKEN: SyncMutex<[bool; MOST]> = SyncMutex::new([false; MOST]);
static GIVEN_BACK: Condvar = Condvar::new();

thread_local! {
    /// The control plane of the test on this thread; a test has a thread of its own.
    static MINE: RefCell<Option<Lease>> = const { RefCell::new(None) };
}

/// A reserved control plane, released on drop, at the latest when the thread of the test ends.
struct Lease(usize);

impl Lease {
    /// Waits for an idle control plane and takes the first, so that no more are started than needed.
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(free) = taken.iter().position(|taken| !taken) {
                taken[free] = true;
                return Self(free);
            }
            taken = GIVEN_BACK.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = false;
        GIVEN_BACK.notify_one();
    }
}

/// Releases the control plane of this thread's test on drop, so that it is idle before the next test starts.
pub struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        // if the thread is ending, it is already dropped
        let _ = MINE.try_with(RefCell::take);
    }
}

fn mine() -> &'static Installed {
    static INSTALLED: [OnceLock<Result<Installed, String>>; MOST] = [const { OnceLock::new() }; MOST];
    let number = MINE.with(|mine| mine.borrow_mut().get_or_insert_with(Lease::take).0);
    let start = || {
        let started = Instant::now();
        let cluster = Cluster::start().map_err(|error| format!("{error:#}"))?;
        let (seconds, state) = (started.elapsed().as_secs_f32(), cluster.plane().state.display());
        eprintln!("control plane {number} ready in {seconds:.1} s ({state})");
        Ok(Installed { cluster, product: OnceCell::new() })
    };
    match INSTALLED[number].get_or_init(start) {
        Ok(installed) => installed,
        Err(error) => panic!("{error}"),
    }
}

/// The control plane of the test on this thread, also before and after its [`TestEnv`](crate::env::TestEnv).
pub fn cluster() -> &'static Cluster {
    &mine().cluster
}

/// The product on it, installed on the first call.
pub async fn product() -> MutexGuard<'static, Product> {
    let installed = mine();
    let install = async || {
        let cluster = &installed.cluster;
        let topologies = cluster.plane().state.join("run/topologies");
        fs::create_dir(&topologies).unwrap();
        cluster
            .install(&topologies, &[&format!("--set=operator.refusalSeconds={REFUSAL_SECONDS}")])
            .await
            .unwrap();
        let agent = cluster.start_agent().await.unwrap();
        let operator = cluster.start_operator().await.unwrap();
        Mutex::new(Product { operator, agent, topologies })
    };
    installed.product.get_or_init(install).await.lock().await
}

/// How long a refusal counts: longer than the scheduler needs on each of a few nodes.
pub const REFUSAL_SECONDS: u32 = 150;
