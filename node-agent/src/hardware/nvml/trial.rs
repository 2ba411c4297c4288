//! A trial of the library in a child process, which isolates crashes.

use std::{collections::BTreeSet, ffi::OsString};

use nvml_wrapper::{Nvml, bitmasks::event::EventTypes};

use super::{counters, failure::NvmlFailure, gpus, library::open, xids::xid_gpus};
use crate::hardware::child::Answer;

/// Tries the library in this file in the child process. Returns the version of its driver, or why it cannot be loaded.
pub fn run(file: Option<&OsString>) -> Answer<Result<Option<String>, NvmlFailure>> {
    Answer::Found(open(file).map_err(NvmlFailure::from).map(|nvml| {
        call_all(&nvml);
        nvml.sys_driver_version().ok()
    }))
}

/// Makes all NVML calls of the agent. Errors are ignored: the trial detects only crashes and hangs.
fn call_all(nvml: &Nvml) {
    let _ = gpus::read(nvml, &mut BTreeSet::new());
    let _ = counters::read(nvml, None);
    let (Ok(gpus), Ok(events)) = (xid_gpus(nvml), nvml.create_event_set()) else { return };
    let watched = gpus.iter().try_fold(events, |events, (_, gpu)| {
        gpu.register_events(EventTypes::CRITICAL_XID_ERROR, events).map_err(|failed| failed.error)
    });
    if let Ok(events) = watched {
        let _ = events.wait(0);
    }
}
