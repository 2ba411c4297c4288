//! The snapshot file: plain data as it is read and written.
//!
//! All quantities are integers, durations are in microseconds. Unknown fields are refused with their path.
//! [`Snapshot`](crate::Snapshot) is the same data after it has been checked and indexed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::file::constraint::{CapScope, Constraint, Places, Scope};

use crate::Criterion;
use crate::file::constraint::is_zero;

/// The version of the format that this crate writes; it reads this one.
pub const VERSION: u32 = 1;

/// A snapshot as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SnapshotFile {
    /// The version of the format.
    pub version: u32,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The application being planned, as `namespace/name`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The window in microseconds that work and capacities refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_microseconds: Option<u64>,
    /// Nodes, with what their units share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// The computing units.
    #[serde(default)]
    pub units: Vec<Unit>,
    /// The actors.
    #[serde(default)]
    pub actors: Vec<Actor>,
    /// Directed messages per window; both directions of a pair are summed, self-messages are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Channels between whole groups; each counts as one edge of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_messages: Vec<GroupMessage>,
    /// Drag that counts when two actors are on different units (APO, M3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annoyance: Vec<Drag>,
    /// Drag that counts when two actors share a unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Drag>,
    /// For each of the last actors, the number of unlisted actors of its unit that it represents.
    #[serde(skip)]
    pub summed_up: Vec<u64>,
    /// The units whose zone is that of their node, because they have none of their own.
    #[serde(skip)]
    pub zones_of_nodes: BTreeSet<String>,
    /// The cost of exchanging one message between two units.
    #[serde(default)]
    pub exchange_cost: ExchangeCost,
    /// Links that units share, for the criterion `congestion`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_links: Vec<SharedLink>,
    /// Hard rules, and preferences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// Rules of pod templates that only kube-scheduler evaluates, each as a sentence; a proof does not cover them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_to_scheduler: Vec<String>,
    /// The policy of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Levels of criteria, the most important first; criteria of one level are summed.
    #[serde(default)]
    pub objectives: Levels,
}

impl SnapshotFile {
    /// The number of edges; two adjacent directions of a pair are one, and a channel between groups
    /// is one.
    #[must_use]
    pub fn edges(&self) -> usize {
        let both = |up: &Message, down: &Message| (&up.from, &up.to) == (&down.to, &down.from);
        let messages = self.messages.chunk_by(both).count();
        messages + self.group_messages.len() + self.annoyance.len() + self.interference.len()
    }

    /// The number of edges with a movable end.
    #[must_use]
    pub fn own_edges(&self) -> usize {
        let (fixed, own): (Vec<&Actor>, Vec<&Actor>) = self.actors.iter().partition(|actor| actor.fixed);
        let groups = |actors: &[&Actor]| -> BTreeSet<String> {
            let group = |actor: &&Actor| {
                Some(format!("{}/{}", actor.id.rsplit_once('/')?.0, actor.group.as_deref()?))
            };
            actors.iter().filter_map(group).collect()
        };
        let others: BTreeSet<String> = groups(&fixed).difference(&groups(&own)).cloned().collect();
        let fixed: BTreeSet<&str> = fixed.iter().map(|actor| actor.id.as_str()).collect();
        let is_own = |a: &String, b: &String| !(fixed.contains(a.as_str()) && fixed.contains(b.as_str()));
        let both = |up: &Message, down: &Message| (&up.from, &up.to) == (&down.to, &down.from);
        let messages = self.messages.chunk_by(both).filter(|pair| is_own(&pair[0].from, &pair[0].to));
        let channels = self.group_messages.iter();
        let channels = channels.filter(|it| !(others.contains(&it.from) && others.contains(&it.to)));
        let drags = self.annoyance.iter().chain(&self.interference).filter(|pair| is_own(&pair.a, &pair.b));
        messages.count() + channels.count() + drags.count()
    }
}

/// A node, with what its units share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Node {
    /// Unique name.
    pub id: String,
    /// The zone; an unknown one differs from every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Labels, for policies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Countable resources available to actors; unlisted ones are 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provides: BTreeMap<String, u64>,
    /// The price while it hosts anything: a software licence per node, or rent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence_cost: Option<u64>,
}

/// A computing unit, which hosts one actor or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Unit {
    /// Unique name.
    pub id: String,
    /// The kind of device.
    pub kind: String,
    /// Its node.
    pub node: String,
    /// The zone; an unknown one differs from every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The NUMA domain within the node; an unknown one differs from every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<String>,
    /// Its pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Work per window, at least 1.
    pub capacity: u64,
    /// The maximum number of actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
    /// Countable resources, hard limits; unlisted ones are 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provides: BTreeMap<String, u64>,
    /// Unlisted foreign actors that stay; their requirements are already subtracted from `provides`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// Watts added at full load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<u64>,
    /// Watts of an idle unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<u64>,
}

/// Unlisted foreign actors of a unit, which stay there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Others {
    /// Their work per window.
    pub work: u64,
    /// Their number of slots.
    pub count: u64,
}

/// An actor: placed on one unit, or unplaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Actor {
    /// Unique name, `namespace/application/actor`.
    pub id: String,
    /// Its group of identical actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its requirements on each supported kind.
    pub runs_on: BTreeMap<String, RunsOn>,
    /// Resources of the unit that it requires on any kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, u64>,
    /// Labels, for policies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The cost of moving it once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub move_cost: u64,
    /// Whether it belongs to another application and stays at `current`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
    /// Its current unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Whether its pod is not bound: it is scheduled again even if it stays at `current`. Ignored for a fixed actor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arriving: bool,
}

impl Actor {
    /// The unit where it runs: `current`, unless it arrives there. What runs is exempt from some rules and excused by others.
    #[must_use]
    pub fn running(&self) -> Option<&str> {
        self.current.as_deref().filter(|_| self.fixed || !self.arriving)
    }
}

/// The requirements of an actor on one kind; written as a number if there is only work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsOn {
    /// Work per window.
    pub work: u64,
    /// Resources of the unit, in addition to those of the actor.
    pub requires: BTreeMap<String, u64>,
    /// Resources of the node.
    pub node_requires: BTreeMap<String, u64>,
}

/// Messages of one window in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Messages per window.
    pub count: u64,
}

/// A channel from each actor of one group to each of another, or to all others of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMessage {
    /// The sending group, as `namespace/application/group`.
    pub from: String,
    /// The receiving group.
    pub to: String,
    /// Messages per window of each pair.
    pub count: u64,
    /// The drag of each separated pair, once per pair; dimensionless.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drag: u64,
}

/// A drag between two actors, per window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drag {
    /// One actor.
    pub a: String,
    /// The other.
    pub b: String,
    /// Its strength; dimensionless.
    pub drag: u64,
}

/// The cost of one message between two units: 0 on the same unit, otherwise by kinds plus surcharges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExchangeCost {
    /// Cost by pair of kinds, symmetric; either order may be given.
    #[serde(default)]
    pub kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// For unlisted pairs of kinds; equal kinds then cost 1. Without it an unlisted pair is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_kind: Option<u64>,
    /// Added between two NUMA domains of one node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_numa: u64,
    /// Added between two nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_node: u64,
    /// Added, on top of `other_node`, between two zones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_zone: u64,
    /// The total cost of single pairs of units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairCost>,
}

impl ExchangeCost {
    /// The cost of a pair of kinds, in either order; `None` if it is neither listed nor covered.
    #[must_use]
    pub fn of_kinds(&self, a: &str, b: &str) -> Option<u64> {
        let listed = |a: &str, b: &str| self.kinds.get(a).and_then(|row| row.get(b)).copied();
        listed(a, b)
            .or_else(|| listed(b, a))
            .or_else(|| self.other_kind.map(|other| if a == b { 1 } else { other }))
    }
}

/// The exchange cost of one pair of units; replaces all classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairCost {
    /// One unit.
    pub a: String,
    /// The other.
    pub b: String,
    /// Cost of one message.
    pub cost: u64,
}

/// A link that several units share: the messages between its units and others compete for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// Unique name.
    pub id: String,
    /// The units on one side.
    pub units: Vec<String>,
    /// The units on the other side; without it all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// Pairs of a unit of the link and another one whose messages take another way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direct: Vec<(String, String)>,
    /// Messages per window in each direction.
    pub capacity: u64,
}

/// The policy of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// The text of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Policy {
    /// The start of the line before each further program that is joined to the text.
    pub const FURTHER_PROGRAM: &str = "% enforced: ";
}

/// A level: one criterion, or several that are summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Levels {
    /// As listed, the most important first.
    InOrder(Vec<Vec<Criterion>>),
    /// By the relevance of the criteria, evaluated from the facts (APO III-B).
    Adaptive,
}

impl Default for Levels {
    /// Overload, then communication and the cost of moves, then annoyance.
    fn default() -> Self {
        use Criterion::{Annoyance, Communication, Migration, Overload};
        Self::InOrder(vec![vec![Overload], vec![Communication, Migration], vec![Annoyance]])
    }
}

impl Serialize for RunsOn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.requires.is_empty() && self.node_requires.is_empty() {
            return serializer.serialize_u64(self.work);
        }
        RunsOnObject {
            work: self.work,
            requires: self.requires.clone(),
            node_requires: self.node_requires.clone(),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RunsOnObject {
    work: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    requires: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    node_requires: BTreeMap<String, u64>,
}

impl<'de> Deserialize<'de> for RunsOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrObject;
        impl<'de> Visitor<'de> for NumberOrObject {
            type Value = RunsOn;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("work per window, or an object {work, requires, nodeRequires}")
            }
            fn visit_u64<E: de::Error>(self, work: u64) -> Result<RunsOn, E> {
                Ok(RunsOn { work, ..RunsOn::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RunsOn, A::Error> {
                let RunsOnObject { work, requires, node_requires } =
                    RunsOnObject::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RunsOn { work, requires, node_requires })
            }
        }
        deserializer.deserialize_any(NumberOrObject)
    }
}
