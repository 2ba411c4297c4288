//! Worlds of one shape, by seed.

use std::collections::BTreeSet;

use placement::file::{Actor, Message, PairCost, RunsOn, SnapshotFile, Unit};
use placement::{Criterion, Snapshot};

/// A quadratic assignment problem: one node with `side` × `side` exclusive devices on a grid, where a message costs the steps
/// from one device to the other, as many actors, and so many random pairs of them that send each other 1 to 100 messages.
pub fn grid(side: usize, pairs: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = side * side;
    let unit = |at: usize| Unit {
        id: format!("node/gpu-{at}"),
        kind: "gpu".into(),
        node: "node".into(),
        capacity: 100,
        slots: Some(1),
        ..Unit::default()
    };
    let actor = |at: usize| Actor {
        id: format!("a-{at}"),
        runs_on: [("gpu".to_owned(), RunsOn { work: 50, ..RunsOn::default() })].into(),
        ..Actor::default()
    };
    let mut file = SnapshotFile {
        version: placement::file::VERSION,
        units: (0..count).map(unit).collect(),
        actors: (0..count).map(actor).collect(),
        ..SnapshotFile::default()
    };
    let mut chosen = BTreeSet::new();
    while chosen.len() < pairs.min(count * (count - 1) / 2) {
        let (a, b) = (rng.usize(..count), rng.usize(..count));
        if a < b && chosen.insert((a, b)) {
            let (from, to) = (format!("a-{a}"), format!("a-{b}"));
            file.messages.push(Message { from, to, count: rng.u64(1..=100) });
        }
    }
    file.exchange_cost.other_kind = Some(1);
    for a in 0..count {
        for b in a + 1..count {
            let steps = (a / side).abs_diff(b / side) + (a % side).abs_diff(b % side);
            let id = |at: usize| format!("node/gpu-{at}");
            file.exchange_cost.pairs.push(PairCost { a: id(a), b: id(b), cost: steps as u64 });
        }
    }
    file.objectives =
        placement::file::Levels::InOrder(vec![vec![Criterion::Overload], vec![Criterion::Communication]]);
    Snapshot::new(file).unwrap()
}
