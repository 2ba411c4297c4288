//! Runs that differ in their seeds only, aggregated and compared with the best known values.

use std::collections::BTreeMap;

use super::instance::by_size;
use super::{BestKnown, Record};

/// Runs of one strategy on one instance with one budget.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The strategy.
    pub strategy: String,
    /// Time budget in seconds.
    pub budget_seconds: f64,
    /// The runs, best first; runs without an answer are last.
    pub runs: Vec<Record>,
}

/// All runs on one instance.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The instance.
    pub instance: String,
    /// Number of actors.
    pub actors: usize,
    /// The best known vector: from the list, or from these runs if they beat it.
    pub best: Vec<i64>,
    /// Whether the list has a vector that a run beat.
    pub beaten: bool,
    /// The list's earlier result, on the first level whose best value is not 0.
    pub reached: Option<i64>,
    /// Level keys, `unplaced` first.
    pub levels: Vec<String>,
    /// Largest proven lower bound of the first level whose best value is not 0.
    pub bound: Option<i64>,
    /// By strategy and budget, in run order.
    pub cells: Vec<Cell>,
}

impl Summary {
    /// One summary per instance, by family and size.
    ///
    pub fn of(records: &[Record], best: &BestKnown) -> Vec<Self> {
        let mut by_instance: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
        for record in records {
            by_instance.entry(by_size(&record.instance)).or_default().push(record);
        }
        let known = |run: &Record| best.vector(&run.instance, &run.levels);
        by_instance
            .into_values()
            .map(|runs| Self::of_one(&runs, known(runs[0]).as_ref(), best.reached(&runs[0].instance)))
            .collect()
    }

    fn of_one(runs: &[&Record], known: Option<&Vec<i64>>, reached: Option<i64>) -> Self {
        let found = runs.iter().filter(|run| !run.vector.is_empty()).map(|run| &run.vector).min();
        let beaten = known.is_some_and(|known| found.is_some_and(|found| found < known));
        let best = known.into_iter().chain(found).min().cloned().unwrap_or_default();
        let mut cells: Vec<Cell> = Vec::new();
        for run in runs {
            let same = |cell: &&mut Cell| {
                cell.strategy == run.strategy && cell.budget_seconds.total_cmp(&run.budget_seconds).is_eq()
            };
            match cells.iter_mut().find(same) {
                Some(cell) => cell.runs.push((*run).clone()),
                None => cells.push(Cell {
                    strategy: run.strategy.clone(),
                    budget_seconds: run.budget_seconds,
                    runs: vec![(*run).clone()],
                }),
            }
        }
        for cell in &mut cells {
            cell.runs.sort_by(|a, b| (a.vector.is_empty(), &a.vector).cmp(&(b.vector.is_empty(), &b.vector)));
        }
        let levels = runs[0].levels.clone();
        let decides = best.iter().position(|value| *value != 0);
        let key = decides.map(|level| &levels[level]);
        // The bound of a level is valid only if the higher levels have their best values.
        let bounds = runs.iter().filter_map(|run| run.bound.get(key?).copied());
        Self {
            instance: runs[0].instance.clone(),
            actors: runs[0].actors,
            bound: bounds.max(),
            best,
            beaten,
            reached,
            levels,
            cells,
        }
    }

    /// The cell of a strategy and a budget.
    pub fn cell(&self, strategy: &str, budget_seconds: f64) -> Option<&Cell> {
        let same = |cell: &&Cell| {
            cell.strategy == strategy && cell.budget_seconds.total_cmp(&budget_seconds).is_eq()
        };
        self.cells.iter().find(same)
    }

    /// The first level whose best value is not 0.
    pub fn deciding_level(&self) -> Option<usize> {
        self.best.iter().position(|value| *value != 0)
    }

    /// The first level on which a run differs from the best known; `None` if they are equal.
    pub fn differing_level(&self, run: &Record) -> Option<usize> {
        run.vector.iter().zip(&self.best).position(|(value, best)| value != best)
    }

    /// Ratio to the best known on the first level that differs, 1 if none differs; `None` without an answer or if the best known
    /// value is 0 there.
    pub fn ratio(&self, run: &Record) -> Option<f64> {
        if run.vector.is_empty() {
            return None;
        }
        let Some(level) = self.differing_level(run) else { return Some(1.0) };
        (self.best[level] != 0).then(|| ratio(run.vector[level], self.best[level]))
    }

    /// Ratio to the best on the first level whose best value is not 0; `None` without an answer or if a higher level is
    /// worse.
    pub fn gap(&self, run: &Record) -> Option<f64> {
        let ratio = self.ratio(run);
        match (self.differing_level(run), self.deciding_level()) {
            (Some(differs), Some(level)) if differs > level => Some(0.0),
            _ => ratio.map(|ratio| ratio - 1.0),
        }
    }

    /// Source of the best known vector: a strategy with its budget, or the list.
    pub fn found_by(&self) -> String {
        let found = self.cells.iter().find(|cell| cell.runs.iter().any(|run| run.vector == self.best));
        found.map_or("the list".to_owned(), |cell| format!("{}, {} s", cell.strategy, cell.budget_seconds))
    }

    /// Short reason why a run has no ratio.
    pub fn misses(&self, run: &Record) -> String {
        let worse = run.vector.iter().zip(&self.best).zip(&self.levels);
        match worse.into_iter().find(|((value, best), _)| value != best) {
            Some(((value, _), level)) => format!("{level} {value}"),
            None => "no answer".to_owned(),
        }
    }
}

impl Cell {
    /// The median run by cost vector; for an even number the worse of the two middle runs.
    pub fn median(&self) -> &Record {
        &self.runs[self.runs.len() / 2]
    }

    /// Maximum of a quantity.
    pub fn most(&self, of: impl Fn(&Record) -> f64) -> f64 {
        self.runs.iter().map(of).fold(0.0, f64::max)
    }
}

/// `a / b` of counts, for display.
#[expect(clippy::cast_precision_loss, reason = "counts of actors are far below 2^52")]
pub(super) fn quotient(a: usize, b: usize) -> f64 {
    a as f64 / b as f64
}

/// `a / b` of costs, for display.
#[expect(clippy::cast_precision_loss, reason = "a ratio is read to four digits")]
pub fn ratio(a: i64, b: i64) -> f64 {
    a as f64 / b as f64
}
