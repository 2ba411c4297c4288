//! What actors wait for.

use std::fmt;

use crate::nouns::Taken;

/// What an actor waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// Another's object has the name that it needs.
    Name(String),
    /// What is left over from an owner that is gone has the name that it needs.
    Leaving(String),
    /// Its pool has as many instances as it may.
    Pool(String),
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
    Silence,
    /// Its node does not answer, so that nobody knows whether it lives.
    Lost {
        /// The node.
        node: String,
        /// Whether it is waited for only a while.
        forced: bool,
    },
    /// The others of its application have to have places first: they start all at once.
    Others,
    /// It is to move, and may not be evicted now, in these words.
    Eviction(String),
    /// It went wrong, in these words, and is tried again after a while.
    BackOff(String),
}

impl Wait {
    /// Whether it is about the place that was decided, which may be another's by now.
    pub fn is_for_its_place(&self) -> bool {
        matches!(self, Self::Unit(_) | Self::Resource { .. } | Self::NotOffered(_) | Self::Infeasible(_))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(what) => write!(f, "its name is taken by {what}; remove or rename one of the two"),
            Self::Leaving(what) => write!(f, "{what} is still being removed"),
            Self::Pool(pool) => {
                write!(f, "pool {pool} has as many instances as its spec.instances.max allows")
            }
            Self::Unit(unit) => write!(f, "{unit} is still in use"),
            Self::Resource { resource, node } => write!(f, "{resource} of {node} is still in use"),
            Self::NotOffered(unit) => write!(f, "{unit} is not offered now; another place is looked for"),
            Self::Silence => f.write_str("its move begins when at most 30 % of the nodes do not answer"),
            Self::Lost { node, forced: false } => write!(
                f,
                "{node} does not answer; it starts elsewhere when its pod is gone, or the node is, or carries \
                 node.kubernetes.io/out-of-service"
            ),
            Self::Lost { node, forced: true } => {
                write!(f, "{node} does not answer; it starts elsewhere after spec.failover.after")
            }
            Self::Others => {
                f.write_str("spec.start is AllOrNothing, and a place of another actor may not be taken now")
            }
            Self::Eviction(why) => write!(f, "it is to move, and is not evicted yet: {why}"),
            Self::BackOff(why) => write!(f, "{why}; it is tried again, each time after a longer wait"),
            Self::Infeasible(unit) => write!(f, "{unit} is no feasible place now; another is looked for"),
        }
    }
}

impl From<&Taken> for Wait {
    fn from(taken: &Taken) -> Self {
        match taken {
            Taken::ByAnother(what) => Self::Name(what.clone()),
            Taken::Leaving(what) => Self::Leaving(what.clone()),
        }
    }
}
