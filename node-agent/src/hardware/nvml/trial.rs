//! A trial of the library, as the whole of a process: who crashes in it takes nobody along.

use std::{collections::BTreeSet, ffi::OsString};

use nvml_wrapper::{Nvml, bitmasks::event::EventTypes};

use super::{counters, gpus, library::open, trouble::Trouble, xids::tellers};
use crate::hardware::child::Answer;

/// What the child says that was asked to try the library in this file: that it can be loaded and asked without harm, with
/// the version of its driver, or why it cannot be loaded.
pub fn answer(file: Option<&OsString>) -> Answer<Result<Option<String>, Trouble>> {
    Answer::Found(open(file).map_err(Trouble::from).map(|nvml| {
        ask_all(&nvml);
        nvml.sys_driver_version().ok()
    }))
}

/// Asks what the agent will ask. What is answered with an error does no harm to who asks.
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
