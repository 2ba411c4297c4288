//! Multipliers for a program, by a first-order method: no factorisation, any size, cut short at any time.
//!
//! Primal-dual hybrid gradient with diagonal preconditioning (Pock and Chambolle, Diagonal preconditioning for first
//! order primal-dual algorithms, ICCV 2011), Halpern's iteration with reflection and restarts (Lu and Yang, Restarted
//! Halpern PDHG for linear programming, 2024), and the primal weight balanced at each restart (Applegate et al.,
//! Practical large-scale linear programming using primal-dual hybrid gradient, 2021).

use crate::bound::linear_program::{Program, Row, short};

/// The program by columns, in floating point; by rows it is read as it is.
struct Columns {
    /// By variable: where its terms begin, and the end of all.
    starts: Vec<u32>,
    /// Rows and coefficients. Half the digits do: what the search finds is judged exactly.
    terms: Vec<(u32, f32)>,
}

impl Columns {
    fn new(program: &Program) -> Self {
        let mut starts = vec![0u32; program.costs.len() + 1];
        for row in program.rows() {
            row.terms().for_each(|(variable, _)| starts[variable.at() + 1] += 1);
        }
        for variable in 1..starts.len() {
            starts[variable] += starts[variable - 1];
        }
        let mut terms = vec![(0, 0.0); program.coefficients()];
        let mut next = starts.clone();
        for (row, of_row) in program.rows().enumerate() {
            for (variable, coefficient) in of_row.terms() {
                let place = &mut next[variable.at()];
                terms[*place as usize] = (short(row), half(coefficient));
                *place += 1;
            }
        }
        Self { starts, terms }
    }

    fn of(&self, variable: usize) -> &[(u32, f32)] {
        &self.terms[self.starts[variable] as usize..self.starts[variable + 1] as usize]
    }
}

/// Where the search stands; it goes on from here after rows were added.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Values of the variables, 0 to 1; nearly feasible.
    pub values: Vec<f64>,
    /// Multipliers of the rows.
    pub multipliers: Vec<f64>,
    /// How much dual counts against primal.
    weight: f64,
}

/// What one call may do, and whom it asks whether to go on.
#[derive(Clone, Copy)]
pub struct Leave<'a> {
    /// Steps.
    pub steps: usize,
    /// Asked before each step.
    pub stop: &'a dyn Fn() -> bool,
}

/// Improves `point` towards the optimum of the program; variables and rows that it does not know start at 0.
///
/// `seen` is shown the multipliers now and then, each time for them to be judged, and at the end unless it was stopped.
pub fn ascend(program: &Program, point: &mut Point, leave: Leave, seen: &mut dyn FnMut(&[f64])) {
    let columns = Columns::new(program);
    point.values.resize(program.costs.len(), 0.0);
    point.multipliers.resize(program.row_count(), 0.0);
    let mut search = Search::new(program, &columns, std::mem::take(point));
    let mut done = 0;
    while done < leave.steps && !(leave.stop)() {
        search.step();
        done += 1;
        if search.wants_restart() {
            search.restart();
        }
        if done % LOOKS_EVERY == 0 {
            seen(&search.multipliers());
        }
    }
    if done == leave.steps {
        seen(&search.multipliers());
    }
    *point = search.point();
}

/// Steps between two judgements of the multipliers.
const LOOKS_EVERY: usize = 100;

struct Search<'a> {
    program: &'a Program,
    columns: &'a Columns,
    /// The largest cost: what the steps are sized for.
    scale: f64,
    primal_step: Vec<f32>,
    dual_step: Vec<f32>,
    weight: f64,
    /// Current, and where the last restart began.
    x: Vec<f64>,
    y: Vec<f64>,
    anchor_x: Vec<f64>,
    anchor_y: Vec<f64>,
    /// After the plain step from the current.
    next_x: Vec<f64>,
    next_y: Vec<f64>,
    since_restart: usize,
    steps: usize,
    /// How far the plain step went: now, one step ago, and first after the restart.
    residual: f64,
    residual_before: f64,
    residual_first: f64,
}

impl<'a> Search<'a> {
    fn new(program: &'a Program, columns: &'a Columns, point: Point) -> Self {
        let scale = program.costs.iter().map(|cost| real(*cost).abs()).fold(1.0, f64::max);
        let step = |sum: f32| if sum > 0.0 { 1.0 / sum } else { 1.0 };
        let of_column = |v| columns.of(v).iter().map(|(_, coefficient)| coefficient.abs()).sum();
        let of_row = |row: Row| row.terms().map(|(_, coefficient)| half(coefficient).abs()).sum();
        let y: Vec<f64> = point.multipliers.iter().map(|multiplier| multiplier / scale).collect();
        Self {
            program,
            columns,
            scale,
            primal_step: (0..program.costs.len()).map(of_column).map(step).collect(),
            dual_step: program.rows().map(of_row).map(step).collect(),
            weight: if point.weight > 0.0 { point.weight } else { 1.0 },
            anchor_x: point.values.clone(),
            anchor_y: y.clone(),
            next_x: vec![0.0; point.values.len()],
            next_y: vec![0.0; y.len()],
            x: point.values,
            y,
            since_restart: 0,
            steps: 0,
            residual: f64::MAX,
            residual_before: f64::MAX,
            residual_first: f64::MAX,
        }
    }

    fn step(&mut self) {
        self.plain_step();
        self.residual_before = self.residual;
        self.residual = self.distance(&self.x, &self.next_x, &self.y, &self.next_y);
        if self.since_restart == 0 {
            self.residual_first = self.residual;
        }
        // Halpern: the reflected step, drawn back to the anchor less and less.
        let to_anchor = 1.0 / (real(i64::try_from(self.since_restart).unwrap_or(i64::MAX)) + 2.0);
        let halpern = |now: &mut [f64], next: &[f64], anchor: &[f64]| {
            for ((now, next), anchor) in now.iter_mut().zip(next).zip(anchor) {
                *now = to_anchor * anchor + (1.0 - to_anchor) * (2.0 * next - *now);
            }
        };
        halpern(&mut self.x, &self.next_x, &self.anchor_x);
        halpern(&mut self.y, &self.next_y, &self.anchor_y);
        self.since_restart += 1;
        self.steps += 1;
    }

    fn plain_step(&mut self) {
        for variable in 0..self.x.len() {
            let of_rows = self.columns.of(variable).iter();
            let priced: f64 = of_rows.map(|&(row, c)| f64::from(c) * self.y[row as usize]).sum();
            let step = f64::from(self.primal_step[variable]) / self.weight;
            let cost = real(self.program.costs[variable]) / self.scale;
            let to = self.x[variable] - step * (cost - priced);
            self.next_x[variable] = to.clamp(0.0, 1.0);
        }
        for (position, row) in self.program.rows().enumerate() {
            let reached = row.terms().map(|(variable, coefficient)| {
                let variable = variable.at();
                real(coefficient) * (2.0 * self.next_x[variable] - self.x[variable])
            });
            let missing = real(row.right) - reached.sum::<f64>();
            let to = self.y[position] + f64::from(self.dual_step[position]) * self.weight * missing;
            self.next_y[position] = if row.equal { to } else { to.max(0.0) };
        }
    }

    /// Squared distance in the norm of the steps, its mixed term left out.
    fn distance(&self, x: &[f64], other_x: &[f64], y: &[f64], other_y: &[f64]) -> f64 {
        self.weight * weighted(x, other_x, &self.primal_step)
            + weighted(y, other_y, &self.dual_step) / self.weight
    }

    fn wants_restart(&self) -> bool {
        let (now, first) = (self.residual, self.residual_first);
        // On squared distances: 0.2² and 0.8².
        now <= 0.04 * first
            || (now <= 0.64 * first && now > self.residual_before)
            || self.since_restart * 100 >= self.steps * 36 + 2000
    }

    fn restart(&mut self) {
        let moved_x = weighted(&self.next_x, &self.anchor_x, &self.primal_step).sqrt();
        let moved_y = weighted(&self.next_y, &self.anchor_y, &self.dual_step).sqrt();
        if moved_x > 1e-12 && moved_y > 1e-12 {
            // Halfway, in logarithms, to the ratio of what moved.
            self.weight = (self.weight.ln() * 0.5 + (moved_y / moved_x).ln() * 0.5).exp().clamp(1e-6, 1e6);
        }
        self.x.clone_from(&self.next_x);
        self.y.clone_from(&self.next_y);
        self.anchor_x.clone_from(&self.next_x);
        self.anchor_y.clone_from(&self.next_y);
        self.since_restart = 0;
    }

    fn multipliers(&self) -> Vec<f64> {
        self.next_y.iter().map(|multiplier| multiplier * self.scale).collect()
    }

    fn point(&self) -> Point {
        Point { values: self.next_x.clone(), multipliers: self.multipliers(), weight: self.weight }
    }
}

/// Σ (a − b)² / step.
fn weighted(a: &[f64], b: &[f64], steps: &[f32]) -> f64 {
    a.iter().zip(b).zip(steps).map(|((a, b), step)| (a - b) * (a - b) / f64::from(*step)).sum()
}

#[expect(clippy::cast_precision_loss, reason = "the search is approximate, what it finds is judged exactly")]
fn real(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "the search is approximate, what it finds is judged exactly")]
fn half(number: i64) -> f32 {
    number as f32
}
