//! Instances: parts of the system that execute on their own, and share no device.

use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
    time::Instant,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{capability::Capability, error::Error, id::InstanceId, wait::lock};
use hicr::Topology;

/// Where an Instance is in its life: Requested → Starting → Running → Leaving → Gone, or Failed from any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceState {
    /// Asked for.
    Requested,
    /// It has a place, and is coming up.
    Starting,
    /// It runs.
    Running,
    /// It was told to end.
    Leaving,
    /// It ended as it should.
    Gone,
    /// It ended otherwise, or never came up; says why.
    Failed(String),
}

impl InstanceState {
    /// Whether nothing more is to be expected of it.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Gone | Self::Failed(_))
    }

    /// Whether `next` may follow: states are passed in their order, some may be left out.
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

/// What never changes about an Instance while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Which one.
    pub id: InstanceId,
    /// How often it was started, from 1: a restarted container keeps its id.
    pub boot: u64,
    /// What it may use.
    #[serde(serialize_with = "write_topology", deserialize_with = "read_topology")]
    pub topology: Topology,
    /// How it is reached: all that communication managers know of it.
    pub address: String,
}

fn write_topology<S: Serializer>(topology: &Topology, to: S) -> Result<S::Ok, S::Error> {
    topology.to_json().to_string().serialize(to)
}

fn read_topology<'de, D: Deserializer<'de>>(from: D) -> Result<Topology, D::Error> {
    Topology::read(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// An Instance, as its manager sees it. Dropping this ends nothing.
pub struct Instance {
    /// What never changes.
    pub description: Description,
    state: Arc<Mutex<InstanceState>>,
    root: bool,
}

impl Instance {
    /// For back-ends: `state` is theirs to change.
    pub fn new(description: Description, state: Arc<Mutex<InstanceState>>, root: bool) -> Self {
        Self { description, state, root }
    }

    /// Which one.
    pub fn id(&self) -> InstanceId {
        self.description.id
    }

    /// Where it is, in its back-end's words.
    pub fn address(&self) -> &str {
        &self.description.address
    }

    /// What it may use.
    pub fn topology(&self) -> &Topology {
        &self.description.topology
    }

    /// Where it is in its life, now.
    pub fn state(&self) -> InstanceState {
        lock(&self.state).clone()
    }

    /// Whether it is the one that breaks ties.
    pub fn is_root(&self) -> bool {
        self.root
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance {} ({:?})", self.id(), self.state())
    }
}

/// What a new Instance must at least have, and what its maker is told besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceTemplate {
    /// What it must have; the empty topology asks for nothing.
    #[serde(serialize_with = "write_topology", deserialize_with = "read_topology")]
    pub topology: Topology,
}

/// Why an Instance was not created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("no Instance was created: {why}")]
pub struct Refused {
    /// What is missing, or the words of who refused.
    pub why: String,
}

/// What became of an Instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Which one.
    pub id: InstanceId,
    /// Its new state.
    pub state: InstanceState,
}

/// States of Instances as they come to be.
#[derive(Debug)]
pub struct Watch(mpsc::Receiver<Event>);

impl Watch {
    /// For back-ends: what is sent is seen here.
    pub fn new() -> (mpsc::Sender<Event>, Self) {
        let (sender, receiver) = mpsc::channel();
        (sender, Self(receiver))
    }

    /// The next event, waited for until `deadline`; [`Error::TimedOut`] ends nothing.
    pub fn next(&mut self, deadline: impl Into<Option<Instant>>) -> Result<Event, Error> {
        let gone = || Error::Gone("what is watched".into());
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

/// Who is there, and who is to come (hicr.txt 3.1.1).
pub trait InstanceManager: Send + Sync {
    /// Its name, as errors have it.
    fn name(&self) -> &'static str;
    /// Whether it can do this.
    fn supports(&self, capability: Capability) -> bool;
    /// The Instance that asks.
    fn current(&self) -> Instance;
    /// All that are known and not over, by id. Those of the launch are there when `main` begins.
    fn instances(&self) -> Vec<Instance>;
    /// The one that breaks ties.
    fn root_id(&self) -> InstanceId;
    /// What happens from now on.
    fn watch(&self) -> Watch;
    /// A template of what is asked for and of `metadata`, which the back-end may understand.
    fn create_template(&self, topology: &Topology, metadata: serde_json::Value) -> InstanceTemplate {
        let mut topology = topology.clone();
        if !metadata.is_null() {
            topology.metadata = metadata;
        }
        InstanceTemplate { topology }
    }
    /// Creates `n` Instances: one answer for each, in which those that run stay whatever becomes of the others.
    fn create_instances(&self, n: usize, template: &InstanceTemplate) -> Vec<Result<Instance, Refused>>;
    /// Makes an Instance that somebody else created known here.
    fn add_instance(&self, id: InstanceId) -> Result<Instance, Error>;
    /// Has an Instance end: it is Leaving, and then ends.
    fn terminate(&self, id: InstanceId) -> Result<(), Error>;
    /// Ends all others. Only for the root.
    fn finalize(&self) -> Result<(), Error>;
    /// Ends all, this one too; `code` and `reason` are recorded.
    fn abort(&self, code: i32, reason: &str) -> Result<(), Error>;
}
