//! One number for a vector: the weight of each level exceeds the maximum of all levels below.

use crate::criteria::Amounts;
use crate::ix::ActorIx;
use crate::{Criterion, Snapshot};

/// The maximum of the energy, so that its differences never overflow.
const LARGEST_ENERGY: i128 = 1 << 61;

/// A level yields to lower ones by less than this fraction of its maximum, which no search decides reliably.
const SMALL_PART: i128 = 1 << 12;

/// The weight of each criterion in the energy that a search minimizes.
///
/// Energies compare like the vectors. If the levels are too many or too large for 64 bits, the weights are closer together: the
/// maximum of a level then exceeds a small fraction of one above it. If even that does not fit, the lowest levels have no weight.
#[derive(Clone, Debug)]
pub struct Weights {
    by_criterion: Vec<(Criterion, i64)>,
    /// The weight of one actor off its current unit: breaks ties.
    pub leaving: i64,
}

impl Weights {
    /// Weights of the levels, except criteria that `is_bound` treats as limits.
    pub fn new(snapshot: &Snapshot, is_bound: impl Fn(Criterion) -> bool) -> Self {
        let amounts = amounts(snapshot);
        let most = |criterion: &Criterion| criterion.measure().most(&amounts);
        let counts = |criterion: &&Criterion| !is_bound(**criterion);
        let levels = snapshot.objectives().levels();
        let mut sizes: Vec<i128> =
            levels.iter().map(|level| level.iter().filter(counts).map(most).sum()).collect();
        sizes.push(i128::try_from(snapshot.actors()).expect("a count of actors is small"));
        let weights = weigh(&sizes);
        let by_level = levels.iter().zip(&weights);
        Self {
            by_criterion: by_level
                .flat_map(|(level, weight)| {
                    level.iter().filter(counts).map(|criterion| (*criterion, *weight))
                })
                .collect(),
            leaving: weights[levels.len()],
        }
    }

    /// The weight of a criterion; 0 if it is not an objective.
    pub fn of(&self, criterion: Criterion) -> i64 {
        self.by_criterion.iter().find(|(named, _)| *named == criterion).map_or(0, |(_, weight)| *weight)
    }
}

/// Weights of levels with these maxima, the most important first; 0 for the lowest if even close weights do not all fit.
fn weigh(sizes: &[i128]) -> Vec<i64> {
    let all = (0..=sizes.len()).rev();
    let weights = all.into_iter().find_map(|kept| near(&sizes[..kept]));
    let mut weights = weights.expect("nothing weighs nothing");
    weights.resize(sizes.len(), 0);
    weights
}

/// The same for all of them: each level outweighs the maximum of those below, or as much of it as fits. The excess is removed bit
/// by bit where it is the smallest fraction of a level's maximum; `None` if it is not a small fraction.
fn near(sizes: &[i128]) -> Option<Vec<i64>> {
    // By level: its factor over the level below, and the amount of it that then does not outweigh those below.
    let mut factors: Vec<i128> = sizes.iter().skip(1).map(|below| below + 1).chain([1]).collect();
    factors.truncate(sizes.len());
    let mut yielded = vec![1i128; sizes.len()];
    loop {
        let mut weights = vec![1i128; sizes.len()];
        for level in (1..sizes.len()).rev() {
            weights[level - 1] = weights[level].saturating_mul(factors[level - 1]);
        }
        let parts = weights.iter().zip(sizes).map(|(weight, size)| weight.saturating_mul(*size));
        if parts.fold(0, i128::saturating_add) <= LARGEST_ENERGY {
            return weights.into_iter().map(|weight| i64::try_from(weight).ok()).collect();
        }
        let can_yield = (0..sizes.len()).filter(|level| factors[*level] > 1);
        let level = can_yield.max_by_key(|level| (sizes[*level] / yielded[*level], *level))?;
        yielded[level] *= 2;
        if sizes[level] / yielded[level] < SMALL_PART {
            return None;
        }
        factors[level] = (factors[level] / 2).max(1);
    }
}

fn amounts(snapshot: &Snapshot) -> Amounts<'_> {
    let problem = snapshot.problem();
    let cost = &snapshot.file().exchange_cost;
    let kinds = &problem.kinds;
    let largest_kind_cost = kinds.iter().flat_map(|a| kinds.iter().map(move |b| snapshot.kind_cost(a, b)));
    let of_classes = i128::from(largest_kind_cost.max().unwrap_or(0))
        + i128::from(cost.other_numa)
        + i128::from(cost.other_node)
        + i128::from(cost.other_zone);
    let of_pairs = cost.pairs.iter().map(|pair| i128::from(pair.cost)).max().unwrap_or(0);
    let heaviest = |actor: ActorIx| {
        let ways = problem.implementations[actor].iter().flatten();
        ways.map(|needs| needs.work).max().unwrap_or(0)
    };
    let once = problem.edges.enumerate();
    let once = once.flat_map(|(a, edges)| edges.iter().filter(move |edge| edge.peer > a));
    let edges = once.fold((0, 0, 0), |(rate, apart, shared), edge| {
        let [more_rate, more_apart, more_shared] =
            [edge.rate, edge.annoyance, edge.interference].map(i128::from);
        (rate + more_rate, apart + more_apart, shared + more_shared)
    });
    let whole = problem.channels.once().filter(|_| problem.channels.are_whole());
    let edges = whole.fold(edges, |(rate, apart, shared), (channel, pairs)| {
        let pairs = i128::try_from(pairs).expect("pairs of actors are far fewer");
        (rate + i128::from(channel.rate) * pairs, apart + i128::from(channel.apart) * pairs, shared)
    });
    Amounts {
        snapshot,
        work: ActorIx::first(snapshot.actors()).map(heaviest).sum(),
        // Messages have a weight even where they are free.
        message: of_classes.max(of_pairs).max(1),
        edges,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maxima of levels, and the expected weights.
    #[test]
    fn levels_outweigh_those_below_as_far_as_fits() {
        let cases: [(&[i128], &[i64]); 9] = [
            (&[], &[]),
            (&[7], &[1]),
            (&[100, 9, 4], &[50, 5, 1]),
            (&[1 << 40, (1 << 20) - 1, 0], &[1 << 20, 1, 1]),
            // The upper level yields to the lower one by less than a billionth.
            (&[(1 << 51) - 1, (1 << 30) - 1], &[1 << 9, 1]),
            (&[(1 << 40) - 1, (1 << 20) - 1, (1 << 10) - 1], &[1 << 20, 1 << 10, 1]),
            // If each yields by the smallest possible fraction, all fit.
            (&[1 << 40, 1 << 30, 1 << 20, 1 << 10], &[1 << 20, 1 << 13, 1 << 6, 1]),
            // A small level does not yield.
            (&[5, (1 << 30) - 1, (1 << 50) - 1], &[1 << 30, 1, 0]),
            (&[1 << 53, 1 << 53], &[1, 0]),
        ];
        for (sizes, expected) in cases {
            let weights = weigh(sizes);
            assert_eq!(weights, expected, "{sizes:?}");
            let energy: i128 =
                sizes.iter().zip(weights).map(|(size, weight)| size * i128::from(weight)).sum();
            assert!(energy <= LARGEST_ENERGY, "{sizes:?}");
        }
    }
}
