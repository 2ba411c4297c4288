//! The NVML library, which is loaded only after a child process has made all its calls successfully.

use std::{
    ffi::OsString,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use nvml_wrapper::{Nvml, error::NvmlError};

use super::trouble::Trouble;
use crate::hardware::{
    PROBE_NVML,
    child::{Answer, Child},
};

/// The time-out of a trial: a driver without persistence mode takes seconds for each GPU.
const LIMIT: Duration = Duration::from_mins(1);

/// The first and the longest retry interval after a failed load: a driver may be installed while the agent runs.
const TRY_AFTER: Duration = Duration::from_secs(10);
const TRY_AT_LEAST_EVERY: Duration = Duration::from_mins(2);

/// The version of the driver whose library this process loaded first; files of another version may not be found.
pub type FirstVersion = Arc<OnceLock<String>>;

/// The library, shared by all threads that load it.
#[derive(Debug)]
pub struct Library {
    file: Option<OsString>,
    first: FirstVersion,
    trust: Mutex<Trust>,
}

#[derive(Debug)]
struct Trust {
    child: Child,
    /// Whether a trial succeeded since the library failed last.
    is_tried: bool,
    refusal: Option<Refusal>,
}

/// Why it is not loaded, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    trouble: Trouble,
    since: Instant,
    pause: Duration,
}

/// A released library is idle once this process is, too.
impl Drop for Trust {
    fn drop(&mut self) {
        self.child.bury();
    }
}

impl Refusal {
    /// Twice the previous interval.
    fn after(before: Option<&Self>, trouble: Trouble, since: Instant) -> Self {
        let pause = before.map_or(TRY_AFTER, |before| (before.pause * 2).min(TRY_AT_LEAST_EVERY));
        Self { trouble, since, pause }
    }

    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < self.pause
    }
}

impl Library {
    /// Loads nothing yet; `file` is by default the one that the system's loader finds.
    pub fn new(file: Option<OsString>, first: FirstVersion) -> Self {
        let trust = Trust { child: Child::new(PROBE_NVML, LIMIT), is_tried: false, refusal: None };
        Self { file, first, trust: Mutex::new(trust) }
    }

    /// Loads it, after a trial unless one succeeded; recent failures are not retried.
    pub fn load(&self) -> Result<Nvml, Trouble> {
        let mut trust = self.trust();
        if let Some(refusal) = &trust.refusal
            && refusal.holds(Instant::now())
        {
            return Err(refusal.trouble.clone());
        }
        let tried = if trust.is_tried {
            Ok(None)
        } else {
            let outcome = try_out(&mut trust.child, self.file.as_ref());
            replaced(self.first.get(), outcome)
        };
        let opened =
            tried.and_then(|version| Ok((open(self.file.as_ref()).map_err(Trouble::from)?, version)));
        match opened {
            Ok((nvml, version)) => {
                if let Some(version) = version {
                    self.first.get_or_init(|| version);
                }
                (trust.is_tried, trust.refusal) = (true, None);
                Ok(nvml)
            }
            Err(trouble) => {
                let refusal = Refusal::after(trust.refusal.as_ref(), trouble.clone(), Instant::now());
                (trust.is_tried, trust.refusal) = (false, Some(refusal));
                Err(trouble)
            }
        }
    }

    /// Records an error: if the driver is gone or replaced, the library needs a new trial, and that is
    /// the answer.
    pub fn doubts_after(&self, error: &NvmlError) -> bool {
        let is_gone = matches!(
            error,
            NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch
        );
        if is_gone {
            self.trust().is_tried = false;
        }
        is_gone
    }

    fn trust(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of a trial, given the version that was loaded `first`: for another driver, this process may only have the old
/// library, or none.
fn replaced(
    first: Option<&String>,
    outcome: Result<Option<String>, Trouble>,
) -> Result<Option<String>, Trouble> {
    let Some(first) = first else { return outcome };
    match outcome {
        Ok(Some(version)) if version != *first => Err(Trouble::Replaced(format!("{first} by {version}"))),
        Err(Trouble::Mismatch) => Err(Trouble::Replaced(format!("{first} by another version"))),
        other => other,
    }
}

/// The version of the driver, if a child loaded the library and made all calls successfully.
fn try_out(child: &mut Child, file: Option<&OsString>) -> Result<Option<String>, Trouble> {
    match child.ask::<Result<Option<String>, Trouble>>(&file) {
        Answer::Found(outcome) => outcome,
        Answer::Absent(why) | Answer::Denied(why) | Answer::Failed(why) => Err(Trouble::Failed(format!(
            "{why}; the agent does not load the library of NVIDIA's driver before a process of its own has come \
             through all questions (see `dmesg`, and whether `nvidia-smi -q` ends well); it is tried again within \
             {TRY_AT_LEAST_EVERY:?}"
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
    fn a_driver_is_replaced_if_another_was_loaded_before() {
        let ok = |version: &str| Ok(Some(version.to_owned()));
        let replaced_by = |words: &str| Err(Trouble::Replaced(words.to_owned()));
        let first = "580.1".to_owned();
        for (first, outcome, expected) in [
            (None, ok("590.2"), ok("590.2")),
            (None, Err(Trouble::Mismatch), Err(Trouble::Mismatch)),
            (Some(&first), ok("580.1"), ok("580.1")),
            (Some(&first), Ok(None), Ok(None)),
            (Some(&first), Err(Trouble::NoDriver), Err(Trouble::NoDriver)),
            (Some(&first), ok("590.2"), replaced_by("580.1 by 590.2")),
            (Some(&first), Err(Trouble::Mismatch), replaced_by("580.1 by another version")),
        ] {
            assert_eq!(replaced(first, outcome.clone()), expected, "{first:?}, {outcome:?}");
        }
    }

    #[test]
    fn what_fails_again_and_again_is_tried_less_and_less_often_and_never_given_up() {
        let began = Instant::now();
        let mut refusal: Option<Refusal> = None;
        let mut tries = Vec::new();
        for second in 0..480 {
            let now = began + Duration::from_secs(second);
            if refusal.as_ref().is_none_or(|refusal| !refusal.holds(now)) {
                refusal = Some(Refusal::after(refusal.as_ref(), Trouble::NoDriver, now));
                tries.push(second);
            }
        }
        assert_eq!(tries, [0, 10, 30, 70, 150, 270, 390]);
    }
}
