//! What keeps an actor from starting or moving.

use std::fmt;

use crate::model::NameConflict;

/// What an actor is blocked on. Its text becomes a condition message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockedOn {
    /// Another owner's object has the name that it needs.
    NameConflict(String),
    /// An orphaned object with the name that it needs is still being deleted.
    OrphanedObject(String),
    /// Its pool has reached its instance limit.
    PoolLimit(String),
    /// The unit has no free slot.
    Unit(String),
    /// The node has too little of a resource.
    Resource {
        /// The resource.
        resource: String,
        /// The node.
        node: String,
    },
    /// The unit is no longer offered.
    NotOffered(String),
    /// The unit is no longer feasible for it.
    Infeasible(String),
    /// Its move is suspended while too many nodes are unreachable.
    MassOutage,
    /// Its move waits for its turn.
    MoveTurn(TurnLimit),
    /// Its node is unreachable, so it may still be running.
    NodeLost {
        /// The node.
        node: String,
        /// Whether the wait is limited by `spec.failover.after`.
        forced: bool,
    },
    /// Another actor cannot start, and the application starts all its actors together.
    GangStart,
    /// Its pod cannot be evicted yet, for this reason.
    Eviction(String),
    /// It failed for this reason and is in backoff.
    Backoff(String),
}

/// Why a move waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TurnLimit {
    /// Other actors of the application move first.
    AtOnce,
    /// Enough actors of all applications are stopped.
    Cluster,
    /// A rollout is in progress.
    Rollout,
}

impl BlockedOn {
    /// Whether the decided placement itself is the cause, so that it has to be checked again.
    pub fn is_about_placement(&self) -> bool {
        matches!(self, Self::Unit(_) | Self::Resource { .. } | Self::NotOffered(_) | Self::Infeasible(_))
    }
}

impl fmt::Display for BlockedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameConflict(what) => {
                write!(f, "the name is taken by {what}; remove or rename one of the two")
            }
            Self::OrphanedObject(what) => write!(f, "{what} is still being deleted"),
            Self::PoolLimit(pool) => {
                write!(f, "pool {pool} has reached its spec.instances.max")
            }
            Self::Unit(unit) => write!(f, "{unit} is still in use"),
            Self::Resource { resource, node } => write!(f, "{resource} of {node} is still in use"),
            Self::NotOffered(unit) => {
                write!(f, "{unit} is no longer offered; re-planning")
            }
            Self::MassOutage => {
                f.write_str("the move is suspended until at most 30 % of the nodes are unreachable")
            }
            Self::MoveTurn(limit) => f.write_str(match limit {
                TurnLimit::AtOnce => {
                    "the move waits until other actors of the application have moved (rebalance.moves.atOnce)"
                }
                TurnLimit::Cluster => {
                    "the move waits until actors of other applications have moved (rebalance.moves.cluster)"
                }
                TurnLimit::Rollout => "the move waits until the rollout is finished",
            }),
            Self::NodeLost { node, forced: false } => write!(
                f,
                "node {node} is unreachable; the actor restarts elsewhere after its pod or the node is deleted, or the node has \
                 the taint node.kubernetes.io/out-of-service"
            ),
            Self::NodeLost { node, forced: true } => {
                write!(
                    f,
                    "node {node} is unreachable; the actor restarts elsewhere after spec.failover.after"
                )
            }
            Self::GangStart => f.write_str("spec.start is AllOrNothing, and another actor cannot start yet"),
            Self::Eviction(why) => write!(f, "the move waits for the pod's eviction: {why}"),
            Self::Backoff(why) => write!(f, "{why}; retrying with backoff"),
            Self::Infeasible(unit) => {
                write!(f, "{unit} is no longer feasible; re-planning")
            }
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
