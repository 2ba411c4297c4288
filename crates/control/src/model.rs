//! Inputs of the decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A point in time, relative to an epoch that the caller chooses and keeps.
pub type Moment = Duration;

/// Amounts by resource, in the units of plans (`cpuMilli`, `memoryBytes`, pieces).
pub type ResourceAmounts = BTreeMap<String, u64>;

/// Identifies one object by uid, so that a namesake is never affected.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The object's name.
    pub name: String,
    /// The object's uid; empty in files without one.
    pub uid: String,
    /// Precondition for deletion. An unbound pod is deleted immediately; if it was bound in the meantime, the deletion
    /// must fail, because nothing would confirm that its containers stopped.
    pub resource_version: Option<String>,
}

/// The desired state of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// Generation of the manifest.
    pub generation: i64,
    /// Name of the policy that it is planned under.
    pub policy: String,
    /// Whether the application is paused: nothing new begins.
    pub paused: bool,
    /// Its actors, in start order.
    pub actors: Vec<DesiredActor>,
    /// How many actors may be unavailable during a rollout; with 0 nothing is replaced.
    pub max_unavailable: u64,
    /// How long a node may be unreachable before its actors start elsewhere without confirmation that they stopped.
    pub failover_after: Option<Duration>,
    /// Resource requests of a pod, by position of the group and kind.
    pub requests: Vec<BTreeMap<String, ResourceAmounts>>,
}

/// One actor of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredActor {
    /// Name within the application, such as `crop-0`.
    pub name: String,
    /// Position of its group in [`DesiredState::requests`].
    pub group: usize,
}

/// The placement decided for an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Generation of the manifest that it was made for.
    pub generation: i64,
    /// Name of the policy that it was made under.
    pub policy: String,
    /// Digest of the demand that it was made for, if known.
    pub demand: Option<String>,
    /// Units by actor.
    pub places: BTreeMap<String, String>,
    /// Actors for which no placement was found.
    pub unplaced: BTreeSet<String>,
    /// Elective moves in progress, by actor.
    pub elective: BTreeMap<String, ElectiveMove>,
}

/// A move that improves the placement and is not necessary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectiveMove {
    /// Since when its pod on the new unit is not ready, as far as it is recorded.
    pub starting_since: Option<Moment>,
}

/// How many actors may be stopped for a gain at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// Of this application.
    pub at_once: usize,
    /// Of this application, as far as the other applications leave any.
    pub left_in_cluster: usize,
    /// How long an eviction may be refused, or an actor may be not ready on its new unit, before it goes back.
    pub give_up: Duration,
}

impl Default for MoveLimits {
    fn default() -> Self {
        Self { at_once: 1, left_in_cluster: usize::MAX, give_up: Duration::from_mins(2) }
    }
}

/// Scope of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalScope {
    /// Pods of the group and kind on this node.
    Node(String),
    /// Pods of the group and kind on any node.
    #[default]
    Template,
    /// Every pod of the namespace.
    Namespace,
}

/// What was refused; refusals with equal keys are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusalKey {
    /// Scope of the refusal.
    pub scope: RefusalScope,
    /// Actor group; empty if unknown or irrelevant.
    pub group: String,
    /// Device kind; empty if unknown or irrelevant.
    pub kind: String,
}

/// A rejection by the scheduler, admission or a kubelet, until it expires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// What was refused.
    pub key: RefusalKey,
    /// One of the refused actors.
    pub actor: String,
    /// Message of the component that refused.
    pub reason: String,
    /// Number of refusals while it was active.
    pub count: u32,
    /// Expiry.
    pub until: Moment,
    /// Digest of what caused it, if it holds for running actors as long as that is unchanged.
    pub cause: Option<String>,
}

impl Refusal {
    /// Whether the refusal keeps this actor from restarting on a unit of this kind on this node.
    pub fn prevents_restart(
        &self,
        (actor, group): (&str, &str),
        (node, kind): (&str, &str),
        now: Moment,
    ) -> bool {
        let is_there = match &self.key.scope {
            RefusalScope::Node(refused) => refused == node,
            RefusalScope::Template => true,
            RefusalScope::Namespace => false,
        };
        let of_group = &self.key.group;
        let is_it = if of_group.is_empty() { self.actor == actor } else { of_group == group };
        let is_kind = self.key.kind.is_empty() || self.key.kind == kind;
        now < self.until && is_there && is_it && is_kind
    }
}

/// The observed state of an application, and the capacity that is free for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedState {
    /// Instances by actor; their controller is the application's uid.
    pub instances: BTreeMap<String, Instance>,
    /// Instances whose name matches no actor.
    pub surplus: Vec<Instance>,
    /// Objects of other owners under a name that an actor needs, by actor.
    pub name_conflicts: BTreeMap<String, NameConflict>,
    /// Free capacity at this moment.
    pub free: FreeCapacity,
    /// Actors in backoff, which are not started before it ends.
    pub backoff: BTreeMap<String, Backoff>,
    /// Set while the namespace admits no pods: nothing starts or moves.
    pub namespace_backoff: Option<Backoff>,
    /// Unreachable nodes.
    pub unreachable: BTreeMap<String, NodeOutage>,
    /// Whether so many nodes are unreachable that the network is suspected rather than the nodes: nothing moves.
    pub mass_outage: bool,
    /// How many actors may be stopped for a gain.
    pub move_limits: MoveLimits,
    /// Actors whose eviction is refused, since when and why.
    pub not_evicted: BTreeMap<String, (Moment, String)>,
    /// Time of the observation.
    pub now: Moment,
}

/// An unreachable node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOutage {
    /// Start of the outage, if known.
    pub since: Option<Moment>,
    /// Whether an administrator confirmed that the node is out of service, so that its pods have ended.
    pub confirmed: bool,
}

/// A delay before the next attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// End of the delay.
    pub until: Moment,
    /// The failure that caused it.
    pub reason: String,
}

/// An Instance and its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The Instance object.
    pub id: ObjectId,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether the application's runtime created it; then only the runtime deletes it.
    pub requested: bool,
    /// The pod that it controls.
    pub pod: Option<Pod>,
}

/// The pod of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The pod object.
    pub id: ObjectId,
    /// The unit that it was created for.
    pub unit: Option<String>,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// Lifecycle phase.
    pub phase: PodPhase,
    /// Whether its Ready condition is true.
    pub ready: bool,
    /// Whether its template is older than the newest one.
    pub outdated: bool,
    /// Whether a restart in place is impossible: the node repels or refused such pods, or the unit is cordoned.
    pub restart_blocked: bool,
    /// Rejection by the scheduler or the kubelet.
    pub refusal: Option<String>,
    /// When the scheduler first rejected it. Such a rejection may resolve itself: by preemption, or once a volume is
    /// bound.
    pub refused_since: Option<Moment>,
}

impl Pod {
    /// Whether it runs and is ready.
    pub(crate) fn is_serving(&self) -> bool {
        self.ready && self.phase == PodPhase::Running
    }
}

/// Lifecycle phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum PodPhase {
    /// Created, not running yet.
    #[default]
    Starting,
    /// Running.
    Running,
    /// Succeeded or failed.
    Ended,
    /// Has a deletion timestamp.
    Terminating,
}

/// Another owner's object under a name that an actor needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameConflict {
    /// The object stays; described in words, as in `Pod web-server-0, which is not of this application`.
    Foreign(String),
    /// The object's owner no longer exists; the garbage collector will delete it.
    Orphaned(String),
}

/// Free capacity at this moment; terminating pods still count as usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeCapacity {
    /// By node.
    pub nodes: BTreeMap<String, ResourceAmounts>,
    /// Offered units.
    pub units: BTreeMap<String, FreeUnit>,
    /// Remaining instances by pool, for pools with a limit.
    pub pools: BTreeMap<String, u64>,
}

/// Free capacity of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeUnit {
    /// Device kind.
    pub kind: String,
    /// Its node.
    pub node: String,
    /// Its pool.
    pub pool: String,
    /// Free slots; `None` is unlimited.
    pub slots: Option<u64>,
    /// Extended resource of which a pod requests one.
    pub resource: Option<String>,
}
