//! Merges the results of several collectors into one topology: each board once, missing ones as lost.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health, Link, NodeTopologySpec};

use super::{
    functions::is_of_board,
    nvml::{C2C, NvmlDevices},
};

/// Adds the devices of another collector: merged with a known board, or as new devices.
///
/// Devices with equal id, PCI address or UUID are the same board, unless both have an address: a board that has another address
/// since a reboot is not what is listed at its old one. The added attributes take precedence, except the locality.
pub fn add(spec: &mut NodeTopologySpec, found: Vec<Device>) {
    for device in found {
        let same = |known: &&mut Device| {
            let equal = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
            let have_addresses = known.pci_bus_id.is_some() && device.pci_bus_id.is_some();
            known.id == device.id
                || equal(&known.pci_bus_id, &device.pci_bus_id)
                || !have_addresses && equal(&known.uuid, &device.uuid)
        };
        match spec.devices.iter_mut().find(same) {
            Some(known) => {
                let before = known.id.clone();
                overlay(known, device);
                let after = known.id.clone();
                rename(spec, &before, &after);
            }
            None => spec.devices.push(device),
        }
    }
}

/// Adds OpenCL's devices. One without an address is dropped if there is a board of the same vendor, which it may be.
pub fn add_opencl(spec: &mut NodeTopologySpec, found: Vec<Device>) {
    let made_by = |vendor: &Option<String>| {
        let boards = spec.devices.iter().filter(|it| it.pci_bus_id.is_some() && it.type_ != "NIC");
        vendor.is_some() && boards.into_iter().any(|it| it.vendor == *vendor)
    };
    let (known, other): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|device| device.pci_bus_id.is_none() && made_by(&device.vendor));
    drop(known);
    for device in other {
        match spec.devices.iter_mut().find(|it| is_same_board(it, &device)) {
            // OpenCL only fills missing attributes.
            Some(board) => {
                board.model = board.model.take().or(device.model);
                if board.compute_resources.is_empty() {
                    board.compute_resources = device.compute_resources;
                }
                if board.memory_spaces.is_empty() {
                    board.memory_spaces = device.memory_spaces;
                }
            }
            None => spec.devices.push(device),
        }
    }
}

fn is_same_board(one: &Device, other: &Device) -> bool {
    one.id == other.id || one.pci_bus_id.is_some() && one.pci_bus_id == other.pci_bus_id
}

/// Replaces all links of these kinds: the links that a driver enumerates are more precise than hwloc's matrix.
pub fn replace_links(spec: &mut NodeTopologySpec, links: Vec<Link>) {
    let kinds: BTreeSet<&str> = links.iter().map(|link| link.kind.as_str()).collect();
    spec.links.retain(|link| !kinds.contains(link.kind.as_str()));
    spec.links.extend(links);
}

/// Copies the NUMA domain, the root port and the PCIe link of each GPU to its partitions.
///
/// Links between GPUs are not copied: NVIDIA does not support them while a GPU is partitioned.
pub fn locate_partitions(spec: &mut NodeTopologySpec) {
    let gpus = spec.devices.iter().filter(|it| it.type_ == "GPU");
    let parents: BTreeMap<String, (Option<i32>, Option<String>)> =
        gpus.map(|it| (it.id.clone(), (it.numa_node, it.pci_root_port.clone()))).collect();
    for part in spec.devices.iter_mut().filter(|it| it.type_ == "GPU Partition") {
        let Some((parent, (numa_node, root_port))) =
            part.parent.as_ref().and_then(|it| parents.get_key_value(it))
        else {
            continue;
        };
        part.numa_node = part.numa_node.or(*numa_node);
        part.pci_root_port = part.pci_root_port.take().or_else(|| root_port.clone());
        let has_link = spec.links.iter().any(|it| it.kind == PCIE && it.destination == part.id);
        let link = spec.links.iter().find(|it| it.kind == PCIE && it.destination == *parent && !has_link);
        let link = link.map(|link| Link { destination: part.id.clone(), ..link.clone() });
        spec.links.extend(link);
    }
}

fn overlay(known: &mut Device, device: Device) {
    let Device { id, type_, vendor, model, pci_bus_id, uuid, driver, health, numa_node, parent, .. } = device;
    if type_ != known.type_ {
        // A collector may identify an accelerator as an FPGA. The id contains the type.
        (known.id, known.type_) = (id, type_);
    }
    known.health = health;
    for (known, found) in [
        (&mut known.vendor, vendor),
        (&mut known.model, model),
        (&mut known.uuid, uuid),
        (&mut known.driver, driver),
        (&mut known.parent, parent),
    ] {
        *known = found.or(known.take());
    }
    known.aliases.extend(device.aliases);
    known.pci_bus_id = known.pci_bus_id.take().or(pci_bus_id);
    known.numa_node = known.numa_node.or(numa_node);
    for resource in device.compute_resources {
        match known.compute_resources.iter_mut().find(|it| it.type_ == resource.type_) {
            Some(same) => *same = resource,
            None => known.compute_resources.push(resource),
        }
    }
    if !device.memory_spaces.is_empty() {
        known.memory_spaces = device.memory_spaces;
    }
}

/// Whether a device is an NVIDIA GPU, or a part of one.
pub fn is_of_nvidia(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "GPU Partition") && device.vendor.as_deref() == Some("nvidia")
}

/// Sets the health of NVIDIA GPUs to unknown while their driver may not be loaded, except of lost ones.
pub fn mark_unknown(spec: &mut NodeTopologySpec) {
    let known = |it: &&mut Device| is_of_nvidia(it) && it.health != Health::Lost;
    for device in spec.devices.iter_mut().filter(known) {
        device.health = Health::Unknown;
    }
}

/// Renames a device and all references to it.
fn rename(spec: &mut NodeTopologySpec, before: &str, after: &str) {
    if before == after {
        return;
    }
    for device in spec.devices.iter_mut().filter(|device| device.parent.as_deref() == Some(before)) {
        device.parent = Some(after.to_owned());
    }
    for link in &mut spec.links {
        for end in [&mut link.source, &mut link.destination] {
            if end == before {
                after.clone_into(end);
            }
        }
    }
}

/// The state of a machine between probes, from which missing devices are detected.
#[derive(Debug, Default)]
pub struct DeviceHistory {
    /// Pluggable devices by id, as last reported.
    pluggable: BTreeMap<String, Device>,
    /// Pluggable devices as published by the previous agent.
    published: Vec<Device>,
    /// The published devices with a link to the bus, which hwloc had listed; cleared by hwloc's first result.
    recalled_on_bus: Vec<Device>,
    /// The last result of NVIDIA's driver, or the published devices of the driver.
    driven: Vec<Device>,
    /// The ids of the driver's devices that were lost in the last two results, or were published as lost.
    confirmed: BTreeSet<String>,
    /// The last or published links of the driver.
    links: Vec<Link>,
    /// Whether the driver has reported since the agent started.
    has_reported: bool,
    /// The addresses of GPUs that hwloc has listed, in this or the previous agent.
    located: BTreeSet<String>,
    /// The addresses in `located` that were missing from the bus when it was last visible.
    off_bus: BTreeSet<String>,
    /// The number of GPUs without a handle in the last result that never had one, or were lost before.
    unknown_withheld: usize,
    /// The number of known GPUs without a handle in the last result.
    withheld: usize,
    /// The ids of GPUs that may be among `withheld`.
    maybe_withheld: BTreeSet<String>,
}

impl DeviceHistory {
    /// Records hwloc's GPUs, and the PCI devices if the bus is visible.
    ///
    /// GPUs that hwloc never listed are ignored, as they may be on a bus that is not visible.
    pub fn update_bus(&mut self, spec: &NodeTopologySpec, bus: Option<&BTreeSet<String>>) {
        let gpus = spec.devices.iter().filter(|it| it.type_ == "GPU");
        self.located.extend(gpus.filter_map(|it| it.pci_bus_id.clone()));
        if let Some(bus) = bus {
            self.off_bus = self.located.difference(bus).cloned().collect();
        }
    }

    /// Whether a GPU, or the GPU of a partition, is missing from the bus.
    fn is_off_bus(&self, device: &Device) -> bool {
        let gpu = match &device.parent {
            Some(parent) => self.driven.iter().find(|it| it.id == *parent),
            None => Some(device),
        };
        gpu.and_then(|it| it.pci_bus_id.as_ref()).is_some_and(|at| self.off_bus.contains(at))
    }

    /// A device while its driver does not respond: lost if it was lost in two results or is missing from the bus;
    /// otherwise with unknown health, or with the last one while the driver `is_starting`.
    ///
    /// A single loss is not repeated here, as that would be counted as a second observation.
    fn without_response(&self, device: &Device, is_starting: bool) -> Device {
        let health = match device.health {
            Health::Lost if self.confirmed.contains(&device.id) => Health::Lost,
            _ if self.is_off_bus(device) => Health::Lost,
            before if is_starting => before,
            _ => Health::Unknown,
        };
        Device { health, ..device.clone() }
    }

    /// The NVIDIA GPUs to add: the driver's result, or its last result with unknown health if it does not respond.
    ///
    /// - GPUs on the bus that the driver does not list have unknown health. They belong to a virtual machine, or the
    ///   driver failed to initialize them.
    /// - GPUs that the driver no longer lists are lost. While it withholds handles, up to as many of them have unknown
    ///   health, if they were not lost before and are on the bus.
    /// - Partitions that the driver no longer lists are removed. Those of a lost GPU, and those that the driver fails
    ///   to list, are kept with the GPU's health.
    /// - GPUs that are missing from the bus are lost even if the driver does not respond.
    ///
    /// While `starting`, a driver that has not responded since the start keeps the published health.
    pub fn driven(
        &mut self,
        spec: &NodeTopologySpec,
        found: Option<NvmlDevices>,
        starting: bool,
    ) -> Vec<Device> {
        let with_health = |health| move |device: &Device| Device { health, ..device.clone() };
        let Some(NvmlDevices { devices: mut found, incomplete, withheld, .. }) = found else {
            let is_starting = starting && !self.has_reported;
            return self.driven.iter().map(|device| self.without_response(device, is_starting)).collect();
        };
        self.has_reported = true;
        let gone = self.missing(&found, withheld);
        let foreign = spec.devices.iter().filter(|it| {
            it.type_ == "GPU" && it.vendor.as_deref() == Some("nvidia") && it.pci_bus_id.is_some()
        });
        let foreign =
            foreign.filter(|it| !is_in(&found, it) && !is_in(&gone, it)).map(with_health(Health::Unknown));
        let foreign: Vec<_> = foreign.collect();
        // Lost GPUs are part of the last result, so that they stay lost.
        found.extend(gone);
        for part in &mut found {
            let before = self.driven.iter().find(|it| it.parent.is_some() && it.id == part.id);
            fill(part, before);
        }
        found.extend(self.unlisted_partitions(&found, &incomplete));
        let is_confirmed = |device: &&Device| {
            let was_lost = |it: &Device| it.id == device.id && it.health == Health::Lost;
            device.health == Health::Lost && self.driven.iter().any(was_lost)
        };
        self.confirmed = found.iter().filter(is_confirmed).map(|it| it.id.clone()).collect();
        self.driven.clone_from(&found);
        found.extend(foreign);
        found
    }

    /// The GPUs that the driver listed before and does not list now: lost, except those that may be `withheld`.
    ///
    /// GPUs that may have been withheld last time are considered first. If more GPUs are missing than are withheld, it
    /// is unknown which of them are lost.
    fn missing(&mut self, found: &[Device], withheld: usize) -> Vec<Device> {
        let is_missing = |it: &&Device| it.type_ == "GPU" && !is_in(found, it) && !is_readdressed(it, found);
        let missing = self.driven.iter().filter(is_missing);
        let (mut maybe_withheld, mut previously_listed): (Vec<_>, Vec<_>) =
            missing.cloned().partition(|it| self.maybe_withheld.contains(&it.id));
        // A GPU is new if it was not listed before, or was lost and has returned.
        let is_new = |gpu: &&Device| {
            let before = self.driven.iter().find(|it| is_same_board(it, gpu));
            before.is_none_or(|it| it.health == Health::Lost && gpu.health != Health::Lost)
        };
        let new = found.iter().filter(|it| it.type_ == "GPU").filter(is_new).count();
        let unknown_withheld = self.unknown_withheld.saturating_sub(new).min(withheld);
        let mut remaining = withheld - unknown_withheld;
        // For the GPUs in `maybe_withheld`, only the number of withheld ones is known.
        for (gpus, max) in [(&mut maybe_withheld, self.withheld), (&mut previously_listed, usize::MAX)] {
            let max = remaining.min(max);
            let mut count = 0;
            for gpu in gpus {
                let is_candidate = max > 0 && gpu.health != Health::Lost && !self.is_off_bus(gpu);
                count += usize::from(is_candidate);
                gpu.health = if is_candidate { Health::Unknown } else { Health::Lost };
            }
            remaining -= count.min(max);
        }
        // The remaining withheld GPUs may be in `maybe_withheld` if it has more candidates than were withheld.
        let candidates = |gpus: &[Device]| gpus.iter().filter(|it| it.health == Health::Unknown).count();
        remaining -= remaining.min(candidates(&maybe_withheld).saturating_sub(self.withheld));
        self.unknown_withheld = unknown_withheld + remaining;
        self.withheld = withheld - self.unknown_withheld;
        maybe_withheld.extend(previously_listed);
        let unknown = maybe_withheld.iter().filter(|it| it.health == Health::Unknown);
        self.maybe_withheld = unknown.map(|it| it.id.clone()).collect();
        maybe_withheld
    }

    /// The partitions of the last result that are missing now, but may exist: those of GPUs that are lost or withheld,
    /// or whose list of partitions is incomplete (`incomplete`).
    fn unlisted_partitions(&self, found: &[Device], incomplete: &BTreeSet<String>) -> Vec<Device> {
        let with_health_of_gpu = |part: &Device| {
            let gpu = found.iter().find(|it| part.parent.as_ref() == Some(&it.id))?;
            let is_unreadable = matches!(gpu.health, Health::Lost | Health::Unknown);
            let may_exist = is_unreadable || incomplete.contains(&gpu.id);
            let is_missing = found.iter().all(|it| it.id != part.id);
            (may_exist && is_missing).then(|| Device { health: gpu.health, ..part.clone() })
        };
        self.driven.iter().filter_map(with_health_of_gpu).collect()
    }

    /// The driver's links. The last links are kept while it does not respond, and those of unlisted GPUs while it
    /// withholds some, whose links it cannot report.
    pub fn links(&mut self, found: Option<&NvmlDevices>) -> Vec<Link> {
        if let Some(found) = found {
            let is_listed = |id: &String| found.devices.iter().any(|it| it.id == *id);
            let is_unlisted = |link: &Link| !(is_listed(&link.source) && is_listed(&link.destination));
            self.links.retain(|link| found.withheld > 0 && is_unlisted(link));
            self.links.extend(found.links.iter().cloned());
        }
        self.links.clone()
    }

    /// The OpenCL devices to add: its result, or before the first result the published devices that are present, or
    /// that possibly only OpenCL reported.
    pub fn opencl(&self, spec: &NodeTopologySpec, found: Option<Vec<Device>>) -> Vec<Device> {
        let is_present = |device: &Device| spec.devices.iter().any(|it| is_same_board(it, device));
        found.unwrap_or_else(|| {
            let recalled = self.published.iter().filter(|it| is_of_opencl_alone(it) || is_present(it));
            recalled.cloned().collect()
        })
    }

    /// The published devices that possibly only OpenCL reported.
    pub fn recalled_of_opencl(&self) -> Vec<Device> {
        self.published.iter().filter(|device| is_of_opencl_alone(device)).cloned().collect()
    }

    /// Records an accepted result of hwloc.
    pub fn accept_hwloc(&mut self) {
        self.recalled_on_bus.clear();
    }

    /// Whether hwloc's result lacks a restored device that it listed in the previous agent, and no result has been
    /// accepted since.
    pub fn lacks_recalled(&self, found: &NodeTopologySpec) -> bool {
        self.recalled_on_bus.iter().any(|device| !found.devices.iter().any(|it| is_same_board(it, device)))
    }

    /// Restores the published topology: missing devices are reported as lost, and the data of NVIDIA's driver and
    /// OpenCL is valid until they report again.
    ///
    /// If the driver has already reported, its next result decides which devices are gone, as its partitions may be
    /// incomplete.
    pub fn recall(&mut self, published: &NodeTopologySpec) {
        let devices = &published.devices;
        for device in devices.iter().filter(|device| is_pluggable(device)) {
            self.pluggable.entry(device.id.clone()).or_insert_with(|| device.clone());
        }
        self.published = devices.iter().filter(|device| is_pluggable(device)).cloned().collect();
        if !self.has_reported {
            self.driven.clear();
            self.links = published
                .links
                .iter()
                .filter(|link| [NVLINK, C2C].contains(&link.kind.as_str()))
                .cloned()
                .collect();
        }
        // Only hwloc reports PCIe links, so it had listed the devices with such a link.
        let has_link = |device: &&Device| {
            published.links.iter().any(|it| it.kind == PCIE && it.destination == device.id)
        };
        self.recalled_on_bus = self.published.iter().filter(has_link).cloned().collect();
        let gpus = self.recalled_on_bus.iter().filter(|it| it.type_ == "GPU");
        self.located.extend(gpus.filter_map(|it| it.pci_bus_id.clone()));
        let is_known = |device: &Device| self.driven.iter().any(|it| it.id == device.id);
        let missing = devices.iter().filter(|device| is_driven(device) && !is_known(device));
        let missing: Vec<_> = missing.cloned().collect();
        self.driven.extend(missing);
        let lost = devices.iter().filter(|device| is_driven(device) && device.health == Health::Lost);
        self.confirmed.extend(lost.map(|device| device.id.clone()));
        // A restored GPU may be among those that the driver withheld.
        (self.unknown_withheld, self.withheld) = (0, usize::MAX);
        let unknown = self.driven.iter().filter(|it| it.health == Health::Unknown);
        self.maybe_withheld = unknown.map(|it| it.id.clone()).collect();
    }

    /// Stops reporting missing devices as lost.
    pub fn forget(&mut self) {
        self.pluggable.clear();
        self.published.clear();
        self.recalled_on_bus.clear();
        let is_present = |device: &&Device| device.health != Health::Lost && !self.is_off_bus(device);
        self.driven = self.driven.iter().filter(|it| self.has_reported && is_present(it)).cloned().collect();
    }

    /// Adds devices that were present before and are missing now: as lost, or unchanged while the topology
    /// `is_incomplete`.
    ///
    /// They are kept until they return, or until [`Self::forget`].
    pub fn add_lost(&mut self, spec: &mut NodeTopologySpec, is_incomplete: bool) {
        let is_elsewhere = |device: &Device| {
            is_listed_otherwise(device, &spec.devices) || is_readdressed(device, &spec.devices)
        };
        self.pluggable.retain(|_, device| !is_elsewhere(device));
        let present: BTreeSet<&str> = spec.devices.iter().map(|device| device.id.as_str()).collect();
        let mut lost: Vec<Device> =
            self.pluggable.values().filter(|device| !present.contains(device.id.as_str())).cloned().collect();
        lost.retain(|device| !is_of_board(device, &spec.devices));
        for device in lost.iter_mut().filter(|_| !is_incomplete) {
            device.health = Health::Lost;
        }
        for device in spec.devices.iter().filter(|device| is_pluggable(device)) {
            self.pluggable.insert(device.id.clone(), device.clone());
        }
        spec.devices.extend(lost);
    }
}

/// Whether a list has a device at the same address.
fn is_in(list: &[Device], device: &Device) -> bool {
    list.iter().any(|it| it.pci_bus_id.is_some() && it.pci_bus_id == device.pci_bus_id)
}

/// Whether the same board is present at another address: the firmware numbered the buses anew, as it does when a card is added.
fn is_readdressed(device: &Device, present: &[Device]) -> bool {
    let is_it = |other: &Device| {
        other.uuid == device.uuid && other.pci_bus_id != device.pci_bus_id && other.health != Health::Lost
    };
    device.uuid.is_some() && device.pci_bus_id.is_some() && present.iter().any(is_it)
}

/// Whether a card is listed under another id, as its type has changed between accelerator and FPGA.
///
/// GPUs are excluded, as their drivers determine the ids.
fn is_listed_otherwise(card: &Device, present: &[Device]) -> bool {
    let is_card = |device: &Device| is_pluggable(device) && device.type_ != "GPU";
    let is_it = |other: &Device| {
        is_card(other)
            && other.id != card.id
            && card.pci_bus_id.is_some()
            && other.pci_bus_id == card.pci_bus_id
    };
    is_card(card) && present.iter().any(is_it)
}

/// Fills missing attributes of a partition from `before`, as partitions are immutable.
fn fill(part: &mut Device, before: Option<&Device>) {
    let Some(before) = before else { return };
    for (now, before) in [(&mut part.model, &before.model), (&mut part.uuid, &before.uuid)] {
        if now.is_none() {
            now.clone_from(before);
        }
    }
    if part.compute_resources.is_empty() {
        part.compute_resources.clone_from(&before.compute_resources);
    }
    if part.memory_spaces.is_empty() {
        part.memory_spaces.clone_from(&before.memory_spaces);
    }
}

/// The kind of links that NVIDIA's driver enumerates.
const NVLINK: &str = "NVLink";

/// The kind of links between devices and their bus.
const PCIE: &str = "PCIe";

/// Whether a device was described by NVIDIA's driver.
fn is_driven(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "GPU Partition")
        && device.driver.as_deref().is_some_and(|driver| driver.starts_with("nvidia"))
}

/// Whether possibly only OpenCL reported a device: one without locality, driver and UUID.
fn is_of_opencl_alone(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "Accelerator")
        && device.numa_node.is_none()
        && device.driver.is_none()
        && device.uuid.is_none()
}

/// Whether a missing device is reported as lost. Partitions and network interfaces are created and deleted at run time,
/// and removed processors or memory are absent.
fn is_pluggable(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "FPGA" | "NPU" | "Accelerator")
}

#[cfg(test)]
mod tests;
