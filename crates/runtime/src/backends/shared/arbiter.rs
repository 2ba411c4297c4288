//! Who decides a collective: one place, once, so that all members get the same answer.
//!
//! Pure: it is told who came with what, who went and who is lost, and answers whom to tell what. Inside a process the
//! process has one, between processes their launcher.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::{Error, InstanceId, Key, Tag};

/// What a member brings to a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its tag.
    pub tag: Tag,
    /// Who takes part, sorted.
    pub group: Vec<InstanceId>,
    /// Which fence of the tag; none for the exchange.
    pub round: Option<u64>,
    /// Slots that are exchanged, each with how to reach it; or the keys of those that are destroyed.
    pub entries: Vec<(Key, Vec<u8>)>,
    /// By whom the tag is in use, as far as the member knows, where nobody knows of all tags.
    pub in_use: Option<Vec<InstanceId>>,
}

/// What all members get: every entry, and whose it is, by key.
pub type Agreed = Vec<(Key, InstanceId, Vec<u8>)>;

/// An outcome, and whom to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whom to tell.
    pub to: Vec<InstanceId>,
    /// The collective's tag.
    pub tag: Tag,
    /// Which fence of it.
    pub round: Option<u64>,
    /// Its outcome.
    pub result: Result<Agreed, Error>,
}

/// All collectives that are under way, and all tags in use.
#[derive(Debug, Default)]
pub struct Arbiter {
    gatherings: Vec<Gathering>,
    used: Vec<Used>,
    lost: BTreeSet<InstanceId>,
    /// Exchanges that failed and of which all have been told, for who wants to know.
    settled: Option<Vec<(Tag, BTreeSet<InstanceId>)>>,
}

#[derive(Debug)]
struct Gathering {
    tag: Tag,
    round: Option<u64>,
    group: Vec<InstanceId>,
    /// Everybody whom any of those who came named.
    members: BTreeSet<InstanceId>,
    offers: BTreeMap<InstanceId, Vec<(Key, Vec<u8>)>>,
    in_use: Option<Vec<InstanceId>>,
    /// Once it failed it is kept until the last member has come and been told the same.
    failure: Option<Error>,
    told: BTreeSet<InstanceId>,
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
    /// One that keeps what [`Self::take_settled`] takes.
    pub fn keeping_settled() -> Self {
        Self { settled: Some(Vec::new()), ..Self::default() }
    }

    /// The exchanges that failed and of which all have been told since it was asked last, and who was in them.
    pub fn take_settled(&mut self) -> Vec<(Tag, BTreeSet<InstanceId>)> {
        self.settled.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether an exchange of this tag is under way that has one of these in it.
    pub fn gathers(&self, tag: Tag, group: &[InstanceId]) -> bool {
        let same = |it: &Gathering| it.tag == tag && it.round.is_none();
        self.gatherings.iter().any(|it| same(it) && group.iter().any(|id| it.members.contains(id)))
    }

    /// A member comes.
    pub fn offer(&mut self, from: InstanceId, call: Call) -> Vec<Decision> {
        let Call { tag, group, round, entries, in_use } = call;
        let same = |it: &Gathering| {
            (it.tag, it.round) == (tag, round) && group.iter().any(|id| it.members.contains(id))
        };
        let found = self.gatherings.iter().position(same);
        let index = found.unwrap_or_else(|| {
            self.gatherings.push(Gathering {
                tag,
                round,
                group: group.clone(),
                members: BTreeSet::new(),
                offers: BTreeMap::new(),
                in_use: None,
                failure: None,
                told: BTreeSet::new(),
            });
            self.gatherings.len() - 1
        });
        let gathering = &mut self.gatherings[index];
        gathering.members.extend(&group);
        gathering.in_use = gathering.in_use.take().or(in_use);
        let other = gathering.group != group;
        let first = gathering.offers.keys().next().copied();
        let again = gathering.offers.insert(from, entries).is_some();
        if let Some(failure) = gathering.failure.clone() {
            gathering.told.insert(from);
            let decision = Decision { to: vec![from], tag, round, result: Err(failure) };
            self.settle();
            return vec![decision];
        }
        let why = if again {
            Some(format!("Instance {from} came twice"))
        } else if other {
            let first = first.unwrap_or(from);
            let theirs = names(&gathering.group);
            Some(format!(
                "Instance {first} names the group {theirs} and Instance {from} names {}",
                names(&group)
            ))
        } else {
            None
        };
        if let Some(why) = why {
            return self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() });
        }
        if let Some(lost) = gathering.group.iter().find(|id| self.lost.contains(id)) {
            let lost = *lost;
            return self.fail(index, &|_| Error::PeerLost(lost));
        }
        self.conclude(index)
    }

    /// A member goes without waiting for the outcome.
    pub fn withdraw(&mut self, from: InstanceId, tag: Tag, round: Option<u64>) -> Vec<Decision> {
        let same = |it: &Gathering| (it.tag, it.round) == (tag, round) && it.offers.contains_key(&from);
        let Some(index) = self.gatherings.iter().position(same) else { return Vec::new() };
        let why = format!("Instance {from} withdrew");
        self.gatherings[index].told.insert(from);
        if self.gatherings[index].failure.is_some() {
            self.settle();
            return Vec::new();
        }
        self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() })
    }

    /// An Instance is lost: what needs it fails.
    pub fn lose(&mut self, id: InstanceId) -> Vec<Decision> {
        self.lost.insert(id);
        let mut decisions = Vec::new();
        for index in 0..self.gatherings.len() {
            let gathering = &self.gatherings[index];
            if gathering.failure.is_none() && gathering.members.contains(&id) {
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

    /// A slot is destroyed without a fence, because a member of its group is lost.
    pub fn release(&mut self, from: InstanceId, tag: Tag, key: Key) {
        for used in self.used.iter_mut().filter(|used| used.tag == tag && used.group.contains(&from)) {
            used.keys.remove(&key);
        }
        self.used.retain(|used| !used.keys.is_empty());
    }

    /// Nobody has been told of this exchange, and somebody else decides it now.
    pub fn forget(&mut self, tag: Tag) {
        self.gatherings.retain(|it| it.tag != tag || it.round.is_some() || it.failure.is_some());
    }

    fn conclude(&mut self, index: usize) -> Vec<Decision> {
        let gathering = &self.gatherings[index];
        let tag = gathering.tag;
        if gathering.offers.len() < gathering.group.len() {
            return Vec::new();
        }
        let overlaps =
            |used: &&Used| used.tag == tag && used.group.iter().any(|id| gathering.members.contains(id));
        let used = self.used.iter().find(overlaps).map(|used| &used.group);
        let used = used.or(gathering.in_use.as_ref());
        let mut agreed: Agreed = Vec::new();
        for (owner, entries) in &gathering.offers {
            agreed.extend(entries.iter().map(|(key, bytes)| (*key, *owner, bytes.clone())));
        }
        agreed.sort_by_key(|(key, owner, _)| (*key, *owner));
        if gathering.round.is_none() {
            let twice = agreed.windows(2).find(|pair| pair[0].0 == pair[1].0);
            let why = match (used, twice) {
                (Some(used), _) => {
                    let group = names(used);
                    Some(format!("the tag is in use by {group}; destroy its slots and fence it first"))
                }
                (None, Some(pair)) => {
                    let (key, one, other) = (pair[0].0, pair[0].1, pair[1].1);
                    Some(format!("key {key} is brought by Instance {one} and by Instance {other}"))
                }
                (None, None) => None,
            };
            if let Some(why) = why {
                return self.fail(index, &|what| Error::Collective { what, tag: tag.0, why: why.clone() });
            }
        }
        let gathering = self.gatherings.swap_remove(index);
        let to = gathering.group.clone();
        if gathering.round.is_some() {
            agreed.dedup_by_key(|(key, ..)| *key);
            for used in self.used.iter_mut().filter(|used| used.tag == tag && used.group == gathering.group) {
                used.keys.retain(|key| !agreed.iter().any(|(destroyed, ..)| destroyed == key));
            }
            self.used.retain(|used| !used.keys.is_empty());
        } else if !agreed.is_empty() {
            let keys = agreed.iter().map(|(key, ..)| *key).collect();
            self.used.push(Used { tag, group: gathering.group, keys });
        }
        vec![Decision { to, tag, round: gathering.round, result: Ok(agreed) }]
    }

    fn fail(&mut self, index: usize, error: &dyn Fn(String) -> Error) -> Vec<Decision> {
        let decision = self.fail_one(index, error);
        self.settle();
        vec![decision]
    }

    fn fail_one(&mut self, index: usize, error: &dyn Fn(String) -> Error) -> Decision {
        let gathering = &mut self.gatherings[index];
        let what = if gathering.round.is_some() { "fence" } else { "exchange" };
        let failure = error(what.to_owned());
        let to: Vec<_> = gathering.offers.keys().filter(|id| !gathering.told.contains(id)).copied().collect();
        gathering.told.extend(&to);
        gathering.failure = Some(failure.clone());
        Decision { to, tag: gathering.tag, round: gathering.round, result: Err(failure) }
    }

    /// Forgets what failed and of which everybody knows who still can.
    fn settle(&mut self) {
        let lost = &self.lost;
        let settled = &mut self.settled;
        self.gatherings.retain(|it| {
            let open = it.failure.is_none()
                || it.members.iter().any(|id| !it.told.contains(id) && !lost.contains(id));
            if let (false, None, Some(settled)) = (open, it.round, settled.as_mut()) {
                settled.push((it.tag, it.members.clone()));
            }
            open
        });
    }
}
