//! The five families of graphs of the annealing paper, at the sizes of its Table I, and its platforms.
//!
//! The paper publishes only the numbers of tasks and edges. Structure and weights are ours: each family is a prologue of
//! scalar statements followed by vector statements, cut into strips, with the neighbourhood of the named algorithm. A
//! vector of N elements is cut into strips of N/s.

use crate::{Cost, Edge, FileError, Graph, Group, Kind, Link, Links, Model, Parts, Platform, Task, Weight};

/// The families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(strum::Display, strum::EnumString, strum::EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum Family {
    /// Binomial option pricing.
    Binomial,
    /// Two-dimensional convolution.
    Convolution,
    /// Gram-Schmidt orthogonalisation.
    GramSchmidt,
    /// Two-dimensional Gauss-Seidel stencil.
    GaussSeidel,
    /// Two-dimensional Jacobi stencil.
    Jacobi,
}

/// The vector strips of Table I.
pub const STRIPS: [usize; 5] = [10, 20, 30, 40, 50];

/// Statement weights of a family. The paper: vectors of 1000 to 1 million elements before they are cut,
/// work of 1 to 0.3 billion, edges of 3000 bytes to 4.8 MB; convolution and Jacobi are
/// data-intensive.
struct Weights {
    /// Elements of a vector before it is cut.
    elements: f64,
    /// Work of a vector statement: minimum and maximum, drawn log-uniformly.
    work: (f64, f64),
    /// Bytes per element between vector statements.
    bytes: f64,
}

impl Family {
    fn weights(self) -> Weights {
        match self {
            Self::Binomial => Weights { elements: 1e6, work: (1e5, 3e8), bytes: 48.0 },
            Self::Convolution | Self::Jacobi => Weights { elements: 1e3, work: (1.0, 1e2), bytes: 48_000.0 },
            Self::GramSchmidt => Weights { elements: 1e3, work: (1e2, 1e4), bytes: 300.0 },
            Self::GaussSeidel => Weights { elements: 1e6, work: (1.0, 1e2), bytes: 48.0 },
        }
    }
}

/// A graph of a family at a strip count, with random weights.
pub fn graph(family: Family, strip: usize, seed: u64) -> Result<Graph, FileError> {
    if strip == 0 {
        return Err(FileError::new("strip", "a vector cannot be cut into 0", "write a strip from 1 up"));
    }
    let mut draft = Draft::default();
    match family {
        Family::Binomial => binomial(&mut draft, strip),
        Family::Convolution => convolution(&mut draft, strip),
        Family::GramSchmidt => gram_schmidt(&mut draft, strip),
        Family::GaussSeidel => gauss_seidel(&mut draft, strip),
        Family::Jacobi => jacobi(&mut draft, strip),
    }
    draft.graph(family, strip, seed)
}

/// Statements and dependencies, without weights.
#[derive(Default)]
struct Draft {
    /// Name, and whether it is a vector statement.
    statements: Vec<(String, bool)>,
    edges: Vec<(usize, usize)>,
}

impl Draft {
    fn add(&mut self, name: String, vector: bool) -> usize {
        self.statements.push((name, vector));
        self.statements.len() - 1
    }

    fn tie(&mut self, from: usize, to: usize) {
        self.edges.push((from, to));
    }

    /// A row of vector statements.
    fn row(&mut self, name: &str, count: usize) -> Vec<usize> {
        (0..count).map(|strip| self.add(format!("{name}{strip}"), true)).collect()
    }

    /// A chain of scalar statements; the first ones also depend on the statement before the previous one, until the number
    /// of edges is `edges`.
    fn prologue(&mut self, count: usize, edges: usize) -> Vec<usize> {
        let scalars: Vec<usize> = (0..count).map(|number| self.add(format!("x{number}"), false)).collect();
        let mut left = edges;
        for step in 1..count {
            for at in 0..count - step {
                if left == 0 {
                    return scalars;
                }
                self.tie(scalars[at], scalars[at + step]);
                left -= 1;
            }
        }
        scalars
    }

    fn graph(self, family: Family, strip: usize, seed: u64) -> Result<Graph, FileError> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let Weights { elements, work: (least, most), bytes } = family.weights();
        #[expect(clippy::cast_precision_loss, reason = "strips are few")]
        let length = (elements / strip as f64).ceil();
        let vectors: Vec<bool> = self.statements.iter().map(|(_, vector)| *vector).collect();
        let task = |(id, vector): (String, bool)| {
            let work =
                if vector { least * libm::pow(most / least, rng.f64()) } else { 1.0 + 9.0 * rng.f64() };
            let cost = Cost::Work { work: work.round(), vector: if vector { length } else { 1.0 } };
            Task { id, cost, arguments: Vec::new() }
        };
        let tasks = self.statements.into_iter().map(task).collect();
        let edge = |(from, to): (usize, usize)| {
            let both = vectors[from] && vectors[to];
            let bytes = if both { (length * bytes).clamp(3e3, 4.8e6) } else { 3e3 };
            Edge { from, to, weight: Weight::Bytes(bytes) }
        };
        let edges = self.edges.into_iter().map(edge).collect();
        Graph::new(Parts::new(family.to_string(), Model::Work, tasks, edges))
    }
}

/// Payoffs p and one step back q, both of s strips, each with its scalars; both reduced: 2s + 62 and 10s + 106.
fn binomial(draft: &mut Draft, strip: usize) {
    let scalars = draft.prologue(62, 106);
    let (payoff, step) = (draft.row("p", strip), draft.row("q", strip));
    for at in 0..strip {
        for scalar in &scalars[..4] {
            draft.tie(*scalar, payoff[at]);
        }
        draft.tie(payoff[at], step[at]);
        // The last one's upper neighbour is the boundary, a scalar.
        draft.tie(payoff.get(at + 1).copied().unwrap_or(scalars[6]), step[at]);
        draft.tie(scalars[4], step[at]);
        draft.tie(scalars[5], step[at]);
        draft.tie(step[at], scalars[60]);
        draft.tie(step[at], scalars[61]);
    }
}

/// s strips of the image, each with the filter and its boundary, gathered: s + 69 and 3s + 113.
fn convolution(draft: &mut Draft, strip: usize) {
    let scalars = draft.prologue(69, 113);
    for at in draft.row("c", strip) {
        draft.tie(scalars[66], at);
        draft.tie(scalars[67], at);
        draft.tie(at, scalars[68]);
    }
}

/// For each of s columns k: a norm, and for each of s strips a product and an update: 2s² + s + 18 and 4s² + s + 33.
fn gram_schmidt(draft: &mut Draft, strip: usize) {
    let scalars = draft.prologue(18, 33);
    let norms = draft.row("n", strip);
    let mut before = vec![(scalars[16], scalars[17]); strip];
    for (k, &norm) in norms.iter().enumerate() {
        draft.tie(before[k].1, norm);
        let (dots, updates) = (draft.row(&format!("r{k}-"), strip), draft.row(&format!("u{k}-"), strip));
        for j in 0..strip {
            draft.tie(norm, dots[j]);
            draft.tie(before[j].0, dots[j]);
            draft.tie(dots[j], updates[j]);
            draft.tie(before[j].1, updates[j]);
            before[j] = (updates[j], updates[j]);
        }
    }
}

/// Two sweeps over s × s blocks, each after its upper and left neighbour: 2s² + s + 17 and 5s² + s + 21.
fn gauss_seidel(draft: &mut Draft, strip: usize) {
    let scalars = draft.prologue(17, 21);
    let left = draft.row("b", strip);
    for &boundary in &left {
        draft.tie(scalars[14], boundary);
    }
    let mut first: Vec<Vec<usize>> = Vec::new();
    let mut second: Vec<Vec<usize>> = Vec::new();
    for i in 0..strip {
        first.push(draft.row(&format!("x{i}-"), strip));
        second.push(draft.row(&format!("y{i}-"), strip));
    }
    for i in 0..strip {
        for j in 0..strip {
            draft.tie(first[i][j], second[i][j]);
            for (sweep, top) in [(&first, scalars[15]), (&second, scalars[16])] {
                draft.tie(if i == 0 { top } else { sweep[i - 1][j] }, sweep[i][j]);
                draft.tie(if j == 0 { left[i] } else { sweep[i][j - 1] }, sweep[i][j]);
            }
        }
    }
}

/// Three sweeps a, b, c over s strips, each after its neighbours in the previous sweep, and a norm: 3s + 18 and 11s + 20.
fn jacobi(draft: &mut Draft, strip: usize) {
    let scalars = draft.prologue(18, 20);
    let rows = [draft.row("a", strip), draft.row("b", strip), draft.row("c", strip)];
    for at in 0..strip {
        draft.tie(scalars[11], rows[0][at]);
        draft.tie(scalars[12], rows[0][at]);
        for (row, top, bottom) in [(1, scalars[13], scalars[14]), (2, scalars[15], scalars[16])] {
            let above = if at == 0 { top } else { rows[row - 1][at - 1] };
            let below = rows[row - 1].get(at + 1).copied().unwrap_or(bottom);
            for from in [above, rows[row - 1][at], below] {
                draft.tie(from, rows[row][at]);
            }
        }
        draft.tie(scalars[11], rows[1][at]);
        draft.tie(rows[0][at], rows[2][at]);
        draft.tie(rows[2][at], scalars[17]);
    }
}

/// A random platform as in the paper: 2 … 32 processing elements, 25–75 % of them GPUs, vector lengths 2 … 32 and
/// work 2⁷ … 2²⁰ in powers of two, all pairs linked at 1–10 GB/s; all from truncated normal distributions.
pub fn platform(seed: u64) -> Platform {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = whole(normal(&mut rng, 2.0, 32.0));
    #[expect(clippy::cast_precision_loss, reason = "processing elements are few")]
    let gpus = whole(normal(&mut rng, 0.25, 0.75) * count as f64);
    let group = |kind: Kind| {
        let (work, vector) = (normal(&mut rng, 7.0, 20.0).round(), normal(&mut rng, 1.0, 5.0).round());
        Group { kind, count: 1, work: libm::exp2(work), vector: libm::exp2(vector) }
    };
    let kinds = (0..count).map(|number| if number < count - gpus { Kind::Cpu } else { Kind::Gpu });
    let groups: Vec<Group> = kinds.map(group).collect();
    let mut platform = Platform::new(&groups).expect("2 to 32 processing elements are within bounds");
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let links = pairs.map(|(a, b)| Link { a, b, bandwidth: 1e9 * normal(&mut rng, 1.0, 10.0) });
    platform.links = Some(Links::Some(links.collect()));
    platform
}

/// Truncated normal around the middle, with three standard deviations to either end.
fn normal(rng: &mut fastrand::Rng, least: f64, most: f64) -> f64 {
    // Box and Muller; 1 - f64 is never 0.
    let radius = (-2.0 * libm::log(1.0 - rng.f64())).sqrt();
    let drawn = radius * libm::cos(std::f64::consts::TAU * rng.f64());
    (f64::midpoint(least, most) + drawn * (most - least) / 6.0).clamp(least, most)
}

fn whole(value: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "drawn from small ranges above 0"
    )]
    let whole = value.round() as usize;
    whole
}
