//! Dual multipliers for a linear program, by a first-order method: no factorisation, any size, interruptible at any time.
//!
//! Primal-dual hybrid gradient with diagonal preconditioning (Pock and Chambolle, Diagonal preconditioning for first
//! order primal-dual algorithms, ICCV 2011), Halpern's iteration with reflection and restarts (Lu and Yang, Restarted
//! Halpern PDHG for linear programming, 2024), and the primal weight balanced at each restart (Applegate et al.,
//! Practical large-scale linear programming using primal-dual hybrid gradient, 2021).

use crate::bound::linear_program::{Program, Row, to_u32};

/// The program by columns, in floating point. Rows are read as they are.
struct Columns {
    /// By variable: where its terms begin, and the end of all.
    starts: Vec<u32>,
    /// Rows and coefficients. Single precision suffices, as the result is verified exactly.
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
                terms[*place as usize] = (to_u32(row), to_f32(coefficient));
                *place += 1;
            }
        }
        Self { starts, terms }
    }

    fn of(&self, variable: usize) -> &[(u32, f32)] {
        &self.terms[self.starts[variable] as usize..self.starts[variable + 1] as usize]
    }
}

/// The iterate. The method resumes from it after rows were added.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Values of the variables, 0 to 1; nearly feasible.
    pub values: Vec<f64>,
    /// Dual multipliers of the rows.
    pub multipliers: Vec<f64>,
    /// The primal weight: dual against primal distance.
    weight: f64,
}

/// The limits of one call.
#[derive(Clone, Copy)]
pub struct IterationLimit<'a> {
    /// Number of iterations.
    pub steps: usize,
    /// Checked before each iteration.
    pub stop: &'a dyn Fn() -> bool,
}

/// Improves `point` towards the optimum; unknown variables and rows start at 0.
///
/// `seen` gets the multipliers at intervals, and at the end unless the call was stopped.
pub fn ascend(program: &Program, point: &mut Point, limit: IterationLimit, seen: &mut dyn FnMut(&[f64])) {
    let columns = Columns::new(program);
    point.values.resize(program.costs.len(), 0.0);
    point.multipliers.resize(program.row_count(), 0.0);
    let mut search = Pdhg::new(program, &columns, std::mem::take(point));
    let mut done = 0;
    while done < limit.steps && !(limit.stop)() {
        search.step();
        done += 1;
        if search.is_restart_due() {
            search.restart();
        }
        if done % REPORT_INTERVAL == 0 {
            seen(&search.multipliers());
        }
    }
    if done == limit.steps {
        seen(&search.multipliers());
    }
    *point = search.point();
}

/// Iterations between two calls of `seen`.
const REPORT_INTERVAL: usize = 100;

struct Pdhg<'a> {
    program: &'a Program,
    columns: &'a Columns,
    /// The largest cost, which scales the steps.
    scale: f64,
    primal_step: Vec<f32>,
    dual_step: Vec<f32>,
    weight: f64,
    /// The current iterate, and the one of the last restart.
    x: Vec<f64>,
    y: Vec<f64>,
    anchor_x: Vec<f64>,
    anchor_y: Vec<f64>,
    /// The PDHG step from the current iterate.
    next_x: Vec<f64>,
    next_y: Vec<f64>,
    since_restart: usize,
    steps: usize,
    /// Length of the PDHG step: now, one iteration ago, and first after the restart.
    residual: f64,
    residual_before: f64,
    residual_first: f64,
}

impl<'a> Pdhg<'a> {
    fn new(program: &'a Program, columns: &'a Columns, point: Point) -> Self {
        let scale = program.costs.iter().map(|cost| to_f64(*cost).abs()).fold(1.0, f64::max);
        let step = |sum: f32| if sum > 0.0 { 1.0 / sum } else { 1.0 };
        let of_column = |v| columns.of(v).iter().map(|(_, coefficient)| coefficient.abs()).sum();
        let of_row = |row: Row| row.terms().map(|(_, coefficient)| to_f32(coefficient).abs()).sum();
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
        // Halpern: the reflected step, pulled towards the anchor with decreasing weight.
        let anchor_weight = 1.0 / (to_f64(i64::try_from(self.since_restart).unwrap_or(i64::MAX)) + 2.0);
        let halpern = |now: &mut [f64], next: &[f64], anchor: &[f64]| {
            for ((now, next), anchor) in now.iter_mut().zip(next).zip(anchor) {
                *now = anchor_weight * anchor + (1.0 - anchor_weight) * (2.0 * next - *now);
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
            let cost = to_f64(self.program.costs[variable]) / self.scale;
            let to = self.x[variable] - step * (cost - priced);
            self.next_x[variable] = to.clamp(0.0, 1.0);
        }
        for (position, row) in self.program.rows().enumerate() {
            let reached = row.terms().map(|(variable, coefficient)| {
                let variable = variable.at();
                to_f64(coefficient) * (2.0 * self.next_x[variable] - self.x[variable])
            });
            let missing = to_f64(row.right) - reached.sum::<f64>();
            let to = self.y[position] + f64::from(self.dual_step[position]) * self.weight * missing;
            self.next_y[position] = if row.equal { to } else { to.max(0.0) };
        }
    }

    /// Squared distance in the norm of the steps, without its mixed term.
    fn distance(&self, x: &[f64], other_x: &[f64], y: &[f64], other_y: &[f64]) -> f64 {
        self.weight * weighted(x, other_x, &self.primal_step)
            + weighted(y, other_y, &self.dual_step) / self.weight
    }

    fn is_restart_due(&self) -> bool {
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
            // Halfway, in logarithms, to the ratio of the distances moved.
            self.weight =
                libm::exp(libm::log(self.weight) * 0.5 + libm::log(moved_y / moved_x) * 0.5).clamp(1e-6, 1e6);
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
fn to_f64(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "the search is approximate, what it finds is judged exactly")]
fn to_f32(number: i64) -> f32 {
    number as f32
}
