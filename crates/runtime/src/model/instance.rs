//! Instances: independently executing parts of the system that share no device.

use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
    time::Instant,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{capability::Capability, error::Error, id::InstanceId, wait::lock};
use hicr::Topology;

/// Lifecycle of an Instance: Requested → Starting → Running → Leaving → Gone, or Failed from any state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceState {
    /// Requested, not yet placed.
    Requested,
    /// Placed and starting.
    Starting,
    /// Running.
    Running,
    /// Asked to terminate.
    Leaving,
    /// Terminated normally.
    Gone,
    /// Terminated abnormally or failed to start, with the reason.
    Failed(String),
}

impl InstanceState {
    /// Whether the state is final.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Gone | Self::Failed(_))
    }

    /// Whether `next` may follow; states keep their order, some may be skipped.
    pub fn may_become(&self, next: &Self) -> bool {
        let rank = |state: &Self| match state {
            Self::Requested => 0,
            Self::Starting => 1,
            Self::Running => 2,
            Self::Leaving => 3,
            Self::Gone | Self::Failed(_) => 4,
        };
        !self.is_over() && rank(next) > rank(self)
    }
}

/// The immutable description of a running Instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The identifier.
    pub id: InstanceId,
    /// The number of starts, from 1: a restarted container keeps its id.
    pub boot: u64,
    /// The resources that it may use.
    #[serde(serialize_with = "write_topology", deserialize_with = "read_topology")]
    pub topology: Topology,
    /// The address, which is all that communication managers need.
    pub address: String,
}

fn write_topology<S: Serializer>(topology: &Topology, to: S) -> Result<S::Ok, S::Error> {
    topology.to_json().to_string().serialize(to)
}

fn read_topology<'de, D: Deserializer<'de>>(from: D) -> Result<Topology, D::Error> {
    Topology::read(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// A handle to an Instance. Dropping it does not terminate the Instance.
pub struct Instance {
    /// The immutable description.
    pub description: Description,
    state: Arc<Mutex<InstanceState>>,
    root: bool,
}

impl Instance {
    /// For back-ends, which keep `state` up to date.
    pub fn new(description: Description, state: Arc<Mutex<InstanceState>>, root: bool) -> Self {
        Self { description, state, root }
    }

    /// The identifier.
    pub fn id(&self) -> InstanceId {
        self.description.id
    }

    /// The address in the format of its back-end.
    pub fn address(&self) -> &str {
        &self.description.address
    }

    /// The resources that it may use.
    pub fn topology(&self) -> &Topology {
        &self.description.topology
    }

    /// The current state.
    pub fn state(&self) -> InstanceState {
        lock(&self.state).clone()
    }

    /// Whether this is the root Instance, which breaks ties.
    pub fn is_root(&self) -> bool {
        self.root
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance {} ({:?})", self.id(), self.state())
    }
}

/// Minimum resources of a new Instance, and back-end metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceTemplate {
    /// Required devices; an empty topology requires nothing.
    #[serde(serialize_with = "write_topology", deserialize_with = "read_topology")]
    pub topology: Topology,
}

/// Why an Instance could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("no Instance was created: {why}")]
pub struct Refused {
    /// The missing resources, or the message of the scheduler.
    pub why: String,
}

/// A state change of an Instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The Instance.
    pub id: InstanceId,
    /// The new state.
    pub state: InstanceState,
}

/// A stream of state changes.
#[derive(Debug)]
pub struct Watch(mpsc::Receiver<Event>);

impl Watch {
    /// For back-ends: events sent to the channel are received here.
    pub fn new() -> (mpsc::Sender<Event>, Self) {
        let (sender, receiver) = mpsc::channel();
        (sender, Self(receiver))
    }

    /// Waits for the next event until `deadline`; after [`Error::TimedOut`] the watch stays usable.
    pub fn next(&mut self, deadline: impl Into<Option<Instant>>) -> Result<Event, Error> {
        let gone = || Error::Gone("the watched manager".into());
        match deadline.into() {
            None => self.0.recv().map_err(|_| gone()),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.0.recv_timeout(left).map_err(|error| match error {
                    mpsc::RecvTimeoutError::Timeout => Error::TimedOut("an event".into()),
                    mpsc::RecvTimeoutError::Disconnected => gone(),
                })
            }
        }
    }
}

/// Lists, watches, creates and terminates Instances (hicr.txt 3.1.1).
pub trait InstanceManager: Send + Sync {
    /// The manager's name in error messages.
    fn name(&self) -> &'static str;
    /// Whether the manager supports this capability.
    fn supports(&self, capability: Capability) -> bool;
    /// The calling Instance.
    fn current(&self) -> Instance;
    /// All known Instances that have not ended, by id. The launched ones are known when `main` starts.
    fn instances(&self) -> Vec<Instance>;
    /// The root Instance, which breaks ties.
    fn root_id(&self) -> InstanceId;
    /// Watches all state changes from now on.
    fn watch(&self) -> Watch;
    /// A template with the required devices and metadata for the back-end.
    fn create_template(&self, topology: &Topology, metadata: serde_json::Value) -> InstanceTemplate {
        let mut topology = topology.clone();
        if !metadata.is_null() {
            topology.metadata = metadata;
        }
        InstanceTemplate { topology }
    }
    /// Creates `n` Instances, with one result each; those created stay even if others fail.
    fn create_instances(&self, n: usize, template: &InstanceTemplate) -> Vec<Result<Instance, Refused>>;
    /// Makes an Instance that another one created known here.
    fn add_instance(&self, id: InstanceId) -> Result<Instance, Error>;
    /// Asks an Instance to terminate; it is Leaving until it ends.
    fn terminate(&self, id: InstanceId) -> Result<(), Error>;
    /// Terminates all other Instances; only for the root.
    fn finalize(&self) -> Result<(), Error>;
    /// Terminates all Instances including this one, and records `code` and `reason`.
    fn abort(&self, code: i32, reason: &str) -> Result<(), Error>;
}
