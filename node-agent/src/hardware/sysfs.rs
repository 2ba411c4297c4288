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
    worker::{Silence, Worker},
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

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Devices,
    Counters,
}

/// An answer.
#[derive(Debug)]
enum Answer {
    Devices(io::Result<Found>),
    Counters(Vec<DeviceReading>),
}

/// The collector, on a thread of its own: a file of a hanging driver blocks its reader.
#[derive(Debug)]
pub struct Sysfs {
    root: PathBuf,
    worker: Option<Worker<Question, Answer>>,
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
        let (state, words) = match self.ask(Question::Devices) {
            Ok(Answer::Devices(Ok(found))) => {
                let is_empty = found.devices.is_empty();
                self.last = found;
                let absent = "no driver of the kernel describes a GPU or an NPU";
                if is_empty {
                    (CollectorState::Absent, absent.to_owned())
                } else {
                    (CollectorState::Ok, String::new())
                }
            }
            Ok(Answer::Devices(Err(error))) if error.kind() == io::ErrorKind::PermissionDenied => (
                CollectorState::Denied,
                "/sys/class must not be read: mount /sys into the agent, read-only".to_owned(),
            ),
            Ok(Answer::Devices(Err(error))) => {
                (CollectorState::Error, format!("/sys/class cannot be read: {error}"))
            }
            Ok(Answer::Counters(_)) => (CollectorState::Error, "it answers another question".to_owned()),
            Err(words) => (CollectorState::Error, words),
        };
        (self.last.clone(), Collector { name: "sysfs", state, words, took: None })
    }

    /// Readings of the devices; empty while a driver hangs.
    pub fn counters(&mut self) -> Vec<DeviceReading> {
        match self.ask(Question::Counters) {
            Ok(Answer::Counters(readings)) => readings,
            Ok(Answer::Devices(_)) | Err(_) => Vec::new(),
        }
    }

    fn ask(&mut self, question: Question) -> Result<Answer, String> {
        if self.worker.as_ref().is_none_or(Worker::has_ended) {
            self.worker = start(&self.root);
        }
        let Some(worker) = &self.worker else {
            return Err("the system gives no thread to read it".to_owned());
        };
        worker.ask(question).map_err(|silence| match silence {
            Silence::Hangs => format!(
                "a file under /sys/class is not read within {LIMIT:?}: a driver hangs; it is not read again before that \
                 returns (see `dmesg`)"
            ),
            Silence::Panicked => "the reader failed".to_owned(),
        })
    }
}

fn start(root: &Path) -> Option<Worker<Question, Answer>> {
    let root = root.to_owned();
    let worker = Worker::start("sysfs", LIMIT, move || {
        move |question| match question {
            Question::Devices => Answer::Devices(read(&root)),
            Question::Counters => Answer::Counters(readings::read(&root)),
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
