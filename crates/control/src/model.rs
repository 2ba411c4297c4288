//! What the decisions are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A time, counted from a moment that the caller chose and keeps to.
pub type Moment = Duration;

/// Amounts by resource, in the units of a snapshot (`cpuMilli`, `memoryMiB`, pieces).
pub type ResourceAmounts = BTreeMap<String, u64>;

/// An object by its uid, so that nothing else of that name is ever met.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its name.
    pub name: String,
    /// Its uid; empty where there is none, as in files written by hand.
    pub uid: String,
    /// Its version, where it is not to be taken away once it has changed: a pod that no node has goes at once, and one that a node has
    /// got meanwhile would, too, with nobody to say that it ended.
    pub resource_version: Option<String>,
}

/// What an application asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// The generation of its manifest.
    pub generation: i64,
    /// The name of the policy that it is planned under.
    pub policy: String,
    /// Whether nothing may begin.
    pub paused: bool,
    /// Its actors, in the order in which they are started.
    pub actors: Vec<DesiredActor>,
    /// How many of them may be down for a new template; none, and nothing is replaced.
    pub max_unavailable: u64,
    /// How long a node may not answer before its actors start elsewhere though nobody confirmed that they ended.
    pub failover_after: Option<Duration>,
    /// By position of the group and kind: what a pod asks of its node.
    pub requests: Vec<BTreeMap<String, ResourceAmounts>>,
}

/// One actor of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredActor {
    /// Its name within the application, as in `crop-0`.
    pub name: String,
    /// The position of its group in [`Wanted::asks`].
    pub group: usize,
}

/// What was decided for an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The generation of the manifest that it was made for.
    pub generation: i64,
    /// The name of the policy that it was made under.
    pub policy: String,
    /// The digest of what was wanted and by which measure, where it is known.
    pub demand: Option<String>,
    /// Units by actor.
    pub places: BTreeMap<String, String>,
    /// Actors for which there was no place.
    pub unplaced: BTreeSet<String>,
}

/// What a refusal concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalScope {
    /// Pods of the group and kind on this node.
    Node(String),
    /// Pods of the group and kind, anywhere.
    #[default]
    Template,
    /// Every pod of the namespace.
    Namespace,
}

/// What was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusalKey {
    /// How far it goes.
    pub scope: RefusalScope,
    /// The group of actors; empty where it is not known, or does not matter.
    pub group: String,
    /// The kind of device; empty where it is not known, or does not matter.
    pub kind: String,
}

/// What scheduler, admission or kubelet did not take, as long as that counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// What was refused.
    pub key: RefusalKey,
    /// One of the actors.
    pub actor: String,
    /// What was said.
    pub reason: String,
    /// How often it was said while it counted.
    pub count: u32,
    /// Forgotten from then on.
    pub until: Moment,
}

impl Refusal {
    /// Whether one that leaves a unit of this kind on this node could not come again now.
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

/// What is there of an application, and what is left for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedState {
    /// Its Instances, by actor: those whose controller is the application's uid.
    pub instances: BTreeMap<String, Instance>,
    /// Its Instances that stand for no actor's name.
    pub surplus: Vec<Instance>,
    /// What stands under a name that an actor needs and is not the application's, by actor.
    pub name_conflicts: BTreeMap<String, NameConflict>,
    /// What is left right now.
    pub free: FreeCapacity,
    /// Actors that are not started before a while is over.
    pub backoff: BTreeMap<String, Backoff>,
    /// While the namespace takes no pods nothing is started or moved.
    pub namespace_backoff: Option<Backoff>,
    /// The nodes that do not answer.
    pub unreachable: BTreeMap<String, NodeOutage>,
    /// Whether so many nodes do not answer that rather the way to them is broken: nobody is moved.
    pub mass_outage: bool,
    /// When this was seen.
    pub now: Moment,
}

/// A node that does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOutage {
    /// Since when, where that is known.
    pub since: Option<Moment>,
    /// Whether somebody said that it is out of service: whatever ran there has ended.
    pub confirmed: bool,
}

/// What is not tried again yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Until when.
    pub until: Moment,
    /// What went wrong, in words.
    pub reason: String,
}

/// An Instance, and the pod that runs for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Which one.
    pub id: ObjectId,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether the application's own runtime made it, which alone deletes it.
    pub requested: bool,
    /// The pod whose controller it is.
    pub pod: Option<Pod>,
}

/// The pod of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Which one.
    pub id: ObjectId,
    /// The unit that it was made for.
    pub unit: Option<String>,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// How far it is.
    pub phase: PodPhase,
    /// Whether it says that it is ready.
    pub ready: bool,
    /// Whether it was made from an older template than the newest.
    pub outdated: bool,
    /// Whether nobody may come where it is now, so that it could not start there again: its node takes no such pods, or
    /// refused one like it, or its unit is kept for who holds it.
    pub restart_blocked: bool,
    /// What scheduler or kubelet said against it.
    pub refusal: Option<String>,
    /// Since when it has been said, where it may yet be taken back: by a preemption, or a volume that comes.
    pub refused_since: Option<Moment>,
}

impl Pod {
    /// Whether it does its work.
    pub(crate) fn is_serving(&self) -> bool {
        self.ready && self.phase == PodPhase::Running
    }
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum PodPhase {
    /// It is made, and does not run yet.
    #[default]
    Starting,
    /// It runs.
    #[strum(serialize = "runs")]
    Running,
    /// It ended, well or not.
    #[strum(serialize = "over")]
    Ended,
    /// It is being deleted.
    #[strum(serialize = "going")]
    Terminating,
}

/// Another's object under a name that an actor needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameConflict {
    /// It stays, and whose it is, in words: as in `Pod web-server-0, which Cairn did not make`.
    Foreign(String),
    /// It is left over from an owner that is gone, and goes soon.
    Orphaned(String),
}

/// What is left right now, with whoever is leaving still counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeCapacity {
    /// By node that exists.
    pub nodes: BTreeMap<String, ResourceAmounts>,
    /// The units that are offered.
    pub units: BTreeMap<String, FreeUnit>,
    /// By pool with a bound: how many instances it may still get.
    pub pools: BTreeMap<String, u64>,
}

/// A unit, as a start needs to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeUnit {
    /// The kind of device.
    pub kind: String,
    /// Its node.
    pub node: String,
    /// Its pool.
    pub pool: String,
    /// How many more actors it takes; as many as want where there is no number.
    pub slots: Option<u64>,
    /// The resource of which a pod asks one.
    pub resource: Option<String>,
}
