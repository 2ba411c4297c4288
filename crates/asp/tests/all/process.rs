//! The solver process: whatever happens to it, the caller has an answer and no child is left.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use asp::{Asp, Limits};
use placement::{Answer, Budget, Greedy, Snapshot, StoppedBy, Strategy};
use rustix::process::{Pid, Signal, kill_process};

use crate::{asp, logged, published};

/// The processes that this thread has started and that are not reaped.
fn children() -> Vec<i32> {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn vector(snapshot: &Snapshot, answer: &Answer) -> Vec<i64> {
    snapshot.cost(&answer.assignment).vector(snapshot)
}

/// What the strategy answers, and what it warns of.
fn told(asp: &Asp, snapshot: &Snapshot, stop: &(dyn Fn() -> bool + Sync)) -> (Answer, String) {
    let budget = Budget { effort: None, seed: 1, stop };
    let (answer, said) = logged(|| asp.solve(snapshot, &budget).unwrap());
    assert!(children().is_empty(), "a child is left");
    let warnings = said.lines().filter(|line| line.contains(" WARN "));
    (answer, warnings.collect())
}

/// Holds that the answer is greedy's, and that the warning says why.
fn falls_back(asp: &Asp, snapshot: &Snapshot, stop: &(dyn Fn() -> bool + Sync), why: &[&str]) {
    let (answer, said) = told(asp, snapshot, stop);
    let greedy = Greedy.solve(snapshot, &Budget::effort(None, 1)).unwrap();
    assert_eq!(vector(snapshot, &answer), vector(snapshot, &greedy));
    assert!(!answer.optimal);
    assert!(why.iter().any(|why| said.contains(why)), "{said}");
}

#[test]
fn an_executable_that_cannot_be_started_costs_only_its_stage() {
    let missing = Asp::with_executable("/nonexistent/solver", Limits::default());
    falls_back(&missing, &published("P-8x4-s1"), &|| false, &["cannot start /nonexistent/solver"]);
}

#[test]
fn an_executable_that_is_no_solver_costs_only_its_stage() {
    let says = Asp::with_executable("/bin/echo", Limits::default());
    falls_back(&says, &published("P-8x4-s1"), &|| false, &["what is no answer"]);
    // What it says on standard error is passed on. The job does not fit a pipe that nobody reads.
    let complains = Asp::with_executable("/bin/cat", Limits::default());
    falls_back(&complains, &published("C-1000x200-s1"), &|| false, &["nrecognized option", "unknown option"]);
}

#[test]
fn a_solver_that_is_killed_costs_only_its_stage() {
    let killed = AtomicBool::new(false);
    let kill = || {
        for child in children() {
            if !killed.swap(true, Ordering::Relaxed) {
                kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
            }
        }
        false
    };
    falls_back(&asp(), &published("C-1000x200-s1"), &kill, &["signal: 9"]);
    assert!(killed.into_inner());
}

#[test]
fn a_solver_that_needs_too_much_memory_costs_only_its_stage() {
    let small =
        Asp::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits { memory_mib: 64, ..Limits::default() });
    falls_back(&small, &published("C-1000x200-s1"), &|| false, &["memory", "alloc", "signal"]);
}

#[test]
fn a_solver_that_needs_too_much_time_costs_only_its_stage() {
    let brief =
        Asp::with_executable(env!("CARGO_BIN_EXE_asp-child"), Limits { cpu_seconds: 1, ..Limits::default() });
    falls_back(&brief, &published("C-1000x200-s1"), &|| false, &["signal: 9", "signal: 24"]);
}

#[test]
fn a_deadline_ends_the_solver_at_once() {
    let snapshot = published("C-1000x200-s1");
    let (started, over) = (OnceLock::new(), OnceLock::new());
    let stop = || {
        // A while after the solver has started: it is grounding then, which knows no limit of its own.
        let running = !children().is_empty();
        let since = running.then(|| started.get_or_init(Instant::now).elapsed());
        let is_over = since.is_some_and(|since| since > Duration::from_millis(100));
        if is_over {
            over.get_or_init(Instant::now);
        }
        is_over
    };
    let (answer, said) = told(&asp(), &snapshot, &stop);
    println!("answered {:?} after the deadline", over.get().unwrap().elapsed());
    assert_eq!((answer.stopped_by, said.as_str()), (StoppedBy::Deadline, ""));
    assert!(snapshot.violations(&answer.assignment).is_empty());
}

#[test]
fn a_deadline_before_the_start_leaves_an_answer() {
    let (answer, _) = told(&asp(), &published("P-24x6-s1"), &|| true);
    assert_eq!(answer.stopped_by, StoppedBy::Deadline);
}

#[test]
fn nobody_is_asked_when_nothing_can_be_better() {
    let mut file = published("P-8x4-s1").file().clone();
    file.messages.clear();
    file.annoyance.clear();
    let snapshot = Snapshot::new(file).unwrap();
    let polls = AtomicU64::new(0);
    let idle = || {
        polls.fetch_add(1, Ordering::Relaxed);
        assert!(children().is_empty(), "a solver was started");
        false
    };
    let roomy = {
        let mut file = snapshot.file().clone();
        file.units.iter_mut().for_each(|unit| unit.capacity *= 10);
        Snapshot::new(file).unwrap()
    };
    let (answer, _) = told(&asp(), &roomy, &idle);
    assert_eq!((answer.optimal, answer.stopped_by), (true, StoppedBy::Proof));
}
