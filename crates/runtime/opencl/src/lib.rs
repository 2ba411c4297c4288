//! The runtime's OpenCL back-end: devices, their memory, copies to and from it, and kernels.
//!
//! The library is loaded at run time if present; nothing is linked. Each device has its own context, so copies between
//! two devices go through the host.

#![allow(clippy::result_large_err, reason = "errors return the rejected value")]

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
    /// The devices.
    pub topology: Devices,
    /// Device buffers.
    pub memory: Buffers,
    /// Copies between host and device.
    pub communication: Copies,
    /// Kernels.
    pub compute: Kernels,
}

/// Opens all devices. Without the library or a driver there are none.
pub fn open() -> Result<Managers, Error> {
    let places = device::places()?;
    Ok(Managers {
        topology: Devices::new(Arc::clone(&places)),
        memory: Buffers::new(Arc::clone(&places)),
        communication: Copies::new(Arc::clone(&places)),
        compute: Kernels::new(places),
    })
}
