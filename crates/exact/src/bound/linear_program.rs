//! A linear program in integers over variables between 0 and 1, and the bounds that multipliers prove.

use std::ops::Range;

/// A variable: its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable(u32);

impl Variable {
    /// Its position.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A row: Σ coefficient · variable ≥ right, or equal to it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    variables: &'a [Variable],
    coefficients: &'a [i64],
    /// The right-hand side.
    pub right: i64,
    /// Equality instead of at least.
    pub equal: bool,
}

impl Row<'_> {
    /// Variables and their coefficients; no variable twice.
    pub fn terms(&self) -> impl Iterator<Item = (Variable, i64)> {
        self.variables.iter().copied().zip(self.coefficients.iter().copied())
    }
}

/// Minimise `constant` + Σ cost · variable; each variable is 0 or 1 in the relaxed problem.
///
/// The hundreds of thousands of short rows are stored contiguously.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Cost by variable.
    pub costs: Vec<i64>,
    /// Added to every value.
    pub constant: i64,
    /// By variable: a choice variable that bounds it from above.
    pub bounded_by: Vec<Option<Variable>>,
    /// The variables of all rows, and the coefficient of each.
    variables: Vec<Variable>,
    coefficients: Vec<i64>,
    /// By row: where its terms end, its right-hand side, and whether it is an equality.
    ends: Vec<u32>,
    rights: Vec<i64>,
    equal: Vec<bool>,
    /// Variables of which exactly one is 1, choice after choice, and where each choice ends.
    chosen: Vec<Variable>,
    choice_ends: Vec<u32>,
}

/// The most coefficients of a program that is solved.
pub const MAX_COEFFICIENTS: usize = 6_000_000;

/// Multipliers are integers in units of 2^-20.
const FRACTION_BITS: u32 = 20;

impl Program {
    /// Adds a variable.
    pub fn variable(&mut self, cost: i64) -> Variable {
        let variable = Variable(to_u32(self.costs.len()));
        self.costs.push(cost);
        self.bounded_by.push(None);
        variable
    }

    /// Requires Σ terms ≥ right.
    pub fn at_least(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms, right, false);
    }

    /// Requires Σ terms ≤ right.
    pub fn at_most(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms.into_iter().map(|(variable, coefficient)| (variable, -coefficient)), -right, false);
    }

    /// Requires Σ terms = right.
    pub fn equal(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms, right, true);
    }

    fn row(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64, equal: bool) {
        for (variable, coefficient) in terms {
            self.variables.push(variable);
            self.coefficients.push(coefficient);
        }
        self.ends.push(to_u32(self.variables.len()));
        self.rights.push(right);
        self.equal.push(equal);
    }

    /// Requires that exactly one of these is 1. No variable is in two choices.
    pub fn exactly_one(&mut self, variables: &[Variable]) {
        self.chosen.extend(variables);
        self.choice_ends.push(to_u32(self.chosen.len()));
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.ends.len()
    }

    /// Number of coefficients of all rows.
    pub fn coefficients(&self) -> usize {
        self.coefficients.len()
    }

    /// The rows, in the order in which they were added.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let rest = self.rights.iter().zip(&self.equal);
        spans(&self.ends).zip(rest).map(|(span, (&right, &equal))| Row {
            variables: &self.variables[span.clone()],
            coefficients: &self.coefficients[span],
            right,
            equal,
        })
    }

    /// Releases spare memory.
    pub fn shrink_to_fit(&mut self) {
        self.variables.shrink_to_fit();
        self.coefficients.shrink_to_fit();
    }

    /// The lower bound that `multipliers`, one per row, prove for all 0-1 solutions.
    ///
    /// Weak duality (Geoffrion, Lagrangean relaxation for integer programming, 1974): for any multipliers, not negative for
    /// inequalities, min c·x ≥ λ·b + min over x of (c − λA)·x. The right minimum respects only the easy constraints: here
    /// the choices, and that variables are between 0 and 1. Multipliers are rounded first and everything after is exact, so
    /// the bound does not depend on floating-point numbers. All costs are integers, hence the bound is rounded up.
    ///
    /// `None` where a number exceeds 128 bits.
    pub fn proven_bound(&self, multipliers: &[f64]) -> Option<i64> {
        let one = 1i128 << FRACTION_BITS;
        let mut reduced: Vec<i128> = self.costs.iter().map(|cost| i128::from(*cost) * one).collect();
        let mut value = i128::from(self.constant) * one;
        for (row, multiplier) in self.rows().zip(multipliers) {
            let multiplier = to_fixed_point(*multiplier)?;
            let multiplier = if row.equal { multiplier } else { multiplier.max(0) };
            if multiplier == 0 {
                continue;
            }
            value = value.checked_add(multiplier.checked_mul(i128::from(row.right))?)?;
            for (variable, coefficient) in row.terms() {
                let part = multiplier.checked_mul(i128::from(coefficient))?;
                let reduced = &mut reduced[variable.at()];
                *reduced = reduced.checked_sub(part)?;
            }
        }
        for (variable, bound) in self.bounded_by.iter().enumerate() {
            if let Some(bound) = *bound {
                let reduction = std::mem::take(&mut reduced[variable]).min(0);
                reduced[bound.at()] = reduced[bound.at()].checked_add(reduction)?;
            }
        }
        for span in spans(&self.choice_ends) {
            let choice = &self.chosen[span];
            let least = choice.iter().map(|variable| reduced[variable.at()]).min()?;
            value = value.checked_add(least)?;
            for variable in choice {
                reduced[variable.at()] = 0;
            }
        }
        for reduced in reduced {
            value = value.checked_add(reduced.min(0))?;
        }
        // Rounded up: -(-value div one), and `>>` rounds down.
        i64::try_from(-((-value) >> FRACTION_BITS)).ok()
    }
}

/// The ranges between consecutive ends.
fn spans(ends: &[u32]) -> impl Iterator<Item = Range<usize>> {
    ends.iter().scan(0, |start, &end| Some(std::mem::replace(start, end as usize)..end as usize))
}

/// A position in 32 bits.
pub fn to_u32(position: usize) -> u32 {
    u32::try_from(position).expect("programs are kept far below 2^32 rows, variables and terms")
}

/// A multiplier in units of 2^-20. NaN proves nothing and counts as 0.
fn to_fixed_point(multiplier: f64) -> Option<i128> {
    let scaled = multiplier * f64::from(1u32 << FRACTION_BITS);
    if scaled.is_nan() {
        return Some(0);
    }
    // Beyond 2^100 products exceed 128 bits.
    if scaled.abs() >= 2f64.powi(100) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be below 2^100")]
    Some(scaled.round() as i128)
}
