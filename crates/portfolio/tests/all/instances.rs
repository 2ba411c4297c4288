//! The published instances, and snapshots of cluster size.

use std::time::Instant;

use placement::file::{Actor, Levels, Message, Node, RunsOn, SnapshotFile, Unit};
use placement::{
    Answer, Budget, Criterion, FoundBy, NoPolicy, Plan, ProvenBy, Snapshot, StoppedBy, Strategy, plan,
};
use search::Greedy;

use testkit::line::world;
use testkit::published;

use crate::asp;

fn solve(snapshot: &Snapshot, effort: Option<u64>) -> Plan {
    plan(snapshot, &asp(), &NoPolicy, &Budget::effort(effort, 1)).unwrap()
}

#[test]
fn small_published_instances_are_solved_and_proven() {
    for (name, vector) in [("P-8x4-s1", [0, 0, 3884, 77]), ("P-16x5-s1", [0, 0, 6537, 82])] {
        let (snapshot, start) = (published(name), Instant::now());
        let plan = solve(&snapshot, None);
        println!("{name}: {:?} after {:?}", plan.cost, start.elapsed());
        assert_eq!((plan.cost.vector(&snapshot), plan.optimal), (vector.to_vec(), true), "{name}");
        assert_eq!((plan.stopped_by, plan.proven_by), (StoppedBy::Proof, Some(ProvenBy::BranchAndBound)));
        assert_eq!(plan.bound["communication"], vector[2]);
    }
}

#[test]
fn a_middling_published_instance_is_solved() {
    let snapshot = published("P-24x6-s1");
    let plan = solve(&snapshot, None);
    assert_eq!(plan.cost.vector(&snapshot), [0, 0, 8014, 160]);
}

/// The seed and the effort of a plan reproduce it, whatever ended the search.
#[test]
fn an_effort_is_replayed() {
    let snapshot = published("P-16x5-s1");
    let proven = solve(&snapshot, None);
    let replayed = solve(&snapshot, Some(proven.effort));
    assert_eq!((&replayed.assignment, replayed.optimal), (&proven.assignment, true));
    let greedy = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap();
    for effort in [1, greedy.effort, greedy.effort + 2, greedy.effort + 5, proven.effort - 1] {
        let cut = solve(&snapshot, Some(effort));
        assert!(!cut.optimal && cut.effort <= effort.max(16), "{effort}: {}", cut.effort);
        assert_eq!(cut.assignment, solve(&snapshot, Some(cut.effort)).assignment, "{effort}");
    }
}

/// Two actors must share a unit, and beside fixed actors each unit has room for one: the search continues with that one
/// and improves the others.
#[test]
fn an_unplaceable_bundle_does_not_block_the_search() {
    let mut rng = fastrand::Rng::with_seed(1);
    let units: Vec<String> = (0..8).map(|at| format!("u{at}:cpu:8:mem=4")).collect();
    let fixed = (0..8).map(|at| format!("f{at}:cpu=1:mem=1,at=u{at},fixed"));
    let others = (0..50).map(|at| format!("c{at}:cpu=1"));
    let bundle = ["a:cpu=1:mem=2", "b:cpu=1:mem=2"].map(str::to_owned);
    let actors: Vec<String> = fixed.chain(others).chain(bundle).collect();
    let sent = (0..150).map(|_| {
        let (from, to) = (rng.usize(..50), rng.usize(..50));
        format!("c{from} to c{to} {}", rng.u32(1..100))
    });
    let rules = format!("together unit a b; {}", sent.collect::<Vec<_>>().join("; "));
    let snapshot = world(&units.join(" "), &actors.join(" "), &rules);
    let vector = |answer: &Answer| snapshot.cost(&answer.assignment).vector(&snapshot);
    let greedy = Greedy.solve(&snapshot, &Budget::effort(None, 1)).unwrap();
    let found = asp().solve(&snapshot, &Budget::effort(None, 1)).unwrap();
    assert_eq!(snapshot.violations(&found.assignment), []);
    assert_eq!((found.found_by, vector(&found)[0]), (FoundBy::Search, 1));
    assert!(vector(&found) < vector(&greedy), "{:?} for {:?}", vector(&found), vector(&greedy));
}

/// 32-core nodes with 30 s windows and a target of 0.9: microseconds that exceed 2^30 as soon as two are added.
fn cluster(nodes: usize, actors: usize, work: impl Fn(usize) -> u64) -> SnapshotFile {
    let unit = |i: usize| Unit {
        id: format!("node-{i}/cpu"),
        kind: "cpu".into(),
        node: format!("node-{i}"),
        zone: Some(format!("zone-{}", i % 3)),
        capacity: 30_000_000 * 9 / 10 * 32,
        ..Unit::default()
    };
    let node = |i: usize| Node {
        id: format!("node-{i}"),
        provides: [("cpuMilli".to_owned(), 32_000), ("pods".to_owned(), 110)].into(),
        ..Node::default()
    };
    let needs = [("cpuMilli".to_owned(), 250), ("pods".to_owned(), 1)];
    let actor = |i: usize| Actor {
        id: format!("bench/app/a-{i}"),
        runs_on: [(
            "cpu".to_owned(),
            RunsOn { work: work(i), node_requires: needs.clone().into(), ..RunsOn::default() },
        )]
        .into(),
        move_cost: 500,
        ..Actor::default()
    };
    let id = |i: usize| format!("bench/app/a-{}", i % actors);
    // All actors are connected.
    let to = |i: usize| if i < actors { i * 7 + 1 } else { i + 1 };
    let message = |i: usize| Message { from: id(i), to: id(to(i)), count: 1800 + 60 * (i as u64 % 5) };
    let mut file = SnapshotFile {
        version: 1,
        window_microseconds: Some(30_000_000),
        nodes: (0..nodes).map(node).collect(),
        units: (0..nodes).map(unit).collect(),
        actors: (0..actors).map(actor).collect(),
        messages: (0..actors * 2).map(message).collect(),
        objectives: Levels::default(),
        ..SnapshotFile::default()
    };
    file.exchange_cost.kinds = [("cpu".to_owned(), [("cpu".to_owned(), 1)].into())].into();
    (file.exchange_cost.other_node, file.exchange_cost.other_zone) = (30, 30);
    file
}

#[test]
fn up_to_twenty_actors_on_two_hundred_large_nodes_are_proven() {
    let light = Snapshot::new(cluster(200, 20, |_| 27_000_000)).unwrap();
    let plan = solve(&light, None);
    assert_eq!((plan.cost.vector(&light), plan.optimal), (vec![0, 0, 0, 0], true));
    // Too much for one node, and too large for clingo: the proof is that two scalings agree.
    let heavy = Snapshot::new(cluster(200, 16, |i| 60_000_000 + 1_000_003 * i as u64)).unwrap();
    let plan = solve(&heavy, None);
    assert_eq!((plan.cost.vector(&heavy), plan.optimal), (vec![0, 0, 234_360, 0], true));
}

/// Running actors keep every unit in use: emptying one takes many moves that gain nothing.
#[test]
fn scattered_actors_are_consolidated() {
    let units: Vec<String> = (0..40).map(|i| format!("u{i}:cpu:100:node=n{i}")).collect();
    let actors: Vec<String> = (0..120).map(|i| format!("a{i}:cpu=10:at=u{}", i % 40)).collect();
    let mut file = world(&units.join(" "), &actors.join(" "), "").file().clone();
    file.objectives = Levels::InOrder(vec![vec![Criterion::Overload], vec![Criterion::Consolidate]]);
    let snapshot = Snapshot::new(file).unwrap();
    let plan = solve(&snapshot, Some(1_000));
    assert_eq!(plan.cost.vector(&snapshot), [0, 0, 12]);
}

#[test]
fn a_thousand_actors_on_two_hundred_nodes_with_a_window_of_thirty_seconds() {
    let start = Instant::now();
    let heavy = Snapshot::new(cluster(200, 1000, |i| 27_000_000 * (1 + i as u64 % 6))).unwrap();
    let greedy = Greedy.solve(&heavy, &Budget::effort(None, 1)).unwrap();
    let at_first = heavy.cost(&greedy.assignment).vector(&heavy);
    let plan = solve(&heavy, Some(greedy.effort + 600));
    println!("{at_first:?}, then {:?} after {:?}", plan.cost, start.elapsed());
    assert!(heavy.violations(&plan.assignment).is_empty());
    assert!(plan.cost.vector(&heavy) < at_first);
}
