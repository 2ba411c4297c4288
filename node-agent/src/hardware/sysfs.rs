//! The collector of kernel drivers under `/sys`: GPUs and NPUs from the classes `drm` and `accel`, the topology of `kfd` and
//! `hwmon`, and the bandwidth of network interfaces.
//!
//! It reads memory, unique id, links, health and driver of AMD and Intel GPUs and of NPUs without a vendor library. Of NVIDIA
//! GPUs it reads only the names; NVML reports the rest.

mod classes;
mod health;
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

/// The classes of compute devices.
const CLASSES: [&str; 2] = ["drm", "accel"];

/// The devices that the kernel's drivers report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Devices, with partitions of AMD's GPUs.
    pub devices: Vec<Device>,
    /// Links between them.
    pub links: Vec<Link>,
    /// The bandwidth of network interfaces by PCI address, in bytes per second.
    pub networks: BTreeMap<String, i64>,
}

type Response = worker::Response<io::Result<Found>>;

/// The collector, on its own thread, as reading a file of a hanging driver blocks.
#[derive(Debug)]
pub struct Sysfs {
    root: PathBuf,
    worker: Option<Worker<Request, Response>>,
    /// The last result.
    last: Found,
}

impl Sysfs {
    /// The collector of the system under this root.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), worker: start(root), last: Found::default() }
    }

    /// The devices, or the last ones if they cannot be read now; and the state of the collector.
    pub fn read(&mut self) -> (Found, Collector) {
        let (state, message) = match self.request(Request::Devices) {
            Ok(Response::Devices(Ok(found))) => {
                let is_empty = found.devices.is_empty();
                self.last = found;
                let absent = "no kernel driver reports a GPU or an NPU";
                if is_empty {
                    (CollectorState::Absent, absent.to_owned())
                } else {
                    (CollectorState::Ok, String::new())
                }
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
            self.worker = start(&self.root);
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

fn start(root: &Path) -> Option<Worker<Request, Response>> {
    let root = root.to_owned();
    let worker = Worker::start("sysfs", LIMIT, move || {
        move |request| match request {
            Request::Devices => Response::Devices(read(&root)),
            Request::Counters => Response::Counters(readings::read(&root)),
        }
    });
    worker.ok()
}

/// The devices under a root.
fn read(root: &Path) -> io::Result<Found> {
    for class in CLASSES {
        match fs::read_dir(root.join("sys/class").join(class)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let mut devices = classes::read(root);
    let links = kfd::describe(root, &mut devices);
    Ok(Found { devices, links, networks: network::bandwidths(root) })
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
