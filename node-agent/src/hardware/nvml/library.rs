//! The NVML library. It is loaded only after a child process has made all calls without a crash.

use std::{
    ffi::OsString,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use nvml_wrapper::{Nvml, error::NvmlError};

use super::failure::NvmlFailure;
use crate::hardware::{
    PROBE_NVML,
    child::{Answer, Child},
};

/// The timeout of a trial. A driver without persistence mode takes seconds for each GPU.
const LIMIT: Duration = Duration::from_mins(1);

/// The initial and the maximum backoff after a failed load. A driver may be installed while the agent runs.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(2);

/// The version of the driver whose library this process loaded first. Files of another version may be inaccessible.
pub type FirstVersion = Arc<OnceLock<String>>;

/// The library, shared by all threads that load it.
#[derive(Debug)]
pub struct Library {
    file: Option<OsString>,
    first: FirstVersion,
    load_state: Mutex<LoadState>,
}

#[derive(Debug)]
struct LoadState {
    child: Child,
    /// Whether a trial has succeeded since the last failure of the library.
    is_verified: bool,
    backoff: Option<Backoff>,
}

/// Why the library is not loaded, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Backoff {
    failure: NvmlFailure,
    since: Instant,
    pause: Duration,
}

/// The library is released only after the trial process has exited.
impl Drop for LoadState {
    fn drop(&mut self) {
        self.child.reap();
    }
}

impl Backoff {
    /// Doubles the previous backoff.
    fn after(before: Option<&Self>, failure: NvmlFailure, since: Instant) -> Self {
        let pause = before.map_or(INITIAL_BACKOFF, |before| (before.pause * 2).min(MAX_BACKOFF));
        Self { failure, since, pause }
    }

    fn is_active(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < self.pause
    }
}

impl Library {
    /// Loads nothing yet. `file` is by default the one that the system's loader finds.
    pub fn new(file: Option<OsString>, first: FirstVersion) -> Self {
        let load_state =
            LoadState { child: Child::new(PROBE_NVML, LIMIT), is_verified: false, backoff: None };
        Self { file, first, load_state: Mutex::new(load_state) }
    }

    /// Loads the library, after a trial unless one has succeeded. Returns the last error during a backoff.
    pub fn load(&self) -> Result<Nvml, NvmlFailure> {
        let mut load_state = self.load_state();
        if let Some(backoff) = &load_state.backoff
            && backoff.is_active(Instant::now())
        {
            return Err(backoff.failure.clone());
        }
        let tried = if load_state.is_verified {
            Ok(None)
        } else {
            let outcome = run_trial(&mut load_state.child, self.file.as_ref());
            replaced(self.first.get(), outcome)
        };
        let opened =
            tried.and_then(|version| Ok((open(self.file.as_ref()).map_err(NvmlFailure::from)?, version)));
        match opened {
            Ok((nvml, version)) => {
                if let Some(version) = version {
                    self.first.get_or_init(|| version);
                }
                (load_state.is_verified, load_state.backoff) = (true, None);
                Ok(nvml)
            }
            Err(failure) => {
                let backoff = Backoff::after(load_state.backoff.as_ref(), failure.clone(), Instant::now());
                (load_state.is_verified, load_state.backoff) = (false, Some(backoff));
                Err(failure)
            }
        }
    }

    /// Requires a new trial if this error means that the driver was unloaded or replaced; returns whether it does.
    pub fn invalidate_after(&self, error: &NvmlError) -> bool {
        let is_gone = matches!(
            error,
            NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch
        );
        if is_gone {
            self.load_state().is_verified = false;
        }
        is_gone
    }

    fn load_state(&self) -> MutexGuard<'_, LoadState> {
        self.load_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of a trial, given the version that was loaded `first`. This process cannot load the library of another
/// driver.
fn replaced(
    first: Option<&String>,
    outcome: Result<Option<String>, NvmlFailure>,
) -> Result<Option<String>, NvmlFailure> {
    let Some(first) = first else { return outcome };
    match outcome {
        Ok(Some(version)) if version != *first => Err(NvmlFailure::Replaced(format!("{first} by {version}"))),
        Err(NvmlFailure::Mismatch) => Err(NvmlFailure::Replaced(format!("{first} by another version"))),
        other => other,
    }
}

/// The version of the driver, if a child loaded the library and made all calls successfully.
fn run_trial(child: &mut Child, file: Option<&OsString>) -> Result<Option<String>, NvmlFailure> {
    match child.request::<Result<Option<String>, NvmlFailure>>(&file) {
        Answer::Found(outcome) => outcome,
        Answer::Absent(why) | Answer::Denied(why) | Answer::Failed(why) => Err(NvmlFailure::Failed(format!(
            "{why}; the agent loads NVML only after a trial in a child process succeeds (see `dmesg`, and whether \
             `nvidia-smi -q` succeeds); the trial is retried within {MAX_BACKOFF:?}"
        ))),
    }
}

/// Loads a library into this process.
pub fn open(file: Option<&OsString>) -> Result<Nvml, NvmlError> {
    match file {
        Some(file) => Nvml::builder().lib_path(file).init(),
        // The name without a version exists only where development packages are installed.
        None => Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_replaced_if_another_version_was_loaded_first() {
        let ok = |version: &str| Ok(Some(version.to_owned()));
        let replaced_by = |versions: &str| Err(NvmlFailure::Replaced(versions.to_owned()));
        let first = "580.1".to_owned();
        for (first, outcome, expected) in [
            (None, ok("590.2"), ok("590.2")),
            (None, Err(NvmlFailure::Mismatch), Err(NvmlFailure::Mismatch)),
            (Some(&first), ok("580.1"), ok("580.1")),
            (Some(&first), Ok(None), Ok(None)),
            (Some(&first), Err(NvmlFailure::NoDriver), Err(NvmlFailure::NoDriver)),
            (Some(&first), ok("590.2"), replaced_by("580.1 by 590.2")),
            (Some(&first), Err(NvmlFailure::Mismatch), replaced_by("580.1 by another version")),
        ] {
            assert_eq!(replaced(first, outcome.clone()), expected, "{first:?}, {outcome:?}");
        }
    }

    #[test]
    fn trials_back_off_up_to_the_maximum() {
        let began = Instant::now();
        let mut backoff: Option<Backoff> = None;
        let mut tries = Vec::new();
        for second in 0..480 {
            let now = began + Duration::from_secs(second);
            if backoff.as_ref().is_none_or(|backoff| !backoff.is_active(now)) {
                backoff = Some(Backoff::after(backoff.as_ref(), NvmlFailure::NoDriver, now));
                tries.push(second);
            }
        }
        assert_eq!(tries, [0, 10, 30, 70, 150, 270, 390]);
    }
}
