//! `ActorApplication`: the actors, channels and constraints that a user declares.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::core::{Message, Rule};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{self, Condition, Quantity, Time, dns_label, duration, object_name, rate};
use crate::load::{CounterCoverage, RebalanceMode};

/// An application of message-passing actors that Cairn places onto the devices of the cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "ActorApplication",
    namespaced,
    doc = "An application of message-passing actors that Cairn places onto the devices of the cluster.",
    plural = "actorapplications",
    shortname = "actorapp",
    category = "cairn",
    status = "ActorApplicationStatus",
    derive = "PartialEq",
    validation = name_rule(),
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether every actor is placed, runs on its unit and is ready.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Placed","type":"string","description":"Placed and wanted actors.","jsonPath":".status.actors.placedOfWanted"}"#,
    printcolumn = r#"{"name":"Running","type":"integer","description":"Actors with a running pod.","jsonPath":".status.actors.running"}"#,
    printcolumn = r#"{"name":"Optimal","type":"boolean","description":"Whether the placement is proven optimal.","jsonPath":".status.optimal"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"The phase of the application.","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = known_groups_in_group("with"),
    validation = known_groups_in_group("avoid"),
    validation = known_group_in_channel("from"),
    validation = known_group_in_channel("to"),
    validation = equal_replicas()
)]
pub struct ActorApplicationSpec {
    /// The policy that defines the objective of the placement; default: the operator's default policy.
    ///
    /// The name of a ConfigMap with the label `cairn.dev/policy: "true"` in the operator's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub policy: Option<String>,

    /// The priority when capacity is scarce: higher values are planned first, older applications first among equals; default 0.
    ///
    /// It only orders the queue: running actors are never preempted.
    #[serde(default)]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub priority: i32,

    /// `BestEffort`: each actor starts as soon as it is placed; `AllOrNothing`: actors start only when all are placed; default `BestEffort`.
    ///
    /// With `AllOrNothing`, an application without pods reserves no capacity until all of its actors can be placed.
    #[serde(default)]
    pub start: StartPolicy,

    /// The groups of identical actors, at most 256, with unique names.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub actors: Vec<ActorGroup>,

    /// The expected traffic between groups, at most 512 channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub channels: Vec<Channel>,

    /// How pods are replaced when a template changes; default: one actor at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateStrategy>,

    /// What happens to the actors of an unreachable node; default: Cairn waits for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,

    /// What Cairn does about measured load: `"Off"` (quoted in YAML) plans by the manifest alone; `DryRun` reports in the condition `WouldMove` which actors would move for it; `"On"` (quoted, too) moves them; default: as the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<RebalanceMode>,

    /// Pauses the application: Cairn plans and reports, but moves and updates no actor; an actor whose pod ends starts again where it was; default false.
    ///
    /// A move in progress is finished: an actor that is already stopped is started again.
    #[serde(default)]
    pub paused: bool,
}

impl ActorApplicationSpec {
    /// How many actors may be unavailable during a rolling update.
    pub fn max_unavailable(&self) -> i32 {
        self.update.as_ref().map_or_else(common::one, |update| update.max_unavailable)
    }

    /// How long a node must be unreachable before its actors fail over without confirmation; `None` with mode `Wait`.
    pub fn forced_after(&self) -> Option<&str> {
        let forced = self.failover.as_ref().filter(|failover| failover.mode == FailoverMode::Force);
        forced.map(|failover| failover.after.as_str())
    }
}

/// When actors of an application start: `BestEffort` or `AllOrNothing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
pub enum StartPolicy {
    /// Each actor starts as soon as it is placed.
    #[default]
    BestEffort,
    /// Actors start only when all are placed.
    AllOrNothing,
}

/// What happens to the actors of an unreachable node.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// `Wait`: an actor starts elsewhere only after its pod is deleted or its node has the taint `node.kubernetes.io/out-of-service`; `Force`: see `after`; default `Wait`.
    ///
    /// With `Force` two pods of an actor can run at the same time, because an unreachable node may still run its pods.
    #[serde(default)]
    pub mode: FailoverMode,

    /// With `Force`: how long a node must be unreachable before its pods are force-deleted and their actors start elsewhere; default `60s`.
    ///
    /// A positive decimal number and the unit `us`, `ms` or `s`. While more than 30 % of the nodes, and at least three, are unreachable, nothing is forced.
    #[serde(default = "Failover::default_after")]
    #[schemars(length(min = 2, max = 24))]
    #[x_kube(validation = duration())]
    pub after: String,
}

impl Failover {
    fn default_after() -> String {
        "60s".to_owned()
    }
}

/// Whether Cairn waits for an unreachable node: `Wait` or `Force`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
pub enum FailoverMode {
    /// Until it is certain that the pods ended.
    #[default]
    Wait,
    /// Until `after` has passed; two pods of an actor can then run.
    Force,
}

/// How pods are replaced when a template changes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// How many actors of the application may be unavailable during an update, from 1 to 10,000; default 1.
    ///
    /// A template whose pods do not become ready is rolled out to at most this many actors.
    #[serde(default = "common::one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_unavailable: i32,
}

/// The name becomes a label value, part of host names and of a Service name, which must start with a letter.
fn name_rule() -> Rule {
    Rule::new("self.metadata.name.size() <= 30 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message(
            "metadata.name must have at most 30 characters: lower-case letters, digits and '-', starting with a \
             letter and ending with a letter or digit, because it is part of the names of pods",
        )
}

/// `with` and `avoid` name existing groups.
fn known_groups_in_group(field: &str) -> Rule {
    Rule::new(with_names(&format!("self.actors.all(a, !has(a.{field}) || a.{field}.all(g, g in names))")))
        .message(Message::Message(format!(
            "each entry of {field} must be the name of a group in spec.actors: correct or remove it"
        )))
        .field_path(".actors")
}

/// `from` and `to` of a channel name existing groups.
///
/// A message that quotes the wrong name exceeds CEL's cost limit, which assumes unbounded strings in lists.
fn known_group_in_channel(end: &str) -> Rule {
    Rule::new(with_names(&format!("!has(self.channels) || self.channels.all(c, c.{end} in names)")))
        .message(Message::Message(format!(
            "{end} of each channel must be the name of a group in spec.actors: correct it or remove the channel"
        )))
        .field_path(".channels")
}

/// Groups joined by a `OneToOne` channel have equally many replicas; another rule rejects unknown groups.
fn equal_replicas() -> Rule {
    let replicas = |end| format!("self.actors[names.indexOf(c.{end})].replicas");
    let equal = format!("!(c.from in names && c.to in names) || {} == {}", replicas("from"), replicas("to"));
    Rule::new(with_names(&format!(
        "!has(self.channels) || self.channels.all(c, c.pattern != 'OneToOne' || {equal})"
    )))
    .message(
        "a channel with pattern OneToOne needs equal replicas in from and to: make them equal or use AllToAll",
    )
    .field_path(".channels")
}

/// A rule over `names`, the names of all groups, collected once.
///
/// Collecting them for every reference would exceed CEL's cost limit at 256 groups. Without `cel.bind`, a
/// comprehension over a list of one list binds the variable.
fn with_names(rule: &str) -> String {
    format!("[self.actors.map(a, a.name)].all(names, {rule})")
}

/// A group of identical actors with the names `<group>-0`, `<group>-1` and so on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.avoid) || !self.avoid.exists(g, g == self.name)")
        .message("a group cannot avoid itself: use spread: node to separate its own actors")
        .field_path(".avoid"),
    validation = Rule::new("!has(self.avoid) || !has(self.with) || !self.avoid.exists(g, self.with.exists(w, w == g))")
        .message("a group cannot be in both with and avoid: remove it from one of the two")
        .field_path(".avoid"),
    validation = Rule::new("self.name != 'inst' && !self.name.startsWith('inst-')")
        .message("the names inst and inst-* are reserved for Instances that an application requests at run time: choose another name")
        .field_path(".name")
)]
pub struct ActorGroup {
    /// The name of the group, a DNS label of at most 24 characters.
    #[schemars(length(min = 1, max = 24))]
    #[x_kube(validation = dns_label())]
    pub name: String,

    /// The number of actors, from 0 to 10,000, and at most 5,000 of all groups together; default 1.
    #[serde(default = "common::one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: i32,

    /// The rate of messages that each actor receives from outside the application, such as `30/s`; default none.
    ///
    /// A decimal number, `/`, and the unit `s`, `m` or `h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 24))]
    #[x_kube(validation = rate())]
    pub arrivals: Option<String>,

    /// The size of the state that is transferred when an actor migrates, such as `64Mi`; default 0, a stateless actor.
    #[serde(default = "common::no_bytes")]
    #[schemars(schema_with = "common::byte_quantity")]
    pub state_bytes: Quantity,

    /// The implementations of the actor, at most one per kind of device; it runs on these kinds only.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["kind".into()]))]
    pub implementations: Vec<Implementation>,

    /// Anti-affinity within the group: no two actors on the same `unit`, `numa` domain, `node` or `zone`; default: they may share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<SpreadLevel>,

    /// Groups whose actors run on the same node as all actors of this group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 24)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub with: Vec<String>,

    /// Groups whose actors run on other nodes than all actors of this group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 24)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub avoid: Vec<String>,

    /// The node that all actors of the group run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_to: Option<Pin>,
}

/// One implementation of an actor: the kind of device, the service time and the pod template.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.template.spec.nodeName)")
        .message("the template must not set nodeName, because Cairn chooses the node: use pinTo to pin a group to a node")
        .field_path(".template.spec.nodeName"),
    validation = Rule::new("!has(self.template.spec.schedulerName)")
        .message("the template must not set schedulerName, because Cairn places the actor and kube-scheduler binds its pod: remove it")
        .field_path(".template.spec.schedulerName"),
    validation = Rule::new("self.template.spec.containers.size() == 1 || self.template.spec.containers.exists(c, c.name == 'actor')")
        .message("the template must have exactly one container or a container named actor, which gets the device")
        .field_path(".template.spec.containers")
)]
pub struct Implementation {
    /// The kind of device: `cpu`, `gpu`, `fpga`, `npu`, or any DNS label that a `DevicePool` offers.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub kind: String,

    /// The time to process one message on a unit of speed 1, such as `20ms`.
    ///
    /// A positive decimal number and the unit `us`, `ms` or `s`.
    #[schemars(length(min = 2, max = 24))]
    #[x_kube(validation = duration())]
    pub service_time: String,

    /// The pod template of the actor on this kind of device, as in a Deployment.
    ///
    /// Cairn adds the node, the pool's resource and its labels; `nodeName` and `schedulerName` must not be set.
    ///
    /// If there are several containers, the one named `actor` gets the device.
    #[schemars(schema_with = "crate::template::pod_template")]
    pub template: PodTemplateSpec,
}

/// Anti-affinity within a group: no two actors on the same `unit`, `numa` domain, `node` or `zone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum SpreadLevel {
    /// No two on one computing unit.
    Unit,
    /// No two in one NUMA domain.
    Numa,
    /// No two on one node.
    Node,
    /// No two in one zone.
    Zone,
}

/// The node that all actors of a group run on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The name of the node.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub node: String,
}

/// The expected traffic from the actors of one group to those of another.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.pattern != 'Ring' || self.from == self.to")
        .message("a channel with pattern Ring connects a group to itself: set from and to to the same group")
        .field_path(".to")
)]
pub struct Channel {
    /// The sending group.
    #[schemars(length(min = 1, max = 24))]
    pub from: String,

    /// The receiving group.
    #[schemars(length(min = 1, max = 24))]
    pub to: String,

    /// The total rate of messages that each sender sends over this channel, such as `60/s`.
    ///
    /// It is split evenly among its receivers. A decimal number, `/`, and the unit `s`, `m` or `h`.
    #[schemars(length(min = 3, max = 24))]
    #[x_kube(validation = rate())]
    pub rate: String,

    /// The size of one message, such as `32Ki`; default 0.
    #[serde(default = "common::no_bytes")]
    #[schemars(schema_with = "common::byte_quantity")]
    pub message_bytes: Quantity,

    /// The receivers of each sender: `AllToAll` (every actor but itself), `OneToOne` (the same index) or `Ring` (the next actor).
    pub pattern: ChannelPattern,

    /// The penalty per window for separating a pair of connected actors, a count; default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub drag: i64,
}

/// The receivers of each sender of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum ChannelPattern {
    /// Each sender sends to every actor of the receiving group except itself.
    AllToAll,
    /// Each sender sends to the actor with the same index; both groups have equally many replicas.
    OneToOne,
    /// Each actor sends to the next one of its group, the last one to the first.
    Ring,
}

/// The observed state of an application.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorApplicationStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The phase of the application: `Pending`, `Placing`, `Running`, `Degraded`, `Paused` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ApplicationPhase>,

    /// The application's share of each objective term under the current placement, by criterion.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objective: BTreeMap<String, i64>,

    /// The name of the current `Placement`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// The numbers of wanted, placed and running actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actors: Option<ActorCounts>,

    /// How many actors are measured, and how many are wanted; absent if counters are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterCoverage>,

    /// Whether the placement is proven optimal; absent before the first decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimal: Option<bool>,

    /// The optimality gap of the first objective level that is not proven optimal, in percent, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_percent: Option<i64>,

    /// The revisions of the templates in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revisions>,

    /// When an actor of the application last migrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_moved: Option<Time>,

    /// The conditions of the application; `Ready` summarizes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The revisions of an application's templates: names of `ControllerRevisions` in its namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revisions {
    /// The last revision whose pods were all ready; actors that are not updated yet restart with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The newest revision; absent while the API server rejects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
}

/// The numbers of an application's actors by progress.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorCounts {
    /// Actors that the spec requests.
    pub wanted: i32,
    /// Actors that are placed.
    pub placed: i32,
    /// Actors with a running pod.
    pub running: i32,
    /// Actors with a ready pod.
    #[serde(default)]
    pub ready: i32,
    /// Actors whose pod has the newest template.
    #[serde(default)]
    pub updated: i32,
    /// Placed and wanted actors as one string for tables, such as `8/8`.
    pub placed_of_wanted: String,
}

impl ActorCounts {
    /// Counts with `placed_of_wanted` formatted.
    pub fn new(wanted: i32, placed: i32, running: i32) -> Self {
        Self { wanted, placed, running, placed_of_wanted: format!("{placed}/{wanted}"), ..Self::default() }
    }
}

/// The phase of an application: `Pending`, `Placing`, `Running`, `Degraded`, `Paused` or `Failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum ApplicationPhase {
    /// No placement is decided yet.
    #[default]
    Pending,
    /// A placement is being applied.
    Placing,
    /// Every actor runs on its assigned unit.
    Running,
    /// Some actors are unplaced or do not run; see the conditions.
    Degraded,
    /// The application is paused: decisions are reported but not applied.
    Paused,
    /// The application cannot be planned; see the conditions.
    Failed,
}
