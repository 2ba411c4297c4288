//! Counts XID errors, the events by which the driver reports failures of a GPU.

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

/// The timeout of a wait for an event, after which the list of GPUs is refreshed.
const WAIT_MILLISECONDS: u32 = 2000;

/// The retry interval after a failure of the driver.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The number for events without a number, or with an implausible one.
const OTHER: u16 = 999;

/// XID errors by GPU id and number, since the GPU was first watched.
type Counts = Mutex<BTreeMap<String, BTreeMap<u16, u64>>>;

/// The counts. Their thread waits for events until this is dropped.
#[derive(Debug)]
pub struct Xids(Arc<Counts>);

impl Xids {
    /// Watches the present GPUs before it returns, and new ones later.
    ///
    /// Waiting blocks, so it uses its own thread and loads the library once more. The thread ends once all strong
    /// references of `in_use` are dropped.
    pub fn watch(library: Arc<Library>, in_use: Weak<()>) -> Self {
        let counts = Arc::new(Counts::default());
        let (ready, is_ready) = mpsc::channel();
        let weak = Arc::downgrade(&counts);
        let thread = thread::Builder::new().name("nvml-events".to_owned()).stack_size(256 * 1024);
        // Without a thread there are no counts.
        if thread.spawn(move || follow(&library, &in_use, &weak, ready)).is_ok() {
            // The thread drops the sender when it is ready, or when it has failed and retries.
            let _ = is_ready.recv();
        }
        Self(counts)
    }

    /// The errors of each GPU that can report them, or could before its loss.
    pub fn all(&self) -> BTreeMap<String, BTreeMap<u16, u64>> {
        lock(&self.0).clone()
    }
}

fn lock(counts: &Counts) -> MutexGuard<'_, BTreeMap<String, BTreeMap<u16, u64>>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts until `counts` is dropped. Drops `ready` when the first GPUs are watched, or cannot be.
fn follow(library: &Library, in_use: &Weak<()>, counts: &Weak<Counts>, ready: mpsc::Sender<()>) {
    let mut ready = Some(ready);
    while counts.strong_count() > 0 {
        // Dropped after the library.
        let Some(hold) = in_use.upgrade() else { return };
        if let Ok(nvml) = library.load() {
            while counts.strong_count() > 0 {
                // The device request reports problems of the driver.
                if let Err(error) = count(&nvml, counts, &mut ready) {
                    library.invalidate_after(&error);
                    break;
                }
            }
        }
        ready = None;
        drop(hold);
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Counts the events of the present GPUs, until the list changes.
fn count(nvml: &Nvml, counts: &Weak<Counts>, ready: &mut Option<mpsc::Sender<()>>) -> Result<(), NvmlError> {
    let gpus = xid_gpus(nvml)?;
    let mut events = nvml.create_event_set()?;
    for (id, gpu) in &gpus {
        let watched = gpu.register_events(EventTypes::CRITICAL_XID_ERROR, events);
        events = watched.map_err(|NvmlErrorWithSource { error, .. }| error)?;
        if let Some(counts) = counts.upgrade() {
            lock(&counts).entry(id.clone()).or_default();
        }
    }
    *ready = None;
    let uuids: Vec<_> = gpus.iter().filter_map(|(id, gpu)| Some((id.clone(), gpu.uuid().ok()?))).collect();
    loop {
        let began = Instant::now();
        match events.wait(WAIT_MILLISECONDS) {
            Ok(event) => {
                // A lost GPU may report its UUID, but no address.
                let by_uuid = || {
                    let uuid = event.device.uuid().ok()?;
                    uuids.iter().find(|(_, known)| *known == uuid).map(|(id, _)| id.clone())
                };
                let gpu = place(&event.device).map(|(id, _)| id).or_else(by_uuid);
                let (Some(xid), Some(gpu)) = (event.event_data, gpu) else { continue };
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
                    "the driver reports an XID error; see NVIDIA's list of XID errors for its meaning"
                );
            }
            // A lost GPU has no further events, but the others do.
            Err(NvmlError::Timeout | NvmlError::GpuLost) => {
                let now = xid_gpus(nvml)?;
                if now.iter().map(|(id, _)| id).ne(gpus.iter().map(|(id, _)| id))
                    || counts.strong_count() == 0
                {
                    return Ok(());
                }
                // With a lost GPU, each wait may return immediately: sleep for the rest of its timeout.
                let timeout = Duration::from_millis(WAIT_MILLISECONDS.into());
                thread::sleep(timeout.saturating_sub(began.elapsed()));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The GPUs that can report XID errors, by id.
pub fn xid_gpus(nvml: &Nvml) -> Result<Vec<(String, Device<'_>)>, NvmlError> {
    let gpus = (0..nvml.device_count()?).filter_map(|index| nvml.device_by_index(index).ok());
    let can = |gpu: &Device<'_>| {
        gpu.supported_event_types().is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR))
    };
    Ok(gpus.filter(can).filter_map(|gpu| Some((place(&gpu)?.0, gpu))).collect())
}
