//! `Placement`: the placement decision for one application, as an object that users can read and diff.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Time};
use crate::load::MeasuredServiceTime;
use crate::moves::{DecidedGain, Move, MoveProgress};

// The lists are atomic: keyed by actor, the managed fields of 1,000 assignments would be larger than the assignments.
/// The placement decision for one application: the assignment of its actors, the objective and the reasons. Each application owns one.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "Placement",
    namespaced,
    doc = "The placement decision for one application: the assignment of its actors, the objective and the reasons. Each application owns one.",
    plural = "placements",
    shortname = "plc",
    category = "cairn",
    status = "PlacementStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Application","type":"string","description":"The placed application.","jsonPath":".spec.application"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"The progress of applying the decision.","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Strategy","type":"string","description":"The strategy that found the placement.","jsonPath":".spec.strategy"}"#,
    printcolumn = r#"{"name":"Optimal","type":"boolean","description":"Whether the placement is proven optimal.","jsonPath":".spec.optimal"}"#,
    printcolumn = r#"{"name":"Objective","type":"string","description":"The objective values by level, highest priority first.","jsonPath":".spec.objectiveSummary"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The name of the placed `ActorApplication`, in the same namespace; immutable.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("application is immutable, because a Placement belongs to one application: delete the Placement")
    )]
    pub application: String,

    /// The generation of the application's spec that was planned.
    #[schemars(range(min = 0))]
    pub application_generation: i64,

    /// The name of the policy that defines the objective.
    #[schemars(length(min = 1, max = 253))]
    pub policy: String,

    /// The digest of the planning snapshot, such as `sha256:…`.
    #[schemars(length(min = 1, max = 128))]
    pub snapshot_digest: String,

    /// The digest of the demand and the objective, without the cluster state. While it is unchanged, a restarted operator does not search again.
    #[schemars(length(min = 1, max = 128))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_digest: Option<String>,

    /// The name of the strategy that found the placement.
    #[schemars(length(min = 1, max = 63))]
    pub strategy: String,

    /// The random seed of the strategy.
    pub seed: i64,

    /// The effort that the strategy spent, in its own units of work; with the seed, it reproduces the decision.
    #[schemars(range(min = 0))]
    pub effort: i64,

    /// Why the search stopped: `proof`, `effort` or `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,

    /// The time window over which work and messages are counted, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub window_microseconds: Option<i64>,

    /// The levels of the objective, highest priority first, each with its criteria joined by `+`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub levels: Vec<String>,

    /// Rules of pod templates that only kube-scheduler evaluates; a proof of optimality does not cover them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub left_to_scheduler: Vec<String>,

    /// The value of each objective term over the whole cluster, by criterion.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub objective: BTreeMap<String, i64>,

    /// The application's share of each objective term: its channels, its moves and the units of its actors. Latency and policy penalties are counted in full.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub own_objective: BTreeMap<String, i64>,

    /// The values by level as one string for tables, highest priority first, such as `[0, 59040, 21]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub objective_summary: Option<String>,

    /// The proven lower bound of each level, keyed as in `levels`; levels without a bound are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub bound: BTreeMap<String, i64>,

    /// Whether the placement is proven optimal.
    #[serde(default)]
    pub optimal: bool,

    /// The optimality gap of the first level that is not proven optimal, in percent, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub gap_percent: Option<i64>,

    /// The source of the last improvement: `incumbent`, `construction`, `search`, `exact` or `clingo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub found_by: Option<String>,

    /// The source of the optimality proof: `branch-and-bound`, `clingo`, `bound` or `enumeration`; absent unless `optimal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub proven_by: Option<String>,

    /// What clingo verified in addition to the checker: `all`, `parts` (all, in several runs), `scaled` (all, in divided numbers), `constraints`, `scaled-constraints` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub judged: Option<String>,

    /// The digest of the snapshot that clingo judged, if the plan stayed valid in a newer one; only the checker verified it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub judged_digest: Option<String>,

    /// The unit of each actor, sorted by actor, at most 5,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub assignments: Vec<Assignment>,

    /// The actors that are not placed, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub unplaced: Vec<UnplacedActor>,

    /// The running actors whose existing violations of limits or rules are tolerated, with the violations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub excused: Vec<ExcusedActor>,

    /// The changes relative to the running state, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moves: Vec<Move>,

    /// The gain that the elective moves were decided for; later decisions keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<DecidedGain>,

    /// Measured service times of actor groups when the decision was made; plans use them for kinds of device that the group has left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2048))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub measured: Vec<MeasuredServiceTime>,
}

/// The assignment of one actor to a unit.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The computing unit, such as `node-0/gpu-1`.
    #[schemars(length(min = 1, max = 384))]
    pub unit: String,

    /// The node of the unit.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,

    /// The `DevicePool` of the unit.
    #[schemars(length(min = 1, max = 253))]
    pub pool: String,
}

/// An actor that is not placed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnplacedActor {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// Why the actor is not placed; the reason that excludes most units comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub reasons: Vec<String>,
}

/// A running actor whose existing violations are tolerated as long as they do not get worse.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcusedActor {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The violated limits and rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub reasons: Vec<String>,
}

/// Why the search stopped: `proof`, `effort` or `deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// The placement was proven optimal.
    Proof,
    /// The effort budget was exhausted.
    Effort,
    /// The time budget was exhausted.
    Deadline,
}

/// The progress of applying a decision, and the refusals met.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The conditions of the placement; `Ready` summarizes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The progress of applying the decision: `Planned`, `Applying`, `Applied` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlacementPhase>,

    /// The progress of the elective moves: those that improve the placement and are not necessary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moves: Vec<MoveProgress>,

    /// Pods that the scheduler, a kubelet or admission refused; the planner respects each refusal until it expires, and for running actors as long as its cause is unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub refusals: Vec<Refusal>,
}

/// The progress of applying the decision: `Planned`, `Applying`, `Applied` or `Failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum PlacementPhase {
    /// The decision is made and not applied yet.
    #[default]
    Planned,
    /// Instances are being started, moved or stopped.
    Applying,
    /// Every placed actor runs on its unit.
    Applied,
    /// The decision could not be applied; see the conditions.
    Failed,
}

/// A refusal of pods by a node, of a template, or by the namespace, with its expiry.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The scope of the refusal: pods on the `Node`, pods of the `Template` on any node, or all pods of the `Namespace`.
    #[serde(default)]
    pub scope: RefusalScope,

    /// The actor group whose pods are refused; absent if all groups are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub group: Option<String>,

    /// The kind of device whose template is refused; absent if all kinds are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,

    /// The short name of one affected actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The refusing node; only with scope `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub node: Option<String>,

    /// The message of the scheduler, kubelet or admission.
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// The number of refusals before it expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<i32>,

    /// When the refusal expires and an actor without a pod is tried again; the delay doubles with each refusal.
    pub until: Time,

    /// The digest of what caused the refusal: the node, the template and, if the message is about them, the pods on the node. As long as it is unchanged, no running actor moves to the node, even after the expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 71))]
    pub cause: Option<String>,
}

/// The scope of a refusal: `Node`, `Template` or `Namespace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum RefusalScope {
    /// Pods of the group and kind on the node; another node may accept them.
    #[default]
    Node,
    /// Pods of the group and kind on any node; another kind may be accepted.
    Template,
    /// All pods of the namespace, for example by an exhausted quota; nothing starts or moves.
    Namespace,
}
