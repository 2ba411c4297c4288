//! Priorities of pods, as the admission plugin `Priority` resolves them.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::ResourceExt;

use crate::Index;

/// Priority classes that every API server creates.
const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
/// The default preemption policy.
const PREEMPTS: &str = "PreemptLowerPriority";

/// The priority that admission gives to a pod.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    pub value: i32,
    pub preemption_policy: String,
    /// The `PriorityClass` that sets both.
    pub class: Option<String>,
}

impl Priority {
    fn of_class(class: &PriorityClass) -> Self {
        let preemption_policy = class.preemption_policy.clone().unwrap_or_else(|| PREEMPTS.to_owned());
        Self { value: class.value.unwrap_or(0), preemption_policy, class: Some(class.name_any()) }
    }

    /// Whether pods with this priority preempt others.
    pub fn preempts(&self) -> bool {
        self.preemption_policy != "Never"
    }
}

/// Whether every API server has this `PriorityClass`.
pub(crate) fn is_system_class(name: &str) -> bool {
    SYSTEM_PRIORITIES.iter().any(|(system, _)| *system == name)
}

/// The `PriorityClass` that a spec names.
pub(crate) fn named_class(spec: &PodSpec) -> Option<&String> {
    spec.priority_class_name.as_ref().filter(|name| !name.is_empty())
}

/// The priority of pods with this spec, unless its class does not exist or cannot be read.
pub(crate) fn priority_of(index: &Index, spec: &PodSpec) -> Option<Priority> {
    let classes = &index.scheduling.priority_classes;
    let class = match named_class(spec) {
        Some(name) => classes.get(name),
        None => classes
            .values()
            .filter(|it| it.global_default == Some(true))
            .min_by_key(|it| it.value.unwrap_or(0)),
    };
    if let Some(class) = class {
        return Some(Priority::of_class(class));
    }
    let value = match named_class(spec) {
        Some(name) => SYSTEM_PRIORITIES.iter().find(|(system, _)| system == name)?.1,
        None if index.scheduling.is_unknown::<PriorityClass>() => return None,
        None => 0,
    };
    Some(Priority { value, preemption_policy: PREEMPTS.to_owned(), class: named_class(spec).cloned() })
}

/// The lowest priority of a running pod.
pub(crate) fn lowest_running_priority(index: &Index) -> Option<i32> {
    let active = index.pods.values().filter(|held| held.node.is_some());
    let specs = active.filter_map(|held| held.pod.spec.as_ref()).filter(|spec| spec.node_name.is_some());
    specs.map(|spec| spec.priority.unwrap_or(0)).min()
}
