//! Prices of items: the dual of the linear relaxation of a set partition.
//!
//! The columns of a partition contain every item once, and there are at most as many as units. For any prices, a
//! partition saves at most the sum of the prices, and for each unit what the best column saves beyond the prices of its
//! members. The simplex method with column generation minimises that bound; Lagrange's bound is computed from the prices
//! in integers (Geoffrion, 1974).

use crate::branch::column::Column;
use crate::branch::interruption::{Interruption, charge};
use crate::branch::model::ones;
use crate::branch::value::Value;

/// Prices are integers in units of this fraction of a cost.
pub(crate) const GRAIN: i32 = 1 << 10;

/// Columns that are active between two pricings of all columns.
const MAX_ACTIVE: usize = 512;

/// Tolerance, relative to values that are scaled to 1.
const EPSILON: f64 = 1e-9;

/// Prices of items, in fractions of a cost.
pub(crate) struct Prices<N> {
    /// By item.
    pub each: Vec<N>,
    /// The most that a column saves beyond the prices of its members; at least 0.
    pub max_surplus: N,
    /// The most that a partition saves.
    bound: N,
}

/// The best prices found for so many items on so many units. `None` as soon as they prove that no partition saves
/// `target`.
pub(crate) fn price<N: Value>(
    (items, units): (usize, usize),
    columns: &[Column<N>],
    target: N,
    left: &mut u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Prices<N>>, Interruption> {
    let mut simplex = Simplex::new((items, units), columns);
    let mut best: Option<Prices<N>> = None;
    loop {
        charge(left, columns.len() as u64 * 4)?;
        if stop() {
            return Err(Interruption::Stopped);
        }
        let (duals, active) = simplex.price_columns(columns);
        let prices = bound_of(&duals, columns, units);
        if prices.bound < target.saturating_mul(N::from(GRAIN)) {
            return Ok(None);
        }
        if best.as_ref().is_none_or(|best| prices.bound < best.bound) {
            best = Some(prices);
        }
        let steps = simplex.optimise(columns, &active);
        *left = left.saturating_sub(steps * active.len() as u64 * 4);
        if steps == 0 {
            return Ok(best);
        }
    }
}

/// The bound that prices prove.
fn bound_of<N: Value>(duals: &[f64], columns: &[Column<N>], units: usize) -> Prices<N> {
    let price = |dual: &f64| N::rounded(dual * f64::from(GRAIN));
    let (highest, none) = (N::HIGHEST_PRICE, N::default());
    let prices: Vec<N> = duals.iter().map(price).map(|price| price.clamp(-highest, highest)).collect();
    let surplus = |column: &Column<N>| surplus(column, &prices);
    let max_surplus = columns.iter().map(surplus).max().unwrap_or(none).max(none);
    let units = N::from(i32::try_from(units.min(prices.len())).unwrap_or(i32::MAX));
    let sum = prices.iter().copied().fold(none, N::saturating_add);
    let bound = sum.saturating_add(max_surplus.saturating_mul(units));
    Prices { each: prices, max_surplus, bound }
}

/// What a column saves beyond the prices of its members.
pub(crate) fn surplus<N: Value>(column: &Column<N>, prices: &[N]) -> N {
    ones(column.members)
        .fold(column.value * N::from(GRAIN), |left, member| left.saturating_sub(prices[member]))
}

/// The primal simplex method: a row for each item, and one for the number of units.
struct Simplex {
    rows: usize,
    /// The inverse of the basis.
    inverse: Vec<Vec<f64>>,
    /// By position in the basis: the value of the column's variable, and its cost coefficient.
    amount: Vec<f64>,
    cost: Vec<f64>,
    /// The scale of values.
    scale: f64,
    /// Pivots that are left.
    left: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the search for prices is approximate, what they prove is not"
)]
impl Simplex {
    /// The initial basis: every item alone, with artificial units at a price.
    fn new((items, units): (usize, usize), columns: &[Column<impl Value>]) -> Self {
        let rows = items + 1;
        let scale = columns.iter().map(|column| column.value.real().abs()).fold(1.0, f64::max);
        let mut inverse = vec![vec![0.0; rows]; rows];
        for (item, row) in inverse.iter_mut().enumerate().take(items) {
            row[item] = 1.0;
        }
        inverse[items].fill(1.0);
        inverse[items][items] = -1.0;
        // Perturbed right-hand sides prevent cycling.
        let sums: Vec<f64> =
            (0..items).map(|item| 1.0 + 1e-4 * (1.0 + ((item * 7919) % 101) as f64 / 101.0)).collect();
        let sums: Vec<f64> = sums.into_iter().chain([units as f64]).collect();
        let amount = inverse.iter().map(|row| row.iter().zip(&sums).map(|(a, b)| a * b).sum());
        let mut cost = vec![0.0; rows];
        cost[items] = -(items as f64 + 1.0);
        Self { rows, amount: amount.collect(), inverse, cost, scale, left: 40 * rows as u64 + 2000 }
    }

    /// The dual value of each row.
    fn duals(&self) -> Vec<f64> {
        let mut duals = vec![0.0; self.rows];
        for (row, cost) in self.inverse.iter().zip(&self.cost).filter(|(_, cost)| **cost != 0.0) {
            for (dual, entry) in duals.iter_mut().zip(row) {
                *dual += cost * entry;
            }
        }
        duals
    }

    /// The prices of items, and the columns with the largest reduced cost.
    fn price_columns(&self, columns: &[Column<impl Value>]) -> (Vec<f64>, Vec<usize>) {
        let duals = self.duals();
        let reduced_cost = |column: &_| self.reduced_cost(column, &duals);
        let mut reduced_costs: Vec<(f64, usize)> = columns
            .iter()
            .enumerate()
            .map(|(position, column)| (reduced_cost(column), position))
            .filter(|(reduced_cost, _)| *reduced_cost > EPSILON)
            .collect();
        if reduced_costs.len() > MAX_ACTIVE {
            reduced_costs.select_nth_unstable_by(MAX_ACTIVE, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            reduced_costs.truncate(MAX_ACTIVE);
        }
        let mut active: Vec<usize> = reduced_costs.into_iter().map(|(_, position)| position).collect();
        active.sort_unstable();
        (duals[..self.rows - 1].iter().map(|dual| dual * self.scale).collect(), active)
    }

    fn reduced_cost(&self, column: &Column<impl Value>, duals: &[f64]) -> f64 {
        let prices = ones(column.members).map(|member| duals[member]).sum::<f64>();
        column.value.real() / self.scale - prices - duals[self.rows - 1]
    }

    /// Pivots as long as one of `active` has a positive reduced cost; returns the number of pivots.
    fn optimise(&mut self, columns: &[Column<impl Value>], active: &[usize]) -> u64 {
        let mut steps = 0;
        while self.left > 0 {
            let duals = self.duals();
            let reduced_costs =
                active.iter().map(|&position| (self.reduced_cost(&columns[position], &duals), position));
            let best = reduced_costs.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            // A unit that stays empty is worth nothing.
            let spare = -duals[self.rows - 1];
            let column = match best {
                Some((reduced_cost, position)) if reduced_cost > EPSILON && reduced_cost >= spare => {
                    Some(&columns[position])
                }
                _ if spare > EPSILON => None,
                _ => break,
            };
            if !self.pivot(column) {
                self.left = 0;
                break;
            }
            self.left -= 1;
            steps += 1;
        }
        steps
    }

    /// Enters a column, or an empty unit, into the basis; false where that is not possible.
    fn pivot(&mut self, column: Option<&Column<impl Value>>) -> bool {
        let members = column.map_or(0, |column| column.members);
        let entry =
            |row: &Vec<f64>| row[self.rows - 1] + ones(members).map(|member| row[member]).sum::<f64>();
        let direction: Vec<f64> = self.inverse.iter().map(entry).collect();
        let ratios = (0..self.rows).filter(|&row| direction[row] > EPSILON);
        let leaving = ratios.min_by(|&a, &b| {
            let ratio = |row: usize| self.amount[row] / direction[row];
            ratio(a).total_cmp(&ratio(b)).then(a.cmp(&b))
        });
        let Some(leaving) = leaving else { return false };
        let pivot = direction[leaving];
        self.inverse[leaving].iter_mut().for_each(|entry| *entry /= pivot);
        self.amount[leaving] /= pivot;
        let (pivot_row, pivot_amount) = (self.inverse[leaving].clone(), self.amount[leaving]);
        for row in (0..self.rows).filter(|&row| row != leaving && direction[row] != 0.0) {
            for (entry, of) in self.inverse[row].iter_mut().zip(&pivot_row) {
                *entry -= direction[row] * of;
            }
            self.amount[row] -= direction[row] * pivot_amount;
        }
        self.cost[leaving] = column.map_or(0.0, |column| column.value.real() / self.scale);
        true
    }
}
