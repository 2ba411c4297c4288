//! `topologySpreadConstraints` with `DoNotSchedule`: the plug-in `PodTopologySpread` of kube-scheduler.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, PodSpec, TopologySpreadConstraint};
use kube::ResourceExt;
use placement::file::{Constraint, Domain};

use crate::constraints::pod_templates::{PodRules, PodTemplate, PodTerm, TopologyDomains};
use crate::constraints::selectors::{rejects_by_selector, tolerates_all};
use crate::demand::requested::admission;
use crate::units::unit::Unit;

/// A spread with equal peers and domains binds several groups together.
type Bound = (Vec<String>, Vec<Domain>, u64, String);

/// Constraints by required spreads.
pub(crate) fn topology_spread(of: &PodRules) -> Vec<Constraint> {
    let index = of.index;
    let mut rules = Vec::new();
    let mut bound: Vec<(Bound, BTreeSet<String>)> = Vec::new();
    for template in of.templates {
        let all: Vec<&TopologySpreadConstraint> = required(template).collect();
        let has_keys = |node: &Node| all.iter().all(|it| node.labels().contains_key(&it.topology_key));
        if all.is_empty() {
            continue;
        }
        let keys: BTreeSet<&str> = all.iter().map(|it| it.topology_key.as_str()).collect();
        let keys = keys.into_iter().collect::<Vec<_>>().join(" and ");
        let reason = format!("topology spread needs a node with the label {keys}");
        let lacks = |node: &str| index.nodes.get(node).is_none_or(|node| !has_keys(node));
        rules.extend(template.never_on(of.offer, reason, lacks));
        let specs = pooled_specs(of, template);
        // Pools restrict actors to nodes as a node selector does.
        let own: BTreeSet<&str> = own_units(of, template).map(|unit| unit.node.as_str()).collect();
        for (spread, spec) in all.iter().flat_map(|spread| specs.iter().map(move |spec| (spread, spec))) {
            let of_pod = (of.namespace, &template.labels);
            let keys = spread.match_label_keys.as_deref();
            let term =
                PodTerm::in_namespace(spread.label_selector.as_ref(), keys, &spread.topology_key, of_pod);
            let honors =
                |policy: Option<&String>, default: bool| policy.map_or(default, |policy| policy == "Honor");
            let by_affinity = honors(spread.node_affinity_policy.as_ref(), true);
            let by_taints = honors(spread.node_taints_policy.as_ref(), false);
            let has_own = |node: &Node| node.metadata.name.as_deref().is_some_and(|name| own.contains(name));
            let is_eligible = |node: &Node| {
                has_keys(node)
                    && (!by_affinity || has_own(node) && !rejects_by_selector(spec, node))
                    && (!by_taints || tolerates_all(spec, node))
            };
            let domains = TopologyDomains::of(index, &spread.topology_key, is_eligible);
            let counted = of
                .existing
                .iter()
                .filter(|pod| !pod.is_terminating && term.matches(index, pod.namespace, &pod.labels));
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
            let key = (peers.into_iter().collect(), listed, skew, reason);
            match bound.iter_mut().find(|(known, _)| *known == key) {
                Some((_, actors)) => actors.extend(template.ids.iter().cloned()),
                None => bound.push((key, template.ids.iter().cloned().collect())),
            }
        }
    }
    rules.extend(bound.into_iter().map(|((peers, domains, skew, reason), actors)| Constraint::Peers {
        actors: actors.into_iter().collect(),
        peers,
        domains,
        max: None,
        skew: Some(skew),
        join: None,
        reason: Some(reason),
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
