//! Long preparations check the clock, as often as their work is large.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use placement::{Budget, Snapshot, StoppedBy};
use search::{AnnealingSearch, Greedy, SearchInstance};

/// Groups of five actors that all send to each other by channels that are not expanded, all running on units of one node each.
fn meshed(groups: usize, units: usize) -> Snapshot {
    let list = |many: usize, one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<Vec<_>>().join(",");
    let unit = |at: usize| format!(r#"{{"id":"u{at}","kind":"cpu","node":"n{at}","capacity":99}}"#);
    let actor = |at: usize| {
        format!(
            r#"{{"id":"s/a/{at}","group":"g{}","runsOn":{{"cpu":1}},"current":"u{}"}}"#,
            at % groups,
            at % units
        )
    };
    let mut channels = String::new();
    for from in 0..groups {
        for to in from..groups {
            let comma = if channels.is_empty() { "" } else { "," };
            write!(channels, r#"{comma}{{"from":"s/a/g{from}","to":"s/a/g{to}","count":1}}"#).unwrap();
        }
    }
    let text = format!(
        r#"{{"version":1,"units":[{}],"actors":[{}],"groupMessages":[{channels}],"exchangeCost":{{"otherKind":1}}}}"#,
        list(units, &unit),
        list(5 * groups, &actor)
    );
    Snapshot::with_most_pairs(Snapshot::read(&text).unwrap().file().clone(), 0).unwrap()
}

/// Each running actor changes what every unit costs for 40 groups.
#[test]
fn running_actors_are_adopted_by_the_clock() {
    let snapshot = meshed(40, 600);
    let instance = SearchInstance::new(&snapshot, &|| false);
    let checks = Cell::new(0);
    let count = || {
        checks.set(checks.get() + 1);
        false
    };
    drop(AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &count));
    assert!(checks.get() >= 50, "{} checks", checks.get());
    // However early the clock ends it, all of them stay.
    for until in 0..checks.get() {
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > until
        };
        let mut search = AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &stop);
        assert!(asked.get() <= until + 1, "it ends at the check that says stop");
        assert!(!search.start_chains(&Budget::effort(None, 1)), "the search has ended");
        assert_eq!(search.best(&Budget::effort(None, 1)), snapshot.incumbent());
    }
}

#[test]
fn greedy_keeps_running_actors_by_the_clock() {
    let snapshot = meshed(40, 600);
    let checks = AtomicUsize::new(0);
    let stop = || checks.fetch_add(1, Ordering::Relaxed) >= 40;
    let budget = Budget { stop: &stop, ..Budget::effort(None, 1) };
    let answer = Greedy.construct(&snapshot, &budget);
    assert_eq!((answer.effort, answer.stopped_by), (0, StoppedBy::Deadline), "no actor has been priced yet");
    assert_eq!(answer.assignment, snapshot.incumbent());
}

/// Ties of one item lead to every unit of a large node.
#[test]
fn first_placements_near_ties_check_the_clock() {
    let units: Vec<String> = (0..500).map(|at| format!("u{at}:cpu:99:node=n")).collect();
    let actors: Vec<String> = (0..600).map(|at| format!("a{at}:cpu=1")).collect();
    let links: Vec<String> = (1..600).map(|at| format!("a0 to a{at} 1")).collect();
    let snapshot = testkit::line::world(&units.join(" "), &actors.join(" "), &links.join("; "));
    let instance = SearchInstance::new(&snapshot, &|| false);
    let checks = Cell::new(0);
    let count = || {
        checks.set(checks.get() + 1);
        false
    };
    drop(AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &count));
    assert!(checks.get() >= 5, "{} checks", checks.get());
}
