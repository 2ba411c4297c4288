//! Why NVML does not answer.

use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};

use crate::metrics::CollectorState;

/// Why NVML does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Trouble {
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

impl Trouble {
    /// The collector's state, with the remedy.
    pub fn fares(&self, has_gpu: bool) -> (CollectorState, String) {
        match self {
            Self::NoLibrary(_) | Self::NoDriver if !has_gpu => {
                (CollectorState::Absent, "there is no NVIDIA GPU".to_owned())
            }
            Self::NoLibrary(why) => (
                CollectorState::Denied,
                format!(
                    "there is an NVIDIA GPU, but not its driver's library ({why}): run the agent with the runtime class \
                     nvidia (agent.groups of the chart), or mount the library and name it by --nvml-library"
                ),
            ),
            Self::NoDriver => (
                CollectorState::Denied,
                "there is an NVIDIA GPU, but its driver is not loaded: install it, or run `modprobe nvidia`".to_owned(),
            ),
            Self::Denied => (
                CollectorState::Denied,
                "the driver refuses: give the agent /dev/nvidiactl and /dev/nvidia*, as the runtime class nvidia does"
                    .to_owned(),
            ),
            Self::Mismatch => (
                CollectorState::Error,
                "library and driver have different versions: reboot, or mount the library of the driver that runs".to_owned(),
            ),
            Self::Replaced(which) => (
                CollectorState::Error,
                format!("the driver was replaced, {which}: an agent that starts anew loads the library of the one that runs"),
            ),
            Self::Failed(why) => (CollectorState::Error, why.clone()),
        }
    }
}

impl Trouble {
    /// Whether nothing is known of the health of GPUs, because the library or the driver is missing or refuses.
    pub fn is_without_library(&self) -> bool {
        match self {
            Self::NoLibrary(_) | Self::NoDriver | Self::Denied | Self::Mismatch => true,
            Self::Replaced(_) | Self::Failed(_) => false,
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
            NvmlError::LibRmVersionMismatch => Self::Mismatch,
            NvmlError::FailedToLoadSymbol(symbol) => {
                Self::Failed(format!("the library is too old, it lacks a function: {symbol}"))
            }
            other => Self::Failed(other.to_string()),
        }
    }
}
