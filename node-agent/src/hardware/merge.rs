//! One topology of what several ways of looking found: each board once, and what is gone as lost.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health, NodeTopologySpec};

/// What is remembered of a machine from one look to the next.
#[derive(Debug, Default)]
pub struct Memory {
    /// Devices that can be plugged, by id, as they were when they were last there.
    pluggable: BTreeMap<String, Device>,
}

impl Memory {
    /// Adds the devices that were there before and are not now, as lost.
    ///
    /// They stay until they come back, or the agent starts anew.
    pub fn add_lost(&mut self, spec: &mut NodeTopologySpec) {
        let there: BTreeSet<&str> = spec.devices.iter().map(|device| device.id.as_str()).collect();
        let mut lost: Vec<Device> =
            self.pluggable.values().filter(|device| !there.contains(device.id.as_str())).cloned().collect();
        for device in &mut lost {
            device.health = Health::Lost;
        }
        for device in spec.devices.iter().filter(|device| is_pluggable(device)) {
            self.pluggable.insert(device.id.clone(), device.clone());
        }
        spec.devices.extend(lost);
    }
}

/// Whether a device that is gone is missed. Partitions of a GPU are made and unmade by people, network interfaces by
/// pods and virtual machines, and a processor or memory that was taken away is not there.
fn is_pluggable(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "FPGA" | "NPU" | "Accelerator")
}
