//! Graphs, platform and profiles of the semi-static paper.

use std::collections::BTreeMap;

use crate::cost::Vector;
use crate::{
    Communication, Cost, Edge, FileError, Graph, Group, Kind, Model, Parts, Platform, Range, Task, Weight,
};

/// The types of processors of the paper's platform (Fig. 3): p0 … p3.
const TYPES: [&str; 4] = ["p0", "p1", "p2", "p3"];
/// Processors of each type.
const PROCESSORS: usize = 16;
/// Start-up and time per unit by pair of types: start-ups from Fig. 3(b), times per unit from Table 4's times of
/// messages; those within p2 and within p3 cannot be recovered and are assumed.
const MESSAGES: [(usize, usize, f64, f64); 10] = [
    (0, 0, 0.83, 0.41),
    (1, 1, 0.83, 0.37),
    (2, 2, 0.83, 0.53),
    (3, 3, 0.83, 0.53),
    (0, 1, 9.04, 3.72),
    (0, 2, 10.65, 5.58),
    (0, 3, 22.47, 11.16),
    (1, 2, 4.56, 0.44),
    (1, 3, 7.00, 7.44),
    (2, 3, 11.37, 6.38),
];
/// The parameters' ranges, divided into four intervals each: α, β, γ, μ (5.2).
const RANGES: [(&str, f64, f64); 4] =
    [("alpha", 1000.0, 5000.0), ("beta", 5.0, 25.0), ("gamma", 100.0, 500.0), ("mu", 20.0, 100.0)];

/// a, b, c and h on p0 … p3 of s0 … s9 (Fig. 6).
const TEN: [(f64, f64, f64, [f64; 4]); 10] = [
    (9.0, 24.0, 49.0, [0.4897, 0.6815, 0.7711, 0.7503]),
    (42.0, 61.0, 9.0, [0.2828, 0.7129, 0.4511, 0.2725]),
    (42.0, 50.0, 43.0, [0.2575, 0.8511, 0.5096, 0.8779]),
    (2.0, 34.0, 47.0, [0.6337, 0.6921, 0.8479, 0.3451]),
    (9.0, 10.0, 38.0, [0.8283, 0.2745, 0.4114, 0.2836]),
    (33.0, 59.0, 76.0, [0.7267, 0.3124, 0.2600, 0.3354]),
    (63.0, 45.0, 29.0, [0.3932, 0.7026, 0.8072, 0.8066]),
    (56.0, 14.0, 54.0, [0.5276, 0.7990, 0.5081, 0.7942]),
    (48.0, 68.0, 10.0, [0.5876, 0.3863, 0.6515, 0.6472]),
    (36.0, 25.0, 29.0, [0.8760, 0.8794, 0.6965, 0.2407]),
];
/// Source, target, d and e of its edges.
const TEN_EDGES: [(usize, usize, f64, f64); 12] = [
    (0, 1, 5.0, 3.0),
    (0, 2, 6.0, 6.0),
    (0, 3, 2.0, 1.0),
    (0, 4, 7.0, 5.0),
    (0, 5, 3.0, 7.0),
    (0, 8, 5.0, 6.0),
    (1, 7, 3.0, 2.0),
    (2, 9, 7.0, 7.0),
    (4, 6, 4.0, 2.0),
    (6, 7, 5.0, 6.0),
    (6, 8, 7.0, 8.0),
    (6, 9, 9.0, 10.0),
];

/// The paper's platform: four types of sixteen processors.
pub fn platform() -> Platform {
    let kind = |at: usize| Kind::Other(TYPES[at].to_owned());
    let groups: Vec<Group> = (0..TYPES.len()).map(|at| Group::new(kind(at), PROCESSORS)).collect();
    let mut platform = Platform::new(&groups).expect("64 processors are within bounds");
    let pair = |&(a, b, startup, per_unit): &(usize, usize, f64, f64)| {
        ((kind(a), kind(b)), Communication { startup, per_unit })
    };
    platform.communication = MESSAGES.iter().map(pair).collect();
    platform
}

/// The graph of ten nodes of Fig. 6.
pub fn ten_node() -> Graph {
    let tasks = TEN.iter().enumerate().map(|(number, &(a, b, c, h))| task(number, a, b, c, h)).collect();
    let edge = |&(from, to, fixed, variable): &(usize, usize, f64, f64)| Edge {
        from,
        to,
        weight: Weight::Affine { fixed, variable },
    };
    graph("ten-node", tasks, TEN_EDGES.iter().map(edge).collect()).expect("the constants above are a graph")
}

/// The structures of the paper's larger graphs (Fig. 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(strum::Display, strum::EnumString, strum::EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum Shape {
    /// Random levels, up to seven children each on the next.
    Random,
    /// A binary tree towards its root.
    InTree,
    /// A binary tree from its root.
    OutTree,
    /// Forks into about √n tasks, joined, one after the other.
    ForkJoin,
}

/// A random graph of a shape and a size: a, b, c of 10–100, d, e of 1–10, h of 0.5–20.
pub fn shaped(shape: Shape, size: usize, seed: u64) -> Result<Graph, FileError> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let pairs = match shape {
        Shape::Random => random(size, &mut rng),
        Shape::OutTree => (1..size).map(|node| ((node - 1) / 2, node)).collect(),
        Shape::InTree => (1..size).rev().map(|node| (size - 1 - node, size - 1 - (node - 1) / 2)).collect(),
        Shape::ForkJoin => fork_join(size),
    };
    let mut drawn = |least: f64, most: f64| least + (most - least) * rng.f64();
    let mut tasks = Vec::with_capacity(size);
    for number in 0..size {
        let (a, b, c) = (drawn(10.0, 100.0), drawn(10.0, 100.0), drawn(10.0, 100.0));
        let h = [drawn(0.5, 20.0), drawn(0.5, 20.0), drawn(0.5, 20.0), drawn(0.5, 20.0)];
        tasks.push(task(number, a, b, c, h));
    }
    let mut edges = Vec::with_capacity(pairs.len());
    for (from, to) in pairs {
        let weight = Weight::Affine { fixed: drawn(1.0, 10.0), variable: drawn(1.0, 10.0) };
        edges.push(Edge { from, to, weight });
    }
    graph(&shape.to_string(), tasks, edges)
}

fn task(number: usize, a: f64, b: f64, c: f64, h: [f64; 4]) -> Task {
    let h = TYPES.iter().zip(h).map(|(name, factor)| (Kind::Other((*name).to_owned()), factor)).collect();
    Task { id: format!("s{number}"), cost: Cost::Parallel { a, b, c, h }, arguments: Vec::new() }
}

fn graph(name: &str, tasks: Vec<Task>, edges: Vec<Edge>) -> Result<Graph, FileError> {
    let mut parts = Parts::new(name, Model::Parallel, tasks, edges);
    let range = |&(name, min, max): &(&str, f64, f64)| (name.to_owned(), Range { min, max, intervals: 4 });
    parts.parameters = RANGES.iter().map(range).collect::<BTreeMap<_, _>>();
    Graph::new(parts)
}

/// A height of 1 … 2√n, the nodes spread over the levels, each with 0 … 7 children on the next level.
fn random(size: usize, rng: &mut fastrand::Rng) -> Vec<(usize, usize)> {
    let height = rng.usize(1..=(2 * size.isqrt()).max(1)).min(size);
    let mut levels = vec![1_usize; height];
    for _ in height..size {
        levels[rng.usize(0..height)] += 1;
    }
    let mut edges = Vec::new();
    let mut first = 0;
    for pair in levels.windows(2) {
        let (here, below) = (pair[0], pair[1]);
        for node in first..first + here {
            let mut next: Vec<usize> = (first + here..first + here + below).collect();
            rng.shuffle(&mut next);
            next.truncate(rng.usize(0..=7));
            next.sort_unstable();
            edges.extend(next.into_iter().map(|child| (node, child)));
        }
        first += here;
    }
    edges
}

/// Fork, tasks, join; the join is the next fork.
fn fork_join(size: usize) -> Vec<(usize, usize)> {
    let width = size.isqrt().max(2);
    let mut edges = Vec::new();
    let mut fork = 0;
    while fork + 1 < size {
        let join = (fork + width + 1).min(size - 1);
        if join == fork + 1 {
            edges.push((fork, join));
        }
        for node in fork + 1..join {
            edges.push((fork, node));
            edges.push((node, join));
        }
        fork = join;
    }
    edges
}

/// A profile: the vectors observed after iterations 0, 1, …, `iterations`, with steps of about `delta`.
///
/// It starts at the centre of the ranges. α, γ and μ change by a fraction of 0.5–1.5 × `delta`, of random sign, negated
/// if the value would leave the range; β = μ/4 … μ/6. A value that would leave its range both ways stays at the bound.
pub fn profile(iterations: usize, delta: f64, seed: u64) -> Vec<Vector> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let middle = |at: usize| f64::midpoint(RANGES[at].1, RANGES[at].2);
    let mut vector = Vector::new([middle(0), middle(1), middle(2), middle(3)]);
    let mut all = vec![vector];
    for _ in 0..iterations {
        let mut changed = |value: f64, at: usize| {
            let (_, min, max) = RANGES[at];
            let share = delta * (0.5 + rng.f64());
            let share = if rng.bool() { share } else { -share };
            let inside = |value: &f64| (min..=max).contains(value);
            let next = Some(value * (1.0 + share)).filter(inside).unwrap_or(value * (1.0 - share));
            next.clamp(min, max)
        };
        vector.alpha = changed(vector.alpha, 0);
        vector.gamma = changed(vector.gamma, 2);
        vector.mu = changed(vector.mu, 3);
        vector.beta = (vector.mu / (4.0 + 2.0 * rng.f64())).clamp(RANGES[1].1, RANGES[1].2);
        all.push(vector);
    }
    all
}
