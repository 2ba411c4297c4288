//! Nodes with room for some of the claims that actors need.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Domain};

use crate::constraints::pods::pod_templates::{PodRules, PodTemplate};
use crate::index::names::Name;

/// The claims of an actor that take room where it is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    /// Claims that other actors may use, too; each takes room once.
    pub shared: BTreeSet<Name>,
    /// Number of claims of each actor alone.
    pub each: u64,
}

impl Need {
    /// Number of claims of an actor, shared or not.
    pub fn claims(&self) -> u64 {
        count(&self.shared).saturating_add(self.each)
    }
}

/// Nodes that together have room for a number of claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// The nodes that share this number of claims.
    pub nodes: Vec<String>,
    /// Number of claims that fit on them together.
    pub total: u64,
    /// Claims of other pods that take of it.
    pub taken: BTreeSet<Name>,
}

impl Room {
    /// Whether pods with these needs fit together. Pods that need no further claim always fit.
    fn has_for(&self, needs: &[&Need]) -> bool {
        let most = needs.iter().map(|need| need.claims()).fold(count(&self.taken), u64::saturating_add);
        if most <= self.total {
            return true;
        }
        let shared = || needs.iter().flat_map(|need| &need.shared);
        let each: u64 = needs.iter().map(|need| need.each).sum();
        let claims: BTreeSet<&Name> = self.taken.iter().chain(shared()).collect();
        (each == 0 && shared().all(|claim| self.taken.contains(claim)))
            || count(&claims).saturating_add(each) <= self.total
    }
}

fn count<T>(claims: &BTreeSet<T>) -> u64 {
    u64::try_from(claims.len()).unwrap_or(u64::MAX)
}

/// Actors with the same needs.
struct Class {
    need: Need,
    actors: Vec<String>,
    /// The claims of its need that several actors use.
    common: BTreeSet<Name>,
    /// Number of claims that each of its actors alone uses.
    own: u64,
}

/// Some classes, and by room how many of their actors fit at most.
struct ClassLimits {
    members: BTreeSet<usize>,
    limits: Vec<u64>,
}

/// Constraints on the actors that rooms have no claims left for, by the needs of each template.
///
/// Claims that several actors use count once. Actors are counted by the claims that each alone uses, and by pairs, so
/// three or more claims that groups share may exceed a room; the scheduler then refuses the last pod.
pub(crate) fn limit_rooms(of: &PodRules, needs: &[Need], rooms: &[Room], reason: &str) -> Vec<Constraint> {
    let mut rules = Vec::new();
    for (template, need) in of.templates.iter().zip(needs) {
        let full = rooms.iter().filter(|room| !room.has_for(&[need]));
        let full: BTreeSet<&str> = full.flat_map(|room| &room.nodes).map(String::as_str).collect();
        rules.extend(template.never_on(of.offer, reason.to_owned(), |node| full.contains(node)));
    }
    let classes = classes(of.templates, needs);
    let counted = counted(&classes, rooms);
    rules.extend(counted.iter().filter_map(|it| at_most(it, &classes, rooms, reason)));
    rules.extend(pairs(&classes, &counted, rooms, reason));
    rules
}

/// Whether actors may exceed a room although [`limit_rooms`] allows them together.
pub(crate) fn may_exceed(templates: &[PodTemplate], needs: &[Need], rooms: &[Room]) -> bool {
    let classes = classes(templates, needs);
    let are_equal = classes.iter().all(|it| it.common.is_empty() && it.own == classes[0].own);
    let are_pairs = classes.len() == 2 && classes.iter().all(|it| it.own == 0);
    if classes.len() < 2 || are_equal || are_pairs {
        return false;
    }
    let own = |class: &Class| class.own.saturating_mul(u64::try_from(class.actors.len()).unwrap_or(u64::MAX));
    let own = classes.iter().map(own).fold(0, u64::saturating_add);
    let common = || classes.iter().flat_map(|class| &class.common);
    rooms.iter().any(|room| {
        let claims: BTreeSet<&Name> = room.taken.iter().chain(common()).collect();
        count(&claims).saturating_add(own) > room.total
    })
}

/// Actors by their needs. An actor with several templates has the needs of all of them.
fn classes(templates: &[PodTemplate], needs: &[Need]) -> Vec<Class> {
    let mut by_actor: BTreeMap<&String, Need> = BTreeMap::new();
    for (template, need) in templates.iter().zip(needs) {
        for actor in &template.ids {
            let all = by_actor.entry(actor).or_default();
            all.shared.extend(need.shared.iter().cloned());
            all.each = all.each.max(need.each);
        }
    }
    let mut users: BTreeMap<Name, usize> = BTreeMap::new();
    let mut actors: BTreeMap<Need, Vec<String>> = BTreeMap::new();
    for (actor, need) in by_actor {
        for claim in &need.shared {
            *users.entry(claim.clone()).or_default() += 1;
        }
        if need != Need::default() {
            actors.entry(need).or_default().push(actor.clone());
        }
    }
    let class = |(need, actors): (Need, Vec<String>)| {
        let common: BTreeSet<Name> = need.shared.iter().filter(|claim| users[*claim] > 1).cloned().collect();
        let own = need.each.saturating_add(count(&need.shared) - count(&common));
        Class { need, actors, common, own }
    };
    actors.into_iter().map(class).collect()
}

/// Sets of classes whose actors each use at least so many claims alone.
fn counted(classes: &[Class], rooms: &[Room]) -> Vec<ClassLimits> {
    let weights: BTreeSet<u64> = classes.iter().map(|class| class.own).filter(|own| *own > 0).collect();
    let heavier = weights.into_iter().map(|weight| {
        classes.iter().enumerate().filter(|(_, it)| it.own >= weight).map(|(at, _)| at).collect()
    });
    let single = classes.iter().enumerate().filter(|(_, it)| it.own > 0).map(|(at, _)| BTreeSet::from([at]));
    let mut found: Vec<ClassLimits> = Vec::new();
    for members in heavier.chain(single) {
        let limits: Vec<u64> = rooms.iter().map(|room| limit(room, &members, classes)).collect();
        let implies = |other: &ClassLimits| {
            other.members.is_superset(&members) && other.limits.iter().zip(&limits).all(|(a, b)| a <= b)
        };
        if !found.iter().any(implies) {
            found.push(ClassLimits { members, limits });
        }
    }
    found
}

/// How many actors of some classes fit at most.
fn limit(room: &Room, members: &BTreeSet<usize>, classes: &[Class]) -> u64 {
    let of = || members.iter().map(|at| &classes[*at]);
    let weight = of().map(|class| class.own).min().unwrap_or(0).max(1);
    let mut used: BTreeSet<&Name> = room.taken.iter().collect();
    for class in of() {
        // What one actor alone uses is counted with the actor.
        used.retain(|claim| class.common.contains(*claim) || !class.need.shared.contains(*claim));
    }
    let shared_by_all = |claim: &&Name| of().all(|class| class.common.contains(*claim));
    used.extend(of().next().into_iter().flat_map(|class| &class.common).filter(shared_by_all));
    room.total.saturating_sub(count(&used)) / weight
}

/// Limits the number of actors where it could be exceeded. Rooms without any are for `never`.
fn at_most(counted: &ClassLimits, classes: &[Class], rooms: &[Room], reason: &str) -> Option<Constraint> {
    let actors: BTreeSet<&String> = counted.members.iter().flat_map(|at| &classes[*at].actors).collect();
    let all = u64::try_from(actors.len()).unwrap_or(u64::MAX);
    let binding = || rooms.iter().zip(&counted.limits).filter(|(_, limit)| (1..all).contains(*limit));
    let most = binding().map(|(_, limit)| *limit).max()?;
    let domain = |(room, limit): (&Room, &u64)| Domain { nodes: room.nodes.clone(), others: most - limit };
    let domains = binding().map(domain).collect();
    let actors: Vec<String> = actors.into_iter().cloned().collect();
    Some(peers_at_most((actors.clone(), actors), domains, most - 1, reason))
}

/// Keeps actors of two classes apart where one of each does not fit.
fn pairs(classes: &[Class], counted: &[ClassLimits], rooms: &[Room], reason: &str) -> Vec<Constraint> {
    let mut rules = Vec::new();
    // in the others any two fit
    let most = classes.iter().map(|class| class.need.claims()).max().unwrap_or(0).saturating_mul(2);
    let scarce: Vec<(usize, &Room)> = rooms
        .iter()
        .enumerate()
        .filter(|(_, room)| count(&room.taken).saturating_add(most) > room.total)
        .collect();
    if scarce.is_empty() {
        return rules;
    }
    for (i, a) in classes.iter().enumerate() {
        for (j, b) in classes.iter().enumerate().skip(i + 1) {
            let is_pair = |it: &&ClassLimits| it.members.contains(&i) && it.members.contains(&j);
            let has_conflict = |(at, room): &&(usize, &Room)| {
                !room.has_for(&[&a.need, &b.need])
                    && room.has_for(&[&a.need])
                    && room.has_for(&[&b.need])
                    && !counted.iter().filter(is_pair).any(|it| it.limits[*at] < 2)
            };
            let in_conflict = scarce.iter().filter(has_conflict);
            let domains: Vec<Domain> =
                in_conflict.map(|(_, room)| Domain { nodes: room.nodes.clone(), others: 0 }).collect();
            if !domains.is_empty() {
                rules.push(peers_at_most((a.actors.clone(), b.actors.clone()), domains, 0, reason));
            }
        }
    }
    rules
}

fn peers_at_most(
    (actors, peers): (Vec<String>, Vec<String>),
    domains: Vec<Domain>,
    max: u64,
    reason: &str,
) -> Constraint {
    Constraint::Peers {
        actors,
        peers,
        domains,
        actor_kinds: None,
        peer_kinds: None,
        max: Some(max),
        skew: None,
        join: None,
        reason: Some(reason.to_owned()),
    }
}
