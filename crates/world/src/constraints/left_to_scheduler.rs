//! Rules of templates that plans do not model.

use std::collections::BTreeSet;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::PodSpec;

/// The rules of an application's templates that only kube-scheduler evaluates, each as a sentence.
pub(crate) fn left_to_scheduler(application: &ActorApplication) -> Vec<String> {
    let mut found = BTreeSet::new();
    for group in &application.spec.actors {
        for implementation in &group.implementations {
            let Some(spec) = &implementation.template.spec else { continue };
            found.extend(rules(spec).into_iter().map(|rule| format!("{}: {rule}", group.name)));
        }
    }
    found.into_iter().collect()
}

fn rules(spec: &PodSpec) -> Vec<&'static str> {
    let affinity = spec.affinity.as_ref();
    let prefers_nodes = affinity.and_then(|of| of.node_affinity.as_ref()).is_some_and(|of| {
        of.preferred_during_scheduling_ignored_during_execution.as_ref().is_some_and(|all| !all.is_empty())
    });
    let prefers_pods = affinity.is_some_and(|of| {
        let near = of
            .pod_affinity
            .as_ref()
            .and_then(|of| of.preferred_during_scheduling_ignored_during_execution.as_ref());
        let apart = of
            .pod_anti_affinity
            .as_ref()
            .and_then(|of| of.preferred_during_scheduling_ignored_during_execution.as_ref());
        [near, apart].into_iter().flatten().any(|all| !all.is_empty())
    });
    let spreads = spec.topology_spread_constraints.iter().flatten();
    let prefers_spread = spreads.into_iter().any(|of| of.when_unsatisfiable == "ScheduleAnyway");
    let has_priority = spec.priority_class_name.as_ref().is_some_and(|name| !name.is_empty())
        && spec.preemption_policy.as_deref() != Some("Never");
    let names_actor = {
        let text = serde_json::to_string(&(affinity, &spec.topology_spread_constraints)).unwrap_or_default();
        text.contains(&format!("\"{}\"", crds::labels::ACTOR))
    };
    [
        (prefers_nodes, "preferred node affinity"),
        (prefers_pods, "preferred pod affinity or anti-affinity"),
        (prefers_spread, "topology spread with ScheduleAnyway"),
        (has_priority, "preemption of pods with a lower priority"),
        (spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty()), "the device of a resource claim"),
        (names_actor, "selectors by the label of a single actor"),
    ]
    .into_iter()
    .filter_map(|(applies, rule)| applies.then_some(rule))
    .collect()
}
