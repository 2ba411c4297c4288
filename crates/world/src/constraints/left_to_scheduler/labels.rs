//! Selectors of pods by labels that templates do not have: those of a single actor, and those of its node.

use std::collections::BTreeSet;

use crds::labels;
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::Index;
use crate::constraints::pods::pod_affinity::required_terms;
use crate::constraints::pods::pod_templates::{Labels, PodTemplate, PodTerm};
use crate::demand::pods::is_terminal;
use crate::units::ZONE;

/// Labels with another value for each actor.
const OF_ACTOR: [&str; 2] = [labels::ACTOR, labels::INSTANCE];
/// Labels that the admission plugin `PodTopologyLabels` copies from the node when a pod is bound.
const OF_NODE: [&str; 2] = [ZONE, "topology.kubernetes.io/region"];

/// The rules that select pods by labels that plans do not know, each as a sentence.
pub(super) fn left_of_labels(index: &Index, namespace: &str, templates: &[PodTemplate]) -> Vec<String> {
    let foreign = foreign_terms(index);
    let mut found = Vec::new();
    for template in templates {
        let keys = selecting_keys(&template.spec);
        let names = |some: &[&str]| some.iter().any(|key| keys.contains(key));
        let selects = |term: &PodTerm| term.matches(index, namespace, &template.labels);
        let left = [
            (names(&OF_ACTOR), "selectors by the label of a single actor"),
            (names(&OF_NODE), "selectors by the zone or region of pods"),
            (foreign.iter().any(selects), "anti-affinity of existing pods by the label of a single actor"),
        ];
        let left = left.into_iter().filter(|(applies, _)| *applies);
        found.extend(left.map(|(_, rule)| format!("{}: {rule}", template.group())));
    }
    found
}

/// The anti-affinity of existing pods that selects by labels of actors, without the requirements on these labels.
fn foreign_terms(index: &Index) -> Vec<PodTerm> {
    let mut found = Vec::new();
    for ((namespace, _), held) in index.pods.iter().filter(|(_, held)| !is_terminal(&held.pod)) {
        let terms = held.pod.spec.iter().flat_map(|spec| {
            let [_, apart] = required_terms(spec);
            apart
        });
        for term in terms.filter(|term| OF_ACTOR.iter().any(|key| keys_of_term(term).any(|it| it == *key))) {
            let mut term = term.clone();
            if let Some(selector) = &mut term.label_selector {
                let is_known = |key: &str| !OF_ACTOR.contains(&key);
                selector.match_labels.iter_mut().for_each(|labels| labels.retain(|key, _| is_known(key)));
                selector.match_expressions.iter_mut().for_each(|all| all.retain(|it| is_known(&it.key)));
            }
            found.push(PodTerm::of(&term, namespace, &Labels::new()));
        }
    }
    found
}

/// Keys of labels by which the required rules of a template select pods.
fn selecting_keys(spec: &PodSpec) -> BTreeSet<&str> {
    let spreads = spec.topology_spread_constraints.iter().flatten();
    let spreads = spreads.filter(|it| it.when_unsatisfiable == "DoNotSchedule").flat_map(|it| {
        let merged = it.match_label_keys.iter().flatten().map(String::as_str);
        keys(it.label_selector.as_ref()).chain(merged)
    });
    required_terms(spec).into_iter().flatten().flat_map(keys_of_term).chain(spreads).collect()
}

fn keys_of_term(term: &PodAffinityTerm) -> impl Iterator<Item = &str> {
    let merged = [&term.match_label_keys, &term.mismatch_label_keys].into_iter().flatten().flatten();
    keys(term.label_selector.as_ref()).chain(merged.map(String::as_str))
}

fn keys(selector: Option<&LabelSelector>) -> impl Iterator<Item = &str> {
    selector.into_iter().flat_map(|selector| {
        let labels = selector.match_labels.iter().flatten().map(|(key, _)| key.as_str());
        labels.chain(selector.match_expressions.iter().flatten().map(|it| it.key.as_str()))
    })
}
