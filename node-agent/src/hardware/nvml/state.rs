//! What the thread that asks NVML has, and why NVML may say nothing.

use std::sync::Arc;

use nvml_wrapper::{Nvml, error::NvmlError};
use serde::{Deserialize, Serialize};

use super::library::Library;
use crate::metrics::CollectorState;

/// Why NVML says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    library: Arc<Library>,
    nvml: Option<Nvml>,
}

impl State {
    pub fn new(library: Arc<Library>) -> Self {
        // Whatever is wrong, who asks is told.
        let nvml = library.load().ok();
        Self { library, nvml }
    }

    /// Asks NVML, loading it first where that may have become possible.
    pub fn ask<A>(&mut self, ask: impl FnOnce(&Nvml) -> Result<A, NvmlError>) -> Result<A, Trouble> {
        let nvml = match self.nvml.take() {
            Some(nvml) => nvml,
            None => self.library.load()?,
        };
        let answer = ask(&nvml);
        // A driver that was unloaded or replaced is loaded anew the next time.
        if !answer.as_ref().is_err_and(|error| self.library.doubts_after(error)) {
            self.nvml = Some(nvml);
        }
        Ok(answer?)
    }
}
