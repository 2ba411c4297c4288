//! Required affinities of groups that select each other.
//!
//! A pod that arrives is a peer for the pods of another group. Two groups that need each other would therefore be placed together,
//! while kube-scheduler admits neither of them first. A constraint binds all of them: the first pod needs a running peer, or one
//! outside the set.

use std::collections::BTreeSet;

use placement::file::{Constraint, Join};

use crate::constraints::pods::peer_affinity::PeerAffinity;
use crate::constraints::pods::pod_templates::{PodRules, TopologyDomains};

/// Constraints on sets of groups that select each other. The first pod needs a running peer in its domain, or one outside the set.
/// If one of the groups selects itself, and no domain has such a peer, all share one domain instead.
pub(crate) fn mutual_affinity(of: &PodRules, all: &[PeerAffinity]) -> Vec<Constraint> {
    cycles(all).iter().flat_map(|cycle| of_first(of, cycle)).collect()
}

/// Largest sets that need each other, directly or through others, and in larger ones each pair. If a set has at most three members,
/// with the same topology keys, kube-scheduler can bind each plan that satisfies their constraints.
fn cycles<'a, 'b>(all: &'b [PeerAffinity<'a>]) -> Vec<Vec<&'b PeerAffinity<'a>>> {
    let selects =
        |from: usize, to: usize| from != to && !all[from].peers.is_disjoint(&all[to].implementations);
    let selected: Vec<Vec<usize>> =
        (0..all.len()).map(|from| (0..all.len()).filter(|to| selects(from, *to)).collect()).collect();
    let reached: Vec<BTreeSet<usize>> = (0..all.len()).map(|from| reached_from(&selected, from)).collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for from in 0..all.len() {
        let mutual: Vec<usize> =
            reached[from].iter().copied().filter(|to| reached[*to].contains(&from)).collect();
        // Each set once. A member of a cycle reaches itself.
        if mutual.first() != Some(&from) {
            continue;
        }
        if mutual.len() > 2 {
            let pairs = mutual.iter().flat_map(|a| mutual.iter().map(|b| (*a, *b)));
            let is_pair = |(a, b): &(usize, usize)| a < b && selects(*a, *b) && selects(*b, *a);
            found.extend(pairs.filter(is_pair).map(|(a, b)| vec![a, b]));
        }
        found.push(mutual);
    }
    found.into_iter().map(|cycle| cycle.into_iter().map(|at| &all[at]).collect()).collect()
}

fn reached_from(selected: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = selected[from].clone();
    while let Some(at) = open.pop() {
        if reached.insert(at) {
            open.extend(&selected[at]);
        }
    }
    reached
}

/// The constraints of one cycle, by each topology key that all of it have. Without such a key, domains that share nodes are one.
fn of_first(of: &PodRules, cycle: &[&PeerAffinity]) -> Vec<Constraint> {
    let keys: BTreeSet<&String> = cycle.iter().flat_map(|it| it.keys.keys()).collect();
    let is_first = cycle.iter().any(|it| it.join == Join::First);
    let whole = PeerAffinity {
        implementations: cycle.iter().flat_map(|it| it.implementations.iter().copied()).collect(),
        peers: cycle.iter().flat_map(|it| it.peers.iter().copied()).collect(),
        not_yet: cycle.iter().flat_map(|it| it.not_yet.iter().copied()).collect(),
        existing: cycle.iter().flat_map(|it| it.existing.iter().copied()).collect(),
        keys: keys.iter().map(|key| ((*key).clone(), Vec::new())).collect(),
        join: if is_first { Join::First } else { Join::Peer },
    };
    let groups: BTreeSet<&str> = whole.implementations.iter().map(|(group, _)| *group).collect();
    let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
    let needs = match whole.join {
        Join::Peer => "the first of them needs another pod that it selects",
        Join::First => "all of them share one domain, or join other pods that they select",
    };
    let reason = |keys: &str| format!("affinity of {groups} to each other by {keys}: {needs}");
    let common: Vec<&String> =
        keys.into_iter().filter(|key| cycle.iter().all(|it| it.keys.contains_key(*key))).collect();
    if common.is_empty() {
        let keys = whole.keys.keys().cloned().collect::<Vec<_>>().join(", ");
        let domains = TopologyDomains::connected(of.index, whole.keys.keys());
        return vec![whole.constraint(of, &domains, whole.join, reason(&keys))];
    }
    let rule = |key: &String| {
        let domains = TopologyDomains::of(of.index, key, |_| true);
        whole.constraint(of, &domains, whole.join, reason(key))
    };
    common.into_iter().map(rule).collect()
}
