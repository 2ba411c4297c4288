//! The machine that the agent runs on, or one that is described in hwloc's format.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crds::{Device, Health, NodeTopologySpec};

use super::{Collector, Drivers, Problem, ProblemReason, Reading, Release, Source, SourceError};
use crate::{
    backoff::{PROBE_INTERVAL, backoff},
    hardware::{
        PROBE_HWLOC,
        changes::{fingerprint, on_bus, pcie_capacities, root},
        child::{Answer, Child},
        debounce::{HealthDebouncer, lacks},
        errors::ErrorCounters,
        fit::fit,
        fpga, functions, hwloc,
        merge::{self, DeviceHistory},
        nvml::{self, FirstVersion, Nvml, NvmlFailure, Unloading},
        opencl::{Background, LACKS},
        reading::DeviceReading,
        sysfs::{Sysfs, health},
    },
    metrics::CollectorState,
};

/// How often hwloc runs although nothing seems to have changed.
const HWLOC_INTERVAL: Duration = Duration::from_mins(5);

/// The grace period for NVIDIA's driver at the start: its library is tried for up to a minute.
const DRIVER_STARTS: Duration = Duration::from_mins(2);

/// The time-out of hwloc: a large machine takes a tenth of a second.
const HWLOC_LIMIT: Duration = Duration::from_secs(10);

/// The maximum size of a description: that of a machine with 1,500 processors has 3 MB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// One machine, which is one Node.
#[derive(Debug)]
pub struct Machine {
    node: String,
    /// A file in hwloc's XML, or with one line in its synthetic form; `None` for the local machine.
    description: Option<PathBuf>,
    root: PathBuf,
    hwloc: Child,
    /// Whether the last hwloc process was permitted to load drivers.
    hwloc_drives: bool,
    /// The time of the last probe, and of the last run of hwloc.
    probed_at: Option<Instant>,
    hwloc_ran_at: Option<Instant>,
    /// A fingerprint of the machine.
    stamp: Option<u64>,
    /// hwloc's last result; `None` before the first.
    found: Option<NodeTopologySpec>,
    /// The FPGAs of the kernel when they were last readable.
    fpgas: Vec<Device>,
    /// `None` for a described machine.
    sysfs: Option<Sysfs>,
    /// Whether drivers may be loaded; `None` while unknown, in which case they are not.
    drivers: Option<Drivers>,
    /// The number of consecutive failures of hwloc.
    failures: u32,
    /// Whether hwloc's last result lacked a device: if the next one does too, it is accepted.
    needs_confirmation: bool,
    /// Since when drivers may be loaded.
    started: Instant,
    memory: DeviceHistory,
    steady: HealthDebouncer,
    /// Devices that were lost at the last probe, whether or not that counts yet: of their readings only error counters count.
    lost: BTreeSet<String>,
    errors: ErrorCounters,
    hwloc_state: Collector,
    /// Whether NVML is used: not for a described machine, unless a library is given.
    has_nvml: bool,
    nvml_library: Option<PathBuf>,
    nvml_version: FirstVersion,
    /// `None` while drivers may not be loaded, and before the first run of hwloc.
    nvml: Option<Nvml>,
    /// Earlier instances that may still hold the driver.
    unloading: Vec<Unloading>,
    /// `None` for a described machine.
    opencl: Option<Background>,
    reading: Reading,
}

impl Machine {
    /// Does not probe yet.
    ///
    /// `description` is a file in hwloc's format, `nvml_library` the path of NVML if the system's loader does not find it. Drivers
    /// are used for the local machine only, except a library that is given. `network_root` is the root under which `/sys/class/net`
    /// has the interfaces of the machine, if it is another one.
    pub fn new(
        node: impl Into<String>,
        description: Option<PathBuf>,
        nvml_library: Option<PathBuf>,
        network_root: Option<PathBuf>,
    ) -> Self {
        let described = description.is_some() || root() != Path::new("/");
        let hwloc = Child::new(PROBE_HWLOC, HWLOC_LIMIT);
        let hwloc = if description.is_some() { hwloc.of_description() } else { hwloc };
        Self {
            has_nvml: !described || nvml_library.is_some(),
            nvml_library,
            nvml_version: FirstVersion::default(),
            nvml: None,
            unloading: Vec::new(),
            drivers: None,
            opencl: (!described).then(Background::new),
            sysfs: description.is_none().then(|| Sysfs::new(&root(), &network_root.unwrap_or_else(root))),
            node: node.into(),
            description,
            root: root(),
            hwloc,
            hwloc_drives: false,
            probed_at: None,
            hwloc_ran_at: None,
            stamp: None,
            found: None,
            fpgas: Vec::new(),
            failures: 0,
            needs_confirmation: false,
            started: Instant::now(),
            memory: DeviceHistory::default(),
            steady: HealthDebouncer::default(),
            lost: BTreeSet::new(),
            errors: ErrorCounters::default(),
            hwloc_state: Collector {
                name: "hwloc",
                state: CollectorState::Absent,
                message: String::new(),
                took: None,
            },
            reading: Reading::default(),
        }
    }

    /// The machine that hwloc is to probe; fails if its description cannot be read.
    fn subject(&self) -> Result<hwloc::HwlocInput, SourceError> {
        let Some(path) = &self.description else {
            let may = self.drivers == Some(Drivers::Used);
            return Ok(if may { hwloc::HwlocInput::Live } else { hwloc::HwlocInput::LiveWithoutDrivers });
        };
        let unreadable = |source| SourceError::Description { path: path.display().to_string(), source };
        let bytes = fs::metadata(path).map_err(unreadable)?.len();
        if bytes > MAX_BYTES {
            return Err(unreadable(std::io::Error::other(format!(
                "it has {bytes} bytes, the most is {MAX_BYTES}"
            ))));
        }
        // hwloc accepts non-UTF-8 bytes in names of devices, and so does the agent.
        let bytes = fs::read(path).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&bytes).replace('\0', "");
        Ok(if text.trim_start().starts_with('<') {
            hwloc::HwlocInput::Xml(text)
        } else {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            hwloc::HwlocInput::Synthetic(lines.collect::<Vec<_>>().join(" "))
        })
    }

    /// Runs hwloc if the fingerprint of the machine, or of its description, has changed.
    ///
    /// On failure the last result is kept.
    fn probe_with_hwloc(&mut self) -> Result<(), SourceError> {
        let stamp = match &self.description {
            None => fingerprint(&self.root),
            Some(path) => super::stamp(path),
        };
        let hwloc_ran_before =
            |pause| self.hwloc_ran_at.is_none_or(|hwloc_ran_at| hwloc_ran_at.elapsed() >= pause);
        if self.stamp.is_none() && !hwloc_ran_before(backoff(self.failures)) {
            return Ok(());
        }
        let long_ago = hwloc_ran_before(HWLOC_INTERVAL);
        if self.stamp == Some(stamp) && !long_ago {
            return Ok(());
        }
        let subject = self.subject()?;
        let began = Instant::now();
        if !self.hwloc.is_stuck() {
            self.hwloc_drives = subject == hwloc::HwlocInput::Live;
        }
        // While another child runs, which may take a minute, the last result is kept; the next probe tries again.
        let Some(answer) = self.hwloc.try_request::<NodeTopologySpec>(&subject) else { return Ok(()) };
        self.hwloc_ran_at = Some(Instant::now());
        self.process(answer, stamp);
        self.hwloc_state.took = Some(began.elapsed());
        Ok(())
    }

    /// Processes hwloc's answer about the machine with this fingerprint.
    fn process(&mut self, answer: Answer<NodeTopologySpec>, stamp: u64) {
        let (state, message) = match answer {
            Answer::Found(found) if found.devices.is_empty() => {
                self.stamp = None;
                (CollectorState::Error, "it finds nothing, and no machine is without a processor".to_owned())
            }
            Answer::Found(found) if !self.needs_confirmation && self.lacks(&found) => {
                self.needs_confirmation = true;
                self.stamp = None;
                (CollectorState::Error, LACKS.to_owned())
            }
            Answer::Found(mut found) => {
                if self.description.is_none() {
                    self.widen_links(&mut found);
                }
                self.found = Some(found);
                self.needs_confirmation = false;
                self.memory.accept_hwloc();
                if let Some(opencl) = &mut self.opencl {
                    opencl.probe_again();
                }
                self.stamp = Some(stamp);
                (CollectorState::Ok, String::new())
            }
            Answer::Absent(message) => (CollectorState::Absent, message),
            Answer::Denied(message) => (CollectorState::Denied, message),
            Answer::Failed(message) => {
                // An invalid description stays invalid; a machine is probed again.
                self.stamp = self.description.is_some().then_some(stamp);
                (CollectorState::Error, message)
            }
        };
        self.failures = if state == CollectorState::Ok { 0 } else { self.failures.saturating_add(1) };
        self.hwloc_state = Collector { state, message, ..self.hwloc_state.clone() };
    }

    /// Whether hwloc's answer lacks a device of this machine that it listed before, now or in the previous agent; changes of a
    /// description are intended.
    fn lacks(&self, found: &NodeTopologySpec) -> bool {
        let is_lacking = || match &self.found {
            Some(known) => lacks(&known.devices, &found.devices),
            None => self.memory.lacks_recalled(found),
        };
        self.description.is_none() && is_lacking()
    }

    /// Whether hwloc's result lacks a device that was restored later: one more run decides.
    fn found_too_little(&self) -> bool {
        let found = self.found.as_ref().filter(|_| self.description.is_none());
        found.is_some_and(|found| self.memory.lacks_recalled(found))
    }

    /// Sets the maximum bandwidth of PCIe links, where hwloc reports the current one.
    fn widen_links(&self, found: &mut NodeTopologySpec) {
        let capacities = pcie_capacities(&self.root);
        let address: BTreeMap<&str, &str> = found
            .devices
            .iter()
            .filter_map(|device| Some((device.id.as_str(), device.pci_bus_id.as_deref()?)))
            .collect();
        for link in found.links.iter_mut().filter(|link| link.kind == "PCIe") {
            let capacity =
                address.get(link.destination.as_str()).and_then(|address| capacities.get(*address));
            link.bandwidth_bytes_per_second = capacity.copied().or(link.bandwidth_bytes_per_second);
        }
    }

    /// Merges the results of all collectors.
    fn assemble(&mut self) -> Reading {
        let mut spec = self.found.clone().unwrap_or_default();
        let mut collectors = vec![self.hwloc_state.clone()];
        if self.description.is_none() {
            let (found, state) = fpga::read(&self.root);
            if let Some(found) = found {
                self.fpgas = found;
            }
            let mut found = self.fpgas.clone();
            found.retain(|device| !functions::is_beside_board(device, &spec.devices));
            merge::add(&mut spec, found);
            collectors.push(state);
        }
        if let Some(sysfs) = &mut self.sysfs {
            let began = Instant::now();
            let (found, state) = sysfs.read();
            merge::add(&mut spec, found.devices);
            merge::replace_links(&mut spec, found.links);
            for device in &mut spec.devices {
                let bandwidth = device.pci_bus_id.as_ref().and_then(|address| found.networks.get(address));
                device.network_bandwidth_bytes_per_second = bandwidth.copied();
            }
            collectors.push(Collector { took: Some(began.elapsed()), ..state });
        }
        let outdated = self.query_nvml(&mut spec, &mut collectors);
        if let Some(opencl) = &mut self.opencl {
            let (found, state) = opencl.last();
            let known = self.memory.opencl(&spec, found);
            merge::add_opencl(&mut spec, known);
            collectors.push(state);
        }
        if self.description.is_none() {
            health::mark_reserved(&self.root, &mut spec);
        }
        let opencl_is_asked = self.opencl.as_ref().is_some_and(|opencl| !opencl.has_probed());
        let not_said_yet = self.found.is_none() || self.found_too_little() || opencl_is_asked;
        let virtual_ones =
            if self.description.is_none() { functions::virtual_ones(&self.root) } else { BTreeSet::new() };
        functions::without(&mut spec, &virtual_ones);
        self.memory.add_lost(&mut spec, not_said_yet);
        // an older agent may have published them
        functions::without(&mut spec, &virtual_ones);
        let gone = spec.devices.iter().filter(|device| device.health == Health::Lost);
        self.lost = gone.map(|device| device.id.clone()).collect();
        self.steady.hold(&mut spec.devices);
        let release = self.release();
        if release.is_some() {
            // at once: the requester waits, and no new actor may be placed on them.
            merge::mark_unknown(&mut spec);
        }
        let left_out = fit(&mut spec);
        let mut problems = BTreeMap::new();
        if !left_out.is_empty() {
            let problem = Problem { reason: ProblemReason::TooLarge, message: left_out.join("; ") };
            problems.insert(self.node.clone(), problem);
        }
        // An invalid description is a problem of the source; failing hardware is the state of a collector.
        if let (Some(path), CollectorState::Error) = (&self.description, self.hwloc_state.state) {
            let message = self.hwloc_state.message.clone();
            problems
                .insert(path.display().to_string(), Problem { reason: ProblemReason::Malformed, message });
        }
        let spec = match self.reading.topologies.get(&self.node) {
            Some(last) if **last == spec => Arc::clone(last),
            _ => Arc::new(spec),
        };
        // Before the first result there is no topology: an empty one would remove the node's devices. Later the last result is
        // kept, whatever fails.
        let seen = self.found.is_some();
        let topologies = seen.then(|| (self.node.clone(), spec)).into_iter().collect();
        Reading { topologies, problems, collectors, release, outdated }
    }

    /// Adds the current or last result of NVIDIA's driver; returns why this process cannot use the running driver, if so.
    fn query_nvml(&mut self, spec: &mut NodeTopologySpec, collectors: &mut Vec<Collector>) -> Option<String> {
        let (true, Some(now)) = (self.has_nvml, self.drivers) else { return None };
        if now == Drivers::Used && self.nvml.is_none() {
            // Not before the first run of hwloc, which does not wait for the child that tries the library.
            let library = self.nvml_library.clone().map(Into::into);
            self.nvml = Some(Nvml::new(library, Arc::clone(&self.nvml_version)));
        }
        let has_gpu = self.has_nvidia_gpu(spec);
        let began = Instant::now();
        let outcome = self.nvml.as_ref().map(Nvml::devices);
        if self.nvml.as_ref().is_some_and(Nvml::is_gone) {
            // The next probe creates it again.
            self.release_nvml();
        }
        let mut state = outcome.as_ref().map_or_else(nvml::released, |it| nvml::collector(it, has_gpu));
        state.took = outcome.is_some().then(|| began.elapsed());
        collectors.push(state);
        let outdated = match &outcome {
            Some(Err(NvmlFailure::Replaced(which))) => Some(format!("NVIDIA's driver was replaced, {which}")),
            _ => None,
        };
        if let Some(Err(failure)) = &outcome
            && failure.hides_health()
        {
            // what the driver said before is added below, with its own health
            merge::mark_unknown(spec);
        }
        let found = outcome.and_then(Result::ok);
        let links = self.memory.links(found.as_ref());
        let starting = now == Drivers::Used && self.started.elapsed() < DRIVER_STARTS;
        // A described device is on no bus.
        let bus = if self.description.is_none() { on_bus(&self.root) } else { None };
        self.memory.update_bus(spec, bus.as_ref());
        let devices = self.memory.driven(spec, found, starting);
        merge::add(spec, devices);
        merge::replace_links(spec, links);
        nvml::locate_processor_links(spec);
        merge::locate_partitions(spec);
        outdated
    }

    /// Whether a GPU is for NVIDIA's driver, and not reserved for a virtual machine.
    fn has_nvidia_gpu(&self, spec: &NodeTopologySpec) -> bool {
        let is_reserved =
            |gpu: &Device| self.description.is_none() && health::reserved_by(&self.root, gpu).is_some();
        spec.devices.iter().any(|it| merge::is_of_nvidia(it) && !is_reserved(it))
    }

    /// Releases NVML; threads that still have it loaded are tracked.
    fn release_nvml(&mut self) {
        self.unloading.retain(|unloading| !unloading.is_over());
        self.unloading.extend(self.nvml.take().map(Nvml::release));
    }

    /// The state of the driver release, if requested.
    fn release(&mut self) -> Option<Release> {
        if self.drivers != Some(Drivers::Released) {
            return None;
        }
        self.unloading.retain(|unloading| !unloading.is_over());
        let waits = if !self.unloading.is_empty() {
            "a request to NVML has not returned"
        } else if !self.opencl.as_mut().is_none_or(Background::is_at_rest) {
            "a process that probes OpenCL has not exited"
        } else if self.hwloc_drives && self.hwloc.is_stuck() {
            "an hwloc process that loaded drivers has not exited"
        } else {
            return Some(Release::Done);
        };
        Some(Release::Waits(waits.to_owned()))
    }
}

impl Source for Machine {
    fn name(&self) -> &'static str {
        // the other probes have collectors of their own
        "hwloc"
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        if self.probed_at.is_some_and(|probed_at| probed_at.elapsed() < PROBE_INTERVAL) {
            return Ok(self.reading.clone());
        }
        self.probe_with_hwloc()?;
        self.reading = self.assemble();
        self.probed_at = Some(Instant::now());
        Ok(self.reading.clone())
    }

    fn read_all(&mut self) -> Result<Reading, SourceError> {
        let reading = self.read()?;
        if self.opencl.as_mut().is_some_and(Background::wait) {
            self.reading = self.assemble();
            return Ok(self.reading.clone());
        }
        Ok(reading)
    }

    fn recall(&mut self, published: Option<&NodeTopologySpec>) {
        match published {
            Some(published) => self.memory.recall(published),
            None => self.memory.forget(),
        }
        if self.found_too_little() {
            self.stamp = None;
        }
        if let Some(opencl) = &mut self.opencl {
            opencl.recall(self.memory.recalled_of_opencl());
        }
        self.probed_at = None;
    }

    fn use_drivers(&mut self, drivers: Drivers) {
        if self.drivers.replace(drivers) == Some(drivers) {
            return;
        }
        if let Some(opencl) = &mut self.opencl {
            opencl.use_drivers(drivers);
        }
        match drivers {
            Drivers::Used => {
                self.started = Instant::now();
                if self.description.is_none() {
                    // hwloc may report more with drivers
                    self.stamp = None;
                }
            }
            Drivers::Released => {
                self.release_nvml();
            }
        }
        self.probed_at = None;
    }

    fn counters(&mut self) -> Vec<DeviceReading> {
        let mut readings = self.nvml.as_ref().map(Nvml::counters).unwrap_or_default();
        readings.extend(self.sysfs.as_mut().map(Sysfs::counters).unwrap_or_default());
        self.errors.keep(readings, &self.lost)
    }
}

#[cfg(test)]
mod tests;
