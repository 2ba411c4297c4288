//! The solver process: whatever happens to it, the caller has an answer and no child process is left.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use placement::file::Levels;
use placement::{Answer, Budget, Criterion, Snapshot, StoppedBy, Strategy};
use portfolio::{Asp, Limits};
use rustix::process::{Pid, Signal, kill_process};
use search::Greedy;

use testkit::{published, several};

use crate::{asp, limited, logged};

/// The unreaped child processes of this thread.
fn children() -> Vec<i32> {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn vector(snapshot: &Snapshot, answer: &Answer) -> Vec<i64> {
    snapshot.cost(&answer.assignment).vector(snapshot)
}

/// A published instance with a criterion that branch and bound does not support, so that clingo solves it.
fn for_clingo(name: &str) -> Snapshot {
    let snapshot = published(name);
    let mut file = snapshot.file().clone();
    let levels = snapshot.objectives().levels().iter().cloned();
    file.objectives = Levels::InOrder(levels.chain([vec![Criterion::Busiest]]).collect());
    Snapshot::new(file).unwrap()
}

/// The answer of the strategy, and its warnings.
fn answer_and_warnings(asp: &Asp, snapshot: &Snapshot, stop: &(dyn Fn() -> bool + Sync)) -> (Answer, String) {
    let budget = Budget { effort: None, seed: 1, stop, left: None };
    let (answer, said) = logged(|| asp.solve(snapshot, &budget).unwrap());
    assert!(children().is_empty(), "a child is left");
    let warnings = said.lines().filter(|line| line.contains(" WARN "));
    (answer, warnings.collect())
}

/// Asserts that there is an answer, no worse than greedy's, and that the warning names the reason.
fn falls_back(asp: &Asp, snapshot: &Snapshot, stop: &(dyn Fn() -> bool + Sync), why: &[&str]) -> Answer {
    let (answer, said) = answer_and_warnings(asp, snapshot, stop);
    let greedy = Greedy.solve(snapshot, &Budget::effort(None, 1)).unwrap();
    assert!(vector(snapshot, &answer) <= vector(snapshot, &greedy));
    assert!(snapshot.violations(&answer.assignment).is_empty());
    assert!(!answer.optimal);
    assert!(why.iter().any(|why| said.contains(why)), "{said}");
    answer
}

#[test]
fn an_executable_that_cannot_be_started_costs_only_its_stage() {
    let missing = Asp::with_executable("/nonexistent/solver", Limits::default()).with_effort(300);
    falls_back(&missing, &for_clingo("P-24x6-s1"), &|| false, &["cannot start /nonexistent/solver"]);
}

#[test]
fn an_executable_that_is_no_solver_costs_only_its_stage() {
    let says = Asp::with_executable("/bin/echo", Limits::default()).with_effort(300);
    falls_back(&says, &for_clingo("P-24x6-s1"), &|| false, &["invalid answer"]);
    // Its standard error is passed on.
    let complains = Asp::with_executable("/bin/cat", Limits::default()).with_effort(300);
    falls_back(&complains, &for_clingo("P-24x6-s1"), &|| false, &["nrecognized option", "unknown option"]);
}

#[test]
fn a_solver_that_is_killed_costs_only_its_job() {
    let kill = || {
        for child in children() {
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
        }
        false
    };
    falls_back(&asp().with_effort(2_000), &for_clingo("P-24x6-s1"), &kill, &["signal: 9"]);
}

#[test]
fn a_solver_that_needs_too_much_memory_costs_only_its_stage() {
    let small = limited(Limits { memory_mib: 1, ..Limits::default() });
    falls_back(&small, &for_clingo("P-24x6-s1"), &|| false, &["memory", "alloc", "signal"]);
}

#[test]
fn a_solver_that_needs_too_much_time_costs_only_its_stage() {
    let brief = limited(Limits { cpu_seconds: 1, ..Limits::default() });
    falls_back(&brief, &several("P-16x5-s1", 2), &|| false, &["signal: 9", "signal: 24"]);
}

/// Whenever the clock ends a search, its effort reproduces the answer.
#[test]
fn a_search_that_is_ended_at_any_moment_is_replayed() {
    let snapshot = several("P-24x6-s1", 3);
    let asked = AtomicU64::new(0);
    let count = || asked.fetch_add(1, Ordering::Relaxed) == u64::MAX;
    let greedy =
        Greedy.solve(&snapshot, &Budget { effort: None, seed: 1, stop: &count, left: None }).unwrap();
    let first = asked.into_inner();
    for polls in [first / 3, first + 1, first + 8, first + 30, first + 90, first + 400] {
        let asked = AtomicU64::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) >= polls;
        let (answer, said) = answer_and_warnings(&asp().with_effort(1 << 20), &snapshot, &stop);
        assert_eq!((answer.stopped_by, said.as_str()), (StoppedBy::Deadline, ""));
        // Each of two threads may check again.
        assert!(asked.load(Ordering::Relaxed) <= polls + 4, "{polls}");
        assert!(snapshot.violations(&answer.assignment).is_empty());
        assert!(vector(&snapshot, &answer) <= vector(&snapshot, &greedy) || polls < first);
        let again = asp().solve(&snapshot, &Budget::effort(Some(answer.effort), 1)).unwrap();
        assert_eq!((again.assignment, again.effort), (answer.assignment, answer.effort), "{polls}");
    }
}

#[test]
fn a_deadline_before_the_start_leaves_an_answer() {
    let (answer, _) = answer_and_warnings(&asp(), &published("P-24x6-s1"), &|| true);
    assert_eq!(answer.stopped_by, StoppedBy::Deadline);
}

#[test]
fn no_solver_starts_for_a_perfect_answer() {
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
    let (answer, _) = answer_and_warnings(&asp(), &roomy, &idle);
    assert_eq!((answer.optimal, answer.stopped_by), (true, StoppedBy::Proof));
}
