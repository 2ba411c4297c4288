//! What actors wait for.

use std::fmt;

use crate::model::NameConflict;

/// What an actor waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockedOn {
    /// Another's object has the name that it needs.
    NameConflict(String),
    /// What is left over from an owner that is gone has the name that it needs.
    OrphanedObject(String),
    /// Its pool has as many instances as it may.
    PoolLimit(String),
    /// The unit has no free slot.
    Unit(String),
    /// The node has not enough left of a resource.
    Resource {
        /// The resource.
        resource: String,
        /// The node.
        node: String,
    },
    /// The unit is not offered.
    NotOffered(String),
    /// The unit is none that it may be started on now.
    Infeasible(String),
    /// It is to be elsewhere, and stays while so many nodes do not answer.
    MassOutage,
    /// Its node does not answer, so that nobody knows whether it lives.
    NodeLost {
        /// The node.
        node: String,
        /// Whether it is waited for only a while.
        forced: bool,
    },
    /// The others of its application have to have places first: they start all at once.
    GangStart,
    /// It is to move, and may not be evicted now, in these words.
    Eviction(String),
    /// It went wrong, in these words, and is tried again after a while.
    Backoff(String),
}

impl BlockedOn {
    /// Whether it is about the place that was decided, which may be another's by now.
    pub fn is_about_placement(&self) -> bool {
        matches!(self, Self::Unit(_) | Self::Resource { .. } | Self::NotOffered(_) | Self::Infeasible(_))
    }
}

impl fmt::Display for BlockedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameConflict(what) => {
                write!(f, "its name is taken by {what}; remove or rename one of the two")
            }
            Self::OrphanedObject(what) => write!(f, "{what} is still being removed"),
            Self::PoolLimit(pool) => {
                write!(f, "pool {pool} has as many instances as its spec.instances.max allows")
            }
            Self::Unit(unit) => write!(f, "{unit} is still in use"),
            Self::Resource { resource, node } => write!(f, "{resource} of {node} is still in use"),
            Self::NotOffered(unit) => write!(f, "{unit} is not offered now; another place is looked for"),
            Self::MassOutage => f.write_str("its move begins when at most 30 % of the nodes do not answer"),
            Self::NodeLost { node, forced: false } => write!(
                f,
                "{node} does not answer; it starts elsewhere when its pod is gone, or the node is, or carries \
                 node.kubernetes.io/out-of-service"
            ),
            Self::NodeLost { node, forced: true } => {
                write!(f, "{node} does not answer; it starts elsewhere after spec.failover.after")
            }
            Self::GangStart => {
                f.write_str("spec.start is AllOrNothing, and a place of another actor may not be taken now")
            }
            Self::Eviction(why) => write!(f, "it is to move, and is not evicted yet: {why}"),
            Self::Backoff(why) => write!(f, "{why}; it is tried again, each time after a longer wait"),
            Self::Infeasible(unit) => write!(f, "{unit} is no feasible place now; another is looked for"),
        }
    }
}

impl From<&NameConflict> for BlockedOn {
    fn from(taken: &NameConflict) -> Self {
        match taken {
            NameConflict::Foreign(what) => Self::NameConflict(what.clone()),
            NameConflict::Orphaned(what) => Self::OrphanedObject(what.clone()),
        }
    }
}
