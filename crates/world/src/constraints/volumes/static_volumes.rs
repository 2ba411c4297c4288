//! Volumes that an administrator creates, such as local disks: each serves one claim, and actors compete for them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PodSpec};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use placement::file::{Constraint, Domain, Join};

use crate::Index;
use crate::constraints::pods::pod_templates::PodRules;
use crate::constraints::volumes::volume_claims::{
    UnboundClaim, allows, claim_name, claimed_by, ephemeral, is_static,
};
use crate::constraints::volumes::volume_rooms::{Need, Room, limit_rooms};
use crate::index::names::Name;

/// A claim that only existing volumes can serve.
pub(crate) struct Demand<'a> {
    pub key: Option<Name>,
    /// The claim, for users.
    pub name: String,
    class: &'a str,
    /// The volumes that satisfy it.
    pub volumes: BTreeSet<&'a str>,
}

/// A set of volumes, or of nodes.
type Names<'a> = BTreeSet<&'a str>;

/// Constraints on actors whose claims need the same volumes, or that share a claim whose volume is not chosen yet.
pub(crate) fn static_volumes(of: &PodRules) -> Vec<Constraint> {
    let objects = &of.index.scheduling;
    if objects.is_unknown::<StorageClass>() || objects.is_unknown::<PersistentVolume>() {
        return Vec::new();
    }
    let held = claims_of_own_pods(of);
    let demands_of = |namespace: &str, pod: Option<&str>, spec: &PodSpec| {
        demands(of.index, &UnboundClaim::of_pod(of.index, namespace, pod, spec), &held)
    };
    let own: Vec<Vec<Demand>> =
        of.templates.iter().map(|template| demands_of(of.namespace, None, &template.spec)).collect();
    if own.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let others: Vec<(&str, Vec<Demand>)> = of
        .existing
        .iter()
        .map(|pod| (pod.node, demands_of(pod.namespace, Some(pod.short_name()), &pod.spec)))
        .filter(|(_, demands)| !demands.is_empty())
        .collect();
    let reach = reach(of, own.iter().flatten().flat_map(|demand| &demand.volumes).copied().collect());
    // Claims that several sets of volumes satisfy also compete for their union.
    let sets: BTreeSet<&Names> = own.iter().flatten().map(|demand| &demand.volumes).collect();
    let unions = overlapping(sets.iter().map(|set| (*set).clone()));
    let sets: BTreeSet<Names> = sets.into_iter().cloned().chain(unions).collect();
    let mut rules = Vec::new();
    for volumes in &sets {
        let within = |demand: &&Demand| demand.volumes.is_subset(volumes);
        let need = |demands: &Vec<Demand>| {
            let mut need = Need::default();
            for demand in demands.iter().filter(within) {
                match &demand.key {
                    Some(key) => drop(need.shared.insert(key.clone())),
                    None => need.each += 1,
                }
            }
            need
        };
        let needs: Vec<Need> = own.iter().map(need).collect();
        let taken = |nodes: &Names| -> BTreeSet<Name> {
            let there = others.iter().filter(|(node, _)| nodes.contains(node));
            there
                .flat_map(|(_, demands)| demands.iter().filter(within))
                .filter_map(|it| it.key.clone())
                .collect()
        };
        let class = own.iter().flatten().find(within).map_or("", |demand| demand.class);
        let reason = format!("StorageClass {class} has no volume left there for another claim");
        for rooms in rooms(volumes, &reach, taken) {
            rules.extend(limit_rooms(of, &needs, &rooms, &reason));
        }
    }
    rules.extend(shared_claims(of, &own, &others, &reach));
    rules
}

/// Claims of ephemeral volumes of the application's pods; a volume that one holds serves its actor as long as it stays.
fn claims_of_own_pods(of: &PodRules) -> BTreeSet<Name> {
    let names = of.index.instances_of(of.application).into_iter().map(|instance| instance.name_any());
    let claims = names.flat_map(|name| {
        let spec = of.index.pod(of.namespace, &name).and_then(|pod| pod.spec.as_ref());
        let volumes = spec.into_iter().flat_map(ephemeral);
        volumes.map(|(volume, _)| (of.namespace.to_owned(), claim_name(&name, volume))).collect::<Vec<_>>()
    });
    claims.collect()
}

/// The claims that only existing volumes can serve. One that a volume is reserved for does not compete.
pub(crate) fn demands<'a>(
    index: &'a Index,
    claims: &[UnboundClaim],
    held: &BTreeSet<Name>,
) -> Vec<Demand<'a>> {
    let demand = |claim: &UnboundClaim| {
        if claim.selected_node.is_some() {
            return None;
        }
        let class = claim.waiting_class(index).filter(|class| is_static(class))?;
        let volumes = claim.matching(index, class, held).into_iter();
        let volumes: Names = volumes.filter_map(|it| it.metadata.name.as_deref()).collect();
        let competes = !volumes.is_empty() && claim.reserved(index).is_empty();
        let class = class.metadata.name.as_deref()?;
        competes.then(|| Demand { key: claim.key.clone(), name: claim.name.clone(), class, volumes })
    };
    claims.iter().filter_map(demand).collect()
}

/// By volume: the nodes with units that can use it.
fn reach<'a>(of: &PodRules<'a>, volumes: Names<'a>) -> BTreeMap<&'a str, Names<'a>> {
    let hosts: Names = of.offer.units.iter().map(|unit| unit.node.as_str()).collect();
    let hosts: Vec<_> =
        hosts.into_iter().filter_map(|name| Some((name, of.index.nodes.get(name)?))).collect();
    let nodes = |name: &'a str| {
        let volume = of.index.scheduling.volumes.get(name)?;
        let nodes = hosts.iter().filter(|(_, node)| allows(volume, node));
        Some((name, nodes.map(|(name, _)| *name).collect()))
    };
    volumes.into_iter().filter_map(nodes).collect()
}

/// Rooms by nodes that can use the same volumes, and by single nodes that can use only some of these.
fn rooms(
    volumes: &Names,
    reach: &BTreeMap<&str, Names>,
    taken: impl Fn(&Names) -> BTreeSet<Name>,
) -> [Vec<Room>; 2] {
    let reaches = || volumes.iter().filter_map(|volume| reach.get(volume));
    let mut volumes_of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (volume, nodes) in reaches().enumerate() {
        for node in nodes {
            volumes_of.entry(node).or_default().push(volume);
        }
    }
    let room = |nodes: &Names| {
        let usable: BTreeSet<usize> = nodes.iter().flat_map(|node| &volumes_of[node]).copied().collect();
        Room {
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            total: u64::try_from(usable.len()).unwrap_or(u64::MAX),
            taken: taken(nodes),
        }
    };
    let (mut of_all, mut of_one) = (Vec::new(), Vec::new());
    for nodes in overlapping(reaches().cloned()) {
        let all = room(&nodes);
        // the only node of a room has all of its volumes
        let single = nodes.iter().filter(|_| nodes.len() > 1).map(|node| room(&BTreeSet::from([*node])));
        of_one.extend(single.filter(|single| single.total < all.total));
        of_all.push(all);
    }
    [of_all, of_one]
}

/// Unions of the sets that overlap, directly or through others.
pub(crate) fn overlapping<'a>(sets: impl Iterator<Item = Names<'a>>) -> Vec<Names<'a>> {
    let distinct: BTreeSet<Names> = sets.filter(|set| !set.is_empty()).collect();
    let mut unions: Vec<Names> = Vec::new();
    let mut union_of: BTreeMap<&str, usize> = BTreeMap::new();
    for mut set in distinct {
        let joined: BTreeSet<usize> = set.iter().filter_map(|name| union_of.get(name).copied()).collect();
        for union in joined {
            set.append(&mut unions[union]);
        }
        union_of.extend(set.iter().map(|name| (*name, unions.len())));
        unions.push(set);
    }
    unions.retain(|union| !union.is_empty());
    unions.sort_unstable();
    unions
}

/// Places all actors that share something in one of the domains where it can be used; nothing if there is no choice, or one user.
pub(crate) fn share_one_domain(
    actors: BTreeSet<String>,
    domains: Vec<Domain>,
    reason: String,
) -> Option<Constraint> {
    let is_shared = actors.len() > 1 || domains.iter().any(|domain| domain.others > 0);
    let actors: Vec<String> = actors.into_iter().collect();
    (is_shared && domains.len() > 1).then(|| Constraint::Peers {
        peers: actors.clone(),
        actors,
        domains,
        actor_kinds: None,
        peer_kinds: None,
        max: None,
        skew: None,
        join: Some(Join::First),
        reason: Some(reason),
    })
}

/// The first pod of a claim chooses its volume, so all its actors are placed where one volume can be used.
fn shared_claims(
    of: &PodRules,
    own: &[Vec<Demand>],
    others: &[(&str, Vec<Demand>)],
    reach: &BTreeMap<&str, Names>,
) -> Vec<Constraint> {
    let mut users: BTreeMap<&Name, (&Names, BTreeSet<String>)> = BTreeMap::new();
    for (template, demands) in of.templates.iter().zip(own) {
        for (key, demand) in demands.iter().filter_map(|demand| Some((demand.key.as_ref()?, demand))) {
            let (_, actors) = users.entry(key).or_insert((&demand.volumes, BTreeSet::new()));
            actors.extend(template.ids.iter().cloned());
        }
    }
    let rule = |(key, (volumes, actors)): (&Name, (&Names, BTreeSet<String>))| {
        let is_free =
            |name: &str| of.index.scheduling.volumes.get(name).is_some_and(|it| claimed_by(it).is_none());
        let free = volumes.iter().filter(|name| is_free(name));
        let unions = overlapping(free.filter_map(|volume| reach.get(volume)).cloned());
        let is_claimed_by =
            |demands: &[Demand]| demands.iter().any(|demand| demand.key.as_ref() == Some(key));
        let domain = |nodes: &Names| {
            let there =
                others.iter().filter(|(node, demands)| nodes.contains(node) && is_claimed_by(demands));
            Domain {
                nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
                others: there.map(|_| 1).sum(),
            }
        };
        let domains: Vec<Domain> = unions.iter().map(domain).collect();
        let reason = format!("claim {} gets one volume, which is available only on some nodes", key.1);
        share_one_domain(actors, domains, reason)
    };
    users.into_iter().filter_map(rule).collect()
}
