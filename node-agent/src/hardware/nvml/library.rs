//! The library file, which is loaded only after a process of its own came through all that it will be asked.

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

/// How long a trial may take: a driver that nobody keeps loaded takes seconds for each GPU.
const LIMIT: Duration = Duration::from_mins(1);

/// When what could not be loaded is tried again first, and how rarely at last: a driver may be installed while the agent runs.
const TRY_AFTER: Duration = Duration::from_secs(10);
const TRY_AT_LEAST_EVERY: Duration = Duration::from_mins(2);

/// The version of the driver whose library this process loaded first: the files of another one need not be where it looks.
pub type FirstVersion = Arc<OnceLock<String>>;

/// The library, for all who load it.
#[derive(Debug)]
pub struct Library {
    file: Option<OsString>,
    first: FirstVersion,
    trust: Mutex<Trust>,
}

#[derive(Debug)]
struct Trust {
    child: Child,
    /// Whether a process came through since the library failed last.
    is_tried: bool,
    refusal: Option<Refusal>,
}

/// Why it is not loaded, and for how long nobody tries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    trouble: Trouble,
    since: Instant,
    pause: Duration,
}

/// Whoever gave up the library is at rest when this process is, too.
impl Drop for Trust {
    fn drop(&mut self) {
        self.child.bury();
    }
}

impl Refusal {
    /// Twice as long as the one before.
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

    /// Loads it, after a trial if it has not passed one; what failed a moment ago is not tried again.
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

    /// Takes note of an error: the library is tried before it is loaded anew if the driver is gone or replaced, and that is
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

/// The outcome of a trial, given the version that was loaded `first`: of another driver than that one this process may have the
/// old library at hand, or none.
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

/// The version of the driver, if a process came through that loaded the library and asked it everything.
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
        // The name without a version is there only where programs are compiled.
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
