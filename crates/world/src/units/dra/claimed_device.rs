//! A published device that a pool selects: what is known of it, and which claim holds it.

use std::sync::Arc;

use crds::{Device, DraDevices};

use crate::units::dra::slices::{DeviceAvailability, DevicePin, SliceDevice};
use crate::units::memory;
use crate::units::unit::DeviceClaim;

/// A claim of any device of the pool.
pub(crate) fn any_device(devices: &DraDevices) -> DeviceClaim {
    DeviceClaim {
        class: devices.device_class_name.clone(),
        selectors: devices.selectors.clone(),
        device: None,
        choices: Arc::default(),
    }
}

/// The claim that holds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    None,
    /// The actor on the unit of this device.
    Own,
    /// An actor on a numbered unit of the pool.
    Numbered,
    /// Another claim.
    Other,
}

impl Holder {
    /// The first known holder.
    pub fn or(self, other: Self) -> Self {
        if self == Self::None { other } else { self }
    }
}

/// The agent's device of a published one.
#[derive(Clone, Copy)]
pub(crate) struct Described<'a> {
    pub device: &'a Device,
    /// Whether it is the same device, as opposed to the GPU of a partition.
    pub is_whole: bool,
}

/// A device of the pool on the node.
pub(crate) struct Candidate<'a> {
    pub device: &'a SliceDevice,
    /// How a claim selects it alone.
    pub pin: Option<DevicePin>,
    pub holder: Holder,
    pub described: Option<Described<'a>>,
    pub availability: DeviceAvailability,
}

impl Candidate<'_> {
    /// Its published memory, or else that of the agent's device; a partition does not have that of its GPU.
    pub fn memory_mib(&self) -> Option<u64> {
        let whole = self.described.filter(|described| described.is_whole);
        self.device.memory_mib.or_else(|| memory(&[whole?.device]))
    }

    /// Its published NUMA node, or else that of the agent's device, which may be the GPU of a partition.
    pub fn numa_node(&self) -> Option<i32> {
        self.device.numa_node.or_else(|| self.described?.device.numa_node)
    }

    /// Whether new actors may use it: it is neither tainted, unhealthy nor withheld, and no claim of other pods holds it.
    pub fn is_usable(&self) -> bool {
        self.availability == DeviceAvailability::Usable && self.holder != Holder::Other
    }
}
