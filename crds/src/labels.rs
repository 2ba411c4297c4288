//! Labels and annotations that Cairn sets or reads.

use std::collections::BTreeMap;

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
/// Label of Namespaces: the highest priority that counts of applications in it.
pub const MAX_PRIORITY: &str = "cairn.dev/max-priority";
/// Label of policy ConfigMaps; its value is one of [`POLICY_VALUES`].
pub const POLICY: &str = "cairn.dev/policy";
/// The values of [`POLICY`]: a policy that applications can select, and one that is enforced for all applications.
pub const POLICY_VALUES: [&str; 2] = ["true", ENFORCED];

/// Annotation of applications and templates: actors move only when they must, never for a gain.
pub const DO_NOT_MOVE: &str = "cairn.dev/do-not-move";
/// Annotation of applications and templates: actors with claims or `hostPath` volumes may move for a gain, too.
pub const MAY_MOVE: &str = "cairn.dev/may-move";

/// Label of `ControllerRevisions` that hold a version of a policy: its number.
pub const POLICY_VERSION: &str = "cairn.dev/policy-version";

/// Label of `ControllerRevisions`: with the value [`MOVES`] it is a decision that moved actors.
pub const HISTORY: &str = "cairn.dev/history";
/// The value of [`HISTORY`] of decisions that moved actors.
pub const MOVES: &str = "moves";
/// Annotation of these revisions: the outcome of the moves, in JSON.
pub const OUTCOME: &str = "cairn.dev/outcome";

/// The label selector of policy ConfigMaps.
pub fn policy_selector() -> String {
    format!("{POLICY} in ({})", POLICY_VALUES.join(","))
}

/// The value of [`POLICY`] that enforces a policy's program for every application.
pub const ENFORCED: &str = "enforced";

/// The prefix of the Node labels by which NVIDIA's GPU operator deploys its components.
const GPU_OPERATOR: &str = "nvidia.com/gpu.deploy.";
/// The part of such a label's value while the operator upgrades the driver or repartitions GPUs: `paused-for-driver-upgrade`,
/// `paused-for-mig-change`, after a value of the user's and `_` if there was one.
const PAUSED: &str = "paused-for-";

/// Whether a label of a Node may tell agents to close their handles of the GPU drivers.
pub fn is_about_drivers(label: &str) -> bool {
    label == GPU_DRIVER || label.starts_with(GPU_OPERATOR)
}

/// Whether a Node's labels tell agents to close their handles of the GPU drivers: by the label of Cairn, or because NVIDIA's GPU
/// operator has paused a component, which it does before it unloads the driver.
pub fn releases_drivers(labels: &BTreeMap<String, String>) -> bool {
    let is_paused =
        |(label, value): (&String, &String)| label.starts_with(GPU_OPERATOR) && value.contains(PAUSED);
    labels.get(GPU_DRIVER).is_some_and(|value| value == RELEASED) || labels.iter().any(is_paused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_released_by_our_label_or_by_a_paused_component_of_the_gpu_operator() {
        for (label, value, expected) in [
            ("cairn.dev/gpu-driver", "released", true),
            ("cairn.dev/gpu-driver", "used", false),
            ("nvidia.com/gpu.deploy.device-plugin", "paused-for-driver-upgrade", true),
            ("nvidia.com/gpu.deploy.dcgm", "mine_paused-for-mig-change", true),
            ("nvidia.com/gpu.deploy.device-plugin", "true", false),
            ("nvidia.com/gpu.present", "paused-for-driver-upgrade", false),
        ] {
            let labels = BTreeMap::from([(label.to_owned(), value.to_owned())]);
            assert_eq!(releases_drivers(&labels), expected, "{label}={value}");
            assert!(!expected || is_about_drivers(label), "{label}");
        }
    }
}
