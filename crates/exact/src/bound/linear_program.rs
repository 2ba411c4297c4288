//! A linear program in integers over variables between 0 and 1, and what any multipliers prove about it.

use std::ops::Range;

/// A variable: its position among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable(u32);

impl Variable {
    /// Its position.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// One row: Σ coefficient · variable ≥ right, or equal to it.
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

/// Minimise `constant` + Σ cost · variable; each variable is 0 or 1 in the problem that this relaxes.
///
/// There are hundreds of thousands of rows of two or three terms: they lie one after the other, not each by itself.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Cost by variable.
    pub costs: Vec<i64>,
    /// Added to every value.
    pub constant: i64,
    /// By variable, another one that it is at most, and which lies in a choice: taken only together with it.
    pub rides_on: Vec<Option<Variable>>,
    /// The variables of all rows, and the coefficient of each.
    variables: Vec<Variable>,
    coefficients: Vec<i64>,
    /// By row: where its terms end, its right-hand side, and whether that is to be met.
    ends: Vec<u32>,
    rights: Vec<i64>,
    equal: Vec<bool>,
    /// Variables of which exactly one is 1, choice after choice, and where each ends.
    chosen: Vec<Variable>,
    choice_ends: Vec<u32>,
}

/// Larger programs than this many coefficients are not searched.
pub const MOST_COEFFICIENTS: usize = 6_000_000;

/// Multipliers are integers in units of 2^-20.
const FRACTION_BITS: u32 = 20;

impl Program {
    /// Adds a variable.
    pub fn variable(&mut self, cost: i64) -> Variable {
        let variable = Variable(short(self.costs.len()));
        self.costs.push(cost);
        self.rides_on.push(None);
        variable
    }

    /// Demands Σ terms ≥ right.
    pub fn at_least(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms, right, false);
    }

    /// Demands Σ terms ≤ right.
    pub fn at_most(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms.into_iter().map(|(variable, coefficient)| (variable, -coefficient)), -right, false);
    }

    /// Demands Σ terms = right.
    pub fn equal(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64) {
        self.row(terms, right, true);
    }

    fn row(&mut self, terms: impl IntoIterator<Item = (Variable, i64)>, right: i64, equal: bool) {
        for (variable, coefficient) in terms {
            self.variables.push(variable);
            self.coefficients.push(coefficient);
        }
        self.ends.push(short(self.variables.len()));
        self.rights.push(right);
        self.equal.push(equal);
    }

    /// Demands that exactly one of these is 1; no variable is in two choices.
    pub fn choose(&mut self, variables: &[Variable]) {
        self.chosen.extend(variables);
        self.choice_ends.push(short(self.chosen.len()));
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.ends.len()
    }

    /// How many coefficients the rows have together.
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

    /// Gives back what was only held for rows to come.
    pub fn fit(&mut self) {
        self.variables.shrink_to_fit();
        self.coefficients.shrink_to_fit();
    }

    /// The least value that `multipliers`, one per row, prove: no 0-1 solution of the rows is cheaper.
    ///
    /// Weak duality (Geoffrion, Lagrangean relaxation for integer programming, 1974): whatever the multipliers are,
    /// with those of inequalities not below 0,
    /// min c·x ≥ λ·b + min over x of (c − λA)·x, where the right minimum needs to heed only what is easy. Here that is
    /// the choices, and that variables lie between 0 and 1. The multipliers are rounded first and everything after is
    /// exact, so nothing depends on the floating-point numbers they came from. All costs are whole, hence rounding up.
    ///
    /// `None` where a number does not fit 128 bits.
    pub fn proves(&self, multipliers: &[f64]) -> Option<i64> {
        let one = 1i128 << FRACTION_BITS;
        let mut reduced: Vec<i128> = self.costs.iter().map(|cost| i128::from(*cost) * one).collect();
        let mut value = i128::from(self.constant) * one;
        for (row, multiplier) in self.rows().zip(multipliers) {
            let multiplier = rounded(*multiplier)?;
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
        for (variable, host) in self.rides_on.iter().enumerate() {
            if let Some(host) = *host {
                let reduction = std::mem::take(&mut reduced[variable]).min(0);
                reduced[host.at()] = reduced[host.at()].checked_add(reduction)?;
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

/// What lies between one end and the next.
fn spans(ends: &[u32]) -> impl Iterator<Item = Range<usize>> {
    ends.iter().scan(0, |start, &end| Some(std::mem::replace(start, end as usize)..end as usize))
}

/// A position in 32 bits.
pub fn short(position: usize) -> u32 {
    u32::try_from(position).expect("programs are kept far below 2^32 rows, variables and terms")
}

/// A multiplier in units of 2^-20; one that is no number proves nothing by itself and counts as 0.
fn rounded(multiplier: f64) -> Option<i128> {
    let scaled = multiplier * f64::from(1u32 << FRACTION_BITS);
    if scaled.is_nan() {
        return Some(0);
    }
    // Beyond 2^100 products leave 128 bits.
    if scaled.abs() >= 2f64.powi(100) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be below 2^100")]
    Some(scaled.round() as i128)
}
