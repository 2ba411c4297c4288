//! Gains of plans over windows.
#![expect(clippy::unwrap_used, reason = "tests")]

use control::{Gain, gain, require_gain};
use placement::ix::{ActorIx, UnitIx};
use placement::{Budget, NoPolicy, Snapshot, plan};
use search::Greedy;

/// Two actors on one of two units; moving the second reduces the load by this much in each window.
fn world(work: &[u64]) -> Snapshot {
    let actors = work
        .iter()
        .enumerate()
        .map(|(actor, work)| format!(r#"{{"id":"a{actor}","runsOn":{{"cpu":{work}}},"current":"u"}}"#));
    let actors = actors.collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"version":1,"nodes":[{{"id":"n"}}],"actors":[{actors}],"objectives":["bottleneck"],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}},
        "units":[{{"id":"u","kind":"cpu","node":"n","capacity":100}},{{"id":"v","kind":"cpu","node":"n","capacity":100}}]}}"#
    );
    Snapshot::read(&text).unwrap()
}

fn gained(together: &[u64], windows: &[&[u64]], goes: [Option<usize>; 2]) -> Option<Gain> {
    let windows: Vec<Snapshot> = windows.iter().map(|work| world(work)).collect();
    gain(&world(together), &windows, &goes.into_iter().map(|unit| unit.map(UnitIx::new)).collect())
}

#[test]
fn gains_are_relative_with_a_margin_from_windows() {
    let apart = [Some(0), Some(1)];
    let of = |windows: &[&[u64]]| gained(&[50, 50], windows, apart).unwrap();
    assert_eq!(of(&[]), Gain { expected: 0.5, margin: 0.0 });
    assert_eq!(of(&[&[50, 50], &[50, 50]]), Gain { expected: 0.5, margin: 0.0 });
    let split = of(&[&[50, 50], &[100, 0]]);
    // Half and nothing: a standard error of a quarter.
    assert!((split.margin - 1.96 * 0.25).abs() < 1e-9, "{split:?}");
    assert_eq!(gained(&[50, 50], &[], [Some(0), Some(0)]), Some(Gain::default()), "nothing changes");
    assert_eq!(gained(&[50, 50], &[], [Some(0), None]), None, "who has a place is another question");
}

#[test]
fn small_or_uncertain_gains_keep_the_incumbent() {
    let goes = |windows: &[&[u64]], least: f64| {
        let world_now = world(&[50, 40]);
        let windows: Vec<Snapshot> = windows.iter().map(|work| world(work)).collect();
        let plan = plan(&world_now, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
        assert_eq!(plan.moves.len(), 1, "one of the two goes to the free unit");
        let decided = require_gain(&world_now, &windows, plan.clone(), least);
        if decided == plan {
            return true;
        }
        assert_eq!(decided.assignment, world_now.incumbent());
        assert!(decided.moves.is_empty());
        assert_eq!(decided.cost, world_now.cost(&world_now.incumbent()));
        false
    };
    assert!(goes(&[], 0.4), "from 90 to 50 hundredths");
    assert!(!goes(&[], 0.5), "that is not a half");
    assert!(goes(&[&[50, 40], &[50, 41]], 0.4));
    assert!(!goes(&[&[50, 50], &[100, 0]], 0.1), "windows that do not agree");
}

#[test]
fn a_kept_incumbent_lists_its_unplaced_actors() {
    // One slot each: the second actor waits, and has less to do than the first.
    let text = r#"{"version":1,"nodes":[{"id":"n"}],"objectives":["bottleneck"],"exchangeCost":{"kinds":{"cpu":{"cpu":1}}},
        "actors":[{"id":"a","runsOn":{"cpu":50},"current":"u"},{"id":"b","runsOn":{"cpu":40}}],
        "units":[{"id":"u","kind":"cpu","node":"n","capacity":100,"slots":1}]}"#;
    let snapshot = Snapshot::read(text).unwrap();
    let goes: placement::Assignment = [None, Some(UnitIx::new(0))].into_iter().collect();
    let kept = plan(&snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let first = kept.unplaced[0].clone();
    let unplaced = vec![placement::Unplaced { actor: ActorIx::new(0), ..first }];
    let going = placement::Plan { cost: snapshot.cost(&goes), assignment: goes, unplaced, ..kept };
    let waits = |least: f64| require_gain(&snapshot, &[], going.clone(), least).unplaced[0].actor.at();
    assert_eq!([0.2, 0.21].map(waits), [0, 1], "50 to 40 is a fifth");
}
