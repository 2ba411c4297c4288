//! Snapshots of various shapes, by seed.

mod crowded;
mod graphs;
mod parts;

use std::collections::BTreeSet;

use placement::file::{Actor, Message, PairCost, RunsOn, SnapshotFile, Unit};
use placement::{Criterion, Snapshot};

pub use crowded::{clusters, kind_cycles, neighbours, tight_memory};
pub use graphs::{heavy_tails, stencil, tree};

/// The snapshots of eight shapes in `examples/instances`. A name consists of family, actors, units and seed.
///
/// [`grid`] and [`kind_cycles`] are families Q and R there, from the generator `generate.py`.
#[must_use]
pub fn shapes(seed: u64) -> Vec<(String, Snapshot)> {
    let worlds = [
        ("X", clusters(32, 8, seed)),
        ("F", famine(200, 16, seed)),
        ("A", all_to_all(&[50, 80, 50], 32, seed)),
        ("H", heavy_tails(400, 80, seed)),
        ("T", tree(364, 48, seed)),
        ("S", stencil(20, 20, 40, seed)),
        ("M", tight_memory(320, 40, seed)),
        ("N", neighbours(40, 8, 48, seed)),
    ];
    let name =
        |family: &str, world: &Snapshot| format!("{family}-{}x{}-s{seed}", world.actors(), world.units());
    worlds.into_iter().map(|(family, world)| (name(family, &world), world)).collect()
}

/// A quadratic assignment problem: one node with `side` × `side` exclusive devices on a grid, and as many actors. A
/// message costs the distance of the devices; `pairs` random pairs of actors exchange 1 to 100 messages.
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

/// A pipeline with stages of these sizes; each actor sends to every actor of the next stage. Nodes have four units, the
/// last of another kind, at half of their capacity.
pub fn all_to_all(stages: &[usize], units: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count: usize = stages.iter().sum();
    let kind = |at: usize| if at % 4 == 3 { "gpu" } else { "cpu" };
    let actors: Vec<Actor> = (0..count)
        .map(|at| {
            let work = rng.u64(10..=100);
            let way = |kind: &str| (kind.to_owned(), RunsOn { work, ..RunsOn::default() });
            let kinds = if rng.u8(..4) == 0 { vec!["cpu", "gpu"] } else { vec!["cpu"] };
            Actor { id: format!("a-{at}"), runs_on: kinds.into_iter().map(way).collect(), ..Actor::default() }
        })
        .collect();
    let work: u64 = actors.iter().flat_map(|actor| actor.runs_on.values().take(1)).map(|way| way.work).sum();
    let unit = |at: usize| Unit {
        id: format!("node-{}/{}-{at}", at / 4, kind(at)),
        kind: kind(at).into(),
        node: format!("node-{}", at / 4),
        zone: Some(format!("zone-{}", at / 64)),
        capacity: 2 * work / units as u64 + 100,
        ..Unit::default()
    };
    let mut file = SnapshotFile {
        version: placement::file::VERSION,
        units: (0..units).map(unit).collect(),
        actors,
        ..SnapshotFile::default()
    };
    let mut first = 0;
    for pair in stages.windows(2) {
        let next = first + pair[0];
        for from in first..next {
            for to in next..next + pair[1] {
                let (from, to) = (format!("a-{from}"), format!("a-{to}"));
                file.messages.push(Message { from, to, count: rng.u64(1..=20) });
            }
        }
        first = next;
    }
    file.exchange_cost.other_kind = Some(5);
    (file.exchange_cost.other_node, file.exchange_cost.other_zone) = (30, 30);
    Snapshot::new(file).unwrap()
}

/// Scarcity of one kind: actors that only run on GPUs exceed their capacity by a third, and as many actors on CPUs have
/// twice the capacity. Each actor sends to the next one and to a random one.
pub fn famine(actors: usize, gpus: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let kind = |at: usize| if at < actors { "gpu" } else { "cpu" };
    let works: Vec<u64> = (0..2 * actors).map(|_| rng.u64(10..=100)).collect();
    let actor = |at: usize| Actor {
        id: format!("a-{at}"),
        runs_on: [(kind(at).to_owned(), RunsOn { work: works[at], ..RunsOn::default() })].into(),
        ..Actor::default()
    };
    let sum = |of: &[u64]| of.iter().sum::<u64>() / gpus as u64;
    let (scarce, plenty) = (sum(&works[..actors]) * 3 / 4, sum(&works[actors..]) * 2);
    let unit = |at: usize| Unit {
        id: format!("{}-{}", if at < gpus { "gpu" } else { "cpu" }, at % gpus),
        kind: if at < gpus { "gpu" } else { "cpu" }.into(),
        node: format!("node-{}", at % gpus),
        capacity: if at < gpus { scarce } else { plenty },
        ..Unit::default()
    };
    let mut file = SnapshotFile {
        version: placement::file::VERSION,
        units: (0..2 * gpus).map(unit).collect(),
        actors: (0..2 * actors).map(actor).collect(),
        ..SnapshotFile::default()
    };
    for at in 0..2 * actors {
        for to in [(at + 1) % (2 * actors), rng.usize(..2 * actors)] {
            let (from, to) = (format!("a-{at}"), format!("a-{to}"));
            file.messages.push(Message { from, to, count: rng.u64(1..=100) });
        }
    }
    (file.exchange_cost.other_kind, file.exchange_cost.other_node) = (Some(5), 30);
    Snapshot::new(file).unwrap()
}
