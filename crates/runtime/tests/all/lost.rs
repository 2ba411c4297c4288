//! One of three is killed at each step of what a program does; the others get `PeerLost` or what they asked for, and
//! never wait for it.

use std::time::{Duration, Instant};

use runtime::{
    Error, GlobalSlot, InstanceId, Key, Memcpy, Tag,
    frontends::{channel::Setup, rpc::Rpc},
};

use crate::ranks::{BY, Rank, launched_with, member, soon};

/// Which step the third does not survive, in the environment of a launched test.
const STEP: &str = "CAIRN_TEST_STEP";
/// The steps, as far as the third gets before it is killed.
const STEPS: [&str; 10] = [
    "nothing",
    "exchange begun",
    "exchanged",
    "locked",
    "copied, not fenced",
    "fenced",
    "tag's fence begun",
    "tag fenced",
    "connected for calls",
    "called",
];

fn die() -> ! {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
    unreachable!("killed")
}

/// Kills this process if this is the step that it does not survive.
fn at(step: &str) {
    if std::env::var(STEP).is_ok_and(|dies| dies == step) {
        die();
    }
}

fn victim(rank: &Rank) -> Result<(), Error> {
    let (mine, source, space) = (rank.slot(8), rank.slot(8), rank.space());
    let group = rank.group();
    at(STEPS[0]);
    let wait = rank.communication.exchange(&group, Tag(1), &[(Key(2), &mine)])?;
    at(STEPS[1]);
    let global: Vec<GlobalSlot> = soon(wait)?.into_values().collect();
    at(STEPS[2]);
    let guard = rank.communication.try_lock(&global[0])?;
    at(STEPS[3]);
    drop(guard);
    for slot in &global {
        rank.communication.memcpy(slot, 0, &source, 0, 8)?;
    }
    at(STEPS[4]);
    soon(rank.communication.fence((&source).into(), 3, 0)?)?;
    at(STEPS[5]);
    let wait = rank.communication.fence_tag(Tag(1))?;
    at(STEPS[6]);
    soon(wait)?;
    at(STEPS[7]);
    let setup =
        Setup { memory: &*rank.memory, communication: &*rank.communication, space: &space, me: rank.me() };
    let mut rpc = Rpc::new(setup, Tag(10), &group)?;
    at(STEPS[8]);
    rpc.register("die", |_| die())?;
    rpc.listen(Instant::now() + Duration::from_mins(1))
}

/// What the two others do, as far as they get without an error.
fn survivor(rank: &Rank, third: InstanceId) -> Result<(), Error> {
    let (mine, source, space) = (rank.slot(8), rank.slot(8), rank.space());
    let (group, index) = (rank.group(), rank.index());
    let exchanged = rank.communication.exchange(&group, Tag(1), &[(Key(index as u64), &mine)])?;
    let global: Vec<GlobalSlot> = soon(exchanged)?.into_values().collect();
    // The lock of the first slot: the third may die with it, and then it is free.
    let until = Instant::now() + Duration::from_mins(1);
    let guard = loop {
        match rank.communication.try_lock(&global[0]) {
            Ok(Some(guard)) => break guard,
            Ok(None) if Instant::now() < until => std::thread::yield_now(),
            Ok(None) => panic!("the lock of a lost holder is not free"),
            Err(error) => return Err(error),
        }
    };
    drop(guard);
    rank.communication.memcpy(&global[2], 0, &source, 0, 8)?;
    soon(rank.communication.fence((&source).into(), 1, 0)?)?;
    // The third's copy, or that there will be none.
    soon(rank.communication.fence((&mine).into(), 0, 1)?)?;
    soon(rank.communication.fence_tag(Tag(1))?)?;
    let setup =
        Setup { memory: &*rank.memory, communication: &*rank.communication, space: &space, me: rank.me() };
    let mut rpc = Rpc::new(setup, Tag(10), &group)?;
    rpc.call(third, "die", b"", Instant::now() + Duration::from_mins(1)).map(|_| ())
}

#[test]
fn one_killed_at_any_step_is_lost_and_never_waited_for() {
    if runtime::backends::processes::launched() {
        member(|rank| {
            let third = rank.ids()[2];
            if rank.me() == third {
                let _ = victim(rank);
                die();
            }
            let others: Vec<_> = rank.group().into_iter().filter(|id| *id != third).collect();
            let outcome = survivor(rank, third);
            assert_eq!(outcome, Err(Error::PeerLost(third)));
            // Both are told; and they go on together.
            soon(rank.communication.exchange(&others, Tag(77), &[]).unwrap()).unwrap();
            if rank.me() == rank.instances.root_id() {
                // The launcher's exit code would say that one was killed, which the test expects.
                rank.instances.abort(0, "the test is over").unwrap();
            }
            std::thread::park();
        });
    }
    let name = "lost::one_killed_at_any_step_is_lost_and_never_waited_for";
    for by in BY {
        for step in STEPS {
            let output = launched_with(by, &["-n", "3", "--oversubscribe"], name, &[(STEP, step)]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{by}, {step}: {said}");
        }
    }
}
