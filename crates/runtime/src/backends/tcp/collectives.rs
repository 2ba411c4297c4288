//! Decentralized exchanges and fences: the smallest id of a group decides, once.
//!
//! A pure state machine from messages to messages. Where groups of one tag overlap and differ, a member that detects it
//! makes the larger decider hand over to the smaller, so that all get the same error.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::wire::Say;
use crate::{
    backends::shared::arbiter::{Agreed, Arbiter, Call, Decision},
    model::{Error, InstanceId, Tag},
};

/// The outcome of a collective for this Instance.
pub type Outcome = (Tag, Option<u64>, Result<Agreed, Error>);

/// An Instance's state of collectives.
pub struct Collectives {
    me: InstanceId,
    lost: BTreeSet<InstanceId>,
    /// Collectives that this Instance decides.
    arbiter: Arbiter,
    /// Collectives that this Instance waits for, with their decider and group.
    open: BTreeMap<(Tag, Option<u64>), (InstanceId, Vec<InstanceId>)>,
    /// Groups of pending exchanges that include this Instance, by tag and decider.
    begun: BTreeMap<Tag, BTreeMap<InstanceId, Vec<InstanceId>>>,
    /// Exchanges handed over to the decider of an overlapping one, with the members that have entered.
    handed: BTreeMap<Tag, (InstanceId, BTreeSet<InstanceId>)>,
    /// Calls received as decider, kept for a hand-over.
    calls: BTreeMap<Tag, BTreeMap<InstanceId, Call>>,
}

impl Collectives {
    pub fn new(me: InstanceId) -> Self {
        Self {
            me,
            lost: BTreeSet::new(),
            arbiter: Arbiter::keeping_settled(),
            open: BTreeMap::new(),
            begun: BTreeMap::new(),
            handed: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    /// This Instance enters a collective.
    pub fn come(&mut self, call: Call) -> (Vec<(InstanceId, Say)>, Vec<Outcome>) {
        let decider = call.group.first().copied().unwrap_or(self.me);
        if self.lost.contains(&decider) {
            return (Vec::new(), vec![(call.tag, call.round, Err(Error::PeerLost(decider)))]);
        }
        self.open.insert((call.tag, call.round), (decider, call.group.clone()));
        let mut says = Vec::new();
        if call.round.is_none() {
            let tag = call.tag;
            self.begun.entry(tag).or_default().insert(decider, call.group.clone());
            says.push((decider, Say::Gather { from: self.me, call }));
            says.extend(self.overlaps(tag));
        } else {
            says.push((decider, Say::Gather { from: self.me, call }));
        }
        self.run(says)
    }

    /// This Instance withdraws from a collective.
    pub fn go(&mut self, tag: Tag, round: Option<u64>) -> (Vec<(InstanceId, Say)>, Vec<Outcome>) {
        let Some((decider, _)) = self.open.remove(&(tag, round)) else { return Default::default() };
        self.forget(tag, decider);
        let from = self.me;
        self.run(vec![(decider, Say::Withdraw { from, tag, round })])
    }

    /// Handles a message from a peer.
    pub fn hear(&mut self, from: InstanceId, say: Say) -> (Vec<(InstanceId, Say)>, Vec<Outcome>) {
        let mut outcomes = Vec::new();
        let says = self.one(from, say, &mut outcomes);
        let (says, more) = self.run(says);
        outcomes.extend(more);
        (says, outcomes)
    }

    /// Handles the loss of an Instance.
    pub fn lose(&mut self, id: InstanceId) -> (Vec<(InstanceId, Say)>, Vec<Outcome>) {
        self.lost.insert(id);
        let mut says = {
            let decisions = self.arbiter.lose(id);
            self.decided(decisions)
        };
        // Collectives decided by, or handed over to, the lost Instance fail.
        let gone: Vec<_> =
            self.open.iter().filter(|(_, (by, _))| *by == id).map(|(which, _)| *which).collect();
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (tag, round) in gone {
            self.open.remove(&(tag, round));
            outcomes.push((tag, round, Err(Error::PeerLost(id))));
        }
        let handed = std::mem::take(&mut self.handed);
        for (tag, (to, came)) in handed {
            if to == id {
                let result = Err(Error::PeerLost(id));
                says.extend(
                    came.into_iter()
                        .map(|member| (member, Say::Decided { tag, round: None, result: result.clone() })),
                );
            } else {
                self.handed.insert(tag, (to, came));
            }
        }
        self.begun.values_mut().for_each(|deciders| {
            deciders.remove(&id);
        });
        let (says, more) = self.run(says);
        outcomes.extend(more);
        (says, outcomes)
    }

    /// Handles messages to itself until none are left.
    fn run(&mut self, says: Vec<(InstanceId, Say)>) -> (Vec<(InstanceId, Say)>, Vec<Outcome>) {
        let (mut queue, mut out, mut outcomes) = (VecDeque::from(says), Vec::new(), Vec::new());
        while let Some((to, say)) = queue.pop_front() {
            if to == self.me {
                let more = self.one(self.me, say, &mut outcomes);
                queue.extend(more);
            } else {
                out.push((to, say));
            }
        }
        (out, outcomes)
    }

    fn one(&mut self, from: InstanceId, say: Say, outcomes: &mut Vec<Outcome>) -> Vec<(InstanceId, Say)> {
        match say {
            Say::Gather { from: member, call } => self.gather(member, call),
            Say::Withdraw { from: member, tag, round } => match self.handed.get(&tag) {
                Some((to, came)) if round.is_none() && came.contains(&member) => {
                    vec![(*to, Say::Withdraw { from: member, tag, round })]
                }
                _ => {
                    let decisions = self.arbiter.withdraw(member, tag, round);
                    self.decided(decisions)
                }
            },
            Say::Begun { tag, group } => {
                self.begun.entry(tag).or_default().insert(from, group);
                self.overlaps(tag)
            }
            Say::Yield { tag, to } => self.hand_over(tag, to),
            Say::Decided { tag, round, result } => {
                if self.open.contains_key(&(tag, round)) || round.is_none() {
                    if let Some((decider, _)) = self.open.remove(&(tag, round)) {
                        self.forget(tag, decider);
                        outcomes.push((tag, round, result));
                    }
                    self.forget(tag, from);
                }
                Vec::new()
            }
            Say::Settled { tag } => {
                self.forget(tag, from);
                if self.handed.get(&tag).is_some_and(|(to, _)| *to == from) {
                    self.handed.remove(&tag);
                }
                Vec::new()
            }
            Say::Release { tag, key } => {
                self.arbiter.release(from, tag, key);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn forget(&mut self, tag: Tag, decider: InstanceId) {
        if let Some(deciders) = self.begun.get_mut(&tag) {
            deciders.remove(&decider);
            if deciders.is_empty() {
                self.begun.remove(&tag);
            }
        }
    }

    fn gather(&mut self, member: InstanceId, call: Call) -> Vec<(InstanceId, Say)> {
        let (tag, round, group) = (call.tag, call.round, call.group.clone());
        if round.is_some() {
            let decisions = self.arbiter.offer(member, call);
            return self.decided(decisions);
        }
        if let Some((to, came)) = self.handed.get_mut(&tag) {
            came.insert(member);
            return vec![(*to, Say::Gather { from: member, call })];
        }
        let mut says = Vec::new();
        if !self.arbiter.gathers(tag, &group) {
            if let Some(decider) = group.first().filter(|id| **id != self.me) {
                // Handed over too late: the overlapping exchange is settled, so its decider takes it back.
                return vec![(*decider, Say::Gather { from: member, call })];
            }
            let others = group.iter().filter(|id| **id != member);
            says.extend(others.map(|id| (*id, Say::Begun { tag, group: group.clone() })));
        }
        self.calls.entry(tag).or_default().insert(member, call.clone());
        let decisions = self.arbiter.offer(member, call);
        says.extend(self.decided(decisions));
        says
    }

    fn decided(&mut self, decisions: Vec<Decision>) -> Vec<(InstanceId, Say)> {
        let mut says = Vec::new();
        for Decision { to, tag, round, result } in decisions {
            if round.is_none() {
                self.calls.remove(&tag);
            }
            says.extend(to.into_iter().map(|id| (id, Say::Decided { tag, round, result: result.clone() })));
        }
        for (tag, members) in self.arbiter.take_settled() {
            says.extend(members.into_iter().map(|id| (id, Say::Settled { tag })));
        }
        says
    }

    /// Hand-over requests for exchanges of one tag that include this Instance and have different deciders.
    fn overlaps(&self, tag: Tag) -> Vec<(InstanceId, Say)> {
        let Some(deciders) = self.begun.get(&tag) else { return Vec::new() };
        let Some(to) = deciders.keys().next().copied() else { return Vec::new() };
        deciders.keys().skip(1).map(|larger| (*larger, Say::Yield { tag, to })).collect()
    }

    fn hand_over(&mut self, tag: Tag, to: InstanceId) -> Vec<(InstanceId, Say)> {
        // Already decided or handed over; a larger `to` violates the protocol.
        let Some(calls) = self.calls.remove(&tag).filter(|_| to < self.me) else { return Vec::new() };
        // No member has an outcome, so the arbiter can drop it.
        self.arbiter.forget(tag);
        self.handed.insert(tag, (to, calls.keys().copied().collect()));
        calls.into_iter().map(|(from, call)| (to, Say::Gather { from, call })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated network: messages between two Instances arrive in order, otherwise in any order.
    struct World {
        all: BTreeMap<InstanceId, Collectives>,
        under_way: BTreeMap<(InstanceId, InstanceId), VecDeque<Say>>,
        outcomes: BTreeMap<InstanceId, Vec<Outcome>>,
        random: fastrand::Rng,
    }

    impl World {
        fn new(count: u64, seed: u64) -> Self {
            let all = (1..=count).map(|id| (InstanceId(id), Collectives::new(InstanceId(id)))).collect();
            let random = fastrand::Rng::with_seed(seed);
            Self { all, under_way: BTreeMap::new(), outcomes: BTreeMap::new(), random }
        }

        fn did(&mut self, who: InstanceId, (says, outcomes): (Vec<(InstanceId, Say)>, Vec<Outcome>)) {
            for (to, say) in says {
                self.under_way.entry((who, to)).or_default().push_back(say);
            }
            self.outcomes.entry(who).or_default().extend(outcomes);
        }

        fn come(&mut self, id: u64, group: &[u64]) {
            let group = group.iter().map(|id| InstanceId(*id)).collect();
            let call = Call { tag: Tag(1), group, round: None, entries: Vec::new(), in_use: None };
            let id = InstanceId(id);
            let did = self.all.get_mut(&id).unwrap().come(call);
            self.did(id, did);
        }

        /// Delivers a few messages, or none.
        fn steps(&mut self) {
            for _ in 0..self.random.usize(..4) {
                self.step();
            }
        }

        /// Delivers one message, if there is one.
        fn step(&mut self) -> bool {
            let pairs: Vec<_> =
                self.under_way.iter().filter(|(_, says)| !says.is_empty()).map(|it| *it.0).collect();
            if pairs.is_empty() {
                return false;
            }
            let (from, to) = pairs[self.random.usize(..pairs.len())];
            let say = self.under_way.get_mut(&(from, to)).unwrap().pop_front().unwrap();
            if let Some(hears) = self.all.get_mut(&to) {
                let did = hears.hear(from, say);
                self.did(to, did);
            }
            true
        }

        fn lose(&mut self, id: InstanceId) {
            self.all.remove(&id);
            self.under_way.retain(|(from, to), _| *from != id && *to != id);
            for other in self.all.keys().copied().collect::<Vec<_>>() {
                let did = self.all.get_mut(&other).unwrap().lose(id);
                self.did(other, did);
            }
        }

        fn outcome(&self, id: u64) -> Option<Result<Agreed, Error>> {
            self.outcomes.get(&InstanceId(id)).and_then(|all| all.last()).map(|(_, _, result)| result.clone())
        }
    }

    #[test]
    fn one_group_agrees_in_whatever_order_things_arrive_and_the_tag_serves_again() {
        for seed in 0..200 {
            let mut world = World::new(3, seed);
            for _ in 0..3 {
                for id in [2, 3, 1] {
                    world.come(id, &[1, 2, 3]);
                    world.steps();
                }
                while world.step() {}
                assert!((1..=3).all(|id| world.outcome(id) == Some(Ok(Vec::new()))), "seed {seed}");
            }
            assert!(world.outcomes.values().all(|outcomes| outcomes.len() == 3), "seed {seed}");
            assert!(
                world.all.values().all(|one| one.begun.is_empty() && one.calls.is_empty()),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn groups_that_overlap_and_differ_are_the_same_error_for_all() {
        for seed in 0..500 {
            let mut world = World::new(4, seed);
            let mut calls = vec![(1, &[1, 2, 3][..]), (2, &[1, 2, 3]), (3, &[2, 3, 4]), (4, &[2, 3, 4])];
            world.random.shuffle(&mut calls);
            for (id, group) in calls {
                world.come(id, group);
                world.steps();
            }
            while world.step() {}
            let told: BTreeSet<_> =
                (1..=4).map(|id| world.outcome(id).expect("told").unwrap_err().to_string()).collect();
            assert_eq!(told.len(), 1, "seed {seed}: {told:?}");
            // No state remains, so the larger group's decider decides again.
            for id in [4, 2, 3] {
                world.come(id, &[2, 3, 4]);
                world.steps();
            }
            while world.step() {}
            assert!((2..=4).all(|id| world.outcome(id) == Some(Ok(Vec::new()))), "seed {seed}");
        }
    }

    #[test]
    fn one_lost_at_any_step_is_never_waited_for() {
        for seed in 0..1000 {
            let mut world = World::new(3, seed);
            let victim = InstanceId(world.random.u64(1..=3));
            let mut steps = world.random.usize(..12);
            for id in [3, 1, 2] {
                world.come(id, &[1, 2, 3]);
            }
            while steps > 0 && world.step() {
                steps -= 1;
            }
            world.lose(victim);
            while world.step() {}
            for id in (1..=3).filter(|id| InstanceId(*id) != victim) {
                let outcome = world.outcome(id).unwrap_or_else(|| panic!("seed {seed}: {id} waits for ever"));
                assert!(outcome == Ok(Vec::new()) || outcome == Err(Error::PeerLost(victim)), "{outcome:?}");
            }
        }
    }
}
