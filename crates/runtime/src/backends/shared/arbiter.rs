//! The arbiter decides each collective once and centrally, so that all members get the same outcome.
//!
//! A pure state machine: its inputs are calls, withdrawals and losses, its outputs are decisions to deliver. There is
//! one per process for Instances within it, or one in the launcher.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::{Error, InstanceId, Key, Tag};

/// A member's contribution to a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The tag.
    pub tag: Tag,
    /// The members, sorted.
    pub group: Vec<InstanceId>,
    /// The number of the fence; none for an exchange.
    pub round: Option<u64>,
    /// The exchanged slots with their descriptors, or the keys of destroyed slots.
    pub entries: Vec<(Key, Vec<u8>)>,
    /// The group that uses the tag as far as the member knows, for back-ends without a global view.
    pub in_use: Option<Vec<InstanceId>>,
}

/// The outcome for all members: every entry with its owner, by key.
pub type Agreed = Vec<(Key, InstanceId, Vec<u8>)>;

/// An outcome and its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The recipients.
    pub to: Vec<InstanceId>,
    /// The tag.
    pub tag: Tag,
    /// The number of the fence.
    pub round: Option<u64>,
    /// The outcome.
    pub result: Result<Agreed, Error>,
}

/// The pending collectives and the tags in use.
#[derive(Debug, Default)]
pub struct Arbiter {
    pending: Vec<Collective>,
    used: Vec<Used>,
    lost: BTreeSet<InstanceId>,
    /// Failed exchanges of which all members are informed, if they are recorded.
    settled: Option<Vec<(Tag, BTreeSet<InstanceId>)>>,
}

#[derive(Debug)]
struct Collective {
    tag: Tag,
    round: Option<u64>,
    group: Vec<InstanceId>,
    /// Union of the groups in all calls.
    members: BTreeSet<InstanceId>,
    offers: BTreeMap<InstanceId, Vec<(Key, Vec<u8>)>>,
    in_use: Option<Vec<InstanceId>>,
    /// A failure is kept until every member has called and got it.
    failure: Option<Error>,
    informed: BTreeSet<InstanceId>,
}

#[derive(Debug)]
struct Used {
    tag: Tag,
    group: Vec<InstanceId>,
    keys: BTreeSet<Key>,
}

fn names(ids: &[InstanceId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Arbiter {
    /// An arbiter that records settled exchanges for [`Self::take_settled`].
    pub fn recording_settled() -> Self {
        Self { settled: Some(Vec::new()), ..Self::default() }
    }

    /// Takes the exchanges settled since the last call, with their members.
    pub fn take_settled(&mut self) -> Vec<(Tag, BTreeSet<InstanceId>)> {
        self.settled.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether an exchange of this tag with one of these members is pending.
    pub fn is_pending(&self, tag: Tag, group: &[InstanceId]) -> bool {
        let same = |it: &Collective| it.tag == tag && it.round.is_none();
        self.pending.iter().any(|it| same(it) && group.iter().any(|id| it.members.contains(id)))
    }

    /// A member enters a collective.
    pub fn enter(&mut self, from: InstanceId, call: Call) -> Vec<Decision> {
        let Call { tag, group, round, entries, in_use } = call;
        let same = |it: &Collective| {
            (it.tag, it.round) == (tag, round) && group.iter().any(|id| it.members.contains(id))
        };
        let found = self.pending.iter().position(same);
        let index = found.unwrap_or_else(|| {
            self.pending.push(Collective {
                tag,
                round,
                group: group.clone(),
                members: BTreeSet::new(),
                offers: BTreeMap::new(),
                in_use: None,
                failure: None,
                informed: BTreeSet::new(),
            });
            self.pending.len() - 1
        });
        let collective = &mut self.pending[index];
        collective.members.extend(&group);
        collective.in_use = collective.in_use.take().or(in_use);
        let other = collective.group != group;
        let first = collective.offers.keys().next().copied();
        let again = collective.offers.insert(from, entries).is_some();
        if let Some(failure) = collective.failure.clone() {
            collective.informed.insert(from);
            let decision = Decision { to: vec![from], tag, round, result: Err(failure) };
            self.settle();
            return vec![decision];
        }
        let why = if again {
            Some(format!("Instance {from} entered twice"))
        } else if other {
            let first = first.unwrap_or(from);
            let theirs = names(&collective.group);
            Some(format!(
                "Instance {first} passed the group {theirs} and Instance {from} passed {}",
                names(&group)
            ))
        } else {
            None
        };
        if let Some(why) = why {
            return self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() });
        }
        if let Some(lost) = collective.group.iter().find(|id| self.lost.contains(id)) {
            let lost = *lost;
            return self.fail(index, &|_| Error::PeerLost(lost));
        }
        self.conclude(index)
    }

    /// A member withdraws from a collective.
    pub fn withdraw(&mut self, from: InstanceId, tag: Tag, round: Option<u64>) -> Vec<Decision> {
        let same = |it: &Collective| (it.tag, it.round) == (tag, round) && it.offers.contains_key(&from);
        let Some(index) = self.pending.iter().position(same) else { return Vec::new() };
        let why = format!("Instance {from} withdrew");
        self.pending[index].informed.insert(from);
        if self.pending[index].failure.is_some() {
            self.settle();
            return Vec::new();
        }
        self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() })
    }

    /// An Instance is lost, which fails its pending collectives.
    pub fn lose(&mut self, id: InstanceId) -> Vec<Decision> {
        self.lost.insert(id);
        let mut decisions = Vec::new();
        for index in 0..self.pending.len() {
            let collective = &self.pending[index];
            if collective.failure.is_none() && collective.members.contains(&id) {
                decisions.push(self.fail_one(index, &|_| Error::PeerLost(id)));
            }
        }
        self.settle();
        for used in &self.used {
            debug_assert!(!used.keys.is_empty(), "a tag without slots is free");
        }
        let lost = &self.lost;
        self.used.retain(|used| !used.group.iter().all(|member| lost.contains(member)));
        decisions
    }

    /// A slot is destroyed without a fence because a member of its group is lost.
    pub fn release(&mut self, from: InstanceId, tag: Tag, key: Key) {
        for used in self.used.iter_mut().filter(|used| used.tag == tag && used.group.contains(&from)) {
            used.keys.remove(&key);
        }
        self.used.retain(|used| !used.keys.is_empty());
    }

    /// Drops an exchange that is handed over to another decider before any member has an outcome.
    pub fn forget(&mut self, tag: Tag) {
        self.pending.retain(|it| it.tag != tag || it.round.is_some() || it.failure.is_some());
    }

    fn conclude(&mut self, index: usize) -> Vec<Decision> {
        let collective = &self.pending[index];
        let tag = collective.tag;
        if collective.offers.len() < collective.group.len() {
            return Vec::new();
        }
        let overlaps =
            |used: &&Used| used.tag == tag && used.group.iter().any(|id| collective.members.contains(id));
        let used = self.used.iter().find(overlaps).map(|used| &used.group);
        let used = used.or(collective.in_use.as_ref());
        let mut agreed: Agreed = Vec::new();
        for (owner, entries) in &collective.offers {
            agreed.extend(entries.iter().map(|(key, bytes)| (*key, *owner, bytes.clone())));
        }
        agreed.sort_by_key(|(key, owner, _)| (*key, *owner));
        if collective.round.is_none() {
            let twice = agreed.windows(2).find(|pair| pair[0].0 == pair[1].0);
            let why = match (used, twice) {
                (Some(used), _) => {
                    let group = names(used);
                    Some(format!("the tag is in use by {group}; destroy its slots and fence it first"))
                }
                (None, Some(pair)) => {
                    let (key, one, other) = (pair[0].0, pair[0].1, pair[1].1);
                    Some(format!("key {key} is contributed by Instance {one} and by Instance {other}"))
                }
                (None, None) => None,
            };
            if let Some(why) = why {
                return self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() });
            }
        }
        let collective = self.pending.swap_remove(index);
        let to = collective.group.clone();
        if collective.round.is_some() {
            agreed.dedup_by_key(|(key, ..)| *key);
            for used in self.used.iter_mut().filter(|used| used.tag == tag && used.group == collective.group)
            {
                used.keys.retain(|key| !agreed.iter().any(|(destroyed, ..)| destroyed == key));
            }
            self.used.retain(|used| !used.keys.is_empty());
        } else if !agreed.is_empty() {
            let keys = agreed.iter().map(|(key, ..)| *key).collect();
            self.used.push(Used { tag, group: collective.group, keys });
        }
        vec![Decision { to, tag, round: collective.round, result: Ok(agreed) }]
    }

    fn fail(&mut self, index: usize, error: &dyn Fn(String) -> Error) -> Vec<Decision> {
        let decision = self.fail_one(index, error);
        self.settle();
        vec![decision]
    }

    fn fail_one(&mut self, index: usize, error: &dyn Fn(String) -> Error) -> Decision {
        let collective = &mut self.pending[index];
        let what = if collective.round.is_some() { "fence" } else { "exchange" };
        let failure = error(what.to_owned());
        let to: Vec<_> =
            collective.offers.keys().filter(|id| !collective.informed.contains(id)).copied().collect();
        collective.informed.extend(&to);
        collective.failure = Some(failure.clone());
        Decision { to, tag: collective.tag, round: collective.round, result: Err(failure) }
    }

    /// Removes failed collectives of which every remaining member is informed.
    fn settle(&mut self) {
        let lost = &self.lost;
        let settled = &mut self.settled;
        self.pending.retain(|it| {
            let open = it.failure.is_none()
                || it.members.iter().any(|id| !it.informed.contains(id) && !lost.contains(id));
            if let (false, None, Some(settled)) = (open, it.round, settled.as_mut()) {
                settled.push((it.tag, it.members.clone()));
            }
            open
        });
    }
}
