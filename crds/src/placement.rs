//! `Placement`: the decision for one application, as an object that people can read, diff and roll back.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Time};

// The lists are atomic for server-side apply: keyed by actor, its bookkeeping of 1,000 assignments would
// be larger than the assignments.
/// Where the actors of one application run, what that costs, and why: the decision. One per application, owned by it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cairn.dev",
    version = "v1alpha1",
    kind = "Placement",
    namespaced,
    doc = "Where the actors of one application run, what that costs, and why: the decision. One per application, owned by it.",
    plural = "placements",
    shortname = "plc",
    category = "cairn",
    status = "PlacementStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Application","type":"string","description":"The application that is placed.","jsonPath":".spec.application"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","description":"How far the decision is carried out.","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Strategy","type":"string","description":"The strategy that found it.","jsonPath":".spec.strategy"}"#,
    printcolumn = r#"{"name":"Optimal","type":"boolean","description":"Whether it is proven to be the best.","jsonPath":".spec.optimal"}"#,
    printcolumn = r#"{"name":"Objective","type":"string","description":"Its value at each level, highest first.","jsonPath":".spec.objectiveSummary"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The name of the `ActorApplication` that is placed, in the same namespace; immutable.
    #[schemars(length(min = 1, max = 30))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("application is immutable: a Placement belongs to one application for its whole life")
    )]
    pub application: String,

    /// The generation of the application's spec that the decision was made for.
    #[schemars(range(min = 0))]
    pub application_generation: i64,

    /// The name of the policy that judged it.
    #[schemars(length(min = 1, max = 253))]
    pub policy: String,

    /// The digest of the snapshot that it was planned from, such as `sha256:…`.
    #[schemars(length(min = 1, max = 128))]
    pub snapshot_digest: String,

    /// The digest of what was wanted and by which measure, without what there was; while it is the same, a restarted operator searches nothing.
    #[schemars(length(min = 1, max = 128))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_digest: Option<String>,

    /// The name of the strategy that found it.
    #[schemars(length(min = 1, max = 63))]
    pub strategy: String,

    /// The seed that the strategy was given.
    pub seed: i64,

    /// The effort that the strategy spent, in its own finished pieces; with the seed, it replays the decision.
    #[schemars(range(min = 0))]
    pub effort: i64,

    /// What ended the search: `proof`, `effort` or `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,

    /// The window that work and messages are counted over, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub window_microseconds: Option<i64>,

    /// The levels that were compared, highest priority first, each with its criteria joined by `+`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub levels: Vec<String>,

    /// The value of each objective, by the name of its criterion, of everything that was compared: all that is on the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub objective: BTreeMap<String, i64>,

    /// The application's own part of each objective: its edges, its moves, the units that host its actors; latency and the policy's penalties whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub own_objective: BTreeMap<String, i64>,

    /// The values by level in one word for tables, highest priority first, as in `[0, 59040, 21]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub objective_summary: Option<String>,

    /// The proven lower bound of each level, by its name as in `levels`; a level without a proof is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub bound: BTreeMap<String, i64>,

    /// Whether the placement is proven to be the best.
    #[serde(default)]
    pub optimal: bool,

    /// How far it can be from the best, in percent of the first level that is not proven, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub gap_percent: Option<i64>,

    /// What improved it last: `incumbent`, `construction`, `search`, `exact` or `clingo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub found_by: Option<String>,

    /// What closed the last level: `branch-and-bound`, `clingo`, `bound` or `enumeration`; absent unless it is optimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub proven_by: Option<String>,

    /// What clingo judged of it, beside the checker: `all`, `parts` (all, in several runs), `constraints` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub judged: Option<String>,

    /// Where each actor runs, sorted by actor, at most 5,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub assignments: Vec<Assignment>,

    /// The actors that have no place, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub unplaced: Vec<Unplaced>,

    /// The actors that stay in a breach of a limit or rule that is there already, and of which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub excused: Vec<Excused>,

    /// What changes against what ran before, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moves: Vec<Move>,
}

/// Where one actor runs.
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

/// An actor without a place.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// Why it has no place, in plain words, the reason that rules out most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub reasons: Vec<String>,
}

/// An actor that stays where a limit or a rule is broken already, and is no worse for it than now.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excused {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// What is broken, in plain words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub reasons: Vec<String>,
}

/// A change of place.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The short name of the actor, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The unit that it leaves; absent when it ran nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 384))]
    pub from: Option<String>,

    /// The unit that it goes to.
    #[schemars(length(min = 1, max = 384))]
    pub to: String,

    /// Why it moves, in plain words.
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// What ended the search: `proof`, `effort` or `deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StoppedBy {
    /// The answer was proven to be the best.
    Proof,
    /// The effort that it was given was used up.
    Effort,
    /// The time that it was given was used up.
    Deadline,
}

/// How far a decision is carried out, and what got in its way.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What holds for the decision now, `Ready` first of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// How far the decision is carried out: `Planned`, `Applying`, `Applied` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlacementPhase>,

    /// What scheduler, kubelet or admission refused: facts for the next plan, each until its time has passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub refusals: Vec<Refusal>,
}

/// How far the decision is carried out: `Planned`, `Applying`, `Applied` or `Failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum PlacementPhase {
    /// It is decided and nothing is done yet.
    #[default]
    Planned,
    /// Instances are being started, moved or stopped.
    Applying,
    /// Every actor that has a place runs there.
    Applied,
    /// It could not be carried out; the conditions say why.
    Failed,
}

/// What was not taken, and until when that counts: by a node, anywhere, or by the namespace.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What it concerns: pods on the `Node`, pods of the `Template` anywhere, or everything in the `Namespace`.
    #[serde(default)]
    pub scope: RefusalScope,

    /// The group of actors whose pods are not taken; absent where it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub group: Option<String>,

    /// The kind of device whose template is meant; absent where it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,

    /// The short name of one of the actors, such as `crop-0`.
    #[schemars(length(min = 1, max = 63))]
    pub actor: String,

    /// The node that did not take it; with scope `Node` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub node: Option<String>,

    /// What scheduler, kubelet or admission said.
    #[schemars(length(max = 1024))]
    pub reason: String,

    /// How often it was said while it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<i32>,

    /// When the refusal is forgotten and it is tried again: each time after twice as long.
    pub until: Time,
}

/// How far a refusal goes: `Node`, `Template` or `Namespace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[derive(JsonSchema, Deserialize, Serialize, strum::Display, strum::IntoStaticStr)]
pub enum RefusalScope {
    /// Pods of the group and kind on the node: another node may take them.
    #[default]
    Node,
    /// Pods of the group and kind, anywhere: another kind may be taken.
    Template,
    /// Every pod of the namespace, as a quota does that is used up: nothing starts or moves.
    Namespace,
}
