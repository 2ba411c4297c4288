//! Shared parts of both annealers: temperatures, acceptance, termination.
//!
//! Temperatures are Orsila et al.'s, from the times of tasks on the slowest and on the fastest processing element.
//! A candidate is accepted when it is better, or with probability exp(-ΔC / (0.5 · C0 · T)); the temperature falls by
//! q = 0.75 after each |V|·(|PE| - 1) candidates, and the search ends when as many were rejected in a row at the final
//! temperature or below.

use crate::cost::WorkModel;
use crate::{Budget, StoppedBy};

use super::loads::{Loads, Quanta, Undo};
use super::work::Found;

/// Cooling factor between two temperature levels.
pub const COOLING: f64 = 0.75;
/// Orsila's k: how far temperatures exceed the range of task times.
const MARGIN: f64 = 2.0;
/// Evaluated single-task moves per unit of effort.
pub const PIECE: u64 = 10_000;

/// The annealing variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Orsila et al.: random start, one task at a time.
    Standard,
    /// The paper's: starts on one processing element, moves shrink with the temperature, ends with a greedy phase.
    Improved,
}

/// Initial and final temperature for a graph on a platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperatures {
    /// T0.
    pub initial: f64,
    /// Tf.
    pub last: f64,
}

impl Temperatures {
    /// T0 = min(1, k·tmax / Σtmin) and Tf = min(1, tmin / (k·Σtmax)) with k = 2: tmax and Σtmax on the slowest, tmin
    /// and Σtmin on the fastest processing element by W0·W1; tmin is the fifth percentile. Tasks without time, such as
    /// data stores, are excluded.
    pub fn of(model: &WorkModel) -> Self {
        let speed = |pe: &usize| model.capacity(*pe).0 * model.capacity(*pe).1;
        let by_speed = |a: &usize, b: &usize| speed(a).total_cmp(&speed(b));
        let slowest = (0..model.pes()).min_by(by_speed).unwrap_or(0);
        let fastest = (0..model.pes()).max_by(by_speed).unwrap_or(0);
        let on = |pe: usize| {
            let times =
                (0..model.tasks()).filter(|task| !model.is_store(*task)).map(|task| model.own(task, pe));
            let mut times: Vec<f64> = times.filter(|time| *time > 0.0).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let (slow, fast) = (on(slowest), on(fastest));
        let (Some(longest), Some(_)) = (slow.last(), fast.first()) else {
            return Self { initial: 1.0, last: 1.0 };
        };
        let shortest = fast[(fast.len() * 5).div_ceil(100) - 1];
        Self {
            initial: (MARGIN * longest / fast.iter().sum::<f64>()).min(1.0),
            last: (shortest / (MARGIN * slow.iter().sum::<f64>())).min(1.0),
        }
    }
}

/// Anneals within a budget, with restarts until the effort is used up. Without an effort limit it anneals once, and restarts
/// only within the first unit of effort, as small graphs take less.
pub(super) fn anneal(model: &WorkModel, variant: Variant, literal: bool, budget: &Budget) -> Found {
    let quanta = Quanta::new(model);
    let mut search = Search {
        quanta: &quanta,
        variant,
        literal,
        temperatures: Temperatures::of(model),
        rng: fastrand::Rng::with_seed(budget.seed),
        best: None,
        spent: Spent { budget, moves: 0, evaluations: 0, ended: None },
    };
    while search.spent.ended.is_none() {
        search.once();
        if budget.effort.is_none() && search.spent.moves >= PIECE {
            search.spent.end(StoppedBy::Converged);
        }
    }
    let (_, mapping) = search.best.expect("the start is evaluated before the search can stop");
    let Spent { evaluations, ended, .. } = search.spent;
    let End { stopped_by, effort, .. } = ended.expect("the loop above ends with a reason");
    Found { mapping, evaluations, effort, stopped_by }
}

/// Effort used, and whether it is exhausted.
struct Spent<'a, 'b> {
    budget: &'a Budget<'b>,
    moves: u64,
    evaluations: u64,
    ended: Option<End>,
}

/// The end of the budget.
#[derive(Clone, Copy)]
struct End {
    stopped_by: StoppedBy,
    /// Units of effort completed.
    effort: u64,
    /// Move limit of the greedy phase after an interrupted annealing: a tenth more.
    most: u64,
}

impl Spent<'_, '_> {
    fn end(&mut self, stopped_by: StoppedBy) {
        let (effort, most) = (self.moves / PIECE, self.moves + self.moves / 10);
        self.ended.get_or_insert(End { stopped_by, effort, most });
    }

    /// Counts a candidate with this many moves; false at the end of the budget, or of the extension.
    fn count(&mut self, moves: usize) -> bool {
        self.evaluations += 1;
        let before = self.moves / PIECE;
        self.moves += moves as u64;
        if let Some(end) = self.ended {
            return self.moves < end.most;
        }
        let pieces = self.moves / PIECE;
        if pieces > before {
            if self.budget.effort.is_some_and(|most| pieces >= most) {
                self.end(StoppedBy::Effort);
            } else if (self.budget.stop)() {
                self.end(StoppedBy::Deadline);
            }
        }
        self.ended.is_none()
    }
}

struct Search<'a, 'b, 'c> {
    quanta: &'a Quanta<'a>,
    variant: Variant,
    literal: bool,
    temperatures: Temperatures,
    rng: fastrand::Rng,
    best: Option<(i128, Vec<usize>)>,
    spent: Spent<'b, 'c>,
}

impl Search<'_, '_, '_> {
    /// One annealing run until it converges or the budget ends.
    fn once(&mut self) {
        let (tasks, pes) = (self.quanta.model.tasks(), self.quanta.model.pes());
        let start = match self.variant {
            Variant::Standard => (0..tasks).map(|_| self.rng.usize(0..pes)).collect(),
            Variant::Improved => vec![self.rng.usize(0..pes); tasks],
        };
        let mut loads = Loads::new(self.quanta, start);
        let mut best = Best { objective: loads.objective(), mapping: loads.mapping().to_vec() };
        self.spent.evaluations += 1;
        if pes > 1 {
            self.cool(&mut loads, &mut best);
            if self.variant == Variant::Improved {
                let mut loads = Loads::new(self.quanta, best.mapping.clone());
                self.descend(&mut loads);
                best = Best { objective: loads.objective(), mapping: loads.mapping().to_vec() };
            }
        } else {
            self.spent.end(StoppedBy::Converged);
        }
        if self.best.as_ref().is_none_or(|(least, _)| best.objective < *least) {
            self.best = Some((best.objective, best.mapping));
        }
    }

    fn cool(&mut self, loads: &mut Loads, best: &mut Best) {
        let (tasks, pes) = (self.quanta.model.tasks(), self.quanta.model.pes());
        let level = tasks * (pes - 1);
        let Temperatures { initial, last } = self.temperatures;
        let mut order: Vec<usize> = (0..tasks).collect();
        let (mut moves, mut undo) = (Vec::new(), Undo::default());
        let mut current = loads.objective();
        let scale = 0.5 * real(current);
        let (mut temperature, mut rejected) = (initial, 0);
        for candidate in 1_usize.. {
            let many = match self.variant {
                Variant::Standard => 1,
                Variant::Improved => migrating(tasks, temperature, self.temperatures),
            };
            draw(&mut self.rng, &mut order, many, loads.mapping(), pes, &mut moves);
            loads.shift_all(&moves, &mut undo);
            let objective = loads.objective();
            let rise = objective - current;
            let accepted = rise <= 0 || self.rng.f64() < libm::exp(-real(rise) / (scale * temperature));
            let improved = objective < best.objective;
            if improved {
                best.objective = objective;
                best.mapping.copy_from_slice(loads.mapping());
            }
            if accepted && (improved || !self.literal) {
                current = objective;
            } else {
                loads.undo(&undo);
            }
            // A zero change counts as rejected: otherwise moves of tasks without influence on any load never end.
            if improved || (accepted && rise != 0 && !self.literal) {
                rejected = 0;
            } else if temperature <= last && !(accepted && rise != 0) {
                rejected += 1;
            }
            if !self.spent.count(many) || rejected >= level {
                return;
            }
            if candidate.is_multiple_of(level) {
                temperature *= COOLING;
            }
        }
    }

    /// Sweeps in random order, moving each task to its best processing element, until no move improves.
    fn descend(&mut self, loads: &mut Loads) {
        let (tasks, pes) = (self.quanta.model.tasks(), self.quanta.model.pes());
        let mut order: Vec<usize> = (0..tasks).collect();
        let mut gained = true;
        while gained {
            gained = false;
            self.rng.shuffle(&mut order);
            for &task in &order {
                let home = loads.mapping()[task];
                let (mut least, mut to) = (loads.objective(), home);
                for pe in (0..pes).filter(|pe| *pe != home) {
                    loads.shift(task, pe);
                    let objective = loads.objective();
                    if objective < least {
                        (least, to) = (objective, pe);
                    }
                    if !self.spent.count(1) {
                        loads.shift(task, to);
                        return;
                    }
                }
                loads.shift(task, to);
                gained |= to != home;
            }
        }
    }
}

/// The best mapping of an annealing run.
struct Best {
    objective: i128,
    mapping: Vec<usize>,
}

/// Number of tasks per move of the improved annealer: |V| · T / (T0 - Tf), at least one (Eq. 4).
fn migrating(tasks: usize, temperature: f64, temperatures: Temperatures) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "graphs are far below 2^52 tasks")]
    let share = tasks as f64 * temperature / (temperatures.initial - temperatures.last);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is clamped")]
    let whole = share as usize;
    whole.clamp(1, tasks)
}

/// Draws distinct tasks, and for each a processing element other than its current one.
fn draw(
    rng: &mut fastrand::Rng,
    order: &mut [usize],
    many: usize,
    at: &[usize],
    pes: usize,
    moves: &mut Vec<(usize, usize)>,
) {
    moves.clear();
    for position in 0..many {
        let other = rng.usize(position..order.len());
        order.swap(position, other);
        let task = order[position];
        let to = rng.usize(0..pes - 1);
        moves.push((task, if to < at[task] { to } else { to + 1 }));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a probability needs no more than 52 bits")]
fn real(quanta: i128) -> f64 {
    quanta as f64
}
