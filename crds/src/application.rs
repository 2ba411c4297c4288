//! `ActorApplication`: what the user asks for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::core::{Message, Rule};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{self, Condition, Quantity, Time, dns_label, duration, object_name, rate};

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
    printcolumn = r#"{"name":"Ready","type":"string","description":"Whether every actor has a place, runs there, and is ready.","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Placed","type":"string","description":"Actors with a place, of those wanted.","jsonPath":".status.actors.placedOfWanted"}"#,
    printcolumn = r#"{"name":"Running","type":"integer","description":"Actors whose pod runs.","jsonPath":".status.actors.running"}"#,
    printcolumn = r#"{"name":"Optimal","type":"boolean","description":"Whether the placement is proven to be the best.","jsonPath":".status.optimal"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"Where the application is on its way.","jsonPath":".status.phase"}"#,
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
    /// The policy that says what a good placement is; absent: the operator's default policy.
    ///
    /// The name of a ConfigMap labelled `cairn.dev/policy: "true"` in the operator's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub policy: Option<String>,

    /// Who is served first when room is short: the higher one, and of equal ones the older; default 0.
    ///
    /// It orders the queue and nothing else: what runs is never stopped for others.
    #[serde(default)]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub priority: i32,

    /// `BestEffort`: each actor starts as soon as it has a place; `AllOrNothing`: none before all have one; default `BestEffort`.
    ///
    /// With `AllOrNothing`, as long as no pod of the application is there and one actor has no place, nobody has: what it does not use is free for others.
    #[serde(default)]
    pub start: Start,

    /// The groups of identical actors, at most 256, each with a name of its own.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub actors: Vec<ActorGroup>,

    /// The traffic that is expected between groups, at most 512 channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub channels: Vec<Channel>,

    /// How pods are replaced when a template changes; absent: one actor at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateStrategy>,

    /// What happens to actors whose node does not answer; absent: they are waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,

    /// Whether to keep deciding and reporting but begin nothing; an actor that was stopped already is started; default false.
    #[serde(default)]
    pub paused: bool,
}

impl ActorApplicationSpec {
    /// How many actors may be down while a new template replaces pods.
    pub fn max_unavailable(&self) -> i32 {
        self.update.as_ref().map_or_else(common::one, |update| update.max_unavailable)
    }

    /// How long a node may not answer before its actors are started elsewhere unconfirmed; none where they are waited for.
    pub fn forced_after(&self) -> Option<&str> {
        let forced = self.failover.as_ref().filter(|failover| failover.mode == FailoverMode::Force);
        forced.map(|failover| failover.after.as_str())
    }
}

/// When the first actors of an application start: `BestEffort` or `AllOrNothing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
pub enum Start {
    /// Each as soon as it has a place.
    #[default]
    BestEffort,
    /// None before all have one.
    AllOrNothing,
}

/// What happens to actors whose node does not answer.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// `Wait`: nothing starts elsewhere until the pod is gone or the node carries `node.kubernetes.io/out-of-service`; `Force`: see `after`; default `Wait`.
    ///
    /// With `Force` two of an actor may live at the same time: a node that does not answer may run on, and nobody can tell.
    #[serde(default)]
    pub mode: FailoverMode,

    /// With `Force`: how long the node may not answer before its pods are removed unconfirmed and their actors start elsewhere, such as `60s`, the default.
    ///
    /// A decimal number above zero and the unit `us`, `ms` or `s`. While more than 30 % of the nodes do not answer, nothing is forced.
    #[serde(default = "Failover::after")]
    #[schemars(length(min = 2, max = 24))]
    #[x_kube(validation = duration())]
    pub after: String,
}

impl Failover {
    fn after() -> String {
        "60s".to_owned()
    }
}

/// Whether actors of a node that does not answer are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
pub enum FailoverMode {
    /// Until it is certain that they ended.
    #[default]
    Wait,
    /// Only for a while; then two may live.
    Force,
}

/// How pods are replaced when a template changes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// How many actors of the application may be down while pods are replaced, from 1 to 10,000; default 1.
    ///
    /// A template whose pods do not become ready is given to no more actors than that.
    #[serde(default = "common::one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_unavailable: i32,
}

/// The name goes into labels, into host names and, later, into a Service, which must start with a letter.
fn name_rule() -> Rule {
    Rule::new("self.metadata.name.size() <= 30 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message(
            "the name of an ActorApplication has at most 30 characters: lower-case letters, digits and '-', \
             starting with a letter and ending with a letter or digit, because its pods are named after it",
        )
}

/// `with` and `avoid` name groups that exist.
fn known_groups_in_group(field: &str) -> Rule {
    Rule::new(with_names(&format!("self.actors.all(a, !has(a.{field}) || a.{field}.all(g, g in names))")))
        .message(Message::Message(format!(
            "each name in {field} must be a group of spec.actors: correct the name or remove it"
        )))
        .field_path(".actors")
}

/// `from` and `to` of a channel name groups that exist.
///
/// A message that quotes the wrong name is beyond CEL's limit by far: it does not know how long a string
/// out of a list can be.
fn known_group_in_channel(end: &str) -> Rule {
    Rule::new(with_names(&format!("!has(self.channels) || self.channels.all(c, c.{end} in names)")))
        .message(Message::Message(format!(
            "{end} of each channel must be a group of spec.actors: correct the name or remove the channel"
        )))
        .field_path(".channels")
}

/// Groups that are paired index by index are equally large; unknown ones are refused by another rule.
fn equal_replicas() -> Rule {
    let replicas = |end| format!("self.actors[names.indexOf(c.{end})].replicas");
    let equal = format!("!(c.from in names && c.to in names) || {} == {}", replicas("from"), replicas("to"));
    Rule::new(with_names(&format!(
        "!has(self.channels) || self.channels.all(c, c.pattern != 'OneToOne' || {equal})"
    )))
    .message(
        "a channel of pattern OneToOne needs as many replicas in from as in to: make them equal or use AllToAll",
    )
    .field_path(".channels")
}

/// A rule over `names`, the names of all groups, which are collected once.
///
/// What the API server spends on one rule is bounded. Looking through the groups anew for every name would
/// pass the bound at 256 groups; a list of one list is how CEL without `cel.bind` gives a value a name.
fn with_names(rule: &str) -> String {
    format!("[self.actors.map(a, a.name)].all(names, {rule})")
}

/// A group of identical actors, named `<group>-0`, `<group>-1`, and so on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.avoid) || !self.avoid.exists(g, g == self.name)")
        .message("a group cannot avoid itself: to keep its own actors apart use spread: node")
        .field_path(".avoid"),
    validation = Rule::new("!has(self.avoid) || !has(self.with) || !self.avoid.exists(g, self.with.exists(w, w == g))")
        .message("a group cannot be with a group and avoid it: remove the name from one of the two")
        .field_path(".avoid"),
    validation = Rule::new("self.name != 'inst' && !self.name.startsWith('inst-')")
        .message("a group cannot be named inst or inst-…: actors of that name are the Instances that an application asks for while it runs; choose another name")
        .field_path(".name")
)]
pub struct ActorGroup {
    /// The name of the group: a DNS label of at most 24 characters.
    #[schemars(length(min = 1, max = 24))]
    #[x_kube(validation = dns_label())]
    pub name: String,

    /// How many actors the group has, from 0 to 10,000; default 1.
    #[serde(default = "common::one")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: i32,

    /// Messages that reach each actor from outside the application, as a rate such as `30/s`; default none.
    ///
    /// A decimal number, `/`, and the unit `s`, `m` or `h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 24))]
    #[x_kube(validation = rate())]
    pub arrivals: Option<String>,

    /// How many bytes travel when one actor moves, such as `64Mi`; default 0, a stateless actor.
    #[serde(default = "common::no_bytes")]
    #[schemars(schema_with = "common::byte_quantity")]
    pub state_bytes: Quantity,

    /// The ways to run one actor, at most one per kind of device; it runs on these kinds only.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["kind".into()]))]
    pub implementations: Vec<Implementation>,

    /// How the group's actors are kept apart: each on another `unit`, `numa` domain, `node` or `zone`; absent: they may share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<SpreadLevel>,

    /// Groups whose actors all run on the same node as every actor of this group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 24)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub with: Vec<String>,

    /// Groups that this group shares no node with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 24)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub avoid: Vec<String>,

    /// The only place where the group's actors may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_to: Option<Pin>,
}

/// One way to run an actor: on which kind of device, how fast, and with which pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.template.spec.nodeName)")
        .message("the template must not set nodeName, because Cairn chooses the node: to hold a group on one node use pinTo")
        .field_path(".template.spec.nodeName"),
    validation = Rule::new("!has(self.template.spec.schedulerName)")
        .message("the template must not set schedulerName: Cairn places the actor and kube-scheduler binds its pod")
        .field_path(".template.spec.schedulerName"),
    validation = Rule::new("self.template.spec.containers.size() == 1 || self.template.spec.containers.exists(c, c.name == 'actor')")
        .message("the template must have one container, or several of which one is named actor, because that one gets the device")
        .field_path(".template.spec.containers")
)]
pub struct Implementation {
    /// The kind of device: `cpu`, `gpu`, `fpga`, `npu`, or any DNS label that a `DevicePool` offers.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = dns_label())]
    pub kind: String,

    /// The time to process one message on a unit of speed 1, such as `20ms`.
    ///
    /// A decimal number above zero and the unit `us`, `ms` or `s`.
    #[schemars(length(min = 2, max = 24))]
    #[x_kube(validation = duration())]
    pub service_time: String,

    /// The pod that runs the actor on this kind, as in a Deployment.
    ///
    /// Cairn adds the node, the pool's resource and its own labels; leave `nodeName` and `schedulerName` unset.
    ///
    /// With several containers, the one named `actor` gets the device.
    #[schemars(schema_with = "crate::template::pod_template")]
    pub template: PodTemplateSpec,
}

/// How the group's actors are kept apart: each on another `unit`, `numa` domain, `node` or `zone`; absent: they may share.
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

/// The only place where the actors of a group may run.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// The name of the node.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name())]
    pub node: String,
}

/// The traffic that is expected from the actors of one group to those of another.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.pattern != 'Ring' || self.from == self.to")
        .message("a channel of pattern Ring goes from a group to itself: name the same group in from and to")
        .field_path(".to")
)]
pub struct Channel {
    /// The group that sends.
    #[schemars(length(min = 1, max = 24))]
    pub from: String,

    /// The group that receives.
    #[schemars(length(min = 1, max = 24))]
    pub to: String,

    /// Messages that each sender sends over this channel in all, as a rate such as `60/s`.
    ///
    /// They are shared evenly among its receivers. A decimal number, `/`, and the unit `s`, `m` or `h`.
    #[schemars(length(min = 3, max = 24))]
    #[x_kube(validation = rate())]
    pub rate: String,

    /// The size of one message, such as `32Ki`; default 0.
    #[serde(default = "common::no_bytes")]
    #[schemars(schema_with = "common::byte_quantity")]
    pub message_bytes: Quantity,

    /// Who receives from whom: `AllToAll` (everyone but itself), `OneToOne` (equal indices) or `Ring` (the next).
    pub pattern: Pattern,

    /// The expected annoyance per window of each pair when it is apart, a count; default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub drag: i64,
}

/// Who receives from whom on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum Pattern {
    /// Each sender reaches every actor of the other group except itself.
    AllToAll,
    /// Each sender reaches the actor with the same index; both groups have equally many.
    OneToOne,
    /// Each actor reaches the next one of its own group, the last one the first.
    Ring,
}

/// What Cairn reports about an application.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorApplicationStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the application is on its way: `Pending`, `Placing`, `Running`, `Degraded`, `Paused` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ApplicationPhase>,

    /// The application's own part of each objective for the placement in force, by the name of its criterion.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objective: BTreeMap<String, i64>,

    /// The name of the `Placement` that is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,

    /// How many actors are wanted, placed and running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actors: Option<ActorCounts>,

    /// Whether the placement is proven to be the best; absent before the first decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimal: Option<bool>,

    /// How far the placement can be from the best, in percent of the first level that is not proven, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_percent: Option<i64>,

    /// Which templates are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revisions>,

    /// When an actor of the application last moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_moved: Option<Time>,

    /// What holds for the application now, `Ready` first of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The templates of an application that are in use: names of `ControllerRevisions` in its namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revisions {
    /// The last one whose pods were all ready; with it actors come again until it is their turn to get the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The newest one; absent while the API server does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
}

/// How many actors an application has, by how far they are.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorCounts {
    /// Actors that the spec asks for.
    pub wanted: i32,
    /// Actors that have a place.
    pub placed: i32,
    /// Actors whose pod runs.
    pub running: i32,
    /// Actors whose pod says that it is ready.
    #[serde(default)]
    pub ready: i32,
    /// Actors whose pod is of the newest template.
    #[serde(default)]
    pub updated: i32,
    /// Placed and wanted in one word for tables, as in `8/8`.
    pub placed_of_wanted: String,
}

impl ActorCounts {
    /// Counts with their printable form.
    pub fn new(wanted: i32, placed: i32, running: i32) -> Self {
        Self { wanted, placed, running, placed_of_wanted: format!("{placed}/{wanted}"), ..Self::default() }
    }
}

/// Where the application is on its way: `Pending`, `Placing`, `Running`, `Degraded`, `Paused` or `Failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum ApplicationPhase {
    /// Nothing is decided yet.
    #[default]
    Pending,
    /// A placement is being carried out.
    Placing,
    /// Every actor runs where it was placed.
    Running,
    /// Some actors have no place or do not run; the conditions say which and why.
    Degraded,
    /// The application is paused: decisions are reported and nothing changes.
    Paused,
    /// The application cannot be planned; the conditions say why and what to do.
    Failed,
}
