//! Errors of NVML, with the collector's state and the remedy.

use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use crate::metrics::CollectorState;

/// Why NVML is unusable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum NvmlFailure {
    /// The library is missing.
    NoLibrary(String),
    /// The library exists, but the driver is not loaded.
    NoDriver,
    /// Permission denied.
    Denied,
    /// Library and driver have different versions.
    Mismatch,
    /// The running driver differs from the one whose library this process has loaded.
    Replaced(String),
    /// Any other error.
    Failed(String),
}

impl NvmlFailure {
    /// The collector's state, with reason and remedy.
    pub fn collector_state(&self, has_gpu: bool) -> (CollectorState, String) {
        match self {
            Self::NoLibrary(_) | Self::NoDriver if !has_gpu => {
                (CollectorState::Absent, "there is no NVIDIA GPU".to_owned())
            }
            Self::NoLibrary(why) => (
                CollectorState::Denied,
                format!(
                    "there is an NVIDIA GPU, but NVML cannot be loaded ({why}): run the agent with the runtime class \
                     nvidia (agent.groups of the chart), or mount the library and set CAIRN_NVML_LIBRARY to its path \
                     (agent.volumes, agent.env)"
                ),
            ),
            Self::NoDriver => (
                CollectorState::Denied,
                "there is an NVIDIA GPU, but its driver is not loaded: install it, or run `modprobe nvidia`".to_owned(),
            ),
            Self::Denied => (
                CollectorState::Denied,
                "the driver denies access: mount /dev/nvidiactl and /dev/nvidia*, as the runtime class nvidia does"
                    .to_owned(),
            ),
            Self::Mismatch => (
                CollectorState::Error,
                "the versions of library and driver differ: reboot, or mount the library of the loaded driver".to_owned(),
            ),
            Self::Replaced(which) => (
                CollectorState::Error,
                format!("the driver was replaced, {which}: restart the agent to load the library of the new driver"),
            ),
            Self::Failed(why) => (CollectorState::Error, why.clone()),
        }
    }
}

impl NvmlFailure {
    /// Whether nothing is known of the health of GPUs. A replaced driver is loaded by the next process of the agent.
    pub fn hides_health(&self) -> bool {
        match self {
            Self::NoLibrary(_) | Self::NoDriver | Self::Denied | Self::Mismatch | Self::Failed(_) => true,
            Self::Replaced(_) => false,
        }
    }
}

impl From<NvmlError> for NvmlFailure {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::LibloadingError(error) => Self::NoLibrary(error.to_string()),
            NvmlError::LibraryNotFound => Self::NoLibrary("not found".to_owned()),
            NvmlError::DriverNotLoaded => Self::NoDriver,
            NvmlError::NoPermission => Self::Denied,
            NvmlError::LibRmVersionMismatch => Self::Mismatch,
            NvmlError::FailedToLoadSymbol(symbol) => {
                Self::Failed(format!("the library is too old: it lacks a function: {symbol}"))
            }
            other => Self::Failed(other.to_string()),
        }
    }
}
