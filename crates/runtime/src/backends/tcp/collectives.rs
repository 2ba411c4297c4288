//! Decentralized exchanges and fences: the smallest id of a group decides, once.
//!
//! A pure state machine from messages to messages. Where groups of one tag overlap and differ, a member that detects it
//! makes the larger decider hand over to the smaller, so that all get the same error.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::wire::PeerMessage;
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
            arbiter: Arbiter::recording_settled(),
            open: BTreeMap::new(),
            begun: BTreeMap::new(),
            handed: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    /// This Instance enters a collective.
    pub fn enter(&mut self, call: Call) -> (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>) {
        let decider = call.group.first().copied().unwrap_or(self.me);
        if self.lost.contains(&decider) {
            return (Vec::new(), vec![(call.tag, call.round, Err(Error::PeerLost(decider)))]);
        }
        self.open.insert((call.tag, call.round), (decider, call.group.clone()));
        let mut messages = Vec::new();
        if call.round.is_none() {
            let tag = call.tag;
            self.begun.entry(tag).or_default().insert(decider, call.group.clone());
            messages.push((decider, PeerMessage::Gather { from: self.me, call }));
            messages.extend(self.overlaps(tag));
        } else {
            messages.push((decider, PeerMessage::Gather { from: self.me, call }));
        }
        self.run(messages)
    }

    /// This Instance withdraws from a collective.
    pub fn withdraw(
        &mut self,
        tag: Tag,
        round: Option<u64>,
    ) -> (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>) {
        let Some((decider, _)) = self.open.remove(&(tag, round)) else { return Default::default() };
        self.forget(tag, decider);
        let from = self.me;
        self.run(vec![(decider, PeerMessage::Withdraw { from, tag, round })])
    }

    /// Handles a message from a peer.
    pub fn handle(
        &mut self,
        from: InstanceId,
        message: PeerMessage,
    ) -> (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>) {
        let mut outcomes = Vec::new();
        let messages = self.one(from, message, &mut outcomes);
        let (messages, more) = self.run(messages);
        outcomes.extend(more);
        (messages, outcomes)
    }

    /// Handles the loss of an Instance.
    pub fn lose(&mut self, id: InstanceId) -> (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>) {
        self.lost.insert(id);
        let mut messages = {
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
        for (tag, (to, entered)) in handed {
            if to == id {
                let result = Err(Error::PeerLost(id));
                messages.extend(entered.into_iter().map(|member| {
                    (member, PeerMessage::Decided { tag, round: None, result: result.clone() })
                }));
            } else {
                self.handed.insert(tag, (to, entered));
            }
        }
        self.begun.values_mut().for_each(|deciders| {
            deciders.remove(&id);
        });
        let (messages, more) = self.run(messages);
        outcomes.extend(more);
        (messages, outcomes)
    }

    /// Handles messages to itself until none are left.
    fn run(
        &mut self,
        messages: Vec<(InstanceId, PeerMessage)>,
    ) -> (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>) {
        let (mut queue, mut out, mut outcomes) = (VecDeque::from(messages), Vec::new(), Vec::new());
        while let Some((to, message)) = queue.pop_front() {
            if to == self.me {
                let more = self.one(self.me, message, &mut outcomes);
                queue.extend(more);
            } else {
                out.push((to, message));
            }
        }
        (out, outcomes)
    }

    fn one(
        &mut self,
        from: InstanceId,
        message: PeerMessage,
        outcomes: &mut Vec<Outcome>,
    ) -> Vec<(InstanceId, PeerMessage)> {
        match message {
            PeerMessage::Gather { from: member, call } => self.gather(member, call),
            PeerMessage::Withdraw { from: member, tag, round } => match self.handed.get(&tag) {
                Some((to, entered)) if round.is_none() && entered.contains(&member) => {
                    vec![(*to, PeerMessage::Withdraw { from: member, tag, round })]
                }
                _ => {
                    let decisions = self.arbiter.withdraw(member, tag, round);
                    self.decided(decisions)
                }
            },
            PeerMessage::Begun { tag, group } => {
                self.begun.entry(tag).or_default().insert(from, group);
                self.overlaps(tag)
            }
            PeerMessage::Yield { tag, to } => self.hand_over(tag, to),
            PeerMessage::Decided { tag, round, result } => {
                if self.open.contains_key(&(tag, round)) || round.is_none() {
                    if let Some((decider, _)) = self.open.remove(&(tag, round)) {
                        self.forget(tag, decider);
                        outcomes.push((tag, round, result));
                    }
                    self.forget(tag, from);
                }
                Vec::new()
            }
            PeerMessage::Settled { tag } => {
                self.forget(tag, from);
                if self.handed.get(&tag).is_some_and(|(to, _)| *to == from) {
                    self.handed.remove(&tag);
                }
                Vec::new()
            }
            PeerMessage::Release { tag, key } => {
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

    fn gather(&mut self, member: InstanceId, call: Call) -> Vec<(InstanceId, PeerMessage)> {
        let (tag, round, group) = (call.tag, call.round, call.group.clone());
        if round.is_some() {
            let decisions = self.arbiter.enter(member, call);
            return self.decided(decisions);
        }
        if let Some((to, entered)) = self.handed.get_mut(&tag) {
            entered.insert(member);
            return vec![(*to, PeerMessage::Gather { from: member, call })];
        }
        let mut messages = Vec::new();
        if !self.arbiter.is_pending(tag, &group) {
            if let Some(decider) = group.first().filter(|id| **id != self.me) {
                // Handed over too late: the overlapping exchange is settled, so its decider takes it back.
                return vec![(*decider, PeerMessage::Gather { from: member, call })];
            }
            let others = group.iter().filter(|id| **id != member);
            messages.extend(others.map(|id| (*id, PeerMessage::Begun { tag, group: group.clone() })));
        }
        self.calls.entry(tag).or_default().insert(member, call.clone());
        let decisions = self.arbiter.enter(member, call);
        messages.extend(self.decided(decisions));
        messages
    }

    fn decided(&mut self, decisions: Vec<Decision>) -> Vec<(InstanceId, PeerMessage)> {
        let mut messages = Vec::new();
        for Decision { to, tag, round, result } in decisions {
            if round.is_none() {
                self.calls.remove(&tag);
            }
            messages.extend(
                to.into_iter().map(|id| (id, PeerMessage::Decided { tag, round, result: result.clone() })),
            );
        }
        for (tag, members) in self.arbiter.take_settled() {
            messages.extend(members.into_iter().map(|id| (id, PeerMessage::Settled { tag })));
        }
        messages
    }

    /// Hand-over requests for exchanges of one tag that include this Instance and have different deciders.
    fn overlaps(&self, tag: Tag) -> Vec<(InstanceId, PeerMessage)> {
        let Some(deciders) = self.begun.get(&tag) else { return Vec::new() };
        let Some(to) = deciders.keys().next().copied() else { return Vec::new() };
        deciders.keys().skip(1).map(|larger| (*larger, PeerMessage::Yield { tag, to })).collect()
    }

    fn hand_over(&mut self, tag: Tag, to: InstanceId) -> Vec<(InstanceId, PeerMessage)> {
        // Already decided or handed over; a larger `to` violates the protocol.
        let Some(calls) = self.calls.remove(&tag).filter(|_| to < self.me) else { return Vec::new() };
        // No member has an outcome, so the arbiter can drop it.
        self.arbiter.forget(tag);
        self.handed.insert(tag, (to, calls.keys().copied().collect()));
        calls.into_iter().map(|(from, call)| (to, PeerMessage::Gather { from, call })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated network: messages between two Instances arrive in order, otherwise in any order.
    struct Network {
        all: BTreeMap<InstanceId, Collectives>,
        in_flight: BTreeMap<(InstanceId, InstanceId), VecDeque<PeerMessage>>,
        outcomes: BTreeMap<InstanceId, Vec<Outcome>>,
        random: fastrand::Rng,
    }

    impl Network {
        fn new(count: u64, seed: u64) -> Self {
            let all = (1..=count).map(|id| (InstanceId(id), Collectives::new(InstanceId(id)))).collect();
            let random = fastrand::Rng::with_seed(seed);
            Self { all, in_flight: BTreeMap::new(), outcomes: BTreeMap::new(), random }
        }

        fn dispatch(
            &mut self,
            from: InstanceId,
            (messages, outcomes): (Vec<(InstanceId, PeerMessage)>, Vec<Outcome>),
        ) {
            for (to, message) in messages {
                self.in_flight.entry((from, to)).or_default().push_back(message);
            }
            self.outcomes.entry(from).or_default().extend(outcomes);
        }

        fn enter(&mut self, id: u64, group: &[u64]) {
            let group = group.iter().map(|id| InstanceId(*id)).collect();
            let call = Call { tag: Tag(1), group, round: None, entries: Vec::new(), in_use: None };
            let id = InstanceId(id);
            let result = self.all.get_mut(&id).unwrap().enter(call);
            self.dispatch(id, result);
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
                self.in_flight.iter().filter(|(_, messages)| !messages.is_empty()).map(|it| *it.0).collect();
            if pairs.is_empty() {
                return false;
            }
            let (from, to) = pairs[self.random.usize(..pairs.len())];
            let message = self.in_flight.get_mut(&(from, to)).unwrap().pop_front().unwrap();
            if let Some(receiver) = self.all.get_mut(&to) {
                let result = receiver.handle(from, message);
                self.dispatch(to, result);
            }
            true
        }

        fn lose(&mut self, id: InstanceId) {
            self.all.remove(&id);
            self.in_flight.retain(|(from, to), _| *from != id && *to != id);
            for other in self.all.keys().copied().collect::<Vec<_>>() {
                let result = self.all.get_mut(&other).unwrap().lose(id);
                self.dispatch(other, result);
            }
        }

        fn outcome(&self, id: u64) -> Option<Result<Agreed, Error>> {
            self.outcomes.get(&InstanceId(id)).and_then(|all| all.last()).map(|(_, _, result)| result.clone())
        }
    }

    #[test]
    fn a_group_agrees_under_any_message_order_and_the_tag_is_reusable() {
        for seed in 0..200 {
            let mut network = Network::new(3, seed);
            for _ in 0..3 {
                for id in [2, 3, 1] {
                    network.enter(id, &[1, 2, 3]);
                    network.steps();
                }
                while network.step() {}
                assert!((1..=3).all(|id| network.outcome(id) == Some(Ok(Vec::new()))), "seed {seed}");
            }
            assert!(network.outcomes.values().all(|outcomes| outcomes.len() == 3), "seed {seed}");
            assert!(
                network.all.values().all(|one| one.begun.is_empty() && one.calls.is_empty()),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn overlapping_groups_are_the_same_error_for_all_members() {
        for seed in 0..500 {
            let mut network = Network::new(4, seed);
            let mut calls = vec![(1, &[1, 2, 3][..]), (2, &[1, 2, 3]), (3, &[2, 3, 4]), (4, &[2, 3, 4])];
            network.random.shuffle(&mut calls);
            for (id, group) in calls {
                network.enter(id, group);
                network.steps();
            }
            while network.step() {}
            let errors: BTreeSet<_> =
                (1..=4).map(|id| network.outcome(id).expect("errors").unwrap_err().to_string()).collect();
            assert_eq!(errors.len(), 1, "seed {seed}: {errors:?}");
            // No state remains, so the larger group's decider decides again.
            for id in [4, 2, 3] {
                network.enter(id, &[2, 3, 4]);
                network.steps();
            }
            while network.step() {}
            assert!((2..=4).all(|id| network.outcome(id) == Some(Ok(Vec::new()))), "seed {seed}");
        }
    }

    #[test]
    fn a_member_lost_at_any_step_never_blocks_a_collective() {
        for seed in 0..1000 {
            let mut network = Network::new(3, seed);
            let victim = InstanceId(network.random.u64(1..=3));
            let mut steps = network.random.usize(..12);
            for id in [3, 1, 2] {
                network.enter(id, &[1, 2, 3]);
            }
            while steps > 0 && network.step() {
                steps -= 1;
            }
            network.lose(victim);
            while network.step() {}
            for id in (1..=3).filter(|id| InstanceId(*id) != victim) {
                let outcome =
                    network.outcome(id).unwrap_or_else(|| panic!("seed {seed}: {id} never completes"));
                assert!(outcome == Ok(Vec::new()) || outcome == Err(Error::PeerLost(victim)), "{outcome:?}");
            }
        }
    }
}
