//! One number for a vector: each level's weight is more than all levels below can amount to.

use crate::criteria::Amounts;
use crate::ix::ActorIx;
use crate::{Criterion, Snapshot};

/// What the energy may reach at most, so that differences of it never overflow.
const LARGEST_ENERGY: i128 = 1 << 61;

/// The weight of each criterion in the energy that a search lowers.
///
/// Two energies compare as the vectors do. Where the levels are too many or too large for 64 bits the lowest have no
/// weight: the search is then blind to them, and answers are compared by their whole vectors all the same.
#[derive(Clone, Debug)]
pub struct Weights {
    by_criterion: Vec<(Criterion, i64)>,
    /// The weight of one actor that is not where it runs now: decides between what is equal otherwise.
    pub leaving: i64,
}

impl Weights {
    /// Weighs the levels, those criteria left out that `is_bound` names: they are kept to as limits.
    pub fn new(snapshot: &Snapshot, is_bound: impl Fn(Criterion) -> bool) -> Self {
        let amounts = amounts(snapshot);
        let most = |criterion: &Criterion| criterion.measure().most(&amounts);
        let counts = |criterion: &&Criterion| !is_bound(**criterion);
        let levels = snapshot.objectives().levels();
        let mut sizes: Vec<i128> =
            levels.iter().map(|level| level.iter().filter(counts).map(most).sum()).collect();
        sizes.push(i128::try_from(snapshot.actors()).expect("a count of actors is small"));
        // From the most important down, as many as fit.
        let fits = |kept: usize| sizes[..kept].iter().try_fold(1i128, |all, size| all.checked_mul(size + 1));
        let kept = (0..=sizes.len())
            .rev()
            .find(|kept| fits(*kept).is_some_and(|all| all <= LARGEST_ENERGY))
            .expect("nothing weighs nothing");
        let mut weight = 1i128;
        let mut weights = vec![0; sizes.len()];
        for level in (0..kept).rev() {
            weights[level] = i64::try_from(weight).expect("the product of the sizes fits");
            weight *= sizes[level] + 1;
        }
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

    /// The weight of a criterion; 0 where it is not aimed at.
    pub fn of(&self, criterion: Criterion) -> i64 {
        self.by_criterion.iter().find(|(named, _)| *named == criterion).map_or(0, |(_, weight)| *weight)
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
        message: of_classes.max(of_pairs),
        edges,
    }
}
