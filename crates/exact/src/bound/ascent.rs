//! Multipliers for a program, by a first-order method: no factorisation, any size, cut short at any time.
//!
//! Primal-dual hybrid gradient with diagonal preconditioning (Pock and Chambolle, Diagonal preconditioning for first
//! order primal-dual algorithms, ICCV 2011), Halpern's iteration with reflection and restarts (Lu and Yang, Restarted
//! Halpern PDHG for linear programming, 2024), and the primal weight balanced at each restart (Applegate et al.,
//! Practical large-scale linear programming using primal-dual hybrid gradient, 2021).

use crate::bound::program::Program;

/// The program in floating point, rows and columns side by side.
struct Matrix {
    row_start: Vec<usize>,
    row_terms: Vec<(u32, f64)>,
    column_start: Vec<usize>,
    column_terms: Vec<(u32, f64)>,
}

impl Matrix {
    fn new(program: &Program) -> Self {
        let (mut row_start, mut row_terms) = (vec![0], Vec::new());
        let mut counts = vec![0usize; program.costs.len() + 1];
        for row in &program.rows {
            for &(variable, coefficient) in &row.terms {
                row_terms.push((short(variable), real(coefficient)));
                counts[variable + 1] += 1;
            }
            row_start.push(row_terms.len());
        }
        for variable in 1..counts.len() {
            counts[variable] += counts[variable - 1];
        }
        let column_start = counts.clone();
        let mut column_terms = vec![(0, 0.0); row_terms.len()];
        let mut next = counts;
        for row in 0..program.rows.len() {
            for &(variable, coefficient) in &row_terms[row_start[row]..row_start[row + 1]] {
                let place = &mut next[variable as usize];
                column_terms[*place] = (short(row), coefficient);
                *place += 1;
            }
        }
        Self { row_start, row_terms, column_start, column_terms }
    }

    fn row(&self, row: usize) -> &[(u32, f64)] {
        &self.row_terms[self.row_start[row]..self.row_start[row + 1]]
    }

    fn column(&self, variable: usize) -> &[(u32, f64)] {
        &self.column_terms[self.column_start[variable]..self.column_start[variable + 1]]
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
    let matrix = Matrix::new(program);
    point.values.resize(program.costs.len(), 0.0);
    point.multipliers.resize(program.rows.len(), 0.0);
    let mut search = Search::new(program, &matrix, point);
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
    matrix: &'a Matrix,
    /// Costs over the largest: what the steps are sized for.
    costs: Vec<f64>,
    scale: f64,
    primal_step: Vec<f64>,
    dual_step: Vec<f64>,
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
    fn new(program: &'a Program, matrix: &'a Matrix, point: &Point) -> Self {
        let scale = program.costs.iter().map(|cost| real(*cost).abs()).fold(1.0, f64::max);
        let sum = |terms: &[(u32, f64)]| terms.iter().map(|(_, coefficient)| coefficient.abs()).sum::<f64>();
        let step = |sum: f64| if sum > 0.0 { 1.0 / sum } else { 1.0 };
        let y: Vec<f64> = point.multipliers.iter().map(|multiplier| multiplier / scale).collect();
        Self {
            program,
            matrix,
            costs: program.costs.iter().map(|cost| real(*cost) / scale).collect(),
            scale,
            primal_step: (0..program.costs.len()).map(|v| step(sum(matrix.column(v)))).collect(),
            dual_step: (0..program.rows.len()).map(|r| step(sum(matrix.row(r)))).collect(),
            weight: if point.weight > 0.0 { point.weight } else { 1.0 },
            anchor_x: point.values.clone(),
            anchor_y: y.clone(),
            next_x: vec![0.0; point.values.len()],
            next_y: vec![0.0; y.len()],
            x: point.values.clone(),
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
            let priced: f64 =
                self.matrix.column(variable).iter().map(|&(row, c)| c * self.y[row as usize]).sum();
            let step = self.primal_step[variable] / self.weight;
            let to = self.x[variable] - step * (self.costs[variable] - priced);
            self.next_x[variable] = to.clamp(0.0, 1.0);
        }
        for (position, row) in self.program.rows.iter().enumerate() {
            let reached = self.matrix.row(position).iter().map(|&(variable, c)| {
                let variable = variable as usize;
                c * (2.0 * self.next_x[variable] - self.x[variable])
            });
            let missing = real(row.right) - reached.sum::<f64>();
            let to = self.y[position] + self.dual_step[position] * self.weight * missing;
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
fn weighted(a: &[f64], b: &[f64], steps: &[f64]) -> f64 {
    a.iter().zip(b).zip(steps).map(|((a, b), step)| (a - b) * (a - b) / step).sum()
}

fn short(position: usize) -> u32 {
    u32::try_from(position).expect("programs are kept far below 2^32 rows and variables")
}

#[expect(clippy::cast_precision_loss, reason = "the search is approximate, what it finds is judged exactly")]
fn real(number: i64) -> f64 {
    number as f64
}
