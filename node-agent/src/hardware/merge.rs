//! Merges the results of several collectors into one topology: each board once, and missing ones as lost.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health, Link, NodeTopologySpec};

use super::{functions::is_of_board, nvml::Found};

/// Adds the devices of another collector: merged with a known board, or as new devices.
///
/// Boards are equal if their PCI addresses or UUIDs are. The driver takes precedence, as it knows its own device; the
/// locality is kept.
pub fn add(spec: &mut NodeTopologySpec, found: Vec<Device>) {
    for device in found {
        let same = |known: &&mut Device| {
            let equal = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
            known.id == device.id
                || equal(&known.pci_bus_id, &device.pci_bus_id)
                || equal(&known.uuid, &device.uuid)
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

/// Adds OpenCL's devices, some of which have no address: such a device is merged with a known board of the same
/// vendor.
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
            // Every other collector takes precedence: OpenCL fills missing attributes.
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

/// Replaces the links of these kinds: a driver that enumerates a GPU's links is more precise than a matrix.
pub fn replace_links(spec: &mut NodeTopologySpec, links: Vec<Link>) {
    let kinds: BTreeSet<&str> = links.iter().map(|link| link.kind.as_str()).collect();
    spec.links.retain(|link| !kinds.contains(link.kind.as_str()));
    spec.links.extend(links);
}

/// Gives each partition of a GPU the NUMA domain, the root port and the PCIe link of its GPU. Links between GPUs are not those of partitions:
/// NVIDIA does not support them while a GPU is partitioned.
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
        // An accelerator of unknown kind turns out to be an FPGA, which its name reflects.
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

/// The health of GPUs is unknown while their driver may not be loaded; lost ones stay lost.
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

/// The memory of a machine between probes.
#[derive(Debug, Default)]
pub struct Memory {
    /// Pluggable devices by id, as last seen.
    pluggable: BTreeMap<String, Device>,
    /// Pluggable devices, as published by the previous agent.
    published: Vec<Device>,
    /// Those of them on the bus, which hwloc listed; empty once hwloc has reported since.
    hung: Vec<Device>,
    /// NVIDIA's driver's last result, or what was published of it by the previous agent.
    driven: Vec<Device>,
    /// Those of them, by id, that were lost in the last two answers, or were published as lost.
    confirmed: BTreeSet<String>,
    /// Their links, likewise.
    links: Vec<Link>,
    /// Whether the driver has reported since the agent started.
    answered: bool,
    /// The addresses of GPUs that hwloc has listed, now or in the previous agent.
    placed: BTreeSet<String>,
    /// Those of them that were missing from the bus when it was last visible.
    off_bus: BTreeSet<String>,
    /// The number of GPUs without a handle in the last answer that were never seen with one, or were lost before.
    strangers: usize,
    /// The number of known GPUs without a handle, and the candidates.
    withheld: usize,
    silent: BTreeSet<String>,
}

impl Memory {
    /// Records the present PCI devices, if visible, and hwloc's list.
    ///
    /// A GPU that hwloc never listed may be on an invisible bus, and is not judged.
    pub fn see_bus(&mut self, spec: &NodeTopologySpec, bus: Option<&BTreeSet<String>>) {
        let gpus = spec.devices.iter().filter(|it| it.type_ == "GPU");
        self.placed.extend(gpus.filter_map(|it| it.pci_bus_id.clone()));
        if let Some(bus) = bus {
            self.off_bus = self.placed.difference(bus).cloned().collect();
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

    /// The health of a device while its driver does not answer: lost if it was lost twice or is missing from the bus; otherwise
    /// unknown, or as published while the driver `is_starting`.
    ///
    /// A device that was lost once may be healthy; repeating that at each probe would count as a second observation.
    fn unheard(&self, device: &Device, is_starting: bool) -> Device {
        let health = match device.health {
            Health::Lost if self.confirmed.contains(&device.id) => Health::Lost,
            _ if self.is_off_bus(device) => Health::Lost,
            before if is_starting => before,
            _ => Health::Unknown,
        };
        Device { health, ..device.clone() }
    }

    /// The NVIDIA GPUs to add, given the driver's answer: its result, or its last one with unknown health. A GPU on the bus that it
    /// does not list (it belongs to a virtual machine, or its driver gave up) is unusable for containers. While the driver withholds
    /// handles of some GPUs, the health of as many is unknown among those that it does not list, that were not lost before and that are
    /// on the bus. Partitions are removed if it says so; those of a lost GPU, or of one whose partitions it fails to list, are kept
    /// with the GPU's health.
    ///
    /// A driver that has not answered since the start is `starting` for a grace period, in which the published state is kept. A GPU
    /// that is missing from the bus is lost even without an answer.
    pub fn driven(&mut self, spec: &NodeTopologySpec, found: Option<Found>, starting: bool) -> Vec<Device> {
        let as_is = |health| move |device: &Device| Device { health, ..device.clone() };
        let Some(Found { devices: mut found, unsaid, withheld, .. }) = found else {
            let is_starting = starting && !self.answered;
            return self.driven.iter().map(|device| self.unheard(device, is_starting)).collect();
        };
        self.answered = true;
        let gone = self.missing(&found, withheld);
        let foreign = spec.devices.iter().filter(|it| {
            it.type_ == "GPU" && it.vendor.as_deref() == Some("nvidia") && it.pci_bus_id.is_some()
        });
        let foreign =
            foreign.filter(|it| !is_in(&found, it) && !is_in(&gone, it)).map(as_is(Health::Unknown));
        let foreign: Vec<_> = foreign.collect();
        // A lost GPU is remembered, so that it stays lost.
        found.extend(gone);
        for part in &mut found {
            let before = self.driven.iter().find(|it| it.parent.is_some() && it.id == part.id);
            fill(part, before);
        }
        found.extend(self.unsaid_partitions(&found, &unsaid));
        let is_confirmed = |device: &&Device| {
            let was_lost = |it: &Device| it.id == device.id && it.health == Health::Lost;
            device.health == Health::Lost && self.driven.iter().any(was_lost)
        };
        self.confirmed = found.iter().filter(is_confirmed).map(|it| it.id.clone()).collect();
        self.driven.clone_from(&found);
        found.extend(foreign);
        found
    }

    /// The GPUs that the driver listed before and does not list now: lost, except as many as are `withheld`. Those that were silent
    /// last time are considered withheld first; if more remain than are withheld, it is unknown which of them are lost.
    fn missing(&mut self, found: &[Device], withheld: usize) -> Vec<Device> {
        let missing = self.driven.iter().filter(|it| it.type_ == "GPU" && !is_in(found, it));
        let (mut silent, mut heard): (Vec<_>, Vec<_>) =
            missing.cloned().partition(|it| self.silent.contains(&it.id));
        // A lost GPU counts as unknown while it is withheld, and no more once it is listed and healthy.
        let is_new = |gpu: &&Device| {
            let before = self.driven.iter().find(|it| is_same_board(it, gpu));
            before.is_none_or(|it| it.health == Health::Lost && gpu.health != Health::Lost)
        };
        let new = found.iter().filter(|it| it.type_ == "GPU").filter(is_new).count();
        let strangers = self.strangers.saturating_sub(new).min(withheld);
        let mut room = withheld - strangers;
        // Which of the silent ones are withheld is unknown; only their number last time is known.
        for (gpus, most) in [(&mut silent, self.withheld), (&mut heard, usize::MAX)] {
            let most = room.min(most);
            let mut taken = 0;
            for gpu in gpus {
                let may_be_there = most > 0 && gpu.health != Health::Lost && !self.is_off_bus(gpu);
                taken += usize::from(may_be_there);
                gpu.health = if may_be_there { Health::Unknown } else { Health::Lost };
            }
            room -= taken.min(most);
        }
        // The rest may be silent ones after all, if more of those are known than were withheld.
        let are_silent = |gpus: &[Device]| gpus.iter().filter(|it| it.health == Health::Unknown).count();
        room -= room.min(are_silent(&silent).saturating_sub(self.withheld));
        self.strangers = strangers + room;
        self.withheld = withheld - self.strangers;
        silent.extend(heard);
        let unknown = silent.iter().filter(|it| it.health == Health::Unknown);
        self.silent = unknown.map(|it| it.id.clone()).collect();
        silent
    }

    /// The partitions of the last result that are missing now, of GPUs that are lost or withheld, which cannot be read, or whose
    /// partitions are `unsaid`.
    fn unsaid_partitions(&self, found: &[Device], unsaid: &BTreeSet<String>) -> Vec<Device> {
        let as_its_gpu = |part: &Device| {
            let gpu = found.iter().find(|it| part.parent.as_ref() == Some(&it.id))?;
            let is_silent = matches!(gpu.health, Health::Lost | Health::Unknown);
            let is_unsaid = is_silent || unsaid.contains(&gpu.id);
            let is_missing = found.iter().all(|it| it.id != part.id);
            (is_unsaid && is_missing).then(|| Device { health: gpu.health, ..part.clone() })
        };
        self.driven.iter().filter_map(as_its_gpu).collect()
    }

    /// The driver's links, or its last ones: all of them while it does not answer, and those of GPUs that it does not list while it
    /// withholds some, whose links it cannot report.
    pub fn links(&mut self, found: Option<&Found>) -> Vec<Link> {
        if let Some(found) = found {
            let is_listed = |id: &String| found.devices.iter().any(|it| it.id == *id);
            let is_untold = |link: &Link| !(is_listed(&link.source) && is_listed(&link.destination));
            self.links.retain(|link| found.withheld > 0 && is_untold(link));
            self.links.extend(found.links.iter().cloned());
        }
        self.links.clone()
    }

    /// The OpenCL devices to add, given its result; before its first result, what was published of present boards, and devices that
    /// possibly no other collector knows.
    pub fn opencl(&self, spec: &NodeTopologySpec, found: Option<Vec<Device>>) -> Vec<Device> {
        let is_there = |device: &Device| spec.devices.iter().any(|it| is_same_board(it, device));
        found.unwrap_or_else(|| {
            let recalled = self.published.iter().filter(|it| is_of_opencl_alone(it) || is_there(it));
            recalled.cloned().collect()
        })
    }

    /// The devices that possibly only OpenCL knew in the previous agent.
    pub fn recalled_of_opencl(&self) -> Vec<Device> {
        self.published.iter().filter(|device| is_of_opencl_alone(device)).cloned().collect()
    }

    /// Records an accepted result of hwloc.
    pub fn hear_hwloc(&mut self) {
        self.hung.clear();
    }

    /// Whether hwloc's answer lacks a device that it listed in the previous agent, and none has been accepted since that was
    /// restored.
    pub fn lacks_recalled(&self, found: &NodeTopologySpec) -> bool {
        self.hung.iter().any(|device| !found.devices.iter().any(|it| is_same_board(it, device)))
    }

    /// Restores what the previous agent published: devices that are missing now are reported as lost, and what NVIDIA's driver and
    /// OpenCL reported, including memory and partitions, is valid until they report again. If the driver reported before this, its
    /// next answer decides what is gone: it may have left partitions unsaid.
    pub fn recall(&mut self, published: &NodeTopologySpec) {
        let devices = &published.devices;
        for device in devices.iter().filter(|device| is_pluggable(device)) {
            self.pluggable.entry(device.id.clone()).or_insert_with(|| device.clone());
        }
        self.published = devices.iter().filter(|device| is_pluggable(device)).cloned().collect();
        if !self.answered {
            self.driven.clear();
            self.links = published.links.iter().filter(|link| link.kind == NVLINK).cloned().collect();
        }
        // Only hwloc reports the locality on a bus, so a device with one was listed by it.
        let hangs = |device: &&Device| {
            published.links.iter().any(|it| it.kind == PCIE && it.destination == device.id)
        };
        self.hung = self.published.iter().filter(hangs).cloned().collect();
        let gpus = self.hung.iter().filter(|it| it.type_ == "GPU");
        self.placed.extend(gpus.filter_map(|it| it.pci_bus_id.clone()));
        let is_known = |device: &Device| self.driven.iter().any(|it| it.id == device.id);
        let missed = devices.iter().filter(|device| is_driven(device) && !is_known(device));
        let missed: Vec<_> = missed.cloned().collect();
        self.driven.extend(missed);
        let lost = devices.iter().filter(|device| is_driven(device) && device.health == Health::Lost);
        self.confirmed.extend(lost.map(|device| device.id.clone()));
        // a GPU that is known now may be among those that it withheld
        (self.strangers, self.withheld) = (0, usize::MAX);
        let unknown = self.driven.iter().filter(|it| it.health == Health::Unknown);
        self.silent = unknown.map(|it| it.id.clone()).collect();
    }

    /// Stops reporting missing devices as lost.
    pub fn forget(&mut self) {
        self.pluggable.clear();
        self.published.clear();
        self.hung.clear();
        let is_there = |device: &&Device| device.health != Health::Lost && !self.is_off_bus(device);
        self.driven = self.driven.iter().filter(|it| self.answered && is_there(it)).cloned().collect();
    }

    /// Adds devices that were present before and are missing now: as lost, or unchanged while a collector that may know them has
    /// `not_said_yet` what is present.
    ///
    /// They are kept until they return, or are to be forgotten.
    pub fn add_lost(&mut self, spec: &mut NodeTopologySpec, not_said_yet: bool) {
        self.pluggable.retain(|_, device| !is_renamed(device, &spec.devices));
        let there: BTreeSet<&str> = spec.devices.iter().map(|device| device.id.as_str()).collect();
        let mut lost: Vec<Device> =
            self.pluggable.values().filter(|device| !there.contains(device.id.as_str())).cloned().collect();
        lost.retain(|device| !is_of_board(device, &spec.devices));
        for device in lost.iter_mut().filter(|_| !not_said_yet) {
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

/// Whether a card is listed under another name: an accelerator that turned out to be an FPGA, or an FPGA with a silent driver.
///
/// GPUs and their partitions are named by their drivers.
fn is_renamed(card: &Device, there: &[Device]) -> bool {
    let is_card = |device: &Device| is_pluggable(device) && device.type_ != "GPU";
    let is_it = |other: &Device| {
        is_card(other)
            && other.id != card.id
            && card.pci_bus_id.is_some()
            && other.pci_bus_id == card.pci_bus_id
    };
    is_card(card) && there.iter().any(is_it)
}

/// Attributes that a partition does not report are kept from `before`: partitions are immutable.
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

/// Whether possibly only OpenCL knew a device: it reports neither locality nor driver nor UUID.
fn is_of_opencl_alone(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "Accelerator")
        && device.numa_node.is_none()
        && device.driver.is_none()
        && device.uuid.is_none()
}

/// Whether a missing device is reported as lost. Partitions are created and deleted by administrators, network interfaces by
/// pods and virtual machines, and removed processors or memory are simply absent.
fn is_pluggable(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "FPGA" | "NPU" | "Accelerator")
}

#[cfg(test)]
mod tests;
