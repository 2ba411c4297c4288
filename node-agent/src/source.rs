//! Where topologies come from: the seam between what a machine has and what is published of it.

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

/// Finds out what nodes have. One implementation per way of finding out.
///
/// It may block: it is asked on a thread of its own, again and again, and is quick when nothing changed.
pub trait Source: Send + 'static {
    /// Short and stable: the `collector` label of the metrics.
    fn name(&self) -> &'static str;

    /// The only node that it is ever about, if there is one: then nothing else of the cluster needs to be watched.
    fn node(&self) -> Option<&str> {
        None
    }

    /// What each node has now.
    fn read(&mut self) -> Result<Reading, SourceError>;

    /// The same, waiting for those who take seconds to answer, of whom [`Self::read`] tells later.
    fn read_all(&mut self) -> Result<Reading, SourceError> {
        self.read()
    }

    /// Hears what the cluster holds of [`Self::node`] when the agent starts, and that it holds nothing any more.
    ///
    /// A device that is in it and not there is missed; nothing is missed when somebody deleted it.
    fn recall(&mut self, _published: Option<&NodeTopologySpec>) {}

    /// Hears whether the drivers of GPUs may be used: by default they are.
    fn use_drivers(&mut self, _drivers: Drivers) {}

    /// What the devices say about themselves now; nothing where they are only described.
    ///
    /// Takes milliseconds, and at most a second when a driver does not answer.
    fn counters(&mut self) -> Vec<DeviceReading> {
        Vec::new()
    }
}

/// What a source saw: topologies by name of the node, and what it could not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Sorted as they are published: see [`sort`].
    pub topologies: BTreeMap<String, Arc<NodeTopologySpec>>,
    /// What is wrong, by the place where it is wrong, such as a file.
    pub problems: BTreeMap<String, Problem>,
    /// How each way of looking at hardware fares; empty where the source itself is the only one.
    pub collectors: Vec<Collector>,
    /// How far the release of the drivers is; none where nobody asked for it.
    pub release: Option<Release>,
    /// Why this process cannot see what there is now, and one that starts anew can.
    pub outdated: Option<String>,
}

/// Whether the drivers of GPUs may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// They may.
    Used,
    /// They are to be unloaded, or their GPUs reset or partitioned anew: nobody may hold them.
    Released,
}

/// How far the release of the drivers is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The agent holds nothing of them.
    Done,
    /// It still does; why.
    Waits(String),
}

/// How one way of looking at hardware fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Short and stable: the `collector` label of the metrics.
    pub name: &'static str,
    /// How it fares.
    pub state: CollectorState,
    /// Why, and what to do to get what it would report; empty when it is well.
    pub words: String,
    /// How long its last look took; none before that.
    pub took: Option<Duration>,
}

/// Why a part of a source is not, or no longer, read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The metric label.
    pub reason: ProblemReason,
    /// What is wrong and where within the file.
    pub message: String,
}

/// Kinds of problems: a closed set, used as metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProblemReason {
    /// The file cannot be read.
    Unreadable,
    /// Reading it is not allowed.
    Denied,
    /// It is no valid description.
    Malformed,
    /// It describes a node that another file describes already.
    Duplicate,
    /// There is more than a NodeTopology holds.
    TooLarge,
}

/// A source that cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file or folder is not there, or must not be read.
    #[error(
        "cannot read {path}: {source}; --simulate takes a file of NodeTopology manifests or a folder of such files"
    )]
    Unreadable {
        /// As it was given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The description of the machine is not there, or must not be read.
    #[error(
        "cannot read {path}: {source}; --topology-file takes hwloc's XML, as `lstopo FILE.xml` writes it, or a file \
         with one line in hwloc's synthetic form"
    )]
    Description {
        /// As it was given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

impl SourceError {
    /// Whether the reason is a permission, which a retry will not change.
    pub fn is_denied(&self) -> bool {
        let (Self::Unreadable { source, .. } | Self::Description { source, .. }) = self;
        source.kind() == std::io::ErrorKind::PermissionDenied
    }
}

/// Brings a topology into the order in which it is published, so that equal machines have equal text.
pub fn sort(spec: &mut NodeTopologySpec) {
    spec.devices.sort_by(|a, b| a.id.cmp(&b.id));
    for device in &mut spec.devices {
        device.compute_resources.sort_by(|a, b| a.type_.cmp(&b.type_));
    }
    spec.links
        .sort_by(|a, b| (&a.source, &a.destination, &a.kind).cmp(&(&b.source, &b.destination, &b.kind)));
}

/// What changes when a file does, without reading it; the same for any file that is not there.
fn stamp(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let metadata = fs::metadata(path).ok();
    metadata.map(|it| (it.ino(), it.len(), it.ctime(), it.ctime_nsec())).hash(&mut hasher);
    hasher.finish()
}
