//! The library itself: loaded when it is there, tried again now and then when it is not.

use std::{
    ffi::OsString,
    time::{Duration, Instant},
};

use nvml_wrapper::{Nvml, error::NvmlError};

use crate::metrics::CollectorState;

/// How often it is tried to load what could not be loaded: a driver may be installed while the agent runs.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// Why NVML says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The library is not there.
    NoLibrary(String),
    /// It is there, and the driver is not.
    NoDriver,
    /// It may not be asked.
    Denied,
    /// Anything else, in words.
    Failed(String),
}

impl Trouble {
    /// The state of the collector, and what to do to have it report.
    pub fn fares(&self, has_gpu: bool) -> (CollectorState, String) {
        match self {
            Self::NoLibrary(_) | Self::NoDriver if !has_gpu => {
                (CollectorState::Absent, "there is no NVIDIA GPU".to_owned())
            }
            Self::NoLibrary(why) => (
                CollectorState::Absent,
                format!(
                    "there is an NVIDIA GPU, but not its driver's library ({why}): run the agent with the runtime class \
                     nvidia, or mount the library and name it by --nvml-library"
                ),
            ),
            Self::NoDriver => (
                CollectorState::Absent,
                "there is an NVIDIA GPU, but its driver is not loaded: install it, or run `modprobe nvidia`".to_owned(),
            ),
            Self::Denied => (
                CollectorState::Denied,
                "the driver refuses: give the agent /dev/nvidiactl and /dev/nvidia*, as the runtime class nvidia does"
                    .to_owned(),
            ),
            Self::Failed(why) => (CollectorState::Error, why.clone()),
        }
    }
}

impl From<NvmlError> for Trouble {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::LibloadingError(error) => Self::NoLibrary(error.to_string()),
            NvmlError::LibraryNotFound => Self::NoLibrary("not found".to_owned()),
            NvmlError::DriverNotLoaded => Self::NoDriver,
            NvmlError::NoPermission => Self::Denied,
            NvmlError::LibRmVersionMismatch => Self::Failed(
                "library and driver have different versions: reboot, or mount the library of the driver that runs"
                    .to_owned(),
            ),
            NvmlError::FailedToLoadSymbol(symbol) => {
                Self::Failed(format!("the library is too old, it lacks a function: {symbol}"))
            }
            other => Self::Failed(other.to_string()),
        }
    }
}

/// What the thread that asks NVML has.
pub struct State {
    library: Option<OsString>,
    nvml: Option<Nvml>,
    /// Why it is not there, and when that was found.
    trouble: Option<(Trouble, Instant)>,
}

impl State {
    pub fn new(library: Option<OsString>) -> Self {
        Self { library, nvml: None, trouble: None }
    }

    /// Asks NVML, loading it first where that may have become possible.
    pub fn ask<A>(&mut self, ask: impl FnOnce(&Nvml) -> Result<A, NvmlError>) -> Result<A, Trouble> {
        if self.nvml.is_none() {
            if let Some((trouble, since)) = &self.trouble
                && since.elapsed() < TRY_EVERY
            {
                return Err(trouble.clone());
            }
            match load(self.library.as_ref()) {
                Ok(nvml) => (self.nvml, self.trouble) = (Some(nvml), None),
                Err(error) => {
                    let trouble = Trouble::from(error);
                    self.trouble = Some((trouble.clone(), Instant::now()));
                    return Err(trouble);
                }
            }
        }
        let Some(nvml) = &self.nvml else { return Err(Trouble::NoDriver) };
        ask(nvml).map_err(|error| {
            // A driver that was unloaded or replaced is loaded anew the next time.
            if matches!(
                error,
                NvmlError::Uninitialized | NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch
            ) {
                self.nvml = None;
            }
            error.into()
        })
    }
}

/// Loads a library, by default the one that the system's loader finds.
pub fn load(library: Option<&OsString>) -> Result<Nvml, NvmlError> {
    match library {
        Some(library) => Nvml::builder().lib_path(library).init(),
        // The name without a version is there only where programs are compiled.
        None => Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init(),
    }
}
