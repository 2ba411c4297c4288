//! A linear program in integers over variables between 0 and 1, and what any multipliers prove about it.

/// One row: Σ coefficient · variable ≥ right, or equal to it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Variable and coefficient; no variable twice.
    pub terms: Vec<(usize, i64)>,
    /// The right-hand side.
    pub right: i64,
    /// Equality instead of at least.
    pub equal: bool,
}

/// Minimise `constant` + Σ cost · variable; each variable is 0 or 1 in the problem that this relaxes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Cost by variable.
    pub costs: Vec<i64>,
    /// Added to every value.
    pub constant: i64,
    /// The rows.
    pub rows: Vec<Row>,
    /// Variables of which exactly one is 1; no variable in two.
    pub choices: Vec<Vec<usize>>,
    /// By variable, another one that it is at most, and which lies in a choice: taken only together with it.
    pub rides_on: Vec<Option<usize>>,
}

/// Multipliers are integers in units of 2^-20.
const FRACTION_BITS: u32 = 20;

impl Program {
    /// Adds a variable.
    pub fn variable(&mut self, cost: i64) -> usize {
        self.costs.push(cost);
        self.rides_on.push(None);
        self.costs.len() - 1
    }

    /// Demands Σ terms ≥ right.
    pub fn at_least(&mut self, terms: Vec<(usize, i64)>, right: i64) {
        self.rows.push(Row { terms, right, equal: false });
    }

    /// Demands Σ terms ≤ right.
    pub fn at_most(&mut self, terms: Vec<(usize, i64)>, right: i64) {
        let terms = terms.into_iter().map(|(variable, coefficient)| (variable, -coefficient)).collect();
        self.at_least(terms, -right);
    }

    /// Demands Σ terms = right.
    pub fn equal(&mut self, terms: Vec<(usize, i64)>, right: i64) {
        self.rows.push(Row { terms, right, equal: true });
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
        for (row, multiplier) in self.rows.iter().zip(multipliers) {
            let multiplier = rounded(*multiplier)?;
            let multiplier = if row.equal { multiplier } else { multiplier.max(0) };
            if multiplier == 0 {
                continue;
            }
            value = value.checked_add(multiplier.checked_mul(i128::from(row.right))?)?;
            for &(variable, coefficient) in &row.terms {
                let part = multiplier.checked_mul(i128::from(coefficient))?;
                reduced[variable] = reduced[variable].checked_sub(part)?;
            }
        }
        for (variable, host) in self.rides_on.iter().enumerate() {
            if let Some(host) = *host {
                let reduction = std::mem::take(&mut reduced[variable]).min(0);
                reduced[host] = reduced[host].checked_add(reduction)?;
            }
        }
        for choice in &self.choices {
            let least = choice.iter().map(|&variable| reduced[variable]).min()?;
            value = value.checked_add(least)?;
            for &variable in choice {
                reduced[variable] = 0;
            }
        }
        for reduced in reduced {
            value = value.checked_add(reduced.min(0))?;
        }
        // Rounded up: -(-value div one), and `>>` rounds down.
        i64::try_from(-((-value) >> FRACTION_BITS)).ok()
    }
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
