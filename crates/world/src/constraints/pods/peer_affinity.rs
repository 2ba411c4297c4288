//! Implementations whose required affinity selects the same pods.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Join};

use crate::constraints::pods::pod_templates::{
    ExistingPod, Implementations, PodRules, PodTemplate, PodTerm, TopologyDomains,
};

/// Implementations that need the same peers in their domains. A pod is a peer if all terms select it.
pub(crate) struct PeerAffinity<'a> {
    pub implementations: Implementations<'a>,
    /// The implementations that the terms select.
    pub peers: Implementations<'a>,
    /// Actors of these whose pods have labels of an earlier template, which the terms do not select.
    pub not_yet: BTreeSet<&'a str>,
    /// The pods that the terms select, by position among those that are there.
    pub existing: BTreeSet<usize>,
    /// By topology key: the selected pods, for users.
    pub keys: BTreeMap<String, Vec<String>>,
    /// The first pod of an implementation that selects itself needs no other.
    pub join: Join,
}

impl<'a> PeerAffinity<'a> {
    /// Of one template with these terms.
    pub fn of(of: &PodRules<'a>, template: &'a PodTemplate, terms: &[PodTerm]) -> Self {
        let implementations: Implementations = template.implementations().collect();
        let peers = of.selected(terms);
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for term in terms {
            keys.entry(term.topology_key.clone()).or_default().push(term.pods());
        }
        let join = if peers.is_superset(&implementations) { Join::First } else { Join::Peer };
        let (existing, not_yet) = (of.selected_existing(terms), of.not_selected_yet(terms));
        Self { implementations, peers, not_yet, existing, keys, join }
    }

    /// Whether both need the same pods in the same domains, however their terms are written.
    pub fn joins_like(&self, other: &Self) -> bool {
        self.join == other.join
            && self.peers == other.peers
            && self.not_yet == other.not_yet
            && self.existing == other.existing
            && self.keys.keys().eq(other.keys.keys())
    }

    /// The constraints by its topology keys. No pod is the first of its group if another is counted by any of these keys.
    pub fn constraints(&self, of: &PodRules) -> Vec<Constraint> {
        let by_key = |key: &str| TopologyDomains::of(of.index, key, |_| true);
        let is_first = !self.keys.keys().any(|key| self.others(of, &by_key(key)).next().is_some());
        let join = if is_first { self.join } else { Join::Peer };
        let rule = |(key, pods): (&String, &Vec<String>)| {
            let reason = format!("affinity to {} by {key}", pods.join(" and "));
            self.constraint(of, &by_key(key), join, reason)
        };
        self.keys.iter().map(rule).collect()
    }

    /// The constraint that these domains need a peer.
    pub fn constraint(
        &self,
        of: &PodRules,
        domains: &TopologyDomains,
        join: Join,
        reason: String,
    ) -> Constraint {
        let others = domains.count(self.others(of, domains));
        let (actors, actor_kinds) = of.actors_of(&self.implementations);
        let (peers, peer_kinds) = of.peers_of(&self.peers, &self.not_yet);
        Constraint::Peers {
            actors,
            peers,
            domains: domains.listed(of.offer, &others),
            actor_kinds,
            peer_kinds,
            max: None,
            skew: None,
            join: Some(join),
            reason: Some(reason),
        }
    }

    /// The pods outside the application that it selects in these domains.
    fn others<'o>(
        &'o self,
        of: &'o PodRules,
        domains: &'o TopologyDomains,
    ) -> impl Iterator<Item = &'o ExistingPod<'o>> {
        let all = self.existing.iter().filter_map(|at| of.existing.get(*at));
        all.filter(|pod| domains.at(pod.node).is_some())
    }
}
