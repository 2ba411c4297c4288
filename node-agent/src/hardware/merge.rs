//! One topology of what several ways of looking found: each board once, and what is gone as lost.

use std::collections::{BTreeMap, BTreeSet};

use crds::{Device, Health, Link, NodeTopologySpec};

use super::{functions::is_of_board, nvml::Found};

/// Adds devices that somebody else found: to the board that is there already, or as a device of its own.
///
/// Boards are the same when their PCI address is, or their UUID. Of what both say the driver is believed, which knows
/// its own device; where the board hangs is what it was.
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

/// Adds what OpenCL found, which does not always know where its devices are: one without an address is taken for a board
/// that is there already if that has the same maker.
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
            // Whoever else speaks of the board knows it better: OpenCL fills what nobody has said.
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

/// Replaces the links of these kinds: whoever counts the links of a GPU knows them better than a matrix.
pub fn replace_links(spec: &mut NodeTopologySpec, links: Vec<Link>) {
    let kinds: BTreeSet<&str> = links.iter().map(|link| link.kind.as_str()).collect();
    spec.links.retain(|link| !kinds.contains(link.kind.as_str()));
    spec.links.extend(links);
}

fn overlay(known: &mut Device, device: Device) {
    let Device { id, type_, vendor, model, pci_bus_id, uuid, driver, health, numa_node, parent, .. } = device;
    if type_ != known.type_ {
        // An accelerator of unknown kind turns out to be an FPGA: its name says what it is.
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

/// Whether a device is a GPU of NVIDIA, or a part of one.
pub fn is_of_nvidia(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "GPU Partition") && device.vendor.as_deref() == Some("nvidia")
}

/// Nobody knows how the GPUs are whose driver may not be asked; what is gone stays so.
pub fn nobody_knows(spec: &mut NodeTopologySpec) {
    let known = |it: &&mut Device| is_of_nvidia(it) && it.health != Health::Lost;
    for device in spec.devices.iter_mut().filter(known) {
        device.health = Health::Unknown;
    }
}

/// Gives a device another id everywhere it is named.
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

/// What is remembered of a machine from one look to the next.
#[derive(Debug, Default)]
pub struct Memory {
    /// Devices that can be plugged, by id, as they were when they were last there.
    pluggable: BTreeMap<String, Device>,
    /// Devices that can be plugged, as they were published when the agent last ran.
    published: Vec<Device>,
    /// Those of them that hung on the bus, which hwloc listed; none when it has said what there is since that was heard.
    hung: Vec<Device>,
    /// What NVIDIA's driver found last, or what was published of it when the agent last ran.
    driven: Vec<Device>,
    /// Those of them, by id, that were lost in its last two answers, or were published as lost when the agent last ran.
    confirmed: BTreeSet<String>,
    /// The links that it found, likewise.
    links: Vec<Link>,
    /// Whether it has said what there is since the agent started.
    answered: bool,
    /// The addresses of the GPUs that hwloc has listed, now or when the agent last ran.
    placed: BTreeSet<String>,
    /// Those of them that were not on the bus when it could be seen last.
    off_bus: BTreeSet<String>,
    /// How many of the GPUs that the driver failed to hand out last are none that it ever did, or were lost before.
    strangers: usize,
    /// How many of them are among those that it did, and which those may be.
    withheld: usize,
    silent: BTreeSet<String>,
}

impl Memory {
    /// Takes in which PCI devices there are now, if that could be seen, and what hwloc lists.
    ///
    /// A GPU that it never listed may be where nobody sees it: that one is not judged.
    pub fn see_bus(&mut self, spec: &NodeTopologySpec, bus: Option<&BTreeSet<String>>) {
        let gpus = spec.devices.iter().filter(|it| it.type_ == "GPU");
        self.placed.extend(gpus.filter_map(|it| it.pci_bus_id.clone()));
        if let Some(bus) = bus {
            self.off_bus = self.placed.difference(bus).cloned().collect();
        }
    }

    /// Whether a GPU, or the one that a partition is of, is gone from the bus.
    fn is_off_bus(&self, device: &Device) -> bool {
        let gpu = match &device.parent {
            Some(parent) => self.driven.iter().find(|it| it.id == *parent),
            None => Some(device),
        };
        gpu.and_then(|it| it.pci_bus_id.as_ref()).is_some_and(|at| self.off_bus.contains(at))
    }

    /// How a device is while its driver says nothing: who was lost twice stays so, and who is gone from the bus is; of the others
    /// nobody knows, but while the driver `is_starting` they are as they were published.
    ///
    /// Who was lost once only may be well: said again in each look, it would count as seen twice.
    fn unheard(&self, device: &Device, is_starting: bool) -> Device {
        let health = match device.health {
            Health::Lost if self.confirmed.contains(&device.id) => Health::Lost,
            _ if self.is_off_bus(device) => Health::Lost,
            before if is_starting => before,
            _ => Health::Unknown,
        };
        Device { health, ..device.clone() }
    }

    /// What to add of GPUs of NVIDIA, given what their driver says: all that it found, or what it found last, of which
    /// nobody knows now how it is. A GPU on the bus that it does not list, for it belongs to a virtual machine or its
    /// driver gave up, is nothing that a container can use. While the driver fails to hand out some GPUs, nobody knows how as
    /// many are that it does not list, that were not lost before and that are on the bus. Partitions are gone when it says so:
    /// of a GPU that is lost, or of which it fails to say which there are, those that were there last stay, as healthy as the GPU.
    ///
    /// A driver that has not answered since the start is `starting`, for a while: what was published stays as it was. While it does
    /// not answer, a GPU that is gone from the bus is lost all the same.
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
        // A GPU that was lost stays known, so that it stays lost.
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

    /// The GPUs that the driver listed before and does not now: lost, but for as many as it has `withheld`. Those come first of which
    /// nothing was said the last time either; where that leaves more of them than are withheld, nobody knows which of them are lost.
    fn missing(&mut self, found: &[Device], withheld: usize) -> Vec<Device> {
        let missing = self.driven.iter().filter(|it| it.type_ == "GPU" && !is_in(found, it));
        let (mut silent, mut heard): (Vec<_>, Vec<_>) =
            missing.cloned().partition(|it| self.silent.contains(&it.id));
        // One that was lost is a stranger while it is withheld, and none any more when it is handed out and well.
        let is_new = |gpu: &&Device| {
            let before = self.driven.iter().find(|it| is_same_board(it, gpu));
            before.is_none_or(|it| it.health == Health::Lost && gpu.health != Health::Lost)
        };
        let new = found.iter().filter(|it| it.type_ == "GPU").filter(is_new).count();
        let strangers = self.strangers.saturating_sub(new).min(withheld);
        let mut room = withheld - strangers;
        // Nobody knows which of the silent ones are withheld, but how many of them were the last time.
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
        // What is left may be a silent one after all, where more of those are known than were withheld.
        let are_silent = |gpus: &[Device]| gpus.iter().filter(|it| it.health == Health::Unknown).count();
        room -= room.min(are_silent(&silent).saturating_sub(self.withheld));
        self.strangers = strangers + room;
        self.withheld = withheld - self.strangers;
        silent.extend(heard);
        let unknown = silent.iter().filter(|it| it.health == Health::Unknown);
        self.silent = unknown.map(|it| it.id.clone()).collect();
        silent
    }

    /// The partitions that were there last and are not in what was found, of GPUs that are lost or not handed out, which say
    /// nothing, or have left it `unsaid` which they have.
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

    /// The links between what the driver found, or those that it found last: all of them while it says nothing, and those of GPUs
    /// that it does not list while it fails to hand out some, whose links it does not tell.
    pub fn links(&mut self, found: Option<&Found>) -> Vec<Link> {
        if let Some(found) = found {
            let is_listed = |id: &String| found.devices.iter().any(|it| it.id == *id);
            let is_untold = |link: &Link| !(is_listed(&link.source) && is_listed(&link.destination));
            self.links.retain(|link| found.withheld > 0 && is_untold(link));
            self.links.extend(found.links.iter().cloned());
        }
        self.links.clone()
    }

    /// What to add of OpenCL's devices, given what it found; while it has not said what there is, what was published of boards
    /// that are there, and devices that perhaps nobody else knows.
    pub fn opencl(&self, spec: &NodeTopologySpec, found: Option<Vec<Device>>) -> Vec<Device> {
        let is_there = |device: &Device| spec.devices.iter().any(|it| is_same_board(it, device));
        found.unwrap_or_else(|| {
            let recalled = self.published.iter().filter(|it| is_of_opencl_alone(it) || is_there(it));
            recalled.cloned().collect()
        })
    }

    /// The devices that perhaps only OpenCL knew when the agent last ran.
    pub fn recalled_of_opencl(&self) -> Vec<Device> {
        self.published.iter().filter(|device| is_of_opencl_alone(device)).cloned().collect()
    }

    /// Hears that hwloc has said what there is, and is believed.
    pub fn hear_hwloc(&mut self) {
        self.hung.clear();
    }

    /// Whether an answer of hwloc leaves out a device that it listed when the agent last ran, and none has counted since that was
    /// heard.
    pub fn lacks_recalled(&self, found: &NodeTopologySpec) -> bool {
        self.hung.iter().any(|device| !found.devices.iter().any(|it| is_same_board(it, device)))
    }

    /// Takes over what was published when the agent last ran: devices that are not there now are missed, too, and what
    /// NVIDIA's driver and OpenCL said then, memory and partitions included, holds until they have said something else. If the
    /// driver spoke before this was heard, its next words say what of it is gone: it may have left partitions unsaid.
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
        // Only hwloc says how a device hangs on the bus: who was said to was listed by it.
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
        // what is known now may be among those that it failed to hand out
        (self.strangers, self.withheld) = (0, usize::MAX);
        let unknown = self.driven.iter().filter(|it| it.health == Health::Unknown);
        self.silent = unknown.map(|it| it.id.clone()).collect();
    }

    /// Misses nothing any more of what is not there now.
    pub fn forget(&mut self) {
        self.pluggable.clear();
        self.published.clear();
        self.hung.clear();
        let is_there = |device: &&Device| device.health != Health::Lost && !self.is_off_bus(device);
        self.driven = self.driven.iter().filter(|it| self.answered && is_there(it)).cloned().collect();
    }

    /// Adds the devices that were there before and are not now: as lost, or as they were, while somebody who may know of
    /// them has `not_said_yet` what there is.
    ///
    /// They stay until they come back, or are to be forgotten.
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

/// Whether a card is there under another name: an accelerator that turned out to be an FPGA, or an FPGA whose driver is silent.
///
/// GPUs and their partitions are named by their drivers, which know them.
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

/// What a partition fails to say of itself is what it said `before`: as long as it exists it stays as it was made.
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

/// The kind of the links that NVIDIA's driver counts.
const NVLINK: &str = "NVLink";

/// The kind of the links by which devices hang on their bus.
const PCIE: &str = "PCIe";

/// Whether a device was described by NVIDIA's driver.
fn is_driven(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "GPU Partition")
        && device.driver.as_deref().is_some_and(|driver| driver.starts_with("nvidia"))
}

/// Whether perhaps nobody but OpenCL knew a device: it says neither where one hangs nor its driver or UUID.
fn is_of_opencl_alone(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "Accelerator")
        && device.numa_node.is_none()
        && device.driver.is_none()
        && device.uuid.is_none()
}

/// Whether a device that is gone is missed. Partitions of a GPU are made and unmade by people, network interfaces by
/// pods and virtual machines, and a processor or memory that was taken away is not there.
fn is_pluggable(device: &Device) -> bool {
    matches!(device.type_.as_str(), "GPU" | "FPGA" | "NPU" | "Accelerator")
}

#[cfg(test)]
mod tests;
