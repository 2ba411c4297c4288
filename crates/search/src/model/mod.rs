//! What a search stands on: the weighted problem, and which nodes can stand in for each other.

pub(crate) mod node_classes;

use std::ops::Deref;

use placement::ix::{ItemIx, UnitIx};
use placement::weighted::{Exchange, NOWHERE, Tie, Weighted};
use placement::{Criterion, Snapshot};
use strum::IntoEnumIterator as _;

use self::node_classes::NodeClasses;
use crate::ablation::Ablation;

/// Steps of one batch, the unit of effort, where a step takes no longer than in a sparse snapshot.
pub(crate) const STEPS: u64 = 1_000;

/// Batches that chains run between two checks of the clock. All run lengths are multiples of it.
pub(crate) const ROUND: u64 = 40;

/// An item, where it is, and where it goes.
pub(crate) type Change = (ItemIx, UnitIx, UnitIx);

/// Pairs of an item and a unit up to which what everything would cost everywhere is kept: it is asked far more often
/// than changed only where chains are cold most of the time.
const MOST_IN_COST_TABLE: usize = 1 << 13;

/// Ties of an item, on average, up to which a step costs what it costs anywhere: published ones have 4 to 5.
const SPARSE: usize = 8;

/// Units whose costs are brought up to date in the time of a step; one of several steps is taken.
const FOLLOWED: usize = 1 << 10;

/// A problem and what compound moves go by.
pub(crate) struct Model<'a> {
    problem: Weighted<'a>,
    pub regions: NodeClasses,
    /// How many numbers are looked at to say what figures come to.
    looked_at: usize,
    /// How many times as long a step takes as on a sparse world: it looks at every tie of an item, and has figures say what they
    /// come to.
    pub density: u64,
    /// A part of the search that is left out.
    pub without: Option<Ablation>,
}

impl<'a> Deref for Model<'a> {
    type Target = Weighted<'a>;

    #[inline]
    fn deref(&self) -> &Weighted<'a> {
        &self.problem
    }
}

impl<'a> Model<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self::of(snapshot, Weighted::new(snapshot))
    }

    /// The same for a world in which nobody has to be excused; see [`Weighted::with_nobody_excused`].
    pub fn with_nobody_excused(snapshot: &'a Snapshot) -> Option<Self> {
        Some(Self::of(snapshot, Weighted::with_nobody_excused(snapshot)?))
    }

    fn of(snapshot: &'a Snapshot, problem: Weighted<'a>) -> Self {
        let aimed_at = Criterion::iter().filter(|criterion| problem.weights.of(*criterion) > 0);
        let looked_at: usize = aimed_at.map(|criterion| criterion.measure().looks_at(snapshot)).sum();
        Self {
            looked_at,
            density: density(&problem, looked_at / SPARSE),
            regions: NodeClasses::new(snapshot, &problem.units_of_node),
            problem,
            without: None,
        }
    }

    /// Steps of a piece of effort: fewer where figures take so long to say that it would last longer than a round in a sparse world.
    pub fn steps(&self) -> u64 {
        (STEPS * ROUND / self.of_figures().max(1) as u64).clamp(1, STEPS)
    }

    /// How many times as long a piece of effort takes as on a sparse world.
    pub fn length_of_piece(&self) -> u64 {
        (self.density * self.steps() / STEPS).max(1)
    }

    /// How many times as long as a step on a sparse world it takes to say what figures come to.
    fn of_figures(&self) -> usize {
        self.looked_at / SPARSE
    }

    /// Whether what every item would cost everywhere is kept up to date: quick to ask, slow to change.
    pub fn has_cost_table(&self) -> bool {
        self.free * self.units <= MOST_IN_COST_TABLE
    }

    /// By free item and unit: what it costs there while nobody but the fixed has a place.
    pub fn first_costs(&self) -> Vec<i64> {
        let mut costs = Vec::with_capacity(self.free * self.units);
        for item in ItemIx::first(self.free) {
            for unit in UnitIx::first(self.units) {
                let fixed = self.ties(item).iter().filter(|tie| tie.peer.at() >= self.free);
                let ties =
                    fixed.map(|tie| self.tie_cost(tie, unit, self.fixed_places[tie.peer.at() - self.free]));
                costs.push(self.cost_alone(item, unit) + ties.sum::<i64>());
            }
        }
        costs
    }

    /// Brings what one end of a tie would cost on each unit up to date after the other has gone from a place to another.
    #[inline]
    pub fn follow(&self, tie: &Tie, from: UnitIx, to: UnitIx, costs: &mut [i64]) {
        if from != NOWHERE
            && to != NOWHERE
            && let Exchange::Table { units, costs: table } = &self.exchange
        {
            let row = |at: UnitIx| &table[at.at() * units..][..*units];
            for ((cost, to), from) in costs.iter_mut().zip(row(to)).zip(row(from)) {
                *cost += tie.rate * (i64::from(*to) - i64::from(*from));
            }
            // On one unit they are not apart, and exchange costs nothing.
            costs[from.at()] += tie.apart - tie.shared;
            costs[to.at()] += tie.shared - tie.apart;
            return;
        }
        for (unit, cost) in UnitIx::first(costs.len()).zip(costs) {
            let at = |place: UnitIx| if place == NOWHERE { 0 } else { self.tie_cost(tie, unit, place) };
            *cost += at(to) - at(from);
        }
    }
}

/// How many times as long a step takes as on a sparse world, where what figures come to takes so many times as long as one there.
fn density(problem: &Weighted, of_figures: usize) -> u64 {
    let ties: usize = ItemIx::first(problem.free).map(|item| problem.ties(item).len()).sum();
    let of_ties = ties / (SPARSE * problem.free.max(1));
    // Of channels between groups it looks at every unit where it is taken.
    let of_groups = problem.groups.as_ref().map_or(0, |groups| {
        let channels = groups.of.iter().map(Vec::len).max().unwrap_or(0);
        channels * problem.units / FOLLOWED
    });
    (of_ties + of_groups + of_figures).max(1) as u64
}
