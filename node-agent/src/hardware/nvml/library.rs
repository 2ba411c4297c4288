//! The library file, which is loaded only after a process of its own came through all that it will be asked.

use std::{
    ffi::OsString,
    sync::{Mutex, MutexGuard, PoisonError},
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

/// The library, for all who load it.
#[derive(Debug)]
pub struct Library {
    file: Option<OsString>,
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
    pub fn new(file: Option<OsString>) -> Self {
        let trust = Trust { child: Child::new(PROBE_NVML, LIMIT), is_tried: false, refusal: None };
        Self { file, trust: Mutex::new(trust) }
    }

    /// Loads it, after a trial if it has not passed one; what failed a moment ago is not tried again.
    pub fn load(&self) -> Result<Nvml, Trouble> {
        let mut trust = self.trust();
        if let Some(refusal) = &trust.refusal
            && refusal.holds(Instant::now())
        {
            return Err(refusal.trouble.clone());
        }
        let tried = if trust.is_tried { Ok(()) } else { try_out(&mut trust.child, self.file.as_ref()) };
        match tried.and_then(|()| open(self.file.as_ref()).map_err(Trouble::from)) {
            Ok(nvml) => {
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

/// What became of a process that loaded the library and asked it everything.
fn try_out(child: &mut Child, file: Option<&OsString>) -> Result<(), Trouble> {
    match child.ask::<Result<(), Trouble>>(&file) {
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
