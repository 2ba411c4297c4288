//! The runtime's back-end for what OpenCL computes on: devices, their memory, copies to and from it, kernels.
//!
//! The library is loaded when it is there, and nothing is linked. Each device is a context of its own, so copies between
//! two devices go by way of the host.

#![allow(clippy::result_large_err, reason = "what was refused is given back with the error")]

mod communication;
mod compute;
mod device;
mod memory;

use std::sync::Arc;

use runtime::Error;

pub use communication::Copies;
pub use compute::{Argument, Kernels};
pub use device::{DEVICE, Devices, PROCESSING_UNIT, RAM};
pub use memory::Buffers;

/// The managers of all devices of this machine.
pub struct Managers {
    /// What there is.
    pub topology: Devices,
    /// Device buffers.
    pub memory: Buffers,
    /// Copies between host and device.
    pub communication: Copies,
    /// Kernels.
    pub compute: Kernels,
}

/// Finds all devices. Without the library, or without a driver, there are none.
pub fn open() -> Result<Managers, Error> {
    let places = device::places()?;
    Ok(Managers {
        topology: Devices::new(Arc::clone(&places)),
        memory: Buffers::new(Arc::clone(&places)),
        communication: Copies::new(Arc::clone(&places)),
        compute: Kernels::new(places),
    })
}
