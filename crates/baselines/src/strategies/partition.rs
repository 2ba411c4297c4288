//! Bindings to METIS.

use std::sync::{Mutex, PoisonError};

use metis::option::{NCuts, Seed, UFactor};
use metis::{Graph, Idx, Real};

/// METIS uses the C library's global random generator: concurrent calls would disturb each other's seed.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A graph with non-negative vertex and edge weights.
#[derive(Clone, Debug, Default)]
pub struct WeightedGraph {
    /// By vertex: one weight per balance constraint, equally many for all vertices.
    pub weights: Vec<Vec<i64>>,
    /// By vertex: neighbour and weight, in both directions.
    pub edges: Vec<Vec<(usize, i64)>>,
}

/// METIS method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Multilevel k-way partitioning.
    KWay,
    /// Multilevel recursive bisection.
    Recursive,
}

/// Cuts a graph into parts of the given shares, by balance constraint and part; returns the part of each vertex.
///
/// Shares are relative. Weights are scaled to METIS' 32 bits.
///
/// # Errors
/// An error from METIS.
pub fn cut(
    web: &WeightedGraph,
    shares: &[Vec<i64>],
    method: Method,
    seed: u64,
) -> Result<Vec<usize>, String> {
    let (vertices, parts) = (web.weights.len(), shares.first().map_or(0, Vec::len));
    if vertices <= parts || parts <= 1 {
        // METIS rejects an empty problem.
        return Ok((0..vertices).map(|vertex| if parts <= 1 { 0 } else { vertex }).collect());
    }
    let (mut starts, mut neighbours, mut edge_weights): (Vec<Idx>, Vec<Idx>, Vec<Idx>) =
        (vec![0], Vec::new(), Vec::new());
    let heaviest = web.edges.iter().flatten().map(|(_, weight)| *weight).max().unwrap_or(1);
    for edges in &web.edges {
        for &(neighbour, weight) in edges {
            neighbours.push(index(neighbour)?);
            // Keeps the sum of a cut well within range.
            edge_weights.push(scaled(weight, heaviest, 10_000).max(1));
        }
        starts.push(index(neighbours.len())?);
    }
    let quantities = shares.len();
    let totals: Vec<i64> =
        (0..quantities).map(|q| web.weights.iter().map(|weights| weights[q]).sum()).collect();
    let weights: Vec<Idx> = web
        .weights
        .iter()
        .flat_map(|weights| {
            weights.iter().zip(&totals).map(|(weight, total)| scaled(*weight, *total, 1 << 24))
        })
        .collect();
    let targets = targets(shares);
    let seed = Idx::try_from(seed & 0x7fff_ffff).expect("31 bits fit");
    let graph = Graph::new(index(quantities)?, index(parts)?, &starts, &neighbours)
        .map_err(|problem| format!("METIS refuses the graph: {problem}"))?
        .set_adjwgt(&edge_weights)
        .set_vwgt(&weights)
        .set_tpwgts(&targets)
        .set_option(Seed(seed))
        .set_option(NCuts(4))
        .set_option(UFactor(10));
    let mut part = vec![0; vertices];
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match method {
        Method::KWay => graph.part_kway(&mut part),
        Method::Recursive => graph.part_recursive(&mut part),
    }
    .map_err(|problem| format!("METIS fails: {problem}"))?;
    part.into_iter().map(|part| usize::try_from(part).map_err(|_| "METIS names no part".to_owned())).collect()
}

/// Shares of the parts, adding up to 1 per constraint; METIS requires all to be positive.
fn targets(shares: &[Vec<i64>]) -> Vec<Real> {
    let least = 1e-4;
    let sums: Vec<f64> =
        shares.iter().map(|of| of.iter().map(|share| real(*share)).sum::<f64>().max(1.0)).collect();
    let parts = shares[0].len();
    let raised = |q: usize, part: usize| (real(shares[q][part]) / sums[q]).max(least);
    let totals: Vec<f64> = (0..shares.len()).map(|q| (0..parts).map(|part| raised(q, part)).sum()).collect();
    let by_part = (0..parts).flat_map(|part| (0..shares.len()).map(move |q| (q, part)));
    #[expect(clippy::cast_possible_truncation, reason = "METIS takes 32 bits")]
    by_part.map(|(q, part)| (raised(q, part) / totals[q]) as Real).collect()
}

/// Scales `value` so that `all` becomes `most`.
fn scaled(value: i64, all: i64, most: i64) -> Idx {
    let scaled = i128::from(value) * i128::from(most.min(all)) / i128::from(all.max(1));
    Idx::try_from(scaled).unwrap_or(Idx::MAX)
}

fn index(number: usize) -> Result<Idx, String> {
    Idx::try_from(number).map_err(|_| "the graph is too large for METIS".to_owned())
}

#[expect(clippy::cast_precision_loss, reason = "shares need no more than 52 bits")]
fn real(number: i64) -> f64 {
    number as f64
}
