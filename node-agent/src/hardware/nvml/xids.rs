//! XID errors: what the driver tells of a GPU when something went wrong. They are events, which nobody counts but us.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

use nvml_wrapper::{
    Device, Nvml,
    bitmasks::event::EventTypes,
    enums::event::XidError,
    error::{NvmlError, NvmlErrorWithSource},
};
use tracing::warn;

use super::{gpus::place, library::Library};

/// How long an event is waited for before it is seen which GPUs there are.
const WAIT_MILLISECONDS: u32 = 2000;

/// How long a driver that gave up is left alone.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// The number of those that the library names none of, or one that is on no list.
const OTHER: u16 = 999;

/// How many XID errors of each number each GPU told of, by its id, since it is watched.
type Counts = Mutex<BTreeMap<String, BTreeMap<u16, u64>>>;

/// The counts, and the thread that waits for events as long as somebody has this.
#[derive(Debug)]
pub struct Xids(Arc<Counts>);

impl Xids {
    /// Watches the GPUs that are there, before it returns, and those that come.
    ///
    /// On a thread of its own, with the library loaded once more: waiting keeps whoever waits.
    /// Nobody has the library loaded any more when `in_use` is gone.
    pub fn watch(library: Arc<Library>, in_use: Weak<()>) -> Self {
        let counts = Arc::new(Counts::default());
        let (ready, is_ready) = mpsc::channel();
        let weak = Arc::downgrade(&counts);
        let thread = thread::Builder::new().name("nvml-events".to_owned()).stack_size(256 * 1024);
        // A system that gives no thread gives no counts.
        if thread.spawn(move || follow(&library, &in_use, &weak, ready)).is_ok() {
            // It is ready, or it has failed and will try again.
            let _ = is_ready.recv();
        }
        Self(counts)
    }

    /// How many errors a GPU told of; none when it cannot tell.
    pub fn of(&self, gpu: &str) -> Option<BTreeMap<u16, u64>> {
        lock(&self.0).get(gpu).cloned()
    }
}

fn lock(counts: &Counts) -> MutexGuard<'_, BTreeMap<String, BTreeMap<u16, u64>>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts until nobody wants to know; `ready` goes when the first GPUs are watched, or cannot be.
fn follow(library: &Library, in_use: &Weak<()>, counts: &Weak<Counts>, ready: mpsc::Sender<()>) {
    let mut ready = Some(ready);
    while counts.strong_count() > 0 {
        // goes after the library
        let Some(uses) = in_use.upgrade() else { return };
        if let Ok(nvml) = library.load() {
            while counts.strong_count() > 0 {
                // Whatever is wrong with the driver, who asks for devices says it.
                if let Err(error) = count(&nvml, counts, &mut ready) {
                    library.doubts_after(&error);
                    break;
                }
            }
        }
        ready = None;
        drop(uses);
        thread::sleep(TRY_EVERY);
    }
}

/// Counts the events of the GPUs that there are now, until there are others.
fn count(nvml: &Nvml, counts: &Weak<Counts>, ready: &mut Option<mpsc::Sender<()>>) -> Result<(), NvmlError> {
    let gpus = tellers(nvml)?;
    let mut events = nvml.create_event_set()?;
    for (id, gpu) in &gpus {
        let watched = gpu.register_events(EventTypes::CRITICAL_XID_ERROR, events);
        events = watched.map_err(|NvmlErrorWithSource { error, .. }| error)?;
        if let Some(counts) = counts.upgrade() {
            lock(&counts).entry(id.clone()).or_default();
        }
    }
    *ready = None;
    loop {
        let began = Instant::now();
        match events.wait(WAIT_MILLISECONDS) {
            Ok(event) => {
                let (Some(xid), Some((gpu, _))) = (event.event_data, place(&event.device)) else { continue };
                let Some(counts) = counts.upgrade() else { return Ok(()) };
                let number = if let XidError::Value(number) = xid { number.try_into().ok() } else { None };
                let xid = number.filter(|number| *number < OTHER).unwrap_or(OTHER);
                let count = {
                    let mut counts = lock(&counts);
                    let counts = counts.entry(gpu.clone()).or_default();
                    *counts.entry(xid).or_default() += 1;
                    counts.values().sum::<u64>()
                };
                warn!(
                    gpu,
                    xid,
                    count,
                    "the driver reports an XID error; NVIDIA's list of XID errors says what it means"
                );
            }
            // The one that is lost has no events any more; the others are watched on.
            Err(NvmlError::Timeout | NvmlError::GpuLost) => {
                let now = tellers(nvml)?;
                if now.iter().map(|(id, _)| id).ne(gpus.iter().map(|(id, _)| id))
                    || counts.strong_count() == 0
                {
                    return Ok(());
                }
                // A GPU that is lost may end each wait at once: a round takes as long as one in which nothing comes.
                let round = Duration::from_millis(WAIT_MILLISECONDS.into());
                thread::sleep(round.saturating_sub(began.elapsed()));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The GPUs that can tell of XID errors, by their ids.
pub fn tellers(nvml: &Nvml) -> Result<Vec<(String, Device<'_>)>, NvmlError> {
    let gpus = (0..nvml.device_count()?).filter_map(|index| nvml.device_by_index(index).ok());
    let can = |gpu: &Device<'_>| {
        gpu.supported_event_types().is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR))
    };
    Ok(gpus.filter(can).filter_map(|gpu| Some((place(&gpu)?.0, gpu))).collect())
}
