//! Sources of topologies.

pub mod described;
pub mod document;
pub mod machine;

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use crds::NodeTopologySpec;

use crate::{hardware::reading::DeviceReading, metrics::CollectorState};

/// Reads the topologies of nodes.
///
/// It may block: it is polled on a thread of its own, and returns quickly if nothing changed.
pub trait Source: Send + 'static {
    /// The `collector` label of the metrics.
    fn name(&self) -> &'static str;

    /// The only node that it reads, if any. The agent then watches only the objects of this node.
    fn node(&self) -> Option<&str> {
        None
    }

    /// The current topology of each node.
    fn read(&mut self) -> Result<Reading, SourceError>;

    /// Like [`Self::read`], but waits for drivers that take seconds.
    fn read_all(&mut self) -> Result<Reading, SourceError> {
        self.read()
    }

    /// Restores the published topology of [`Self::node`] when the agent starts; `None` after its deletion.
    ///
    /// Published devices that are missing are reported as lost, until the NodeTopology is deleted.
    fn recall(&mut self, _published: Option<&NodeTopologySpec>) {}

    /// Sets whether the drivers of GPUs may be loaded. By default they may.
    fn use_drivers(&mut self, _drivers: Drivers) {}

    /// Current device readings; empty for described machines.
    ///
    /// Takes milliseconds, or seconds if a driver does not respond.
    fn counters(&mut self) -> Vec<DeviceReading> {
        Vec::new()
    }
}

/// The result of a read: topologies by name of the node, and problems.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Sorted as published, see [`sort`].
    pub topologies: BTreeMap<String, Arc<NodeTopologySpec>>,
    /// Problems by place, such as a file.
    pub problems: BTreeMap<String, Problem>,
    /// The state of each collector; empty if the source itself is the only one.
    pub collectors: Vec<Collector>,
    /// The state of the driver release; `None` if it is not requested.
    pub release: Option<Release>,
    /// Why the agent must restart to load a replaced driver library.
    pub outdated: Option<String>,
}

/// Whether the drivers of GPUs may be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// They may be loaded.
    Used,
    /// No process may hold them, so that they can be unloaded or their GPUs reset or repartitioned.
    Released,
}

/// The state of the driver release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The agent holds no driver.
    Done,
    /// It still holds one, and why.
    Waits(String),
}

/// The state of one collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// The `collector` label of the metrics.
    pub name: &'static str,
    /// Its state.
    pub state: CollectorState,
    /// The reason and the remedy; empty if it is healthy.
    pub message: String,
    /// The duration of its last probe; `None` before the first.
    pub took: Option<Duration>,
}

/// Why a part of a source cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The metric label.
    pub reason: ProblemReason,
    /// The problem, with its place in the file.
    pub message: String,
}

/// Kinds of problems: a closed set, used as metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProblemReason {
    /// The file cannot be read.
    Unreadable,
    /// Permission denied.
    Denied,
    /// Not a valid description.
    Malformed,
    /// The node is already described by another file.
    Duplicate,
    /// The limits of a NodeTopology are exceeded.
    TooLarge,
}

/// A source that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file or folder cannot be read.
    #[error(
        "cannot read {path}: {source}; --simulate takes a file of NodeTopology manifests or a folder of such files"
    )]
    Unreadable {
        /// The path as given.
        path: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The description of the machine cannot be read.
    #[error(
        "cannot read {path}: {source}; --topology-file takes hwloc's XML, as `lstopo FILE.xml` writes it, or a file \
         with one line in hwloc's synthetic form"
    )]
    Description {
        /// The path as given.
        path: String,
        /// The I/O error.
        source: std::io::Error,
    },
}

impl SourceError {
    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        let (Self::Unreadable { source, .. } | Self::Description { source, .. }) = self;
        source.kind() == std::io::ErrorKind::PermissionDenied
    }
}

/// Sorts a topology into the order of publication, so that equal machines have equal text.
pub fn sort(spec: &mut NodeTopologySpec) {
    spec.devices.sort_by(|a, b| a.id.cmp(&b.id));
    for device in &mut spec.devices {
        device.compute_resources.sort_by(|a, b| a.type_.cmp(&b.type_));
    }
    spec.links
        .sort_by(|a, b| (&a.source, &a.destination, &a.kind).cmp(&(&b.source, &b.destination, &b.kind)));
}

/// A fingerprint of the file's metadata, which changes with its content. Missing files have equal ones.
fn stamp(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metadata = fs::metadata(path).ok();
    metadata.map(|it| (it.ino(), it.len(), it.ctime(), it.ctime_nsec())).hash(&mut hasher);
    hasher.finish()
}
