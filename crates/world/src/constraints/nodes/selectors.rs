//! Node selectors, affinity and taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;

use crate::demand::admission::NOT_READY;

/// Taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taint by which an administrator confirms that an unreachable node is shut down.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Effect of a taint that only ranks nodes.
const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Whether labels match a selector; unknown operators never match.
pub(crate) fn labels_match(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let by_label = selector.match_labels.iter().flatten();
    let by_expression = selector.match_expressions.iter().flatten();
    by_label.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && by_expression
            .into_iter()
            .all(|e| holds(&e.operator, labels.get(&e.key), e.values.as_deref().unwrap_or_default()))
}

/// The requirements of a selector of labels, for users.
pub(crate) fn label_requirements(selector: &LabelSelector) -> Vec<String> {
    let by_label = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let by_expression = selector.match_expressions.iter().flatten().map(|of| {
        let values = of.values.as_deref().unwrap_or_default().join(",");
        format!("{} {} {values}", of.key, of.operator).trim_end().to_owned()
    });
    by_label.chain(by_expression).collect()
}

/// Why a node does not accept a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Objection {
    /// The reason, for users.
    pub reason: String,
    /// Whether running pods may stay.
    pub except_current: bool,
}

/// The first reason why a node does not accept a pod.
pub(crate) fn objection(spec: &PodSpec, node: &Node) -> Option<Objection> {
    selector_objection(spec, node)
        .map(|reason| Objection { reason, except_current: false })
        .or_else(|| taint_objection(spec, node))
}

/// Whether node selector or required node affinity reject a node.
pub(crate) fn rejects_by_selector(spec: &PodSpec, node: &Node) -> bool {
    selector_objection(spec, node).is_some()
}

/// Whether the pod tolerates all taints of a node that keep pods away.
pub(crate) fn tolerates_all(spec: &PodSpec, node: &Node) -> bool {
    let keeps_away = |taint: &&Taint| taint.effect != PREFER_NO_SCHEDULE;
    let tolerated = |taint: &Taint| spec.tolerations.iter().flatten().any(|it| tolerates(it, taint));
    taints(node).filter(keeps_away).all(tolerated)
}

/// Whether a node should rather have other pods, by a taint that the pod does not tolerate.
pub(crate) fn is_for_others(spec: &PodSpec, node: &Node) -> bool {
    let tolerated = |taint: &Taint| spec.tolerations.iter().flatten().any(|it| tolerates(it, taint));
    taints(node).any(|taint| taint.effect == PREFER_NO_SCHEDULE && !tolerated(taint))
}

fn selector_objection(spec: &PodSpec, node: &Node) -> Option<String> {
    let labels = node.labels();
    for (key, value) in spec.node_selector.iter().flatten() {
        if labels.get(key) != Some(value) {
            return Some(format!("nodeSelector {key}={value}"));
        }
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    (!selects(required, node)).then(|| "node affinity selects other nodes".to_owned())
}

/// Whether one of the terms matches the node.
pub(crate) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| node_term_matches(term, node))
}

/// Whether a node matches a term of a node selector.
fn node_term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // As in kube-scheduler, a term without requirements selects nothing.
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let name = node.name_any();
    let requirement = |r: &NodeSelectorRequirement, value| {
        holds(&r.operator, value, r.values.as_deref().unwrap_or_default())
    };
    expressions.iter().all(|r| requirement(r, node.labels().get(&r.key)))
        && fields.iter().all(|r| requirement(r, (r.key == "metadata.name").then_some(&name)))
}

fn holds(operator: &str, value: Option<&String>, values: &[String]) -> bool {
    let number = |text: &String| text.parse::<i64>().ok();
    match operator {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => {
            matches!((value.and_then(number), values.first().and_then(number)), (Some(a), Some(b)) if a > b)
        }
        "Lt" => {
            matches!((value.and_then(number), values.first().and_then(number)), (Some(a), Some(b)) if a < b)
        }
        _ => false,
    }
}

fn taint_objection(spec: &PodSpec, node: &Node) -> Option<Objection> {
    let node_spec = node.spec.as_ref()?;
    let name = node.name_any();
    let tolerated = |taint: &Taint| spec.tolerations.iter().flatten().any(|t| tolerates(t, taint));
    let refused = |taint: &&Taint| taint.effect != PREFER_NO_SCHEDULE && !tolerated(taint);
    // The strictest taint decides whether running pods may stay; a cordon lets them.
    let taint =
        node_spec.taints.iter().flatten().filter(refused).max_by_key(|taint| !lets_running_pods_stay(taint));
    let cordon = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let is_cordoned = node_spec.unschedulable == Some(true) && !tolerated(&cordon);
    if is_cordoned && taint.is_none_or(lets_running_pods_stay) {
        return Some(Objection { reason: format!("{name} is cordoned"), except_current: true });
    }
    let taint = taint?;
    let reason = if NOT_READY.contains(&taint.key.as_str()) {
        format!("{name} is not ready")
    } else {
        let value = taint.value.as_ref().map_or(String::new(), |value| format!("={value}"));
        format!("taint {}{value}:{} of {name}", taint.key, taint.effect)
    };
    Some(Objection { reason, except_current: lets_running_pods_stay(taint) })
}

/// Why a pod that the node accepts is evicted after some time: it tolerates a taint for so long only.
pub(crate) fn evicted_after(spec: &PodSpec, node: &Node) -> Option<String> {
    // Of several tolerations of a taint, the taint eviction controller uses the first.
    let after = |taint: &Taint| {
        let first = spec.tolerations.iter().flatten().find(|it| tolerates(it, taint))?;
        Some(first.toleration_seconds?.max(0))
    };
    let evicting = taints(node).filter(|taint| taint.effect == "NoExecute");
    let limited = evicting.filter_map(|taint| Some((after(taint)?, taint)));
    let (seconds, taint) = limited.min_by_key(|(seconds, _)| *seconds)?;
    Some(format!(
        "taint {}:NoExecute of {} evicts the pod after {seconds} s, and other nodes have room",
        taint.key,
        node.name_any()
    ))
}

/// Whether the node lifecycle controller considers a node not ready.
pub(crate) fn is_not_ready(node: &Node) -> bool {
    not_ready_taints(node).next().is_some()
}

/// Taints of an unreachable node.
pub(crate) fn not_ready_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    taints(node).filter(|taint| NOT_READY.contains(&taint.key.as_str()))
}

/// Whether an administrator confirmed that all pods of a node have ended.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    taints(node).any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Whether a node may reject new pods.
pub(crate) fn has_repelling_taint(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    is_cordoned || taints(node).any(|taint| taint.effect != PREFER_NO_SCHEDULE)
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten())
}

fn lets_running_pods_stay(taint: &Taint) -> bool {
    taint.effect != "NoExecute" || NOT_READY.contains(&taint.key.as_str())
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let has_value = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => value == taint.value.as_deref().unwrap_or_default(),
        // `Lt` and `Gt` are behind a feature gate that is off by default.
        operator => operator == Some("Exists"),
    };
    (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key) && has_value
}
