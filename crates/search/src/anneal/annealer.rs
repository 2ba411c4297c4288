//! Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over moves and swaps that keep all hard limits.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use std::cell::Cell;
use std::sync::LazyLock;

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::ablation::Ablation;
use crate::anneal::best::BestVisited;
use crate::evaluation::solution::Solution;
use crate::model::Change;
use crate::moves::compound::CompoundMove;
use crate::moves::rejections::Rejections;
use placement::weighted::NOWHERE;

/// Number of precomputed values of -ln(u).
const LOSS_COUNT: usize = 1 << 12;

/// Equally likely values of -ln(u).
static RANDOM_LOSSES: LazyLock<[f64; LOSS_COUNT]> =
    LazyLock::new(|| std::array::from_fn(|draw| -libm::log(((draw as f64) + 0.5) / LOSS_COUNT as f64)));

/// Batches whose random moves are sampled for the scale of losses, and the least number of samples.
const SAMPLED_BATCHES: u64 = 2;
const MIN_SAMPLES: u64 = 32;

/// Steps after which compound moves are tried.
const CHUNK: u64 = 128;

/// Chunks between two checks of the clock: a thousand steps.
const CHECK_INTERVAL: u64 = 8;

/// Compound moves tried each time: whole nodes where there are zones, and groups.
const COMPOUND_MOVES: (u32, u32) = (1, 4);

/// The temperature, in mean losses, above which compound moves are not tried: nothing has clustered yet.
const MAX_COMPOUND_TEMPERATURE: f64 = 1.0;

/// One Metropolis walk through the placements, and the best placement that it has visited.
#[derive(Clone)]
pub(crate) struct Annealer<'m> {
    pub solution: Solution<'m>,
    best: BestVisited,
    rng: fastrand::Rng,
    movable: Vec<ItemIx>,
    compound: CompoundMove,
    rejections: Rejections,
    random_losses: &'static [f64; LOSS_COUNT],
    /// Σ work above the limits, over all units.
    pub excess: i64,
    /// Penalty of one unit of work above a limit, in the objective.
    excess_penalty: f64,
    /// Penalty of one unit of violation of a rule or a power cap, in the objective.
    violation_penalty: f64,
    /// The mean loss of a random move at the start: the unit of temperatures.
    mean_loss: f64,
    /// The median of those losses. Where a level is seldom at stake, it is the scale of the levels below.
    median_loss: f64,
    /// The mean work of an item.
    mean_work: f64,
    /// Whether little is left of some resource of units.
    is_resource_tight: bool,
    /// Nodes whose units have no capacity now.
    closed_nodes: Vec<NodeIx>,
}

impl<'m> Annealer<'m> {
    pub fn new(solution: Solution<'m>, seed: u64) -> Self {
        let model = solution.model;
        let movable = ItemIx::first(model.free).filter(|item| model.candidates(*item).len() > 1).collect();
        let mut annealer = Self {
            best: BestVisited::none(),
            excess: solution.total_excess(),
            is_resource_tight: solution.is_resource_tight(),
            closed_nodes: Vec::new(),
            solution,
            excess_penalty: 0.0,
            violation_penalty: 0.0,
            mean_loss: 1.0,
            median_loss: 1.0,
            mean_work: 1.0,
            rng: fastrand::Rng::with_seed(seed),
            movable,
            compound: CompoundMove::new(model.free),
            rejections: Rejections::default(),
            random_losses: &RANDOM_LOSSES,
        };
        (annealer.mean_loss, annealer.median_loss) = annealer.sample_losses();
        annealer.reset_best();
        annealer.mean_work = annealer.mean_work();
        annealer
    }

    /// Sets the penalties of a mean work of excess and of a unit of violation, in mean losses.
    pub fn set_penalties(&mut self, excess: f64, violation: f64) {
        self.excess_penalty = excess * self.mean_loss / self.mean_work;
        self.violation_penalty = violation * self.mean_loss;
    }

    /// The mean and the median loss of a random move at the start.
    pub fn loss_scales(&self) -> (f64, f64) {
        (self.mean_loss, self.median_loss)
    }

    /// Tries `steps` steps while the temperature falls geometrically from `from` to `to`.
    pub fn run(&mut self, steps: u64, from: f64, to: f64) {
        self.run_until(steps, (from, to), &|| false);
    }

    /// The same; false where `stop` ended it.
    pub fn run_until(&mut self, steps: u64, (from, to): (f64, f64), stop: &dyn Fn() -> bool) -> bool {
        if self.movable.is_empty() {
            return true;
        }
        // Where steps take long, a chunk is no longer than a batch.
        let each = CHUNK.min(self.solution.model.steps());
        let chunks = steps.div_ceil(each);
        let factor = libm::pow(to / from, 1.0 / chunks as f64);
        let mut temperature = from;
        for chunk in 0..chunks {
            if chunk.is_multiple_of(CHECK_INTERVAL) && stop() {
                return false;
            }
            for _ in 0..each {
                self.step(temperature);
            }
            let is_due = each == CHUNK || self.rng.u64(..CHUNK) < each;
            let is_cool = temperature < MAX_COMPOUND_TEMPERATURE * self.mean_loss;
            if is_due && (is_cool || self.solution.model.without == Some(Ablation::CompoundMoveCutoff)) {
                self.try_compound_moves(temperature);
            }
            temperature *= factor;
        }
        true
    }

    /// The mean and the median loss of random moves that lose something.
    fn sample_losses(&mut self) -> (f64, f64) {
        let mut losses = Vec::new();
        let samples = (SAMPLED_BATCHES * self.solution.model.steps()).max(MIN_SAMPLES);
        for _ in 0..if self.movable.is_empty() { 0 } else { samples } {
            let item = self.movable[self.rng.usize(..self.movable.len())];
            let (from, unit) = (self.solution.place[item], self.target(item));
            if unit != from && from != NOWHERE && self.solution.model.allows(item, unit) {
                let changes = [(item, from, unit)];
                let delta = self.solution.delta(item, unit) + self.solution.apply_terms(&changes).0;
                self.solution.revert_terms(&changes);
                losses.extend(Some(delta as f64).filter(|delta| *delta > 0.0));
            }
        }
        losses.sort_unstable_by(f64::total_cmp);
        let Some(median) = losses.get(losses.len() / 2) else { return (1.0, 1.0) };
        (losses.iter().sum::<f64>() / losses.len() as f64, *median)
    }

    /// The mean work of an item on its first candidate.
    fn mean_work(&self) -> f64 {
        let model = self.solution.model;
        let work = |item: &ItemIx| model.needs(*item, model.candidates(*item)[0])[0];
        let sum: i64 = self.movable.iter().map(work).sum();
        (sum as f64 / self.movable.len().max(1) as f64).max(1.0)
    }

    #[inline]
    fn target(&mut self, item: ItemIx) -> UnitIx {
        self.solution.model.proposed_target(&self.solution.place, item, &mut self.rng)
    }

    #[inline]
    fn accepts(&mut self, loss: f64, temperature: f64) -> bool {
        loss <= 0.0 || loss < temperature * self.random_losses[self.rng.usize(..LOSS_COUNT)]
    }

    #[inline]
    fn step(&mut self, temperature: f64) {
        let item = self.movable[self.rng.usize(..self.movable.len())];
        let from = self.solution.place[item];
        let unit = self.target(item);
        let model = self.solution.model;
        if unit == from || !model.allows(item, unit) {
            return;
        }
        if from == NOWHERE {
            self.place_unplaced(item, unit, temperature);
            return;
        }
        let over = |left: i64| (-left).max(0);
        let (left_from, left_to) = (self.left(from), self.left(unit));
        let before = over(left_from) + over(left_to);
        let (leaves, added) = (model.needs(item, from)[0], model.needs(item, unit)[0]);
        let occupants = &self.solution.occupants[unit];
        // Where rules and caps are strict, a unit with room may be as good as full. Where slots, resources or relations
        // reject most moves, checking them first is cheaper than evaluating moves that are infeasible.
        let may_be_full = left_to < added || self.solution.has_limits_on(item) && self.rng.bool();
        let is_rejected = || self.rejections.are_frequent() && self.solution.is_rejected(item, unit);
        if !occupants.is_empty() && (is_rejected() || may_be_full && self.rng.bool()) {
            self.try_swap(item, unit, temperature);
            return;
        }
        let excess_change = over(left_from + leaves) + over(left_to - added) - before;
        let delta = self.solution.delta(item, unit);
        let improves = Cell::new(false);
        let admits = |solution: &Solution| {
            improves.set(true);
            solution.admits_ignoring_load(item, unit)
        };
        if let Some(delta) = self.evaluate(&[(item, from, unit)], delta, excess_change, temperature, admits) {
            self.record_move(item);
            self.solution.shift(item, unit, delta);
            self.record_if_best();
            self.rejections.record(false);
        } else if improves.get() && self.solution.is_rejected(item, unit) {
            // The move improves, and only a swap can make it feasible.
            self.rejections.record(true);
            if !self.solution.occupants[unit].is_empty() {
                self.try_swap(item, unit, temperature);
            }
        }
    }

    /// Swaps an item with one that is on the unit.
    #[inline]
    fn try_swap(&mut self, item: ItemIx, unit: UnitIx, temperature: f64) {
        let model = self.solution.model;
        let from = self.solution.place[item];
        let occupants = &self.solution.occupants[unit];
        let other = occupants[self.rng.usize(..occupants.len())];
        if !model.allows(other, from) {
            // On exclusive devices, each of several items may be able to take the next one's place.
            let is_exclusive = model.snapshot.problem().slots[unit] == Some(1);
            if is_exclusive && self.rejections.are_frequent() && model.without != Some(Ablation::Rotations) {
                self.try_compound_move(temperature, |compound, solution, rng| {
                    if !compound.rotate(solution, (item, from, unit), other, rng) {
                        compound.changes.clear();
                    }
                });
            }
            return;
        }
        let over = |left: i64| (-left).max(0);
        let (left_from, left_to) = (self.left(from), self.left(unit));
        let comes_to = |unit, leaves, added| model.needs(leaves, unit)[0] - model.needs(added, unit)[0];
        let after =
            over(left_from + comes_to(from, item, other)) + over(left_to + comes_to(unit, other, item));
        let excess_change = after - over(left_from) - over(left_to);
        let delta = self.solution.swap_delta(item, other);
        let changes = [(item, from, unit), (other, unit, from)];
        let is_rejected = Cell::new(false);
        if let Some(delta) = self.evaluate(&changes, delta, excess_change, temperature, |solution| {
            let admits = solution.admits_swap_ignoring_load(item, other);
            is_rejected.set(!admits);
            admits
        }) {
            self.swap(item, other, delta);
        } else if is_rejected.get() && self.is_resource_tight && model.without != Some(Ablation::Trades) {
            // The swap improves, and where resources are tight other items may make room for it.
            self.try_compound_move(temperature, |compound, solution, rng| {
                if !compound.trade(solution, changes, rng) {
                    compound.changes.clear();
                }
            });
        }
    }

    fn try_compound_moves(&mut self, temperature: f64) {
        let classes = &self.solution.model.node_classes;
        if self.solution.model.without == Some(Ablation::CompoundMoves) {
            return;
        }
        let (of_nodes, of_groups) = COMPOUND_MOVES;
        for _ in 0..if classes.has_zones { of_nodes } else { 0 } {
            self.try_random_compound_move(temperature, CompoundMove::between_nodes);
        }
        for _ in 0..if classes.has_nodes { of_groups } else { 0 } {
            self.try_random_compound_move(temperature, CompoundMove::between_groups);
        }
    }

    fn try_random_compound_move(
        &mut self,
        temperature: f64,
        construct: impl Fn(&mut CompoundMove, &Solution, ItemIx, &mut fastrand::Rng),
    ) {
        let item = self.movable[self.rng.usize(..self.movable.len())];
        self.try_compound_move(temperature, |compound, solution, rng| {
            construct(compound, solution, item, rng);
        });
    }

    fn try_compound_move(
        &mut self,
        temperature: f64,
        construct: impl Fn(&mut CompoundMove, &Solution, &mut fastrand::Rng),
    ) {
        construct(&mut self.compound, &self.solution, &mut self.rng);
        let changes = std::mem::take(&mut self.compound.changes);
        if let Some((delta, excess_change)) =
            self.solution.batch_delta(&changes).filter(|change| *change != (0, 0))
            && let Some(delta) = self.evaluate(&changes, delta, excess_change, temperature, |_| true)
        {
            let objective = self.solution.objective + delta;
            for (item, ..) in &changes {
                self.record_move(*item);
            }
            self.solution.apply_batch(&changes);
            // Includes the change of the terms.
            self.solution.objective = objective;
            self.record_if_best();
        }
        self.compound.changes = changes;
    }

    /// Places an unplaced item, if need be in exchange for items that count no more actors.
    fn place_unplaced(&mut self, item: ItemIx, unit: UnitIx, temperature: f64) {
        if self.solution.admits(item, unit) {
            if self.solution.adds_no_violation(&[(item, NOWHERE, unit)]) {
                self.record_move(item);
                self.solution.put(item, unit);
                self.record_if_best();
            }
            return;
        }
        let occupants = &self.solution.occupants[unit];
        if occupants.is_empty() {
            return;
        }
        let other = occupants[self.rng.usize(..occupants.len())];
        let (added, freed) = (self.size(item), self.size(other));
        if freed > added || !self.solution.admits_swap(item, other) {
            return;
        }
        let over = |left: i64| (-left).max(0);
        let (model, left) = (self.solution.model, self.left(unit));
        let excess_change =
            over(left + model.needs(other, unit)[0] - model.needs(item, unit)[0]) - over(left);
        let delta = self.solution.swap_delta(item, other);
        let changes = [(item, NOWHERE, unit), (other, unit, NOWHERE)];
        if freed < added {
            if self.solution.adds_no_violation(&changes) {
                let delta = delta + self.solution.apply_terms(&changes).0;
                self.excess += excess_change;
                self.swap(item, other, delta);
            }
            return;
        }
        if let Some(delta) = self.evaluate(&changes, delta, excess_change, temperature, |_| true) {
            self.swap(item, other, delta);
        }
    }

    /// Whether a move is accepted, and its whole delta. Cheap parts are evaluated first; terms come last and only where
    /// the move could still be accepted.
    #[inline]
    fn evaluate(
        &mut self,
        changes: &[Change],
        delta: i64,
        excess_change: i64,
        temperature: f64,
        admits: impl Fn(&Solution) -> bool,
    ) -> Option<i64> {
        let price = excess_change as f64 * self.excess_penalty;
        if !self.solution.has_terms_on(changes) {
            if self.accepts(delta as f64 + price, temperature) && admits(&self.solution) {
                self.excess += excess_change;
                return Some(delta);
            }
            return None;
        }
        let acceptable = temperature * self.random_losses[self.rng.usize(..LOSS_COUNT)];
        // A step can save at most the value of all terms and violations.
        let most_saved =
            self.solution.terms_value() as f64 + self.solution.violation() as f64 * self.violation_penalty;
        if delta as f64 + price - most_saved >= acceptable || !admits(&self.solution) {
            return None;
        }
        let (terms, violation) = self.solution.apply_terms(changes);
        let delta = delta + terms;
        if delta as f64 + price + violation as f64 * self.violation_penalty < acceptable {
            self.excess += excess_change;
            return Some(delta);
        }
        self.solution.revert_terms(changes);
        None
    }

    #[inline]
    fn left(&self, unit: UnitIx) -> i64 {
        self.solution.left[unit.at() * self.solution.model.dims]
    }

    fn size(&self, item: ItemIx) -> usize {
        self.solution.model.members[item].len()
    }

    #[inline]
    fn swap(&mut self, a: ItemIx, b: ItemIx, delta: i64) {
        self.record_move(a);
        self.record_move(b);
        self.solution.swap(a, b, delta);
        self.record_if_best();
    }

    /// Records where an item was.
    #[inline]
    fn record_move(&mut self, item: ItemIx) {
        if self.best.copy.is_none() {
            self.best.journal.push((item, self.solution.place[item]));
        }
    }

    /// Records the present placement as the best if it is.
    #[inline]
    fn record_if_best(&mut self) {
        let now = (self.solution.unplaced, self.solution.objective);
        let best = &mut self.best;
        if self.excess == 0 && now < (best.unplaced, best.objective) && self.solution.violation() == 0 {
            (best.unplaced, best.objective) = now;
            best.journal.clear();
            best.copy = None;
        } else if best.journal.len() > 8 * self.solution.place.len() {
            best.copy = Some(best.places(&self.solution));
            best.journal.clear();
        }
    }

    /// The rank of the best placement.
    pub fn best_rank(&self) -> (usize, i64, i64) {
        (self.best.unplaced, self.solution.overload_allowance, self.best.objective)
    }

    /// Whether a placement within the limits was visited since the best was reset.
    pub fn has_best(&self) -> bool {
        self.best.objective < i64::MAX
    }

    /// Forgets the best; only placements visited from now on count.
    pub fn reset_best(&mut self) {
        self.best = BestVisited::none();
        self.record_if_best();
    }

    /// Closes these nodes from now on and opens all others, and resets the best.
    pub fn close_nodes(&mut self, nodes: &[NodeIx]) {
        let units = &self.solution.model.units_of_node;
        let before = std::mem::replace(&mut self.closed_nodes, nodes.to_vec());
        for (nodes, is_closed) in [(&before, false), (&self.closed_nodes, true)] {
            for unit in nodes.iter().flat_map(|node| &units[*node]) {
                self.solution.set_closed(*unit, is_closed);
            }
        }
        self.excess = self.solution.total_excess();
        self.reset_best();
    }

    /// Continues from other places, which become the best.
    pub fn restart_from(&mut self, places: &IxVec<ItemIx, UnitIx>) {
        let mut solution = Solution::new(self.solution.model);
        solution.set_overload_allowance(self.solution.overload_allowance);
        solution.adopt(places);
        self.solution = solution;
        self.closed_nodes.clear();
        self.excess = self.solution.total_excess();
        self.reset_best();
    }

    /// The places of the best.
    pub fn best_places(&self) -> IxVec<ItemIx, UnitIx> {
        self.best.places(&self.solution)
    }
}
