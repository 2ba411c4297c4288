//! `peers`: the peers in the domain of an arriving actor.
//!
//! It has the semantics of kube-scheduler's filters for inter-pod affinity and topology spread: they bind a pod while it is
//! scheduled, and never evict one. An actor *arrives* unless it is fixed or stays where it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ConstraintKind, ViolationTracker};
use crate::Snapshot;
use crate::checker::checked::{Checked, Rule, Violation};
use crate::checker::index::number;
use crate::criteria::{Encoding, Facts, Step};
use crate::error::{LARGEST, SnapshotError};
use crate::file::constraint::Join;
use crate::file::format::Constraint;
use crate::file::names::Names;
use crate::ix::{ActorIx, IxVec, KindIx, UnitIx};
use crate::problem::room::Rooms;

/// The peers in the domain of an arriving actor.
pub(super) struct Peers;

/// The bound on the peers of a domain.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// At most. It also binds an actor that stays, while a peer arrives.
    Max(i64),
    /// At most so many more than the domain with the fewest, the actor itself included if it is a peer.
    Skew(i64),
    /// At least one *seed*: a peer that is not in the file, is not bound, or stays.
    Join(Join),
}

/// The bound of a checked file.
fn bound(given: &Constraint) -> Option<Bound> {
    match given {
        Constraint::Peers { max: Some(max), .. } => Some(Bound::Max(number(*max))),
        Constraint::Peers { skew: Some(skew), .. } => Some(Bound::Skew(number(*skew))),
        Constraint::Peers { join: Some(join), .. } => Some(Bound::Join(*join)),
        _ => None,
    }
}

/// Of actors that are bound, or counted, on some kinds of units only.
type KindsOfActors = BTreeMap<ActorIx, BTreeSet<KindIx>>;

/// The part of an actor in the constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    /// Whether it is bound.
    bound: bool,
    /// Whether it is counted.
    counted: bool,
}

/// Numbers of one domain.
#[derive(Clone, Copy, Debug, Default)]
struct PeerTally {
    /// Peers, those outside of the file included.
    peers: i64,
    /// Bound actors that are no peers, and those that are.
    bound: [i64; 2],
    /// Bound actors that arrive.
    arriving: i64,
    /// Actors that arrive, bound or counted.
    active: i64,
    /// Peers that others may join.
    seeds: i64,
}

impl PeerTally {
    fn of(others: i64) -> Self {
        Self { peers: others, seeds: others, ..Self::default() }
    }

    fn add(&mut self, part: Part, arrives: bool, sign: i64) {
        self.peers += sign * i64::from(part.counted);
        self.bound[usize::from(part.counted)] += sign * i64::from(part.bound);
        self.arriving += sign * i64::from(part.bound && arrives);
        self.active += sign * i64::from(arrives);
        self.seeds += sign * i64::from(part.counted && !(part.bound && arrives));
    }

    /// The violation in this domain; that of [`Join::First`] without seeds is a matter of all domains.
    fn violation(&self, bound: Bound, whole: &Whole) -> i64 {
        match bound {
            Bound::Max(_) if self.active == 0 => 0,
            Bound::Max(max) => {
                let [outside, own] = self.bound;
                outside * (self.peers - max).max(0) + own * (self.peers - 1 - max).max(0)
            }
            Bound::Skew(_) if self.arriving == 0 => 0,
            Bound::Skew(skew) => (self.peers - whole.fewest - skew).max(0),
            Bound::Join(Join::First) if whole.seeds == 0 => self.arriving,
            Bound::Join(_) if self.seeds > 0 => 0,
            Bound::Join(_) => self.arriving,
        }
    }
}

/// Numbers of all domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole {
    /// The fewest peers of a domain.
    fewest: i64,
    seeds: i64,
    /// The most arriving actors of a domain, as far as they need no seed.
    exempt: i64,
}

impl Whole {
    fn of(bound: Bound, tallies: &[PeerTally]) -> Self {
        let seeds = tallies.iter().map(|tally| tally.seeds).fold(0, i64::saturating_add);
        let is_first = matches!(bound, Bound::Join(Join::First)) && seeds == 0;
        let most = tallies.iter().map(|tally| tally.arriving).max().unwrap_or(0);
        Self {
            fewest: tallies.iter().map(|tally| tally.peers).min().unwrap_or(0),
            seeds,
            exempt: if is_first { most } else { 0 },
        }
    }
}

/// One constraint by positions.
#[derive(Debug)]
struct PeerLedger {
    bound: Bound,
    /// By actor, on all kinds of units; neither for those that are not named.
    parts: IxVec<ActorIx, Part>,
    bound_on: KindsOfActors,
    counted_on: KindsOfActors,
    /// By unit.
    kind: IxVec<UnitIx, KindIx>,
    /// By unit: its domain.
    domain: IxVec<UnitIx, Option<usize>>,
    /// By domain: peers outside of the file.
    others: Vec<i64>,
}

impl PeerLedger {
    fn new(snapshot: &Snapshot, given: &Constraint) -> Option<Self> {
        let (file, problem) = (snapshot.file(), snapshot.problem());
        let (bound, Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, .. }) =
            (bound(given)?, given)
        else {
            return None;
        };
        // A kind without units is the kind of no unit.
        let positions = |names: &Vec<String>| {
            problem.kinds.enumerate().filter(|(_, kind)| names.contains(kind)).map(|(at, _)| at).collect()
        };
        let [bound_on, counted_on] = [actor_kinds, peer_kinds].map(|kinds| -> KindsOfActors {
            let kinds = kinds.iter().flatten();
            kinds.map(|(actor, names)| (problem.actor_by_id[actor], positions(names))).collect()
        });
        let mut parts = IxVec::of(Part::default(), snapshot.actors());
        for id in actors {
            parts[problem.actor_by_id[id]].bound = true;
        }
        for id in peers {
            parts[problem.actor_by_id[id]].counted = true;
        }
        let domain_of: BTreeMap<&String, usize> = domains
            .iter()
            .enumerate()
            .flat_map(|(position, domain)| domain.nodes.iter().map(move |node| (node, position)))
            .collect();
        Some(Self {
            bound,
            parts,
            bound_on,
            counted_on,
            kind: problem.unit_kind.clone(),
            domain: file.units.iter().map(|unit| domain_of.get(&unit.node).copied()).collect(),
            others: domains.iter().map(|domain| number(domain.others)).collect(),
        })
    }

    /// The part of an actor on a unit.
    fn part(&self, actor: ActorIx, unit: UnitIx) -> Part {
        let is_on = |of: &KindsOfActors| of.get(&actor).is_none_or(|kinds| kinds.contains(&self.kind[unit]));
        let Part { bound, counted } = self.parts[actor];
        Part { bound: bound && is_on(&self.bound_on), counted: counted && is_on(&self.counted_on) }
    }

    /// Part and domain of an actor on a unit, if the constraint concerns it there.
    fn concerned(&self, actor: ActorIx, unit: UnitIx) -> Option<(Part, usize)> {
        let part = self.part(actor, unit);
        self.domain[unit].filter(|_| part != Part::default()).map(|domain| (part, domain))
    }
}

fn arrives(snapshot: &Snapshot, actor: ActorIx, unit: UnitIx) -> bool {
    let problem = snapshot.problem();
    !problem.fixed[actor] && problem.running[actor] != Some(unit)
}

/// All of them, each with its position in the file.
fn all(snapshot: &Snapshot) -> impl Iterator<Item = (usize, PeerLedger)> {
    let given = snapshot.file().constraints.iter().enumerate();
    given.filter_map(|(position, given)| Some((position, PeerLedger::new(snapshot, given)?)))
}

impl ConstraintKind for Peers {
    fn refuse_contradiction<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        let Constraint::Peers { peers, domains, max, skew, join, actor_kinds, peer_kinds, .. } = given else {
            return Ok(());
        };
        let error =
            |at: &str, problem: String| SnapshotError::new(format!("constraints[{position}]{at}"), problem);
        if [max.is_some(), skew.is_some(), join.is_some()].into_iter().filter(|given| *given).count() != 1 {
            let problem = "a constraint of type `peers` needs exactly one of `max`, `skew` and `join`";
            return Err(error("", problem.to_owned()));
        }
        for (i, peer) in peers.iter().enumerate() {
            names.actor(|| format!("constraints[{position}].peers[{i}]"), peer)?;
        }
        for (field, kinds) in [("actorKinds", actor_kinds), ("peerKinds", peer_kinds)] {
            for actor in kinds.iter().flatten().map(|(actor, _)| actor) {
                names.actor(|| format!("constraints[{position}].{field}"), actor)?;
            }
        }
        let mut used = BTreeSet::new();
        for (i, domain) in domains.iter().enumerate() {
            if domain.others > LARGEST {
                let problem = format!("is {}; the maximum is 2^53, correct it", domain.others);
                return Err(error(&format!(".domains[{i}].others"), problem));
            }
            for (j, node) in domain.nodes.iter().enumerate() {
                let at = format!(".domains[{i}].nodes[{j}]");
                names.node(|| format!("constraints[{position}]{at}"), node)?;
                if !used.insert(node) {
                    return Err(error(&at, format!("`{node}` is in two domains; keep one")));
                }
            }
        }
        Ok(())
    }

    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::Peers { max, skew, .. } = given else { return None };
        let fields = [("max", max), ("skew", skew)];
        fields.into_iter().find_map(|(name, value)| Some((name, (*value)?)))
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let plural = |count: i64| if count == 1 { "peer" } else { "peers" };
        match bound(given) {
            Some(Bound::Max(max)) => format!("at most {max} other {} in its domain", plural(max)),
            Some(Bound::Skew(skew)) => {
                format!("its domain at most {skew} {} ahead of the emptiest", plural(skew))
            }
            Some(Bound::Join(_)) => "in a domain with a peer".to_owned(),
            None => format!("constraints[{position}]"),
        }
    }

    fn violation_trackers(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn ViolationTracker>)> {
        let tracker = |(position, ledger): (usize, PeerLedger)| {
            let tallies: Vec<PeerTally> = ledger.others.iter().copied().map(PeerTally::of).collect();
            let whole = Whole::of(ledger.bound, &tallies);
            let counts = PeerCounts { ledger: Arc::new(ledger), tallies, whole, violation: 0 };
            (position, Box::new(counts) as Box<dyn ViolationTracker>)
        };
        all(snapshot).map(tracker).collect()
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        for (position, given) in checked.file.constraints.iter().enumerate() {
            if let Some(says) = violated(checked, given) {
                let says = format!("{says}: {}", super::says(checked.file, position));
                found.push(Violation { rule: Rule::Constraint, says });
            }
        }
    }

    fn symmetry_counts(
        &self,
        snapshot: &Snapshot,
        _: &Rooms,
        report: &mut dyn FnMut(UnitIx, Vec<Option<i64>>),
    ) {
        for (_, ledger) in all(snapshot) {
            let as_number = |count: usize| i64::try_from(count).ok();
            let members = ledger.parts.enumerate().filter(|(_, part)| **part != Part::default());
            let homes: BTreeSet<UnitIx> =
                members.filter_map(|(actor, _)| snapshot.problem().running[actor]).collect();
            for (unit, domain) in ledger.domain.enumerate() {
                // Where it runs an actor is exempt.
                let home = as_number(unit.at()).filter(|_| homes.contains(&unit));
                report(unit, vec![domain.and_then(as_number), home]);
            }
        }
    }

    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let problem = world.problem();
        let as_number = |count: usize| i64::try_from(count).expect("a file has fewer domains and actors");
        for (of, (_, ledger)) in (0i64..).zip(all(world.snapshot)) {
            let mut members = 0;
            for (actor, part) in ledger.parts.enumerate().filter(|(_, part)| **part != Part::default()) {
                let fixed = problem.fixed_at(actor);
                let mut place = |unit: UnitIx| {
                    let Some((there, domain)) = ledger.concerned(actor, unit) else { return };
                    facts
                        .say("peers_place", [of.into(), actor.into(), as_number(domain).into(), unit.into()]);
                    if part.bound && !there.bound {
                        facts.say("peers_unbound", [of.into(), actor.into(), unit.into()]);
                    }
                    if part.counted && !there.counted {
                        facts.say("peers_uncounted", [of.into(), actor.into(), unit.into()]);
                    }
                    if !arrives(world.snapshot, actor, unit) {
                        facts.say("peers_home", [actor.into(), unit.into()]);
                    }
                };
                match fixed {
                    Some(unit) => place(unit),
                    None => world.homes(actor).iter().copied().for_each(place),
                }
                members += i64::from(part.counted);
                if part.bound {
                    facts.say("peers_bound", [of.into(), actor.into()]);
                }
                if part.counted {
                    facts.say("peers_counted", [of.into(), actor.into()]);
                }
            }
            for (domain, others) in ledger.others.iter().enumerate() {
                facts.say("peers_domain", [of.into(), as_number(domain).into(), (*others).into()]);
            }
            match ledger.bound {
                Bound::Max(max) => facts.say("peers_max", [of.into(), max.into()]),
                Bound::Join(join) => {
                    let is_first = i64::from(join == Join::First);
                    facts.say("peers_join", [of.into(), is_first.into()]);
                }
                Bound::Skew(skew) => {
                    facts.say("peers_skew", [of.into(), skew.into()]);
                    // The fewest peers of any domain lie between those that are there and the mean of all.
                    let least = ledger.others.iter().copied().min().unwrap_or(0);
                    let sum = ledger.others.iter().fold(members, |sum, others| sum.saturating_add(*others));
                    let mean = sum / as_number(ledger.others.len().max(1));
                    for level in least..=mean.clamp(least, least.saturating_add(members)) {
                        facts.say("peers_level", [of.into(), level.into()]);
                    }
                }
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/peers.lp")
    }
}

/// The first violation of the constraint, by the file alone.
fn violated(checked: &Checked, given: &Constraint) -> Option<String> {
    let (bound, Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, .. }) =
        (bound(given)?, given)
    else {
        return None;
    };
    let [actors, peers] = [actors, peers].map(|ids| ids.iter().collect::<BTreeSet<&String>>());
    let takes_part =
        |ids: &BTreeSet<&String>, kinds: Option<&BTreeMap<String, Vec<String>>>, one: &(ActorIx, UnitIx)| {
            let (id, kind) = (&checked.actor(one.0).id, &checked.unit(one.1).kind);
            ids.contains(id) && kinds.and_then(|of| of.get(id)).is_none_or(|kinds| kinds.contains(kind))
        };
    let is_bound = |one: &(ActorIx, UnitIx)| takes_part(&actors, actor_kinds.as_ref(), one);
    let is_peer = |one: &(ActorIx, UnitIx)| takes_part(&peers, peer_kinds.as_ref(), one);
    let members = checked.placed().filter(|one| is_bound(one) || is_peer(one));
    let named = domains.iter().enumerate();
    let domain_of: BTreeMap<&String, usize> =
        named.flat_map(|(at, domain)| domain.nodes.iter().map(move |node| (node, at))).collect();
    let mut held: Vec<Vec<(ActorIx, UnitIx)>> = vec![Vec::new(); domains.len()];
    for (actor, unit) in members {
        if let Some(at) = domain_of.get(&checked.unit(unit).node) {
            held[*at].push((actor, unit));
        }
    }
    let arrives = |(actor, unit): &(ActorIx, UnitIx)| {
        !checked.is_fixed(*actor) && checked.index.running[*actor] != Some(*unit)
    };
    let count = |at: usize| {
        let own = held[at].iter().filter(|one| is_peer(one)).count();
        number(domains[at].others) + i64::try_from(own).unwrap_or(i64::MAX)
    };
    let counts: Vec<i64> = (0..domains.len()).map(count).collect();
    let fewest = counts.iter().copied().min()?;
    let is_seed = |one: &(ActorIx, UnitIx)| is_peer(one) && !(is_bound(one) && arrives(one));
    let is_seeded = |at: usize| domains[at].others > 0 || held[at].iter().any(is_seed);
    let any_seed = (0..domains.len()).any(is_seeded);
    let is_reached = |at: usize| held[at].iter().any(|one| is_bound(one) && arrives(one));
    let first = (0..domains.len()).find(|at| is_reached(*at));
    (0..domains.len()).find_map(|at| {
        let is_active = held[at].iter().any(arrives);
        let one = held[at].iter().filter(|one| is_bound(one)).find(|one| match bound {
            Bound::Max(max) => is_active && counts[at] - i64::from(is_peer(one)) > max,
            Bound::Skew(skew) => arrives(one) && counts[at] - fewest > skew,
            Bound::Join(Join::First) if !any_seed => arrives(one) && first != Some(at),
            Bound::Join(_) => arrives(one) && !is_seeded(at),
        });
        let (actor, unit) = one?;
        Some(format!("{} not on {}", checked.actor(*actor).id, checked.unit(*unit).id))
    })
}

/// The peers of each domain.
#[derive(Clone)]
struct PeerCounts {
    ledger: Arc<PeerLedger>,
    tallies: Vec<PeerTally>,
    whole: Whole,
    /// The sum over domains.
    violation: i64,
}

impl PeerCounts {
    fn of(&self, domain: usize) -> i64 {
        self.tallies[domain].violation(self.ledger.bound, &self.whole)
    }

    fn add(&mut self, part: Part, domain: usize, arrives: bool, sign: i64) {
        self.violation -= self.of(domain);
        self.tallies[domain].add(part, arrives, sign);
        let whole = match self.ledger.bound {
            // Domains are independent of each other.
            Bound::Max(_) => self.whole,
            bound => Whole::of(bound, &self.tallies),
        };
        let depends_on = |whole: &Whole| (whole.fewest, whole.seeds == 0);
        let is_same = depends_on(&self.whole) == depends_on(&whole);
        self.whole = whole;
        if is_same {
            self.violation += self.of(domain);
        } else {
            self.violation = (0..self.tallies.len()).map(|domain| self.of(domain)).sum();
        }
    }
}

impl ViolationTracker for PeerCounts {
    fn count(&mut self, snapshot: &Snapshot, step: &Step) {
        if let Some((part, domain)) = self.ledger.concerned(step.actor, step.unit) {
            self.add(part, domain, arrives(snapshot, step.actor, step.unit), step.sign());
        }
    }

    fn value(&self) -> i64 {
        self.violation - self.whole.exempt
    }

    fn refuses(&self, snapshot: &Snapshot, step: &Step) -> bool {
        let Some((part, domain)) = self.ledger.concerned(step.actor, step.unit) else { return false };
        let mut after = self.clone();
        after.add(part, domain, arrives(snapshot, step.actor, step.unit), 1);
        after.value() > self.value()
    }

    fn concerns(&self, _: &Snapshot, actor: ActorIx) -> bool {
        self.ledger.parts[actor] != Part::default()
    }

    fn boxed(&self) -> Box<dyn ViolationTracker> {
        Box::new(self.clone())
    }
}
