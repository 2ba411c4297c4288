//! One Instance of three is killed at each step of exchange, copy, fence, lock and call. For the others every operation
//! succeeds or reports the loss, and they continue.

use std::time::{Duration, Instant};

use runtime::{
    Error, GlobalSlot, Key, Memcpy, Tag,
    backends::processes,
    frontends::{
        channel::{Mode, PushError, Setup, Shape, open},
        rpc::Rpc,
    },
};

use crate::ranks::{BY, Rank, inside, key, launched_by, launched_with, member, soon};

const STEPS: [&str; 14] = [
    "before the exchange",
    "exchange begun",
    "exchange done",
    "copies begun",
    "copies fenced",
    "lock held",
    "lock waited for",
    "fence of the tag begun",
    "fence of the tag done",
    "connected",
    "in a call",
    "call answered",
    "call begun",
    "all done",
];

/// Environment variable: the index of the step.
const STEP: &str = "CAIRN_TEST_STEP";

fn die() -> ! {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    unreachable!("it was killed")
}

fn later() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

#[test]
fn an_instance_killed_at_any_step_is_lost_and_never_waited_for() {
    const NAME: &str = "losses::an_instance_killed_at_any_step_is_lost_and_never_waited_for";
    if processes::launched() {
        member(|rank| Scenario::of(rank).run());
    }
    for (index, step) in STEPS.into_iter().enumerate() {
        for by in BY {
            let options = ["-n", "3", "--oversubscribe"];
            let output = launched_with(by, &options, NAME, &[(STEP, &index.to_string())]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{by}, killed when: {step}: {stderr}");
        }
    }
}

/// A member that detects a loss early frees its slots before others have opened them; they get the loss as the error.
#[test]
fn a_loss_during_an_exchange_is_reported_to_all_members() {
    const NAME: &str = "losses::a_loss_during_an_exchange_is_reported_to_all_members";
    if processes::launched() {
        member(|rank| {
            let (ids, group, index) = (rank.ids(), rank.group(), rank.index());
            let mine = rank.slot(8);
            let mut wait = rank.communication.exchange(&group, Tag(1), &[(key(index), &mine)]).unwrap();
            if index == 2 {
                wait.block(later()).unwrap();
                die();
            }
            while rank.instances.instances().len() > 2 {
                std::thread::yield_now();
            }
            let mut others = vec![ids[0], ids[1]];
            others.sort_unstable();
            if index == 1 {
                soon(rank.communication.exchange(&others, Tag(2), &[]).unwrap()).unwrap();
            }
            let result = soon(wait);
            assert!(matches!(&result, Ok(_) | Err(Error::PeerLost(_))), "{index}: {:?}", result.err());
            if index == 0 {
                drop((result, mine));
                soon(rank.communication.exchange(&others, Tag(2), &[]).unwrap()).unwrap();
            }
            // Both have finished; this overrides the launcher's exit code, which would report the kill.
            soon(rank.communication.exchange(&others, Tag(3), &[]).unwrap()).unwrap();
            if index == 0 {
                rank.instances.abort(0, "the test is over").unwrap();
            }
            std::thread::park();
        });
    }
    for by in BY {
        let output = launched_by(by, &["-n", "3", "--oversubscribe"], NAME);
        assert!(output.status.success(), "{by}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

struct Scenario<'a> {
    rank: &'a Rank,
    /// The step of the kill; the victim rotates over the three, including the root and the smallest id.
    at: usize,
    victim: usize,
    /// The index of this Instance, determined before the kill.
    index: usize,
}

impl Scenario<'_> {
    fn of(rank: &Rank) -> Scenario<'_> {
        let at = std::env::var(STEP).unwrap().parse().unwrap();
        Scenario { rank, at, victim: at % 3, index: rank.index() }
    }

    fn is_victim(&self) -> bool {
        self.index == self.victim
    }

    fn reaches(&self, step: &str) {
        assert!(STEPS.contains(&step), "{step}");
        if self.is_victim() && STEPS[self.at] == step {
            die();
        }
    }

    /// Accepts success or the loss of the victim.
    #[track_caller]
    fn allowed<T>(&self, ids: &[runtime::InstanceId], result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::PeerLost(id)) if id == ids[self.victim] => None,
            Err(error) => panic!("killed when: {}: {error}", STEPS[self.at]),
        }
    }

    fn run(&self) {
        let rank = self.rank;
        // Read before the kill, which shortens the list.
        let (ids, group, index) = (rank.ids(), rank.group(), self.index);
        self.allowed(&ids, rank.communication.exchange(&group, Tag(1), &[]).and_then(soon));
        let (mine, source, space) = (rank.slot(8), rank.slot(8), rank.space());
        self.reaches("before the exchange");
        let wait = rank.communication.exchange(&group, Tag(2), &[(key(index), &mine)]);
        self.reaches("exchange begun");
        let global: Option<Vec<GlobalSlot>> =
            self.allowed(&ids, wait.and_then(soon)).map(|slots| slots.into_values().collect());
        self.reaches("exchange done");
        if let Some(global) = &global {
            for (_, slot) in global.iter().enumerate().filter(|(other, _)| *other != index) {
                self.allowed(&ids, rank.communication.memcpy(slot, 0, &source, 0, 8));
            }
            self.reaches("copies begun");
            self.allowed(&ids, soon(rank.communication.fence((&mine).into(), 0, 2).unwrap()));
        }
        self.reaches("copies fenced");
        self.lock(&ids, global.as_deref());
        let fence = rank.communication.fence_tag(Tag(2));
        self.reaches("fence of the tag begun");
        if global.is_some() {
            self.allowed(&ids, fence.and_then(soon));
        }
        self.reaches("fence of the tag done");
        let setup = Setup {
            memory: &*rank.memory,
            communication: &*rank.communication,
            space: &space,
            me: rank.me(),
        };
        let mut rpc = self.allowed(&ids, Rpc::new(setup, Tag(20), &group));
        self.reaches("connected");
        if let Some(rpc) = &mut rpc {
            self.calls(&ids, rpc);
        }
        if self.is_victim() {
            assert_eq!(STEPS[self.at], "all done");
            die();
        }
        self.continue_without(&ids, global.as_deref(), rpc.as_mut());
    }

    /// All lock the same slot, which the victim locks first but does not own.
    fn lock(&self, ids: &[runtime::InstanceId], global: Option<&[GlobalSlot]>) {
        let Some(slot) = global.map(|global| &global[(self.victim + 1) % 3]) else { return };
        let begin = |tag| {
            let mut group = ids.to_vec();
            group.sort_unstable();
            self.allowed(ids, self.rank.communication.exchange(&group, Tag(tag), &[]).and_then(soon))
        };
        let first = self.is_victim().then(|| self.rank.communication.try_lock(slot).unwrap().unwrap());
        self.reaches("lock held");
        begin(3);
        drop(first);
        let until = later();
        loop {
            let locked = self.rank.communication.try_lock(slot).unwrap();
            self.reaches("lock waited for");
            if locked.is_some() {
                break;
            }
            assert!(Instant::now() < until, "the lock is never released");
            std::thread::yield_now();
        }
        begin(4);
    }

    /// The others call the victim and are called by it.
    fn calls(&self, ids: &[runtime::InstanceId], rpc: &mut Rpc<'_>) {
        let victim = ids[self.victim];
        let in_a_call = STEPS[self.at] == "in a call";
        rpc.register("double", move |bytes| if in_a_call { die() } else { Ok(vec![bytes[0] * 2]) }).unwrap();
        rpc.register("triple", |bytes| Ok(vec![bytes[0] * 3])).unwrap();
        if !self.is_victim() {
            // A loss is reported once: by the call, or by `listen` for a call that never arrives.
            if let Some(answer) = self.allowed(ids, rpc.call(victim, "double", &[21], later())) {
                assert_eq!(answer, [42]);
                self.allowed(ids, rpc.listen(later()));
            }
            return;
        }
        for _ in 0..2 {
            rpc.listen(later()).unwrap();
        }
        self.reaches("call answered");
        for other in ids.iter().filter(|id| **id != victim) {
            if STEPS[self.at] == "call begun" {
                let error = rpc.call(*other, "triple", &[1], Instant::now());
                assert!(matches!(error, Err(Error::TimedOut(_)) | Ok(_)), "{error:?}");
            } else {
                assert_eq!(rpc.call(*other, "triple", &[7], later()).unwrap(), [21]);
            }
        }
        self.reaches("call begun");
    }

    /// The two survivors get the loss from every operation that involves the victim, and all others succeed.
    fn continue_without(
        &self,
        ids: &[runtime::InstanceId],
        global: Option<&[GlobalSlot]>,
        rpc: Option<&mut Rpc<'_>>,
    ) {
        let (rank, victim) = (self.rank, ids[self.victim]);
        let mut group = ids.to_vec();
        group.sort_unstable();
        let all = rank.communication.exchange(&group, Tag(5), &[]).and_then(soon);
        assert_eq!(all.map(|_| ()), Err(Error::PeerLost(victim)));
        let source = rank.slot(8);
        if let Some(global) = global {
            let theirs = &global[self.victim];
            // The loss may be reported by another survivor before this connection has ended.
            let until = later();
            while rank.communication.memcpy(theirs, 0, &source, 0, 8).is_ok() {
                assert!(Instant::now() < until, "the loss is not detected");
                std::thread::yield_now();
            }
            let put = rank.communication.memcpy(theirs, 0, &source, 0, 8);
            let get = rank.communication.memcpy(&source, 0, theirs, 0, 8);
            let locked = rank.communication.try_lock(theirs).map(|_| ());
            let fence = rank.communication.fence_tag(Tag(2)).and_then(soon);
            for result in [put, get, locked, fence] {
                assert_eq!(result, Err(Error::PeerLost(victim)), "{}", STEPS[self.at]);
            }
        }
        group.retain(|id| *id != victim);
        let two = |tag, bring: &[(Key, &runtime::LocalSlot)]| {
            soon(rank.communication.exchange(&group, Tag(tag), bring).unwrap()).unwrap()
        };
        let caller = rank.me() == group[0];
        let connected: &[_] = if rpc.is_some() { &[(Key(u64::from(caller)), &source)] } else { &[] };
        let both = two(6, connected);
        if let (2, Some(rpc)) = (both.len(), rpc) {
            assert_eq!(rpc.call(victim, "triple", &[1], later()), Err(Error::PeerLost(victim)));
            if caller {
                assert_eq!(rpc.call(group[1], "triple", &[5], later()).unwrap(), [15]);
            } else {
                while let Err(error) = rpc.listen(later()) {
                    assert_eq!(error, Error::PeerLost(victim));
                }
            }
        }
        two(7, &[]);
        // Overrides the launcher's exit code, which would report the expected kill.
        if caller {
            rank.instances.abort(0, "the test is over").unwrap();
        }
        std::thread::park();
    }
}

#[test]
fn pushing_to_a_full_channel_reports_the_loss_of_its_consumer() {
    const NAME: &str = "losses::pushing_to_a_full_channel_reports_the_loss_of_its_consumer";
    if processes::launched() {
        member(full);
    }
    inside(2, full);
    for by in BY {
        let output = launched_by(by, &["-n", "2", "--oversubscribe"], NAME);
        assert!(output.status.success(), "{by}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The second Instance opens its endpoint and exits without reading.
fn full(rank: &Rank) {
    let (ids, space) = (rank.ids(), rank.space());
    let setup =
        Setup { memory: &*rank.memory, communication: &*rank.communication, space: &space, me: rank.me() };
    let shape = Shape::Fixed { capacity: 1, size: 8 };
    let (producer, _consumer) = open(setup, Tag(1), &ids[..1], ids[1], Mode::NonLocking, shape).unwrap();
    rank.barrier(3);
    let host = rank.communication.name() == "host";
    let Some(mut producer) = producer else {
        if !host {
            die();
        }
        return;
    };
    let mut pushed = 0;
    let until = later();
    let error = loop {
        match producer.push(&[7; 8]) {
            Ok(()) => pushed += 1,
            Err(PushError::Failed(error)) => break error,
            Err(_) if host => {
                // A thread cannot be killed, so its Instance is terminated once.
                let _ = rank.instances.terminate(ids[1]);
            }
            Err(_) => std::thread::yield_now(),
        }
        assert!(Instant::now() < until, "the loss is not detected");
    };
    assert!(pushed <= 1 && error == Error::PeerLost(ids[1]), "{pushed} {error}");
    if !host {
        rank.instances.abort(0, "the test is over").unwrap();
        std::thread::park();
    }
}
