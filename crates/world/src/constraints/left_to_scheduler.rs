//! Rules of templates and quotas that plans do not model.

use std::collections::BTreeSet;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::ResourceExt;

use crate::Index;
use crate::constraints::admission::claim_quotas::ClaimQuota;
use crate::constraints::admission::priorities::{lowest_running_priority, named_class, priority_of};
use crate::constraints::admission::quotas::{Counted, counted};
use crate::constraints::admission::resource_limits::is_unscoped;
use crate::constraints::volumes::volume_choice::undecided_volumes;
use crate::demand::actors::ApplicationActors;
use crate::demand::pods::requests;
use crate::index::names::namespace_of;

/// The rules for an application's pods that only kube-scheduler or admission evaluates, each as a sentence.
pub(crate) fn left_to_scheduler(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
) -> Vec<String> {
    let mut found: BTreeSet<String> = index
        .quotas_of(&namespace_of(application))
        .flat_map(|quota| left_of_quota(index, (application, actors), quota))
        .collect();
    let lowest = lowest_running_priority(index);
    for group in &application.spec.actors {
        for implementation in &group.implementations {
            let Some(spec) = &implementation.template.spec else { continue };
            found
                .extend(rules(index, lowest, spec).into_iter().map(|rule| format!("{}: {rule}", group.name)));
        }
    }
    found.extend(undecided_volumes(index, (application, actors)));
    found.into_iter().collect()
}

/// What only admission counts of a quota.
fn left_of_quota(
    index: &Index,
    own: (&ActorApplication, &ApplicationActors),
    quota: &ResourceQuota,
) -> Vec<String> {
    let name = quota.name_any();
    if !is_unscoped(quota) {
        return vec![format!("ResourceQuota {name}: its scopes")];
    }
    let hard = quota.spec.iter().filter_map(|spec| spec.hard.as_ref()).flat_map(|hard| hard.keys());
    let is_left = |name: &str| match ClaimQuota::of(index, name) {
        Some(of_claims) => of_claims.is_left(index, own),
        None => matches!(counted(name), Counted::ByAdmission),
    };
    let left = hard.filter(|name| is_left(name));
    left.map(|counted| format!("ResourceQuota {name}: the sum of {counted}")).collect()
}

/// Whether its exit may restart the whole pod, which only some nodes can do.
fn restarts_all_containers(container: &Container) -> bool {
    container.restart_policy_rules.iter().flatten().any(|rule| rule.action == "RestartAllContainers")
}

/// `lowest` is the lowest priority of a running pod.
fn rules(index: &Index, lowest: Option<i32>, spec: &PodSpec) -> Vec<&'static str> {
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
    let may_preempt = match priority_of(index, spec) {
        Some(priority) => priority.preempts() && lowest.is_some_and(|lowest| lowest < priority.value),
        // The class cannot be read; one that does not exist is an obstacle.
        None => {
            index.scheduling.is_unknown::<PriorityClass>()
                && named_class(spec).is_some()
                && spec.preemption_policy.as_deref() != Some("Never")
        }
    };
    let needs_feature = spec.host_network == Some(true) && spec.host_users == Some(false)
        || spec.init_containers.iter().flatten().chain(&spec.containers).any(restarts_all_containers);
    let names_actor = {
        let text = serde_json::to_string(&(affinity, &spec.topology_spread_constraints)).unwrap_or_default();
        text.contains(&format!("\"{}\"", crds::labels::ACTOR))
    };
    let needs_device = spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty());
    let requests = requests(spec).unwrap_or_default();
    let needs_device =
        needs_device || requests.keys().any(|resource| index.scheduling.class_serving(resource).is_some());
    [
        (prefers_nodes, "preferred node affinity"),
        (prefers_pods, "preferred pod affinity or anti-affinity"),
        (prefers_spread, "topology spread with ScheduleAnyway"),
        (may_preempt, "preemption of pods with a lower priority"),
        (needs_device, "the device of a resource claim"),
        (needs_feature, "features that nodes declare"),
        (names_actor, "selectors by the label of a single actor"),
    ]
    .into_iter()
    .filter_map(|(applies, rule)| applies.then_some(rule))
    .collect()
}
