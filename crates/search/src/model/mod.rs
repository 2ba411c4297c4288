//! The search's view of a snapshot: the weighted problem, and which nodes are interchangeable.

pub(crate) mod first_group_costs;
pub(crate) mod node_classes;

use std::ops::Deref;

use placement::group_costs::GroupCosts;
use placement::ix::{ItemIx, UnitIx};
use placement::weighted::{Exchange, NOWHERE, Tie, Weighted};
use placement::{Criterion, Snapshot};
use strum::IntoEnumIterator as _;

use self::node_classes::NodeClasses;
use crate::ablation::Ablation;
use crate::stop_clock::Expired;

/// Steps of one batch, the unit of effort, where a step takes no longer than in a sparse snapshot.
pub(crate) const STEPS: u64 = 1_000;

/// Batches that chains run between two checks of the clock. All run lengths are multiples of it.
pub(crate) const ROUND: u64 = 40;

/// An item, where it is, and where it goes.
pub(crate) type Change = (ItemIx, UnitIx, UnitIx);

/// Pairs of an item and a unit up to which a full cost table is kept. It is quick to read and slow to update, which pays
/// while chains are cold.
const MAX_COST_TABLE: usize = 1 << 13;

/// Mean ties per item up to which a step counts as cheap; published instances have 4 to 5.
const SPARSE: usize = 8;

/// Units whose costs can be updated in the time of a step. One of several steps is accepted.
const UPDATED_UNITS: usize = 1 << 10;

/// The weighted problem and what compound moves use.
pub(crate) struct Model<'a> {
    problem: Weighted<'a>,
    pub node_classes: NodeClasses,
    /// Numbers read to evaluate all non-additive terms.
    numbers_read: usize,
    /// The costs of channels between groups with the fixed items at home; `None` where ties represent all channels.
    pub first_group_costs: Option<GroupCosts>,
    /// Duration of a step relative to a sparse snapshot: a step reads every tie of an item and evaluates the terms.
    pub relative_step_time: u64,
    /// The ablated component of the search, if any.
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
    #[cfg(test)]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self::until(snapshot, &|| false).0
    }

    /// The model, and whether `stop` ended its preparation: then no placement can be priced.
    pub fn until(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> (Self, bool) {
        Self::of(snapshot, Weighted::new(snapshot), stop)
    }

    /// The same for a snapshot in which no violation is grandfathered; see [`Weighted::without_grandfathered`].
    pub fn without_grandfathering(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> Option<(Self, bool)> {
        Some(Self::of(snapshot, Weighted::without_grandfathered(snapshot)?, stop))
    }

    fn of(snapshot: &'a Snapshot, problem: Weighted<'a>, stop: &dyn Fn() -> bool) -> (Self, bool) {
        let (first_group_costs, is_cut) = match first_group_costs::first_costs(&problem, stop) {
            Ok(costs) => (costs, false),
            Err(Expired) => (None, true),
        };
        let weighted = Criterion::iter().filter(|criterion| problem.weights.of(*criterion) > 0);
        let numbers_read: usize =
            weighted.map(|criterion| criterion.measure().evaluation_cost(snapshot)).sum();
        let model = Self {
            numbers_read,
            first_group_costs,
            relative_step_time: relative_step_time(&problem, numbers_read / SPARSE),
            node_classes: NodeClasses::new(snapshot, &problem.units_of_node),
            problem,
            without: None,
        };
        (model, is_cut)
    }

    /// Steps of a batch: fewer where terms take long, so that a batch is no longer than a round on a sparse snapshot.
    pub fn steps(&self) -> u64 {
        (STEPS * ROUND / self.relative_terms_time().max(1) as u64).clamp(1, STEPS)
    }

    /// Duration of a batch relative to a sparse snapshot.
    pub fn relative_batch_time(&self) -> u64 {
        (self.relative_step_time * self.steps() / STEPS).max(1)
    }

    /// Duration of evaluating the terms relative to a step on a sparse snapshot.
    fn relative_terms_time(&self) -> usize {
        self.numbers_read / SPARSE
    }

    /// The time of placing an item, in prices: that of updating the costs of its groups.
    pub fn placement_work(&self, item: ItemIx) -> usize {
        let Some(groups) = self.groups.as_ref().filter(|_| self.first_group_costs.is_some()) else {
            return 1;
        };
        groups
            .shares(item)
            .iter()
            .map(|(end, _)| first_group_costs::update_work(groups, self.units, *end))
            .sum::<usize>()
            .max(1)
    }

    /// Whether a full cost table is kept.
    pub fn has_cost_table(&self) -> bool {
        self.free * self.units <= MAX_COST_TABLE
    }

    /// By free item and unit: what it costs there while only fixed actors are placed.
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

    /// Updates what one end of a tie would cost on each unit after the other end has moved.
    #[inline]
    pub fn update_costs(&self, tie: &Tie, from: UnitIx, to: UnitIx, costs: &mut [i64]) {
        if from != NOWHERE
            && to != NOWHERE
            && let Exchange::Table { units, costs: table } = &self.exchange
        {
            let row = |at: UnitIx| &table[at.at() * units..][..*units];
            for ((cost, to), from) in costs.iter_mut().zip(row(to)).zip(row(from)) {
                *cost += tie.rate * (i64::from(*to) - i64::from(*from));
            }
            // On one unit the two are not apart, and exchange costs nothing.
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

/// Duration of a step relative to a sparse snapshot, where evaluating the terms takes `relative_terms_time` such steps.
fn relative_step_time(problem: &Weighted, relative_terms_time: usize) -> u64 {
    let ties: usize = ItemIx::first(problem.free).map(|item| problem.ties(item).len()).sum();
    let of_ties = ties / (SPARSE * problem.free.max(1));
    // A move of an item with group channels updates every unit; without a table, its price visits its peers.
    let of_groups = problem.groups.as_ref().map_or(0, |groups| {
        let channels = groups.of.iter().map(Vec::len).max().unwrap_or(0);
        if GroupCosts::has_table(groups.of.len(), problem.units) {
            channels * problem.units / UPDATED_UNITS
        } else {
            channels * groups.items.iter().map(Vec::len).max().unwrap_or(0) / SPARSE
        }
    });
    (of_ties + of_groups + relative_terms_time).max(1) as u64
}
