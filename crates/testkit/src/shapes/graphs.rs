//! Snapshots with a characteristic message graph.

use placement::Snapshot;
use placement::file::Unit;

use super::parts::{actor, message, world};

/// Kinds of [`heavy_tails`].
const KINDS: [&str; 12] =
    ["cpu", "gpu", "fpga", "npu", "tpu", "dsp", "vpu", "ipu", "dpu", "mcu", "asic", "qpu"];

/// Heavy tails: a graph by preferential attachment (Barabási and Albert 1999), with Pareto distributed rates and work.
/// Twelve kinds of devices, most of them rare, are on nodes of one to twelve units.
///
/// An actor runs on one to three kinds. With every actor on its first kind, kinds are at 80 % of their capacity.
pub fn heavy_tails(actors: usize, units: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Every kind occurs, and the first ones more often.
    let drawn = |at: usize| {
        let most = rng.usize(..KINDS.len());
        if at < KINDS.len() { at } else { rng.usize(..=most) }
    };
    let kinds: Vec<usize> = (0..units).map(drawn).collect();
    let share = |kind: usize| kinds.iter().filter(|of| **of == kind).count() as u64;
    let mut demand = [0; KINDS.len()];
    let listed = (0..actors).map(|at| {
        let work = pareto(&mut rng, 10, 1_000);
        let first = kinds[rng.usize(..units)];
        demand[first] += work;
        let mut of = vec![KINDS[first]];
        for _ in 0..rng.usize(..3) {
            of.push(KINDS[kinds[rng.usize(..units)]]);
        }
        actor(at, &of, work)
    });
    let listed: Vec<_> = listed.collect();
    let (mut node, mut left) = (0, rng.usize(1..=12));
    let unit = |at: usize| {
        if left == 0 {
            (node, left) = (node + 1, rng.usize(1..=12));
        }
        left -= 1;
        let kind = kinds[at];
        Unit {
            id: format!("node-{node}/{}-{at}", KINDS[kind]),
            kind: KINDS[kind].into(),
            node: format!("node-{node}"),
            zone: Some(format!("zone-{}", node / 4)),
            capacity: (demand[kind] * 5).div_ceil(share(kind) * 4) + 1,
            ..Unit::default()
        }
    };
    let units = (0..units).map(unit).collect();
    let (mut ends, mut messages) = (vec![0], Vec::new());
    for from in 1..actors {
        for _ in 0..3 {
            let to = ends[rng.usize(..ends.len())];
            if to != from {
                messages.push(message(from, to, pareto(&mut rng, 1, 10_000)));
                ends.extend([from, to]);
            }
        }
    }
    Snapshot::new(world(units, listed, messages)).unwrap()
}

/// A Pareto distributed integer with exponent 1.2, between `least` and `most`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small, and not negative"
)]
#[expect(
    clippy::disallowed_methods,
    reason = "rounded down to a whole number; instances of benchmarks are kept as files"
)]
fn pareto(rng: &mut fastrand::Rng, least: u64, most: u64) -> u64 {
    const EXPONENT: f64 = 1.2;
    let drawn = least as f64 * (1.0 - rng.f64()).powf(-1.0 / EXPONENT);
    (drawn as u64).clamp(least, most)
}

/// A tree: each actor but the first sends to one of the `WIDE` actors before it, the sum of its received messages and
/// some of its own.
///
/// Every fourth unit is a GPU, the others are CPUs, four on a node, at 85 %. One actor in four can run on both.
pub fn tree(actors: usize, units: usize, seed: u64) -> Snapshot {
    const WIDE: usize = 40;
    let mut rng = fastrand::Rng::with_seed(seed);
    let parents: Vec<usize> = (1..actors).map(|at| rng.usize(at.saturating_sub(WIDE)..at)).collect();
    let mut rates: Vec<u64> = (0..actors).map(|_| rng.u64(1..=10)).collect();
    for at in (1..actors).rev() {
        rates[parents[at - 1]] += rates[at];
    }
    let messages = (1..actors).map(|at| message(at, parents[at - 1], rates[at])).collect();
    sparse(actors, units, messages, &mut rng)
}

/// A grid of actors, each of which sends to its four neighbours, along rows more than along columns.
///
/// Units are as in [`tree`].
pub fn stencil(width: usize, height: usize, units: usize, seed: u64) -> Snapshot {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut messages = Vec::new();
    for at in 0..width * height {
        if at % width + 1 < width {
            messages.push(message(at, at + 1, rng.u64(20..=100)));
        }
        if at + width < width * height {
            messages.push(message(at, at + width, rng.u64(1..=50)));
        }
    }
    sparse(width * height, units, messages, &mut rng)
}

fn sparse(
    actors: usize,
    units: usize,
    messages: Vec<placement::file::Message>,
    rng: &mut fastrand::Rng,
) -> Snapshot {
    let mut work = 0;
    let listed = (0..actors).map(|at| {
        let each = rng.u64(10..=100);
        work += each;
        actor(at, if rng.u8(..4) == 0 { &["cpu", "gpu"] } else { &["cpu"] }, each)
    });
    let listed: Vec<_> = listed.collect();
    let kind = |at: usize| if at % 4 == 3 { "gpu" } else { "cpu" };
    let cpus = (0..units).filter(|at| kind(*at) == "cpu").count() as u64;
    let unit = |at: usize| Unit {
        id: format!("node-{}/{}-{at}", at / 4, kind(at)),
        kind: kind(at).into(),
        node: format!("node-{}", at / 4),
        zone: Some(format!("zone-{}", at / 16)),
        // All work would fit on the CPUs.
        capacity: (work * 100).div_ceil(cpus * 85),
        ..Unit::default()
    };
    Snapshot::new(world((0..units).map(unit).collect(), listed, messages)).unwrap()
}
