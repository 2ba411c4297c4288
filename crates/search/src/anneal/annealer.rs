//! Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over moves and swaps that keep all hard limits.

#![expect(clippy::cast_precision_loss, reason = "temperatures and parts of a run need no more than 52 bits")]

use std::cell::Cell;
use std::sync::LazyLock;

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::ablation::Ablation;
use crate::evaluation::solution::Solution;
use crate::model::Change;
use crate::moves::compound::CompoundMove;
use crate::moves::rejections::Refusals;
use placement::weighted::NOWHERE;

/// How many values of -ln(u) are kept.
const DRAWS: usize = 1 << 12;

/// Those values, as likely as each other.
static LOSSES: LazyLock<[f64; DRAWS]> =
    LazyLock::new(|| std::array::from_fn(|draw| -(((draw as f64) + 0.5) / DRAWS as f64).ln()));

/// Random steps that the scale of losses is taken from: two pieces, and at least so many.
const SAMPLED: u64 = 2;
const FEWEST_SAMPLES: u64 = 32;

/// Steps after which it is time for compound moves.
const CHUNK: u64 = 128;

/// Chunks between two looks at the clock, where there is one: a thousand steps.
const PATIENCE: u64 = 8;

/// How many are tried then: whole nodes where there are zones, and groups.
const COMPOUND_MOVES: (u32, u32) = (1, 4);

/// The temperature above which there are none, in mean losses: nothing hangs together there.
const HOTTEST_COMPOUND: f64 = 1.0;

/// One chain through the placements, and the best that it has met.
#[derive(Clone)]
pub(crate) struct Chain<'m> {
    pub solution: Solution<'m>,
    best: Best,
    rng: fastrand::Rng,
    movable: Vec<ItemIx>,
    compound: CompoundMove,
    refusals: Refusals,
    draws: &'static [f64; DRAWS],
    /// Σ work above the limits, over all units.
    pub excess: i64,
    /// What one piece of work above a limit costs, in the objective.
    price_of_excess: f64,
    /// What one breach of a rule, or a hundredth of a power cap, costs, in the objective.
    price_of_breach: f64,
    /// The mean loss of a random step at the start: what temperatures are counted in.
    scale: f64,
    /// The median of those: where a level is seldom at stake, the scale of the levels below it.
    fine: f64,
    /// The mean work of an item.
    mean_work: f64,
    /// Whether little is left of something that units have.
    is_tight: bool,
    /// Nodes whose units have no capacity now.
    closed: Vec<NodeIx>,
}

/// The best placement met so far: the present one with the journal undone, or a copy.
#[derive(Clone)]
struct Best {
    unplaced: usize,
    objective: i64,
    /// Items and where they were, since the best was left; given up when it grows long.
    journal: Vec<(ItemIx, UnitIx)>,
    copy: Option<IxVec<ItemIx, UnitIx>>,
}

impl<'m> Chain<'m> {
    pub fn new(solution: Solution<'m>, seed: u64) -> Self {
        let model = solution.model;
        let movable = ItemIx::first(model.free).filter(|item| model.candidates(*item).len() > 1).collect();
        let mut chain = Self {
            best: Best {
                unplaced: solution.unplaced,
                objective: solution.objective,
                journal: Vec::new(),
                copy: None,
            },
            excess: solution.total_excess(),
            is_tight: solution.is_tight(),
            closed: Vec::new(),
            solution,
            price_of_excess: 0.0,
            price_of_breach: 0.0,
            scale: 1.0,
            fine: 1.0,
            mean_work: 1.0,
            rng: fastrand::Rng::with_seed(seed),
            movable,
            compound: CompoundMove::new(model.free),
            refusals: Refusals::default(),
            draws: &LOSSES,
        };
        (chain.scale, chain.fine) = chain.losses();
        chain.forget_best();
        chain.mean_work = chain.mean_work();
        chain
    }

    /// Sets what a mean work of excess costs, and a breach of a rule or a hundredth of a power cap, in mean losses.
    pub fn set_prices(&mut self, excess: f64, breach: f64) {
        self.price_of_excess = excess * self.scale / self.mean_work;
        self.price_of_breach = breach * self.scale;
    }

    /// The mean and the median loss of a random step at the start: what temperatures are counted in.
    pub fn scales(&self) -> (f64, f64) {
        (self.scale, self.fine)
    }

    /// Tries so many steps, cooling evenly from one temperature to the other.
    pub fn run(&mut self, steps: u64, from: f64, to: f64) {
        self.run_until(steps, (from, to), &|| false);
    }

    /// The same; false where `stop` ended it.
    pub fn run_until(&mut self, steps: u64, (from, to): (f64, f64), stop: &dyn Fn() -> bool) -> bool {
        if self.movable.is_empty() {
            return true;
        }
        // Where steps take long, chunks are no longer than pieces.
        let each = CHUNK.min(self.solution.model.steps());
        let chunks = steps.div_ceil(each);
        let factor = (to / from).powf(1.0 / chunks as f64);
        let mut temperature = from;
        for chunk in 0..chunks {
            if chunk.is_multiple_of(PATIENCE) && stop() {
                return false;
            }
            for _ in 0..each {
                self.step(temperature);
            }
            let is_time = each == CHUNK || self.rng.u64(..CHUNK) < each;
            let is_cool = temperature < HOTTEST_COMPOUND * self.scale;
            if is_time && (is_cool || self.solution.model.without == Some(Ablation::CompoundMoveCutoff)) {
                self.try_compound_moves(temperature);
            }
            temperature *= factor;
        }
        true
    }

    /// The mean and the median loss of random steps that lose something.
    fn losses(&mut self) -> (f64, f64) {
        let mut losses = Vec::new();
        let samples = (SAMPLED * self.solution.model.steps()).max(FEWEST_SAMPLES);
        for _ in 0..if self.movable.is_empty() { 0 } else { samples } {
            let item = self.movable[self.rng.usize(..self.movable.len())];
            let (from, unit) = (self.solution.place[item], self.target(item));
            if unit != from && from != NOWHERE && self.solution.model.allows(item, unit) {
                let changes = [(item, from, unit)];
                let delta = self.solution.delta(item, unit) + self.solution.try_figures(&changes).0;
                self.solution.undo_figures(&changes);
                losses.extend(Some(delta as f64).filter(|delta| *delta > 0.0));
            }
        }
        losses.sort_unstable_by(f64::total_cmp);
        let Some(median) = losses.get(losses.len() / 2) else { return (1.0, 1.0) };
        (losses.iter().sum::<f64>() / losses.len() as f64, *median)
    }

    /// The mean work of an item where it may be first.
    fn mean_work(&self) -> f64 {
        let model = self.solution.model;
        let work = |item: &ItemIx| model.needs(*item, model.candidates(*item)[0])[0];
        let sum: i64 = self.movable.iter().map(work).sum();
        (sum as f64 / self.movable.len().max(1) as f64).max(1.0)
    }

    #[inline]
    fn target(&mut self, item: ItemIx) -> UnitIx {
        self.solution.model.drawn_target(&self.solution.place, item, &mut self.rng)
    }

    #[inline]
    fn accepts(&mut self, loss: f64, temperature: f64) -> bool {
        loss <= 0.0 || loss < temperature * self.draws[self.rng.usize(..DRAWS)]
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
            self.bring_in(item, unit, temperature);
            return;
        }
        let over = |left: i64| (-left).max(0);
        let (left_from, left_to) = (self.left(from), self.left(unit));
        let before = over(left_from) + over(left_to);
        let (leaves, comes) = (model.needs(item, from)[0], model.needs(item, unit)[0]);
        let there = &self.solution.on[unit];
        // Where rules and caps are strict, a unit with room may be as good as full. Where slots, resources or relations
        // refuse most moves, looking there first is cheaper than weighing what cannot be had.
        let may_be_full = left_to < comes || self.solution.has_limits_of(item) && self.rng.bool();
        let is_refused = || self.refusals.are_the_rule() && self.solution.is_refused(item, unit);
        if !there.is_empty() && (is_refused() || may_be_full && self.rng.bool()) {
            self.try_swap(item, unit, temperature);
            return;
        }
        let more = over(left_from + leaves) + over(left_to - comes) - before;
        let delta = self.solution.delta(item, unit);
        let pleases = Cell::new(false);
        let admits = |solution: &Solution| {
            pleases.set(true);
            solution.admits_overloaded(item, unit)
        };
        if let Some(delta) = self.judge(&[(item, from, unit)], delta, more, temperature, admits) {
            self.leave(item);
            self.solution.shift(item, unit, delta);
            self.arrive();
            self.refusals.note(false);
        } else if pleases.get() && self.solution.is_refused(item, unit) {
            // It would please, and can be had as an exchange alone.
            self.refusals.note(true);
            if !self.solution.on[unit].is_empty() {
                self.try_swap(item, unit, temperature);
            }
        }
    }

    /// Has an item change places with one that is on the unit.
    #[inline]
    fn try_swap(&mut self, item: ItemIx, unit: UnitIx, temperature: f64) {
        let model = self.solution.model;
        let from = self.solution.place[item];
        let there = &self.solution.on[unit];
        let other = there[self.rng.usize(..there.len())];
        if !model.allows(other, from) {
            // Where devices are exclusive, each of several may go where the next one is.
            let is_exclusive = model.snapshot.problem().slots[unit] == Some(1);
            if is_exclusive && self.refusals.are_the_rule() && model.without != Some(Ablation::Rotations) {
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
        let comes_to = |unit, leaves, comes| model.needs(leaves, unit)[0] - model.needs(comes, unit)[0];
        let after =
            over(left_from + comes_to(from, item, other)) + over(left_to + comes_to(unit, other, item));
        let more = after - over(left_from) - over(left_to);
        let delta = self.solution.delta_of_swap(item, other);
        let changes = [(item, from, unit), (other, unit, from)];
        let is_refused = Cell::new(false);
        if let Some(delta) = self.judge(&changes, delta, more, temperature, |solution| {
            let admits = solution.admits_swap_overloaded(item, other);
            is_refused.set(!admits);
            admits
        }) {
            self.swap(item, other, delta);
        } else if is_refused.get() && self.is_tight && model.without != Some(Ablation::Trades) {
            // It would please, and where little is left others may make room for it.
            self.try_compound_move(temperature, |compound, solution, rng| {
                if !compound.trade(solution, changes, rng) {
                    compound.changes.clear();
                }
            });
        }
    }

    fn try_compound_moves(&mut self, temperature: f64) {
        let regions = &self.solution.model.regions;
        if self.solution.model.without == Some(Ablation::CompoundMoves) {
            return;
        }
        let (of_nodes, of_groups) = COMPOUND_MOVES;
        for _ in 0..if regions.has_zones { of_nodes } else { 0 } {
            self.try_compound_move_of_any(temperature, CompoundMove::between_nodes);
        }
        for _ in 0..if regions.has_nodes { of_groups } else { 0 } {
            self.try_compound_move_of_any(temperature, CompoundMove::between_groups);
        }
    }

    fn try_compound_move_of_any(
        &mut self,
        temperature: f64,
        think_of: impl Fn(&mut CompoundMove, &Solution, ItemIx, &mut fastrand::Rng),
    ) {
        let item = self.movable[self.rng.usize(..self.movable.len())];
        self.try_compound_move(temperature, |compound, solution, rng| {
            think_of(compound, solution, item, rng);
        });
    }

    fn try_compound_move(
        &mut self,
        temperature: f64,
        think_of: impl Fn(&mut CompoundMove, &Solution, &mut fastrand::Rng),
    ) {
        think_of(&mut self.compound, &self.solution, &mut self.rng);
        let changes = std::mem::take(&mut self.compound.changes);
        if let Some((delta, more)) = self.solution.delta_of_all(&changes).filter(|change| *change != (0, 0))
            && let Some(delta) = self.judge(&changes, delta, more, temperature, |_| true)
        {
            let objective = self.solution.objective + delta;
            for (item, ..) in &changes {
                self.leave(*item);
            }
            self.solution.make_all(&changes);
            // With what figures have changed by.
            self.solution.objective = objective;
            self.arrive();
        }
        self.compound.changes = changes;
    }

    /// Gives an item a place, if need be in exchange for one that counts no more.
    fn bring_in(&mut self, item: ItemIx, unit: UnitIx, temperature: f64) {
        if self.solution.admits(item, unit) {
            if self.solution.keeps_rules(&[(item, NOWHERE, unit)]) {
                self.leave(item);
                self.solution.put(item, unit);
                self.arrive();
            }
            return;
        }
        let there = &self.solution.on[unit];
        if there.is_empty() {
            return;
        }
        let other = there[self.rng.usize(..there.len())];
        let (comes, goes) = (self.size(item), self.size(other));
        if goes > comes || !self.solution.admits_swap(item, other) {
            return;
        }
        let over = |left: i64| (-left).max(0);
        let (model, left) = (self.solution.model, self.left(unit));
        let more = over(left + model.needs(other, unit)[0] - model.needs(item, unit)[0]) - over(left);
        let delta = self.solution.delta_of_swap(item, other);
        let changes = [(item, NOWHERE, unit), (other, unit, NOWHERE)];
        if goes < comes {
            if self.solution.keeps_rules(&changes) {
                let delta = delta + self.solution.try_figures(&changes).0;
                self.excess += more;
                self.swap(item, other, delta);
            }
            return;
        }
        if let Some(delta) = self.judge(&changes, delta, more, temperature, |_| true) {
            self.swap(item, other, delta);
        }
    }

    /// Whether a step is taken, and its whole delta: it is weighed, held against limits, and only then shown to what
    /// takes longer to judge. Figures come last, as they take longest, and only where they could still please.
    #[inline]
    fn judge(
        &mut self,
        changes: &[Change],
        delta: i64,
        more: i64,
        temperature: f64,
        admits: impl Fn(&Solution) -> bool,
    ) -> Option<i64> {
        let price = more as f64 * self.price_of_excess;
        if !self.solution.has_figures_of(changes) {
            if self.accepts(delta as f64 + price, temperature) && admits(&self.solution) {
                self.excess += more;
                return Some(delta);
            }
            return None;
        }
        let bearable = temperature * self.draws[self.rng.usize(..DRAWS)];
        // What figures and breaches come to is what a step could save of them at most.
        let relief =
            self.solution.value_of_figures() as f64 + self.solution.broken() as f64 * self.price_of_breach;
        if delta as f64 + price - relief >= bearable || !admits(&self.solution) {
            return None;
        }
        let (figures, broken) = self.solution.try_figures(changes);
        let delta = delta + figures;
        if delta as f64 + price + broken as f64 * self.price_of_breach < bearable {
            self.excess += more;
            return Some(delta);
        }
        self.solution.undo_figures(changes);
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
        self.leave(a);
        self.leave(b);
        self.solution.swap(a, b, delta);
        self.arrive();
    }

    /// Notes where an item was.
    #[inline]
    fn leave(&mut self, item: ItemIx) {
        if self.best.copy.is_none() {
            self.best.journal.push((item, self.solution.place[item]));
        }
    }

    /// Takes the present placement as the best if it is.
    #[inline]
    fn arrive(&mut self) {
        let now = (self.solution.unplaced, self.solution.objective);
        let best = &mut self.best;
        if self.excess == 0 && now < (best.unplaced, best.objective) && self.solution.broken() == 0 {
            (best.unplaced, best.objective) = now;
            best.journal.clear();
            best.copy = None;
        } else if best.journal.len() > 8 * self.solution.place.len() {
            best.copy = Some(best.places(&self.solution));
            best.journal.clear();
        }
    }

    /// What the best is compared by: actors without a place, overload, objective.
    pub fn best_rank(&self) -> (usize, i64, i64) {
        (self.best.unplaced, self.solution.slack, self.best.objective)
    }

    /// Whether anything within the limits was met since the best was forgotten.
    pub fn has_best(&self) -> bool {
        self.best.objective < i64::MAX
    }

    /// Looks for a new best, of which nothing is known but what is met from now on.
    pub fn forget_best(&mut self) {
        self.best =
            Best { unplaced: usize::MAX, objective: i64::MAX, journal: Vec::new(), copy: Some(IxVec::new()) };
        self.arrive();
    }

    /// Keeps out of these nodes from now on, and no others, as out of units that have too much; and looks for a new best.
    pub fn keep_out_of(&mut self, nodes: &[NodeIx]) {
        let units = &self.solution.model.units_of_node;
        let before = std::mem::replace(&mut self.closed, nodes.to_vec());
        for (nodes, is_closed) in [(&before, false), (&self.closed, true)] {
            for unit in nodes.iter().flat_map(|node| &units[*node]) {
                self.solution.close(*unit, is_closed);
            }
        }
        self.excess = self.solution.total_excess();
        self.forget_best();
    }

    /// Stands at other places from now on, which become the best.
    pub fn go_to(&mut self, places: &IxVec<ItemIx, UnitIx>) {
        let mut solution = Solution::new(self.solution.model);
        solution.set_slack(self.solution.slack);
        solution.adopt(places);
        self.solution = solution;
        self.closed.clear();
        self.excess = self.solution.total_excess();
        self.forget_best();
    }

    /// The places of the best.
    pub fn best_places(&self) -> IxVec<ItemIx, UnitIx> {
        self.best.places(&self.solution)
    }
}

impl Best {
    fn places(&self, solution: &Solution) -> IxVec<ItemIx, UnitIx> {
        if let Some(copy) = &self.copy {
            return copy.clone();
        }
        let mut places = solution.place.clone();
        for (item, place) in self.journal.iter().rev() {
            places[*item] = *place;
        }
        places
    }
}
