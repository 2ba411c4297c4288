//! The collector of kernel drivers under `/sys`: GPUs and NPUs from the classes `drm` and `accel`, the topology of `kfd` and
//! `hwmon`, and the bandwidth of network interfaces.
//!
//! It reads memory, unique id, links, health and driver of AMD and Intel GPUs and of NPUs without a vendor library. Of NVIDIA
//! GPUs it reads only the names; NVML reports the rest.

mod classes;
pub mod health;
mod kfd;
mod network;
mod readings;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crds::{Device, Link};

use super::{
    changes::names,
    reading::DeviceReading,
    worker::{self, NoResponse, Request, Worker},
};
use crate::{metrics::CollectorState, source::Collector};

/// The time-out of a reader: a file under `/sys` takes microseconds, unless a driver hangs.
const LIMIT: Duration = Duration::from_secs(2);

/// What is missing without access to AMD's `kfd`, and the remedy.
const KFD_DENIED: &str = "the kernel denies access to the topology of AMD GPUs in /sys/class/kfd: their compute units, partitions \
                          and XGMI links are missing. Run the agents of these nodes with agent.privileged of the chart, which \
                          agent.groups may set, too";

/// The classes of compute devices.
const CLASSES: [&str; 2] = ["drm", "accel"];

/// The devices that the kernel's drivers report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SysfsDevices {
    /// Devices, with partitions of AMD's GPUs.
    pub devices: Vec<Device>,
    /// Links between them.
    pub links: Vec<Link>,
    /// The bandwidth of network interfaces by PCI address, in bytes per second.
    pub networks: BTreeMap<String, i64>,
    /// Whether the kernel refused to report the topology of AMD's GPUs.
    pub is_kfd_denied: bool,
}

impl SysfsDevices {
    /// The state of the collector with this result.
    fn state(&self) -> (CollectorState, String) {
        if self.is_kfd_denied {
            (CollectorState::Denied, KFD_DENIED.to_owned())
        } else if self.devices.is_empty() {
            (CollectorState::Absent, "no kernel driver reports a GPU or an NPU".to_owned())
        } else {
            (CollectorState::Ok, String::new())
        }
    }
}

type Response = worker::Response<io::Result<SysfsDevices>>;

/// The collector, on its own thread, as reading a file of a hanging driver blocks.
#[derive(Debug)]
pub struct Sysfs {
    root: PathBuf,
    /// The root of the network interfaces.
    network_root: PathBuf,
    worker: Option<Worker<Request, Response>>,
    /// The last result.
    last: SysfsDevices,
}

impl Sysfs {
    /// The collector of the system under this root, and of the network interfaces in `/sys/class/net` under another.
    pub fn new(root: &Path, network_root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            network_root: network_root.to_owned(),
            worker: start(root, network_root),
            last: SysfsDevices::default(),
        }
    }

    /// The devices, or the last ones if they cannot be read now; and the state of the collector.
    pub fn read(&mut self) -> (SysfsDevices, Collector) {
        let (state, message) = match self.request(Request::Devices) {
            Ok(Response::Devices(Ok(found))) => {
                self.last = found;
                self.last.state()
            }
            Ok(Response::Devices(Err(error))) if error.kind() == io::ErrorKind::PermissionDenied => (
                CollectorState::Denied,
                "no permission to read /sys/class: mount /sys into the agent, read-only".to_owned(),
            ),
            Ok(Response::Devices(Err(error))) => {
                (CollectorState::Error, format!("cannot read /sys/class: {error}"))
            }
            Ok(Response::Counters(_)) => (CollectorState::Error, "unexpected response".to_owned()),
            Err(message) => (CollectorState::Error, message),
        };
        (self.last.clone(), Collector { name: "sysfs", state, message, took: None })
    }

    /// Readings of the devices; empty while a driver hangs.
    pub fn counters(&mut self) -> Vec<DeviceReading> {
        match self.request(Request::Counters) {
            Ok(Response::Counters(readings)) => readings,
            Ok(Response::Devices(_)) | Err(_) => Vec::new(),
        }
    }

    fn request(&mut self, request: Request) -> Result<Response, String> {
        if self.worker.as_ref().is_none_or(Worker::has_ended) {
            self.worker = start(&self.root, &self.network_root);
        }
        let Some(worker) = &self.worker else {
            return Err("cannot start the reader thread".to_owned());
        };
        worker.request(request).map_err(|failure| match failure {
            NoResponse::Hangs => format!(
                "no response within {LIMIT:?}: reading a file under /sys/class hangs in a driver; the next read starts after it \
                 returns (see `dmesg`)"
            ),
            NoResponse::Panicked => "the reader thread panicked".to_owned(),
        })
    }
}

fn start(root: &Path, network_root: &Path) -> Option<Worker<Request, Response>> {
    let (root, network_root) = (root.to_owned(), network_root.to_owned());
    let worker = Worker::start("sysfs", LIMIT, move || {
        move |request| match request {
            Request::Devices => Response::Devices(read(&root, &network_root)),
            Request::Counters => Response::Counters(readings::read(&root)),
        }
    });
    worker.ok()
}

/// The devices under a root, and the network interfaces under another.
fn read(root: &Path, network_root: &Path) -> io::Result<SysfsDevices> {
    for class in CLASSES {
        match fs::read_dir(root.join("sys/class").join(class)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let mut devices = classes::read(root);
    let kfd = kfd::describe(root, &mut devices);
    let networks = network::bandwidths(root, network_root);
    Ok(SysfsDevices { devices, links: kfd.links, networks, is_kfd_denied: kfd.is_denied })
}

/// The text of a file, trimmed; `None` if it is empty or cannot be read.
fn text(folder: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The number in a file, decimal or hexadecimal with `0x`.
fn number(folder: &Path, file: &str) -> Option<u64> {
    let text = text(folder, file)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The folders in a folder whose name is a word and a number.
fn numbered(folder: &Path, word: &str) -> Vec<PathBuf> {
    let is_one = |name: &String| {
        let digits = name.strip_prefix(word);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    names(folder).into_iter().filter(is_one).map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests;
