//! The labels and annotations that Cairn puts on what it makes, and the one that it looks for.

/// Label of Instances and pods: the name of their application.
pub const APPLICATION: &str = "cairn.dev/application";
/// Label of Instances and pods: the group of their actor.
pub const ACTOR_GROUP: &str = "cairn.dev/actor-group";
/// Label of Instances and pods: the short name of their actor, as in `crop-0`.
pub const ACTOR: &str = "cairn.dev/actor";
/// Label of pods: the name of their Instance.
pub const INSTANCE: &str = "cairn.dev/instance";
/// Label of pods: which template they were made from.
pub const TEMPLATE_HASH: &str = "cairn.dev/template-hash";
/// Annotation of pods: the unit they were placed on, as in `node-0/gpu-1` (a `/` is no label value).
pub const UNIT: &str = "cairn.dev/unit";
/// Label of Nodes: with the value [`RELEASED`] the node agent there lets go of the drivers of GPUs.
pub const GPU_DRIVER: &str = "cairn.dev/gpu-driver";
/// The value of [`GPU_DRIVER`] while a driver is to be unloaded, upgraded, or its GPUs are to be reset or partitioned anew.
pub const RELEASED: &str = "released";
/// Annotation of the ConfigMaps that hold a policy: the namespaces whose applications may name it, separated by commas.
pub const NAMESPACES: &str = "cairn.dev/namespaces";
/// Label of the ConfigMaps that hold a policy; its value is one of [`POLICY_VALUES`].
pub const POLICY: &str = "cairn.dev/policy";
/// The values of that label: a policy that applications may name, and one whose program holds for all of them beside.
pub const POLICY_VALUES: [&str; 2] = ["true", ENFORCED];

/// The selector of ConfigMaps that hold a policy.
pub fn of_policies() -> String {
    format!("{POLICY} in ({})", POLICY_VALUES.join(","))
}

/// The value of that label by which a policy's program holds for every application.
pub const ENFORCED: &str = "enforced";
