//! Which of several existing volumes the scheduler chooses: of those that fit a claim, the smallest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::StorageClass;
use placement::file::Constraint;

use crate::Index;
use crate::constraints::pods::existing_pods::existing_pods;
use crate::constraints::pods::pod_templates::{PodRules, PodTemplate};
use crate::constraints::volumes::static_volumes::{Demand, demands};
use crate::constraints::volumes::volume_claims::{UnboundClaim, allows, can_provision, capacity, is_static};
use crate::demand::actors::ApplicationActors;
use crate::index::names::{Name, namespace_of};

/// A claim of a pod, and the volumes that it can get.
struct CandidateVolumes<'a> {
    claim: UnboundClaim<'a>,
    class: &'a StorageClass,
    volumes: Vec<&'a PersistentVolume>,
}

/// Keeps actors off the nodes where one claim of their pod takes the only volume that fits another.
///
/// The scheduler serves the claims of a pod by increasing size. Nodes with too few volumes are left to other rules.
pub(crate) fn volume_choices(of: &PodRules) -> Vec<Constraint> {
    if are_volumes_unknown(of.index) {
        return Vec::new();
    }
    let rule = |template: &PodTemplate| {
        let choices = choices(of, template);
        let nodes = || of.index.nodes.iter();
        let starved = nodes().filter(|(_, node)| choices.len() > 1 && is_starved(&choices, node));
        let nodes: BTreeSet<&str> = starved.map(|(name, _)| name.as_str()).collect();
        let reason = "the smallest claim of the pod takes a volume there that another of its claims needs";
        template.never_on(of.offer, reason.to_owned(), |node| nodes.contains(node))
    };
    of.templates.iter().filter_map(rule).collect()
}

/// The claims of a template's pods without a volume, by increasing size.
fn choices<'a>(of: &PodRules<'a>, template: &'a PodTemplate<'a>) -> Vec<CandidateVolumes<'a>> {
    let index = of.index;
    let choice = |claim: UnboundClaim<'a>| {
        let class = claim.waiting_class(index).filter(|_| claim.selected_node.is_none())?;
        let reserved = claim.reserved(index);
        let free = || claim.matching(index, class, &BTreeSet::new());
        let volumes = if reserved.is_empty() { free() } else { reserved };
        Some(CandidateVolumes { claim, class, volumes })
    };
    let claims = UnboundClaim::of_pod(index, of.namespace, None, &template.spec).into_iter();
    let mut choices: Vec<CandidateVolumes> = claims.filter_map(choice).collect();
    choices.sort_by_key(|choice| choice.claim.size());
    choices
}

/// Whether a claim gets no volume on a node because others of the pod have taken them, though there are enough.
fn is_starved(choices: &[CandidateVolumes], node: &Node) -> bool {
    let mut taken: BTreeSet<Option<&String>> = BTreeSet::new();
    let mut is_short = false;
    let mut all: BTreeSet<Option<&String>> = BTreeSet::new();
    for choice in choices {
        let there = || choice.volumes.iter().filter(|volume| allows(volume, node));
        all.extend(there().map(|volume| volume.metadata.name.as_ref()));
        let free = there().filter(|volume| !taken.contains(&volume.metadata.name.as_ref()));
        match free.min_by_key(|volume| capacity(volume)) {
            Some(volume) => drop(taken.insert(volume.metadata.name.as_ref())),
            None => is_short |= !can_provision(choice.class, node) && there().next().is_some(),
        }
    }
    is_short && all.len() >= choices.len()
}

/// The claims whose volume depends on the order in which pods are scheduled, each as a sentence.
pub(crate) fn undecided_volumes(
    index: &Index,
    (application, actors): (&ActorApplication, &ApplicationActors),
    templates: &[PodTemplate],
) -> Vec<String> {
    let has_volumes = templates.iter().any(|template| template.spec.volumes.is_some());
    if !has_volumes || are_volumes_unknown(index) {
        return Vec::new();
    }
    let namespace = namespace_of(application);
    let claims: Vec<Vec<UnboundClaim>> = templates
        .iter()
        .map(|template| UnboundClaim::of_pod(index, &namespace, None, &template.spec))
        .collect();
    let mut found = provisioned_for_several(index, templates, &claims);
    for (template, claims) in templates.iter().zip(&claims) {
        let at_once = claims.iter().filter(|claim| claim.is_bound_at_once(index));
        found.extend(at_once.map(|it| format!("{}: where the claim {} is bound", template.group(), it.name)));
    }
    let none = BTreeSet::new();
    let own: Vec<Vec<Demand>> = claims.iter().map(|claims| demands(index, claims, &none)).collect();
    if own.iter().all(Vec::is_empty) {
        return found;
    }
    let existing = existing_pods(index, (application, actors), templates);
    let others = existing.iter().flat_map(|pod| {
        let claims = UnboundClaim::of_pod(index, pod.namespace, Some(pod.short_name()), &pod.spec);
        demands(index, &claims, &none)
    });
    // Claims of one actor compete only with each other, in a known order.
    let mut sets: BTreeMap<BTreeSet<&str>, BTreeSet<Option<&str>>> = BTreeMap::new();
    for demand in others {
        sets.entry(demand.volumes).or_default().insert(None);
    }
    for (template, demands) in templates.iter().zip(&own) {
        for demand in demands {
            let users = template.ids.iter().map(|id| Some(id.as_str()));
            sets.entry(demand.volumes.clone()).or_default().extend(users);
        }
    }
    let is_contested = |demand: &Demand| {
        sets.iter().any(|(set, users)| {
            let has_two = users.len() > 1 || sets.get(&demand.volumes) != Some(users);
            has_two && (may_take(index, &demand.volumes, set) || may_take(index, set, &demand.volumes))
        })
    };
    for (template, demands) in templates.iter().zip(&own) {
        let contested = demands.iter().filter(|demand| is_contested(demand));
        found
            .extend(contested.map(|it| format!("{}: which volume claim {} gets", template.group(), it.name)));
    }
    found
}

/// Whether a claim may take a volume that another claim needs, though it could have one that the other cannot use.
fn may_take(index: &Index, own: &BTreeSet<&str>, others: &BTreeSet<&str>) -> bool {
    let volume = |name: &&str| index.scheduling.volumes.get(*name).map(Arc::as_ref);
    let left: Vec<&PersistentVolume> = own.difference(others).filter_map(volume).collect();
    let mut shared = own.intersection(others).filter_map(volume);
    shared.any(|taken| {
        let mut larger = left.iter().filter(|left| capacity(taken) <= capacity(left));
        larger.any(|left| index.nodes.values().any(|node| allows(taken, node) && allows(left, node)))
    })
}

/// Claims of several actors for which a volume will be provisioned: its node or zone is not known yet.
fn provisioned_for_several(
    index: &Index,
    templates: &[PodTemplate],
    claims: &[Vec<UnboundClaim>],
) -> Vec<String> {
    let mut users: BTreeMap<&Name, (BTreeSet<&String>, BTreeSet<&str>)> = BTreeMap::new();
    for (template, claims) in templates.iter().zip(claims) {
        let is_provisioned = |claim: &&UnboundClaim| {
            let class = claim.waiting_class(index).filter(|class| !is_static(class));
            class.is_some() && claim.selected_node.is_none() && claim.reserved(index).is_empty()
        };
        for key in claims.iter().filter(is_provisioned).filter_map(|claim| claim.key.as_ref()) {
            let (ids, groups) = users.entry(key).or_default();
            ids.extend(&template.ids);
            groups.insert(template.group());
        }
    }
    let several = users.into_iter().filter(|(_, (ids, _))| ids.len() > 1);
    let rule = |(key, (_, groups)): (&Name, (BTreeSet<&String>, BTreeSet<&str>))| {
        let of = |group: &str| format!("{group}: where the volume of claim {} is provisioned", key.1);
        groups.into_iter().map(of).collect::<Vec<_>>()
    };
    several.flat_map(rule).collect()
}

fn are_volumes_unknown(index: &Index) -> bool {
    let objects = &index.scheduling;
    objects.is_unknown::<StorageClass>() || objects.is_unknown::<PersistentVolume>()
}
