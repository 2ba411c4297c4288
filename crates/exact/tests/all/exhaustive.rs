//! Exhaustive search, and its limit.

use exact::Exhaustive;
use placement::{Answer, Budget, Snapshot, StoppedBy, Strategy};
use serde_json::json;

/// Units with capacity for two and a half actors each, and actors on a cycle of messages.
fn cycle(units: usize, actors: usize) -> Snapshot {
    let unit =
        |at: usize| json!({"id": format!("u{at}"), "kind": "cpu", "node": format!("n{at}"), "capacity": 10});
    let actor = |at: usize| json!({"id": format!("a{at}"), "runsOn": {"cpu": 4}});
    let counts = [5, 9, 1];
    let message = |at: usize| json!({"from": format!("a{at}"), "to": format!("a{}", (at + 1) % actors), "count": counts[at % 3]});
    let all = |many: usize, one: &dyn Fn(usize) -> serde_json::Value| (0..many).map(one).collect::<Vec<_>>();
    let world = json!({"version": 1, "units": all(units, &unit), "actors": all(actors, &actor),
        "messages": all(actors, &message), "exchangeCost": {"otherNode": 30, "kinds": {"cpu": {"cpu": 1}}}});
    Snapshot::read(&world.to_string()).unwrap()
}

fn solve(snapshot: &Snapshot, effort: Option<u64>) -> Answer {
    Exhaustive.solve(snapshot, &Budget::effort(effort, 0)).unwrap()
}

#[test]
fn complete_enumerations_are_proofs_and_interrupted_ones_are_not() {
    let snapshot = cycle(2, 3);
    let answer = solve(&snapshot, None);
    assert!(answer.optimal);
    assert_eq!(answer.assignment, testkit::line::places([Some(0), Some(1), Some(1)]));
    let cut = solve(&snapshot, Some(3));
    assert_eq!((cut.optimal, cut.stopped_by, cut.bound.is_empty()), (false, StoppedBy::Effort, true));
    assert_eq!(solve(&snapshot, Some(cut.effort)).assignment, cut.assignment);
}

#[test]
fn too_many_assignments_are_refused() {
    let refused = Exhaustive.solve(&cycle(7, 8), &Budget::effort(Some(1), 0)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "more than 10000000 assignments are possible, too many to enumerate; choose another strategy"
    );
}
