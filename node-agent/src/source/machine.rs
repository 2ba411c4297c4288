//! The machine that the agent runs on, or one that is described in hwloc's terms.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crds::NodeTopologySpec;

use super::{Collector, Problem, ProblemReason, Reading, Source, SourceError};
use crate::{
    hardware::{
        PROBE_HWLOC,
        changes::{fingerprint, pcie_capacities, root},
        child::{Answer, Child},
        fit::fit,
        fpga, hwloc,
        merge::{self, Memory},
        nvml::{self, Nvml},
        opencl::Background,
        reading::DeviceReading,
    },
    metrics::CollectorState,
};

/// How often the machine is looked at: a device that comes or goes is published within 5 s.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often hwloc is asked though nothing seems to have changed.
const LOOK_ANYWAY_EVERY: Duration = Duration::from_mins(5);

/// How long hwloc may take: a large machine takes a tenth of a second.
const HWLOC_LIMIT: Duration = Duration::from_secs(10);

/// The largest description that is read: that of a machine with 1,500 processors has 3 MB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// One machine, which has the name of one Node.
#[derive(Debug)]
pub struct Machine {
    node: String,
    /// A file in hwloc's XML, or with one line in its synthetic form; none for the machine itself.
    description: Option<PathBuf>,
    root: PathBuf,
    hwloc: Child,
    /// When the machine was looked at last, and hwloc was asked last.
    looked: Option<Instant>,
    asked: Option<Instant>,
    /// What changes when the machine does.
    stamp: Option<u64>,
    /// What hwloc found last.
    found: NodeTopologySpec,
    memory: Memory,
    hwloc_state: Collector,
    /// None where a machine is described, and no library for it is named.
    nvml: Option<Nvml>,
    /// None where a machine is described.
    opencl: Option<Background>,
    reading: Reading,
}

impl Machine {
    /// Looks at nothing yet.
    ///
    /// `description` is a file in hwloc's words, `nvml_library` is that of NVIDIA's driver where the system's loader does not
    /// find it. Drivers are asked about the machine that the agent runs on only, but for a library that is named.
    pub fn new(node: impl Into<String>, description: Option<PathBuf>, nvml_library: Option<PathBuf>) -> Self {
        let described = description.is_some() || root() != Path::new("/");
        Self {
            nvml: (!described || nvml_library.is_some()).then(|| Nvml::new(nvml_library.map(Into::into))),
            opencl: (!described).then(Background::new),
            node: node.into(),
            description,
            root: root(),
            hwloc: Child::new(PROBE_HWLOC, HWLOC_LIMIT),
            looked: None,
            asked: None,
            stamp: None,
            found: NodeTopologySpec::default(),
            memory: Memory::default(),
            hwloc_state: Collector { name: "hwloc", state: CollectorState::Absent, words: String::new() },
            reading: Reading::default(),
        }
    }

    /// Which machine hwloc is to look at; fails when its description cannot be read.
    fn subject(&self) -> Result<hwloc::Machine, SourceError> {
        let Some(path) = &self.description else { return Ok(hwloc::Machine::Live) };
        let unreadable = |source| SourceError::Description { path: path.display().to_string(), source };
        let bytes = fs::metadata(path).map_err(unreadable)?.len();
        if bytes > MAX_BYTES {
            return Err(unreadable(std::io::Error::other(format!(
                "it has {bytes} bytes, the most is {MAX_BYTES}"
            ))));
        }
        // hwloc takes bytes that are no text in names of devices; so do we.
        let bytes = fs::read(path).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&bytes).replace('\0', "");
        Ok(if text.trim_start().starts_with('<') {
            hwloc::Machine::Xml(text)
        } else {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            hwloc::Machine::Synthetic(lines.collect::<Vec<_>>().join(" "))
        })
    }

    /// Asks hwloc if the machine, or its description, seems to be another than the last time.
    fn look_with_hwloc(&mut self) -> Result<(), SourceError> {
        let stamp = match &self.description {
            None => fingerprint(&self.root),
            Some(path) => super::stamp(path),
        };
        let long_ago = self.asked.is_none_or(|asked| asked.elapsed() >= LOOK_ANYWAY_EVERY);
        if self.stamp == Some(stamp) && !long_ago {
            return Ok(());
        }
        let subject = self.subject()?;
        let answer = self.hwloc.ask::<NodeTopologySpec>(&subject);
        self.asked = Some(Instant::now());
        let (state, words) = match answer {
            Answer::Found(found) => {
                self.found = found;
                if self.description.is_none() {
                    self.widen_links();
                }
                if let Some(opencl) = &mut self.opencl {
                    opencl.ask_again();
                }
                self.stamp = Some(stamp);
                (CollectorState::Ok, String::new())
            }
            Answer::Absent(words) => (CollectorState::Absent, words),
            Answer::Denied(words) => (CollectorState::Denied, words),
            Answer::Failed(words) => {
                // A description that is bad stays bad; a machine is asked again.
                self.stamp = self.description.is_some().then_some(stamp);
                (CollectorState::Error, words)
            }
        };
        self.hwloc_state = Collector { name: "hwloc", state, words };
        Ok(())
    }

    /// Says of PCIe links what they can carry, where hwloc says what they carry at this moment.
    fn widen_links(&mut self) {
        let capacities = pcie_capacities(&self.root);
        let address: BTreeMap<&str, &str> = self
            .found
            .devices
            .iter()
            .filter_map(|device| Some((device.id.as_str(), device.pci_bus_id.as_deref()?)))
            .collect();
        for link in self.found.links.iter_mut().filter(|link| link.kind == "PCIe") {
            let capacity =
                address.get(link.destination.as_str()).and_then(|address| capacities.get(*address));
            link.bandwidth_bytes_per_second = capacity.copied().or(link.bandwidth_bytes_per_second);
        }
    }

    /// Puts together what everybody says.
    fn assemble(&mut self) -> Reading {
        let mut spec = self.found.clone();
        let mut collectors = vec![self.hwloc_state.clone()];
        if self.description.is_none() {
            let (found, state) = fpga::read(&self.root);
            merge::add(&mut spec, found);
            collectors.push(state);
        }
        if let Some(nvml) = &self.nvml {
            let has_gpu =
                spec.devices.iter().any(|it| it.type_ == "GPU" && it.vendor.as_deref() == Some("nvidia"));
            let outcome = nvml.devices();
            collectors.push(nvml::collector(&outcome, has_gpu));
            let (devices, links) =
                outcome.map_or((None, Vec::new()), |found| (Some(found.devices), found.links));
            let devices = self.memory.driven(&spec, devices);
            merge::add(&mut spec, devices);
            merge::replace_links(&mut spec, links);
        }
        if let Some(opencl) = &mut self.opencl {
            let (found, state) = opencl.last();
            merge::add_opencl(&mut spec, found);
            collectors.push(state);
        }
        let not_said_yet = self.opencl.as_ref().is_some_and(|opencl| !opencl.has_answered());
        self.memory.add_lost(&mut spec, not_said_yet);
        let left_out = fit(&mut spec);
        let mut problems = BTreeMap::new();
        if !left_out.is_empty() {
            let problem = Problem { reason: ProblemReason::TooLarge, message: left_out.join("; ") };
            problems.insert(self.node.clone(), problem);
        }
        // A description that is bad is somebody's mistake; hardware that is, is the state of a collector.
        if let (Some(path), CollectorState::Error) = (&self.description, self.hwloc_state.state) {
            let message = self.hwloc_state.words.clone();
            problems
                .insert(path.display().to_string(), Problem { reason: ProblemReason::Malformed, message });
        }
        let spec = match self.reading.topologies.get(&self.node) {
            Some(last) if **last == spec => Arc::clone(last),
            _ => Arc::new(spec),
        };
        // Before anything was seen there is nothing to say: an empty topology would take a node's devices away.
        let seen = self.stamp.is_some()
            && !(spec.devices.is_empty() && self.hwloc_state.state != CollectorState::Ok);
        let topologies = seen.then(|| (self.node.clone(), spec)).into_iter().collect();
        Reading { topologies, problems, collectors }
    }
}

impl Source for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(self.reading.clone());
        }
        self.look_with_hwloc()?;
        self.reading = self.assemble();
        self.looked = Some(Instant::now());
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
            Some(published) => self.memory.recall(&published.devices),
            None => self.memory.forget(),
        }
        self.looked = None;
    }

    fn counters(&mut self) -> Vec<DeviceReading> {
        self.nvml.as_ref().map(Nvml::counters).unwrap_or_default()
    }
}
