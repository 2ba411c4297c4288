//! The OpenCL collector, for devices that no other collector finds.
//!
//! It runs in a [`super::child`] process: drivers may hang or crash, and stay in the memory of the process that loads
//! them. A compiler alone takes 60 MiB.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use crds::{ComputeResource, Device, MemorySpace};
use opencl3::{
    device::{
        CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CUSTOM, CL_DEVICE_TYPE_GPU,
        Device as Handle,
    },
    error_codes::{CL_DEVICE_NOT_FOUND, ClError},
    platform::get_platforms,
};

use super::{
    PROBE_OPENCL,
    child::{Answer, Child},
    debounce::lacks,
    hwloc::short_vendor,
};
use crate::{
    backoff::backoff,
    metrics::CollectorState,
    source::{Collector, Drivers},
};

/// The timeout of the device list. Some drivers compile kernels first.
const LIMIT: Duration = Duration::from_secs(10);

/// OpenCL's error codes for a missing library and a missing driver.
const NO_LIBRARY: i32 = -2000;
const NO_PLATFORM: i32 = -1001;
/// `CL_DEVICE_PCI_BUS_INFO_KHR`, four numbers of 32 bits: domain, bus, device, function.
const PCI_BUS_INFO: u32 = 0x410F;
/// `CL_DEVICE_PCI_DOMAIN_ID_NV`.
const PCI_DOMAIN_NV: u32 = 0x400A;
/// `CL_DEVICE_TOPOLOGY_AMD`.
const TOPOLOGY_AMD: u32 = 0x4037;

/// The reason if a result is not accepted yet.
pub const LACKS: &str =
    "a device that was listed before is missing; another probe has to confirm its absence";

/// The maximum number of devices of one platform.
const MAX_DEVICES: usize = 256;

/// The OpenCL collector. It probes asynchronously.
#[derive(Debug)]
pub struct Background {
    /// `None` while a probe runs.
    child: Option<Child>,
    pending: Option<Receiver<(Child, Answer<Vec<Device>>)>>,
    /// The start of the last probe, and its duration.
    began: Instant,
    took: Option<Duration>,
    /// Whether to probe again, as the machine has changed.
    probe_requested: bool,
    /// Whether drivers may not be loaded.
    is_released: bool,
    /// The last result; `None` before the first.
    found: Option<Vec<Device>>,
    /// The published devices that possibly only OpenCL reported; empty after the first result since the start.
    recalled: Vec<Device>,
    /// Whether the last result lacked a device. If the next one does too, it is accepted.
    lacked_device: bool,
    /// The state after the last probe, with its reason; `None` before the first.
    outcome: Option<(CollectorState, String)>,
    /// The number of consecutive failures.
    failures: u32,
}

impl Background {
    /// Does not probe yet.
    pub fn new() -> Self {
        Self {
            child: Some(Child::new(PROBE_OPENCL, LIMIT)),
            pending: None,
            began: Instant::now(),
            took: None,
            probe_requested: false,
            is_released: true,
            found: None,
            recalled: Vec::new(),
            lacked_device: false,
            outcome: None,
            failures: 0,
        }
    }

    /// Sets whether drivers may be loaded; initially they may not.
    pub fn use_drivers(&mut self, drivers: Drivers) {
        self.is_released = drivers == Drivers::Released;
        self.start_requested();
    }

    /// Restores the published devices that possibly only OpenCL reported. Results since the start may lack one of them.
    pub fn recall(&mut self, devices: Vec<Device>) {
        // Without an OpenCL installation the devices are lost immediately.
        let is_installed = !matches!(self.outcome, Some((CollectorState::Absent, _)));
        self.recalled = if is_installed { devices } else { Vec::new() };
        if self.lacks_recalled() {
            self.probe_again();
        }
    }

    /// Whether the last result lacks a device that was restored later, so that another probe is needed.
    fn lacks_recalled(&self) -> bool {
        self.found.as_ref().is_some_and(|found| lacks(&self.recalled, found))
    }

    /// Whether no child that loads drivers is running.
    pub fn is_at_rest(&mut self) -> bool {
        self.poll();
        self.pending.is_none() && self.child.as_mut().is_none_or(|child| !child.is_stuck())
    }

    /// Starts a probe, now or after the running one.
    pub fn probe_again(&mut self) {
        self.probe_requested = true;
        self.start_requested();
    }

    /// The last result (`None` before the first), and the collector's state. Restored devices that the result lacks are
    /// kept until the next probe.
    pub fn last(&mut self) -> (Option<Vec<Device>>, Collector) {
        self.poll();
        self.probe_requested |= self.is_overdue();
        self.start_requested();
        let not_yet = || (CollectorState::Absent, "the first probe is running".to_owned());
        let (state, message) = self.outcome.clone().unwrap_or_else(not_yet);
        let mut found = self.found.clone();
        if let Some(found) = &mut found {
            let is_missing = |it: &&Device| found.iter().all(|other| other.id != it.id);
            let missing: Vec<_> = self.recalled.iter().filter(is_missing).cloned().collect();
            found.extend(missing);
        }
        (found, Collector { name: "opencl", state, message, took: self.took })
    }

    fn poll(&mut self) {
        if let Some(pending) = &self.pending
            && let Ok((child, answer)) = pending.try_recv()
        {
            (self.child, self.pending) = (Some(child), None);
            self.process(answer);
        }
    }

    /// Processes a response. A failure keeps the last result, and so does the first result that lacks a known device.
    pub fn process(&mut self, answer: Answer<Vec<Device>>) {
        let known = self.found.as_deref().unwrap_or(&self.recalled);
        let lacks_known = matches!(&answer, Answer::Found(found) if lacks(known, found));
        let (found, state, message) = match answer {
            Answer::Found(_) if lacks_known && !self.lacked_device => {
                self.lacked_device = true;
                (None, CollectorState::Error, LACKS.to_owned())
            }
            Answer::Found(found) => {
                self.lacked_device = false;
                (Some(found), CollectorState::Ok, String::new())
            }
            Answer::Absent(message) => {
                // After a result with devices, more likely the library was removed than the devices.
                let is_result = self.found.as_ref().is_none_or(Vec::is_empty);
                (is_result.then(Vec::new), CollectorState::Absent, message)
            }
            Answer::Denied(message) => (None, CollectorState::Denied, message),
            Answer::Failed(message) => (None, CollectorState::Error, message),
        };
        if found.is_some() {
            self.recalled.clear();
        }
        self.failures = if found.is_some() { 0 } else { self.failures.saturating_add(1) };
        self.found = found.or(self.found.take());
        self.outcome = Some((state, message));
        self.took = Some(self.began.elapsed());
    }

    /// Whether the last probe failed long enough ago to retry.
    fn is_overdue(&self) -> bool {
        let is_time = |took: Duration| self.began.elapsed() >= took + backoff(self.failures);
        self.failures > 0 && self.pending.is_none() && self.took.is_none_or(is_time)
    }

    /// Waits for a running probe, unless the previous one failed. Returns whether there was one.
    ///
    /// The wait is limited, as the probe may have to wait for another child.
    pub fn wait(&mut self) -> bool {
        if self.failures > 0 {
            return false;
        }
        let Some(pending) = self.pending.take() else { return false };
        match pending.recv_timeout(LIMIT * 2) {
            Ok((child, answer)) => {
                self.child = Some(child);
                self.process(answer);
            }
            Err(RecvTimeoutError::Timeout) => self.pending = Some(pending),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        true
    }

    /// Whether a probe has completed or failed.
    pub fn has_probed(&self) -> bool {
        self.outcome.is_some()
    }

    fn start_requested(&mut self) {
        if !self.probe_requested || self.is_released {
            return;
        }
        let Some(mut child) = self.child.take() else { return };
        let (sender, receiver) = channel();
        self.began = Instant::now();
        let spawned = thread::Builder::new().name("opencl".to_owned()).spawn(move || {
            let answer = child.request(&());
            // The receiver is dropped when the agent stops.
            let _ = sender.send((child, answer));
        });
        match spawned {
            Ok(_) => (self.pending, self.probe_requested) = (Some(receiver), false),
            // The next probe retries.
            Err(_) => self.child = Some(Child::new(PROBE_OPENCL, LIMIT)),
        }
    }
}

/// Probes OpenCL in the child process.
pub fn probe() -> Answer<Vec<Device>> {
    let absent = |what: &str| {
        Answer::Absent(format!(
            "{what}: needed only for cards that no other collector finds; for those, mount libOpenCL.so.1, \
             /etc/OpenCL/vendors and the libraries that it names into the agent"
        ))
    };
    let platforms = match get_platforms() {
        Ok(platforms) => platforms,
        Err(ClError(NO_LIBRARY)) => return absent("OpenCL is not installed"),
        Err(ClError(NO_PLATFORM)) => return absent("no driver for OpenCL is installed"),
        Err(error) => {
            return Answer::Failed(format!(
                "OpenCL does not list its platforms ({error}): see whether `clinfo` does on the node"
            ));
        }
    };
    let mut devices = Vec::new();
    for (nth, platform) in platforms.iter().enumerate().take(MAX_DEVICES) {
        let handles = match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Ok(handles) => handles,
            Err(ClError(CL_DEVICE_NOT_FOUND)) => continue,
            // Without these devices the list is incomplete, and they would be reported as lost.
            Err(error) => {
                let platform = platform.name().unwrap_or_else(|_| nth.to_string());
                return Answer::Failed(format!(
                    "OpenCL does not list the devices of platform {platform} ({error}): see whether `clinfo` does on \
                     the node"
                ));
            }
        };
        for (index, handle) in handles.into_iter().enumerate().take(MAX_DEVICES) {
            let name = format!("opencl{nth}d{index}");
            devices.extend(describe(Handle::new(handle), &name, platform.vendor().ok()));
        }
    }
    Answer::Found(devices)
}

/// Describes a device; `None` for processors and devices without a type.
fn describe(handle: Handle, name: &str, platform_vendor: Option<String>) -> Option<Device> {
    let type_ = match handle.dev_type().ok()? {
        type_ if type_ & CL_DEVICE_TYPE_GPU != 0 => "GPU",
        type_ if type_ & (CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CUSTOM) != 0 => "Accelerator",
        _ => return None,
    };
    let text =
        |text: Result<String, ClError>| text.ok().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    let address = pci_address(handle);
    let units =
        handle.max_compute_units().ok().and_then(|count| i32::try_from(count).ok()).filter(|it| *it > 0);
    let bytes =
        handle.global_mem_size().ok().and_then(|bytes| i64::try_from(bytes).ok()).filter(|it| *it > 0);
    let prefix = type_.to_lowercase();
    let resource = |count| ComputeResource::new("Compute Unit", count);
    let space = |size_bytes| MemorySpace { type_: "Device RAM".to_owned(), size_bytes };
    Some(Device {
        id: format!("{prefix}-{}", address.as_deref().unwrap_or(name)),
        type_: type_.to_owned(),
        vendor: text(handle.vendor()).or(platform_vendor).map(|vendor| short_vendor(&vendor)),
        model: text(handle.board_name_amd()).or_else(|| text(handle.name())),
        pci_bus_id: address,
        compute_resources: units.map(resource).into_iter().collect(),
        memory_spaces: bytes.map(space).into_iter().collect(),
        ..Device::default()
    })
}

/// The PCI address of a device, from the standard extension, or from those of NVIDIA and AMD.
fn pci_address(handle: Handle) -> Option<String> {
    let numbers = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks_exact(4).map(|it| u32::from_ne_bytes([it[0], it[1], it[2], it[3]])).collect()
    };
    let address = |domain: u32, bus: u32, slot: u32, function: u32| {
        (bus <= 0xff && slot <= 0x1f && function <= 7)
            .then(|| format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"))
    };
    if let Ok(bytes) = handle.get_data(PCI_BUS_INFO)
        && let [domain, bus, slot, function] = numbers(&bytes)[..]
    {
        return address(domain, bus, slot, function);
    }
    if let (Ok(bus), Ok(slot)) = (handle.pci_bus_id_nv(), handle.pci_slot_id_nv()) {
        let domain = handle.get_data(PCI_DOMAIN_NV).ok().and_then(|bytes| numbers(&bytes).first().copied());
        // A slot is the device number and a function number of three bits.
        return address(domain.unwrap_or(0), bus, slot >> 3, slot & 7);
    }
    // The value is a union of 24 bytes. The last three contain the address.
    let amd = handle.get_data(TOPOLOGY_AMD).ok()?;
    let &[bus, slot, function] = amd.get(21..24)? else { return None };
    address(0, bus.into(), slot.into(), function.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failed_probes_are_retried_soon() {
        let mut opencl = Background::new();
        let card = Device { id: "accelerator-opencl0d0".into(), ..Device::default() };
        let message = || "no".to_owned();
        for (answer, failures, found) in [
            (Answer::Failed(message()), 1, None),
            (Answer::Failed(message()), 2, None),
            // as on most machines
            (Answer::Absent(message()), 0, Some(0)),
            (Answer::Absent(message()), 0, Some(0)),
            (Answer::Found(vec![card.clone()]), 0, Some(1)),
            (Answer::Absent(message()), 1, Some(1)),
            (Answer::Denied(message()), 2, Some(1)),
            (Answer::Failed(message()), 3, Some(1)),
            (Answer::Found(Vec::new()), 4, Some(1)),
            (Answer::Failed(message()), 5, Some(1)),
            (Answer::Found(Vec::new()), 0, Some(0)),
            // a device is not lost while its platform may have failed to load once
            (Answer::Found(vec![card.clone()]), 0, Some(1)),
            (Answer::Found(Vec::new()), 1, Some(1)),
            (Answer::Found(vec![card]), 0, Some(1)),
            (Answer::Found(Vec::new()), 1, Some(1)),
            (Answer::Found(Vec::new()), 0, Some(0)),
        ] {
            let shown = format!("{answer:?}");
            opencl.process(answer);
            assert_eq!((opencl.failures, opencl.found.as_ref().map(Vec::len)), (failures, found), "{shown}");
            assert!(!opencl.is_overdue(), "not immediately");
        }
    }
}
