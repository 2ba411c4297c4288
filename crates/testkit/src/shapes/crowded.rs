//! Snapshots with scarce capacity.

use placement::Snapshot;
use placement::file::{Actor, Unit};

use super::parts::{actor, message, world};

/// Exclusive devices in clusters: nodes with `each` GPUs of one slot, and as many actors as GPUs. Communities of actors
/// fit on a node; one message in five goes to a random actor.
pub fn clusters(nodes: usize, each: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = nodes * each;
    let unit = |at: usize| Unit {
        id: format!("node-{}/gpu-{}", at / each, at % each),
        kind: "gpu".into(),
        node: format!("node-{}", at / each),
        zone: Some(format!("zone-{}", at / each / 4)),
        numa: Some(format!("{}", at % each * 2 / each)),
        capacity: 100,
        slots: Some(1),
        ..Unit::default()
    };
    let mut names: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut names);
    let mut messages = Vec::new();
    for at in 0..count {
        for _ in 0..3 {
            let near = at / each * each + rng.usize(..each);
            let to = if rng.u8(..5) == 0 { rng.usize(..count) } else { near };
            if to != at {
                messages.push(message(names[at], names[to], rng.u64(1..=100)));
            }
        }
    }
    let actors = (0..count).map(|at| actor(at, &["gpu"], 50)).collect();
    let mut file = world((0..count).map(unit).collect(), actors, messages);
    file.exchange_cost.other_numa = 2;
    Snapshot::new(file).unwrap()
}

/// Kinds of [`kind_cycles`] in a cycle of three and one of four, each with the position of the next kind.
const KIND_CYCLES: [(&str, usize); 7] =
    [("cpu", 1), ("gpu", 2), ("fpga", 0), ("npu", 4), ("tpu", 5), ("dsp", 6), ("vpu", 3)];

/// Cycles of kinds: exclusive devices of seven kinds, one of each on every node, all in use. Actors run on their own
/// kind and the next one of its cycle. So no two actors on different kinds can swap, but three or four can rotate.
///
/// Actors are in communities of seven, independent of kinds; one message in five goes to a random actor.
pub fn kind_cycles(nodes: usize, seed: u64) -> Snapshot {
    const EACH: usize = KIND_CYCLES.len();
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = nodes * EACH;
    let id = |at: usize| format!("node-{}/{}-0", at / EACH, KIND_CYCLES[at % EACH].0);
    let unit = |at: usize| Unit {
        id: id(at),
        kind: KIND_CYCLES[at % EACH].0.into(),
        node: format!("node-{}", at / EACH),
        zone: Some(format!("zone-{}", at / EACH / 4)),
        capacity: 100,
        slots: Some(1),
        ..Unit::default()
    };
    let mut homes: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut homes);
    let listed = homes.iter().enumerate().map(|(at, home)| {
        let (own, next) = KIND_CYCLES[home % EACH];
        Actor { current: Some(id(*home)), ..actor(at, &[own, KIND_CYCLES[next].0], 50) }
    });
    let listed: Vec<Actor> = listed.collect();
    let messages = (0..count * 3).filter_map(|at| {
        let from = at / 3;
        let near = from / EACH * EACH + rng.usize(..EACH);
        let to = if rng.u8(..5) == 0 { rng.usize(..count) } else { near };
        (from != to).then(|| message(from, to, rng.u64(1..=100)))
    });
    let messages = messages.collect();
    Snapshot::new(world((0..count).map(unit).collect(), listed, messages)).unwrap()
}

/// Tight memory: units have 3 % more memory than a hidden placement needs. One actor in eight is large and takes a
/// third of a unit.
pub fn tight_memory(actors: usize, units: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bought = vec![0; units];
    let mut worked = vec![0; units];
    let listed = (0..actors).map(|at| {
        let memory = if rng.u8(..8) == 0 { rng.u64(200..=400) } else { rng.u64(5..=60) };
        let work = rng.u64(10..=100);
        // The unit with more memory left.
        let (a, b) = (rng.usize(..units), rng.usize(..units));
        let home = if bought[a] < bought[b] { a } else { b };
        bought[home] += memory;
        worked[home] += work;
        Actor { requires: [("memory".to_owned(), memory)].into(), ..actor(at, &["cpu"], work) }
    });
    let listed: Vec<Actor> = listed.collect();
    let unit = |at: usize| Unit {
        id: format!("node-{}/cpu-{at}", at / 2),
        kind: "cpu".into(),
        node: format!("node-{}", at / 2),
        zone: Some(format!("zone-{}", at / 8)),
        capacity: worked.iter().max().map_or(1, |most| most + 1),
        provides: [("memory".to_owned(), bought[at] * 103 / 100)].into(),
        ..Unit::default()
    };
    let messages = (0..actors * 2).filter_map(|_| {
        let (from, near) = (rng.usize(..actors), rng.usize(..10));
        let to = if rng.bool() { (from / 10 * 10 + near).min(actors - 1) } else { rng.usize(..actors) };
        (from != to).then(|| message(from, to, rng.u64(1..=100)))
    });
    let messages = messages.collect();
    Snapshot::new(world((0..units).map(unit).collect(), listed, messages)).unwrap()
}

/// Many small fixed applications, and one of four times their size that is placed between them.
pub fn neighbours(applications: usize, each: usize, units: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let id = |at: usize| format!("node-{}/cpu-{at}", at / 4);
    let fixed = applications * each;
    let count = fixed + 4 * each;
    let mut work = 0;
    let listed = (0..count).map(|at| {
        let weight = rng.u64(10..=100);
        work += weight;
        // Each application is mostly on a node of its own.
        let (near, far) = (at / each * 4 + rng.usize(..4), rng.usize(..units));
        let current = (at < fixed).then(|| id(if rng.u8(..4) == 0 { far } else { near % units }));
        Actor { fixed: at < fixed, current, ..actor(at, &["cpu"], weight) }
    });
    let listed: Vec<Actor> = listed.collect();
    let unit = |at: usize| Unit {
        id: id(at),
        kind: "cpu".into(),
        node: format!("node-{}", at / 4),
        zone: Some(format!("zone-{}", at / 16)),
        capacity: (work * 100).div_ceil(units as u64 * 60),
        ..Unit::default()
    };
    let mut messages = Vec::new();
    for at in 0..count {
        let (first, size) = if at < fixed { (at / each * each, each) } else { (fixed, 4 * each) };
        for _ in 0..2 {
            let to = first + rng.usize(..size);
            if to != at {
                messages.push(message(at, to, rng.u64(1..=100)));
            }
        }
        // Movable actors send to fixed ones.
        if at >= fixed {
            messages.push(message(at, rng.usize(..fixed), rng.u64(1..=100)));
        }
    }
    Snapshot::new(world((0..units).map(unit).collect(), listed, messages)).unwrap()
}
