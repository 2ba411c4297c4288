//! What each item is worth at most: the dual of the linear relaxation of a set partition.
//!
//! The clusters of a parting hold every item once, and there are no more of them than units. Whatever prices items
//! have, a parting keeps at most the sum of the prices, and for each unit what the best cluster keeps beyond the prices
//! of its members. The simplex method on clusters as columns finds prices for which that is least; Lagrange's bound is
//! worked out from them in integers (Geoffrion, 1974).

use crate::branch::clusters::{Cluster, Problem};
use crate::branch::model::ones;
use crate::branch::tree::Halt;

/// Prices are whole numbers of this part of a cost.
pub(crate) const GRAIN: i64 = 1 << 10;

/// Clusters that are looked at between two looks at all of them.
const MOST_ACTIVE: usize = 512;

/// Numbers that count as nothing, beside values that are scaled to 1.
const EPSILON: f64 = 1e-9;

/// Prices of items, in parts of a cost.
pub(crate) struct Prices {
    /// By item.
    pub each: Vec<i64>,
    /// The most that a cluster keeps beyond the prices of its members; at least 0.
    pub excess: i64,
    /// What a parting keeps at most.
    bound: i64,
}

/// The best prices that are found; `None` as soon as they prove that no parting keeps `target`.
pub(crate) fn price(
    problem: &Problem,
    clusters: &[Cluster],
    target: i64,
    left: &mut u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Prices>, Halt> {
    let mut simplex = Simplex::new(problem, clusters);
    let mut best: Option<Prices> = None;
    loop {
        *left = left.checked_sub(clusters.len() as u64 * 4).ok_or(Halt::TooMuch)?;
        if stop() {
            return Err(Halt::Stopped);
        }
        let (duals, active) = simplex.look(clusters);
        let prices = judge(&duals, clusters, problem.units);
        if prices.bound < target.saturating_mul(GRAIN) {
            return Ok(None);
        }
        if best.as_ref().is_none_or(|best| prices.bound < best.bound) {
            best = Some(prices);
        }
        let steps = simplex.improve(clusters, &active);
        *left = left.saturating_sub(steps * active.len() as u64 * 4);
        if steps == 0 {
            return Ok(best);
        }
    }
}

/// What prices prove.
fn judge(duals: &[f64], clusters: &[Cluster], units: usize) -> Prices {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "any price is as right as another"
    )]
    let prices: Vec<i64> = duals.iter().map(|dual| (dual * GRAIN as f64).round() as i64).collect();
    // No price decides anything beyond this, and sums of them fit.
    let prices: Vec<i64> = prices.into_iter().map(|price| price.clamp(-(1 << 55), 1 << 55)).collect();
    let beyond = |cluster: &Cluster| beyond(cluster, &prices);
    let excess = clusters.iter().map(beyond).max().unwrap_or(0).max(0);
    let units = i64::try_from(units.min(prices.len())).unwrap_or(i64::MAX);
    let bound =
        prices.iter().copied().fold(0i64, i64::saturating_add).saturating_add(excess.saturating_mul(units));
    Prices { each: prices, excess, bound }
}

/// What a cluster keeps beyond the prices of its members.
pub(crate) fn beyond(cluster: &Cluster, prices: &[i64]) -> i64 {
    ones(cluster.members).fold(cluster.value * GRAIN, |left, member| left.saturating_sub(prices[member]))
}

/// The primal simplex method: a row for each item, and one for the number of units.
struct Simplex {
    rows: usize,
    /// The inverse of the basis.
    inverse: Vec<Vec<f64>>,
    /// By position in the basis: how much there is of the column, and what it is worth.
    amount: Vec<f64>,
    worth: Vec<f64>,
    /// What a value of 1 stands for.
    scale: f64,
    /// Steps after which it gives up; the prices of then are good enough.
    left: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the search for prices is approximate, what they prove is not"
)]
impl Simplex {
    /// Begins with every item alone, and units beyond those that there are, at a price.
    fn new(problem: &Problem, clusters: &[Cluster]) -> Self {
        let items = problem.size();
        let rows = items + 1;
        let scale = clusters.iter().map(|cluster| cluster.value.abs()).max().unwrap_or(0).max(1) as f64;
        let mut inverse = vec![vec![0.0; rows]; rows];
        for (item, row) in inverse.iter_mut().enumerate().take(items) {
            row[item] = 1.0;
        }
        inverse[items].fill(1.0);
        inverse[items][items] = -1.0;
        // Sums that are a little off keep the method from going in circles.
        let sums: Vec<f64> =
            (0..items).map(|item| 1.0 + 1e-4 * (1.0 + ((item * 7919) % 101) as f64 / 101.0)).collect();
        let sums: Vec<f64> = sums.into_iter().chain([problem.units as f64]).collect();
        let amount = inverse.iter().map(|row| row.iter().zip(&sums).map(|(a, b)| a * b).sum());
        let mut worth = vec![0.0; rows];
        worth[items] = -(items as f64 + 1.0);
        Self { rows, amount: amount.collect(), inverse, worth, scale, left: 40 * rows as u64 + 2000 }
    }

    /// The price of each row.
    fn duals(&self) -> Vec<f64> {
        let mut duals = vec![0.0; self.rows];
        for (row, worth) in self.inverse.iter().zip(&self.worth).filter(|(_, worth)| **worth != 0.0) {
            for (dual, entry) in duals.iter_mut().zip(row) {
                *dual += worth * entry;
            }
        }
        duals
    }

    /// The prices of items, and the clusters that keep most beyond them.
    fn look(&self, clusters: &[Cluster]) -> (Vec<f64>, Vec<usize>) {
        let duals = self.duals();
        let gain = |cluster: &Cluster| self.gain(cluster, &duals);
        let mut gains: Vec<(f64, usize)> = clusters
            .iter()
            .enumerate()
            .map(|(position, cluster)| (gain(cluster), position))
            .filter(|(gain, _)| *gain > EPSILON)
            .collect();
        if gains.len() > MOST_ACTIVE {
            gains.select_nth_unstable_by(MOST_ACTIVE, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            gains.truncate(MOST_ACTIVE);
        }
        let mut active: Vec<usize> = gains.into_iter().map(|(_, position)| position).collect();
        active.sort_unstable();
        (duals[..self.rows - 1].iter().map(|dual| dual * self.scale).collect(), active)
    }

    fn gain(&self, cluster: &Cluster, duals: &[f64]) -> f64 {
        let prices = ones(cluster.members).map(|member| duals[member]).sum::<f64>();
        cluster.value as f64 / self.scale - prices - duals[self.rows - 1]
    }

    /// Takes in columns as long as one of `active` gains; returns how many.
    fn improve(&mut self, clusters: &[Cluster], active: &[usize]) -> u64 {
        let mut steps = 0;
        while self.left > 0 {
            let duals = self.duals();
            let gains = active.iter().map(|&position| (self.gain(&clusters[position], &duals), position));
            let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            // A unit that stays empty is worth nothing.
            let spare = -duals[self.rows - 1];
            let column = match best {
                Some((gain, position)) if gain > EPSILON && gain >= spare => Some(&clusters[position]),
                _ if spare > EPSILON => None,
                _ => break,
            };
            if !self.take(column) {
                self.left = 0;
                break;
            }
            self.left -= 1;
            steps += 1;
        }
        steps
    }

    /// Takes a cluster, or a unit that stays empty, into the basis; false where that is not possible.
    fn take(&mut self, column: Option<&Cluster>) -> bool {
        let members = column.map_or(0, |cluster| cluster.members);
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
        self.worth[leaving] = column.map_or(0.0, |cluster| cluster.value as f64 / self.scale);
        true
    }
}
