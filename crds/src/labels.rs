//! Labels and annotations that Cairn sets or reads.

/// Label of Instances and pods: the name of their application.
pub const APPLICATION: &str = "cairn.dev/application";
/// Label of Instances and pods: the group of their actor.
pub const ACTOR_GROUP: &str = "cairn.dev/actor-group";
/// Label of Instances and pods: the short name of their actor, as in `crop-0`.
pub const ACTOR: &str = "cairn.dev/actor";
/// Label of pods: the name of their Instance.
pub const INSTANCE: &str = "cairn.dev/instance";
/// Label of pods: the hash of the template that the pod was created from.
pub const TEMPLATE_HASH: &str = "cairn.dev/template-hash";
/// Annotation of pods: the unit they are placed on, such as `node-0/gpu-1`. Label values cannot contain `/`.
pub const UNIT: &str = "cairn.dev/unit";
/// Label of Nodes: with the value [`RELEASED`] the node agent closes its handles of the GPU drivers.
pub const GPU_DRIVER: &str = "cairn.dev/gpu-driver";
/// The value of [`GPU_DRIVER`] while a driver is unloaded or upgraded, or its GPUs are reset or repartitioned.
pub const RELEASED: &str = "released";
/// Annotation of policy ConfigMaps: the namespaces whose applications may use the policy, separated by commas.
pub const NAMESPACES: &str = "cairn.dev/namespaces";
/// Label of policy ConfigMaps; its value is one of [`POLICY_VALUES`].
pub const POLICY: &str = "cairn.dev/policy";
/// The values of [`POLICY`]: a policy that applications can select, and one that is enforced for all applications.
pub const POLICY_VALUES: [&str; 2] = ["true", ENFORCED];

/// Annotation of applications and templates: actors move only when they must, never for a gain.
pub const DO_NOT_MOVE: &str = "cairn.dev/do-not-move";
/// Annotation of applications and templates: actors with claims or `hostPath` volumes may move for a gain, too.
pub const MAY_MOVE: &str = "cairn.dev/may-move";

/// Label of `ControllerRevisions`: with the value `moves` it is a decision that moved actors.
pub const HISTORY: &str = "cairn.dev/history";
/// Annotation of these revisions: what came of the moves, in JSON.
pub const OUTCOME: &str = "cairn.dev/outcome";

/// The label selector of policy ConfigMaps.
pub fn policy_selector() -> String {
    format!("{POLICY} in ({})", POLICY_VALUES.join(","))
}

/// The value of [`POLICY`] that enforces a policy's program for every application.
pub const ENFORCED: &str = "enforced";
