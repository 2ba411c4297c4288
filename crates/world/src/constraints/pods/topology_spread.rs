//! `topologySpreadConstraints` with `DoNotSchedule`: the plug-in `PodTopologySpread` of kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PodSpec, TopologySpreadConstraint};
use kube::ResourceExt;
use placement::file::{Constraint, Domain};

use crate::constraints::nodes::selectors::{rejects_by_selector, tolerates_all};
use crate::constraints::pods::pod_templates::{
    Implementations, PodRules, PodTemplate, PodTerm, Stage, TopologyDomains,
};
use crate::demand::requested::admission;
use crate::units::unit::Unit;

/// A spread with equal peers and domains binds several templates together. Its reason comes first: it mostly tells spreads apart.
type SpreadKey<'a> = (String, u64, Implementations<'a>, BTreeSet<&'a str>, Vec<Domain>);

/// Constraints by required spreads.
pub(crate) fn topology_spread(of: &PodRules) -> Vec<Constraint> {
    let index = of.index;
    let mut rules = Vec::new();
    let mut bound: Vec<(SpreadKey, Implementations)> = Vec::new();
    for template in of.templates {
        let all: Vec<&TopologySpreadConstraint> = required(template).collect();
        if all.is_empty() {
            continue;
        }
        let keys: BTreeSet<&str> = all.iter().map(|it| it.topology_key.as_str()).collect();
        let has_keys = |node: &Node| keys.iter().all(|key| node.labels().contains_key(*key));
        let with_keys = index.nodes.iter().filter(|(_, node)| has_keys(node));
        let with_keys: BTreeSet<&str> = with_keys.map(|(name, _)| name.as_str()).collect();
        let listed: Vec<&str> = keys.iter().copied().collect();
        let reason = format!("topology spread needs a node with the label {}", listed.join(" and "));
        rules.extend(template.never_on(of.offer, reason, |node| !with_keys.contains(node)));
        // Pools restrict actors to nodes as a node selector does.
        let own: BTreeSet<&str> = own_units(of, template).map(|unit| unit.node.as_str()).collect();
        let specs = pooled_specs(of, template);
        // By whether the pods may come by affinity, and by taints.
        let facts = |spec: &PodSpec| -> BTreeMap<&str, (bool, bool)> {
            let nodes = with_keys.iter().filter_map(|name| Some((*name, index.nodes.get(*name)?)));
            let of_node = |name, node: &Node| {
                let by_affinity = own.contains(name) && !rejects_by_selector(spec, node);
                (name, (by_affinity, tolerates_all(spec, node)))
            };
            nodes.map(|(name, node)| of_node(name, node)).collect()
        };
        let facts: Vec<_> = specs.iter().map(facts).collect();
        for (spread, facts) in all.iter().flat_map(|spread| facts.iter().map(move |facts| (spread, facts))) {
            let of_pod = (of.namespace, &template.labels);
            let keys = spread.match_label_keys.as_deref();
            let term =
                PodTerm::in_namespace(spread.label_selector.as_ref(), keys, &spread.topology_key, of_pod);
            // kube-scheduler counts no pods by an empty selector, so the skew is never above 1.
            if term.is_empty() {
                continue;
            }
            let honors =
                |policy: Option<&String>, default: bool| policy.map_or(default, |policy| policy == "Honor");
            let by_affinity = honors(spread.node_affinity_policy.as_ref(), true);
            let by_taints = honors(spread.node_taints_policy.as_ref(), false);
            let is_eligible = |node: &Node| {
                let facts = node.metadata.name.as_deref().and_then(|name| facts.get(name));
                facts.is_some_and(|(affine, tolerated)| {
                    (!by_affinity || *affine) && (!by_taints || *tolerated)
                })
            };
            let domains = TopologyDomains::of(index, &spread.topology_key, is_eligible);
            let counted = of.existing.iter().filter(|pod| {
                !matches!(pod.stage, Stage::Terminating | Stage::Leaving)
                    && term.matches(index, pod.namespace, &pod.labels)
            });
            let others = domains.count(counted);
            let peers = of.selected(std::slice::from_ref(&term));
            let mut listed = domains.listed(of.offer, &others);
            // With fewer domains the fewest pods of a domain count as none.
            if domains.len() < usize::try_from(spread.min_domains.unwrap_or(1)).unwrap_or(1) {
                listed.push(Domain::default());
            }
            let skew = u64::try_from(spread.max_skew).unwrap_or(1);
            let reason =
                format!("topology spread of {} by {}, maxSkew {skew}", term.pods(), spread.topology_key);
            let not_yet = of.not_selected_yet(std::slice::from_ref(&term));
            let key = (reason, skew, peers, not_yet, listed);
            match bound.iter_mut().find(|(known, _)| *known == key) {
                Some((_, bound)) => bound.extend(template.implementations()),
                None => bound.push((key, template.implementations().collect())),
            }
        }
    }
    rules.extend(bound.into_iter().map(|((reason, skew, peers, not_yet, domains), bound)| {
        let (actors, actor_kinds) = of.actors_of(&bound);
        let (peers, peer_kinds) = of.peers_of(&peers, &not_yet);
        Constraint::Peers {
            actors,
            peers,
            domains,
            actor_kinds,
            peer_kinds,
            max: None,
            skew: Some(skew),
            join: None,
            reason: Some(reason),
        }
    }));
    rules
}

/// The template's spec in its pools, each that selects or tolerates other nodes.
fn pooled_specs(of: &PodRules, template: &PodTemplate) -> Vec<PodSpec> {
    let admission = admission(of.index, of.namespace);
    let pools: BTreeSet<&str> = own_units(of, template).map(|unit| unit.pool.as_str()).collect();
    let mut specs: Vec<PodSpec> = Vec::new();
    for pool in pools.into_iter().filter_map(|pool| of.index.pool(pool)) {
        let spec = admission.spec(Some(&template.spec), Some(pool.as_ref()));
        let is_known = |known: &PodSpec| {
            known.node_selector == spec.node_selector && known.tolerations == spec.tolerations
        };
        if !specs.iter().any(is_known) {
            specs.push(spec);
        }
    }
    if specs.is_empty() {
        specs.push(template.spec.clone());
    }
    specs
}

fn own_units<'a>(of: &PodRules<'a>, template: &PodTemplate) -> impl Iterator<Item = &'a Unit> {
    of.offer.units.iter().filter(move |unit| template.kinds.contains(unit.kind.as_str()))
}

fn required<'a>(template: &'a PodTemplate) -> impl Iterator<Item = &'a TopologySpreadConstraint> {
    let all = template.spec.topology_spread_constraints.iter().flatten();
    all.filter(|it| it.when_unsatisfiable == "DoNotSchedule")
}
