//! Required affinity and anti-affinity between pods: the plug-in `InterPodAffinity` of kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};
use kube::ResourceExt;
use placement::file::{Constraint, Scope};

use crate::constraints::nodes::selectors::labels_match;
use crate::constraints::pods::mutual_affinity::mutual_affinity;
use crate::constraints::pods::peer_affinity::PeerAffinity;
use crate::constraints::pods::pod_templates::{
    ExistingPod, Implementations, Labels, PodRules, PodTemplate, PodTerm, Stage, TopologyDomains,
};
use crate::units::ZONE;

/// Constraints by pod affinity and anti-affinity, in both directions.
pub(crate) fn pod_affinity(of: &PodRules) -> Vec<Constraint> {
    let mut rules = Vec::new();
    let mut apart: Vec<(PodTerm, Implementations)> = Vec::new();
    let mut near: Vec<PeerAffinity> = Vec::new();
    let of_existing = terms_of_existing(of);
    for template in of.templates {
        for term in anti_affinity(&template.spec, of.namespace, &template.labels) {
            rules.extend(repelled_by_existing(of, template, &term));
            match apart.iter_mut().find(|(known, _)| *known == term) {
                Some((_, bound)) => bound.extend(template.implementations()),
                None => apart.push((term, template.implementations().collect())),
            }
        }
        rules.extend(repelling(of, template, &of_existing));
        let terms = affinity(&template.spec, of.namespace, &template.labels);
        if !terms.is_empty() {
            for term in &terms {
                rules.extend(without_label(of, template, term));
            }
            let joining = PeerAffinity::of(of, template, &terms);
            match near.iter_mut().find(|known| known.joins_like(&joining)) {
                Some(known) => known.implementations.extend(joining.implementations),
                None => near.push(joining),
            }
        }
    }
    rules.extend(apart.iter().filter_map(|(term, bound)| kept_apart(of, term, bound)));
    rules.extend(near.iter().flat_map(|joining| joining.constraints(of)));
    rules.extend(mutual_affinity(of, &near));
    rules
}

/// Whether required rules between pods in an application's templates select pods with these labels, in whatever namespace.
pub fn selects_pods(application: &ActorApplication, labels: &Labels) -> bool {
    let ways = application.spec.actors.iter().flat_map(|group| &group.implementations);
    ways.filter_map(|way| way.template.spec.as_ref()).any(|spec| {
        let by_terms = required_terms(spec).into_iter().flatten().map(|term| term.label_selector.as_ref());
        let spreads = spec.topology_spread_constraints.iter().flatten().map(|it| it.label_selector.as_ref());
        by_terms.chain(spreads).flatten().any(|selector| labels_match(selector, labels))
    })
}

/// The required terms of affinity, and those of anti-affinity.
pub(crate) fn required_terms(spec: &PodSpec) -> [&[PodAffinityTerm]; 2] {
    let near = spec.affinity.as_ref().and_then(|of| of.pod_affinity.as_ref());
    let apart = spec.affinity.as_ref().and_then(|of| of.pod_anti_affinity.as_ref());
    let near = near.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_deref());
    let apart = apart.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_deref());
    [near, apart].map(Option::unwrap_or_default)
}

pub(crate) fn anti_affinity(spec: &PodSpec, namespace: &str, labels: &Labels) -> Vec<PodTerm> {
    let [_, apart] = required_terms(spec);
    terms(apart, namespace, labels)
}

fn affinity(spec: &PodSpec, namespace: &str, labels: &Labels) -> Vec<PodTerm> {
    let [near, _] = required_terms(spec);
    terms(near, namespace, labels)
}

fn terms(given: &[PodAffinityTerm], namespace: &str, labels: &Labels) -> Vec<PodTerm> {
    given.iter().map(|term| PodTerm::of(term, namespace, labels)).collect()
}

/// Existing pods that the template's anti-affinity selects.
fn repelled_by_existing(of: &PodRules, template: &PodTemplate, term: &PodTerm) -> Option<Constraint> {
    let domains = TopologyDomains::of(of.index, &term.topology_key, |_| true);
    let selected = of.repelling().filter(|pod| term.matches(of.index, pod.namespace, &pod.labels));
    let taken: BTreeSet<&str> = selected.filter_map(|pod| domains.at(pod.node)).collect();
    let reason = format!("anti-affinity to existing {} by {}", term.pods(), term.topology_key);
    template.never_on(of.offer, reason, |node| domains.at(node).is_some_and(|at| taken.contains(at)))
}

/// The anti-affinity of existing pods.
fn terms_of_existing<'a>(of: &'a PodRules<'a>) -> Vec<(&'a ExistingPod<'a>, PodTerm)> {
    // The API server has merged `matchLabelKeys` into the selectors of real pods.
    let merged = Labels::new();
    let of_pod = |pod: &'a ExistingPod<'a>| {
        let labels: &Labels = if pod.stage == Stage::Decided { &pod.labels } else { &merged };
        let terms = anti_affinity(&pod.spec, pod.namespace, labels);
        terms.into_iter().map(move |term| (pod, term))
    };
    of.repelling().flat_map(of_pod).collect()
}

/// Existing pods whose anti-affinity selects the template's pods.
fn repelling(
    of: &PodRules,
    template: &PodTemplate,
    of_existing: &[(&ExistingPod, PodTerm)],
) -> Vec<Constraint> {
    // By topology key and pod. Pods of other namespaces have no name: the reason is shown to users of this one.
    let mut nodes: BTreeMap<(&str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
    for (pod, term) in of_existing {
        if term.matches(of.index, of.namespace, &template.labels) {
            let name = (pod.namespace == of.namespace).then_some(pod.name.as_str());
            nodes.entry((&term.topology_key, name)).or_default().insert(pod.node);
        }
    }
    // A pod may have many terms with labels that no node has.
    let mut of_key: BTreeMap<&str, TopologyDomains> = BTreeMap::new();
    let mut rules = Vec::new();
    for ((key, pod), at) in nodes {
        let domains = of_key.entry(key).or_insert_with(|| TopologyDomains::of(of.index, key, |_| true));
        let taken: BTreeSet<&str> = at.into_iter().filter_map(|node| domains.at(node)).collect();
        if taken.is_empty() {
            continue;
        }
        let pod = pod.map_or("a pod of another namespace".to_owned(), |name| format!("pod {name}"));
        let reason = format!("the anti-affinity of {pod} excludes the same {key}");
        let is_taken = |node: &str| domains.at(node).is_some_and(|at| taken.contains(at));
        rules.extend(template.never_on(of.offer, reason, is_taken));
    }
    rules
}

/// Implementations whose pods may not share a domain with peers.
fn kept_apart(of: &PodRules, term: &PodTerm, bound: &Implementations) -> Option<Constraint> {
    let (actors, actor_kinds) = of.actors_of(bound);
    let (peers, peer_kinds) = of.actors_of(&of.selected(std::slice::from_ref(term)));
    if peers.is_empty() || (peers.len() == 1 && peers == actors) {
        return None;
    }
    let domains = TopologyDomains::of(of.index, &term.topology_key, |_| true);
    if domains.len() == 0 {
        return None;
    }
    let reason = Some(format!("anti-affinity to {} by {}", term.pods(), term.topology_key));
    let all_known = of.offer.units.iter().all(|unit| domains.at(&unit.node).is_some());
    // `apart` would be mended at once by moving a running actor; `peers` binds only those that arrive.
    let share_one = || {
        let mut taken = BTreeSet::new();
        let pods = actors.iter().filter_map(|id| of.bound.get(id.rsplit('/').next()?));
        pods.filter_map(|pod| domains.at(pod.node()?)).any(|domain| !taken.insert(domain))
    };
    let scope = match term.topology_key.as_str() {
        _ if !all_known
            || peers != actors
            || actor_kinds.is_some()
            || peer_kinds.is_some()
            || share_one() =>
        {
            None
        }
        ZONE => Some(Scope::Zone),
        _ => domains.are_nodes().then_some(Scope::Node),
    };
    if let Some(on) = scope {
        return Some(Constraint::Apart { on, actors, reason });
    }
    let domains = domains.listed(of.offer, &BTreeMap::new());
    let max = Some(0);
    Some(Constraint::Peers {
        actors,
        peers,
        domains,
        actor_kinds,
        peer_kinds,
        max,
        skew: None,
        join: None,
        reason,
    })
}

/// Nodes without the label of a term of affinity.
fn without_label(of: &PodRules, template: &PodTemplate, term: &PodTerm) -> Option<Constraint> {
    let key = &term.topology_key;
    let reason = format!("pod affinity needs a node with the label {key}");
    let has_label = |node: &str| of.index.nodes.get(node).is_some_and(|node| node.labels().contains_key(key));
    template.never_on(of.offer, reason, |node| !has_label(node))
}
