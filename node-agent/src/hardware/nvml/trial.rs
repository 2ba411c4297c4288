//! A trial of the library in a child process, which absorbs crashes.

use std::{collections::BTreeSet, ffi::OsString};

use nvml_wrapper::{Nvml, bitmasks::event::EventTypes};

use super::{counters, gpus, library::open, trouble::Trouble, xids::tellers};
use crate::hardware::child::Answer;

/// The answer of the child that tries the library in this file: that it can be loaded and called without harm, with the version
/// of its driver, or why it cannot be loaded.
pub fn answer(file: Option<&OsString>) -> Answer<Result<Option<String>, Trouble>> {
    Answer::Found(open(file).map_err(Trouble::from).map(|nvml| {
        ask_all(&nvml);
        nvml.sys_driver_version().ok()
    }))
}

/// Makes all calls of the agent. An error return is harmless.
fn ask_all(nvml: &Nvml) {
    let _ = gpus::read(nvml, &mut BTreeSet::new());
    let _ = counters::read(nvml, None);
    let (Ok(gpus), Ok(events)) = (tellers(nvml), nvml.create_event_set()) else { return };
    let watched = gpus.iter().try_fold(events, |events, (_, gpu)| {
        gpu.register_events(EventTypes::CRITICAL_XID_ERROR, events).map_err(|failed| failed.error)
    });
    if let Ok(events) = watched {
        let _ = events.wait(0);
    }
}
