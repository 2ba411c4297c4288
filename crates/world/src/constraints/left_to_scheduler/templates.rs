//! Rules of pod templates that plans do not model.

use std::collections::{BTreeMap, BTreeSet};

use crds::{ActorApplication, Implementation};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::Index;
use crate::constraints::admission::priorities::{lowest_running_priority, named_class, priority_of};
use crate::constraints::nodes::selectors::is_for_others;
use crate::demand::actors::ApplicationActors;
use crate::demand::pods::{is_terminal, requests};
use crate::index::ownership::Ownership;
use crate::units::offer::Offer;
use crate::units::unit::Unit;

/// What the rules of templates depend on.
struct Cluster<'a> {
    index: &'a Index,
    /// The lowest priority of a running pod.
    lowest: Option<i32>,
    /// Priorities of foreign pods that wait on a node until those that they preempt have ended.
    nominated: BTreeSet<i32>,
    /// Units on nodes that should rather have other pods, by a taint that not all pods tolerate.
    avoided: Vec<&'a Unit>,
}

/// What only kube-scheduler or the kubelet evaluates of the templates, each as a sentence.
pub(super) fn left_of_templates(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    offer: &Offer,
) -> Vec<String> {
    let is_avoided = |unit: &&Unit| {
        index.nodes.get(&unit.node).is_some_and(|node| is_for_others(&PodSpec::default(), node))
    };
    let avoided = offer.units.iter().filter(is_avoided).collect();
    let cluster =
        Cluster { index, lowest: lowest_running_priority(index), nominated: nominated(index), avoided };
    let mut found = Vec::new();
    for group in &application.spec.actors {
        for way in &group.implementations {
            let left = way.template.spec.iter().flat_map(|spec| rules(&cluster, spec));
            let preferred = prefers_other_nodes(&cluster, actors, way)
                .then_some("PreferNoSchedule taints of nodes (not considered)");
            found.extend(left.chain(preferred).map(|rule| format!("{}: {rule}", group.name)));
        }
    }
    found
}

/// kube-scheduler keeps their room from pods with at most their priority.
fn nominated(index: &Index) -> BTreeSet<i32> {
    let priority = |pod: &Pod| {
        let spec = pod.spec.as_ref().filter(|spec| spec.node_name.is_none())?;
        let node = pod.status.as_ref()?.nominated_node_name.as_ref()?;
        let is_own = || matches!(index.owner_of_pod(pod), Ownership::OwnedBy(_));
        let waits = !node.is_empty() && !is_terminal(pod) && !is_own();
        waits.then_some(spec.priority.unwrap_or(0))
    };
    index.pods.values().filter_map(|held| priority(&held.pod)).collect()
}

/// Whether taints of nodes only rank them lower. Pods are pinned, so no other node is ranked.
fn prefers_other_nodes(cluster: &Cluster, actors: &ApplicationActors, way: &Implementation) -> bool {
    let mut by_pool: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for unit in cluster.avoided.iter().filter(|unit| unit.kind == way.kind) {
        by_pool.entry(&unit.pool).or_default().insert(&unit.node);
    }
    by_pool.into_iter().any(|(pool, nodes)| {
        let pool = cluster.index.pool(pool).map(AsRef::as_ref);
        let spec = actors.admission.spec(way.template.spec.as_ref(), pool);
        let mut nodes = nodes.into_iter().filter_map(|node| cluster.index.nodes.get(node));
        nodes.any(|node| is_for_others(&spec, node))
    })
}

/// Whether its exit may restart the whole pod, which only some nodes can do.
fn restarts_all_containers(container: &Container) -> bool {
    container.restart_policy_rules.iter().flatten().any(|rule| rule.action == "RestartAllContainers")
}

fn rules(cluster: &Cluster, spec: &PodSpec) -> Vec<&'static str> {
    let index = cluster.index;
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
    let priority = priority_of(index, spec);
    let may_preempt = match &priority {
        Some(priority) => priority.preempts() && cluster.lowest.is_some_and(|lowest| lowest < priority.value),
        // The class cannot be read; one that does not exist is an obstacle.
        None => {
            index.scheduling.is_unknown::<PriorityClass>()
                && named_class(spec).is_some()
                && spec.preemption_policy.as_deref() != Some("Never")
        }
    };
    // Plans count nominated pods as if the template had priority 0.
    let counts_otherwise =
        |own: i32| cluster.nominated.iter().any(|nominated| (*nominated >= own) != (*nominated >= 0));
    let is_near_nominated = match &priority {
        Some(priority) => counts_otherwise(priority.value),
        None => !cluster.nominated.is_empty(),
    };
    let needs_feature = spec.host_network == Some(true) && spec.host_users == Some(false)
        || spec.init_containers.iter().flatten().chain(&spec.containers).any(restarts_all_containers);
    let needs_device = spec.resource_claims.as_ref().is_some_and(|all| !all.is_empty());
    let requests = requests(spec).unwrap_or_default();
    let needs_device =
        needs_device || requests.keys().any(|resource| index.scheduling.class_serving(resource).is_some());
    [
        (prefers_nodes, "preferred node affinity (not considered)"),
        (prefers_pods, "preferred pod affinity or anti-affinity (not considered)"),
        (prefers_spread, "topology spread with ScheduleAnyway (not considered)"),
        (may_preempt, "preemption of pods with a lower priority"),
        (is_near_nominated, "nominated pods of other priorities"),
        (needs_device, "the device of a resource claim"),
        (needs_feature, "features that nodes declare"),
    ]
    .into_iter()
    .filter_map(|(applies, rule)| applies.then_some(rule))
    .collect()
}
