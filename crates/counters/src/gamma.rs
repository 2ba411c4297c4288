//! Annoyance weights γ (APO paper, section III-C).

use num_rational::Ratio;
use serde::Deserialize;

use crate::rounding::round;
use crate::window::PairCounts;

/// Annoyance weights as rational numbers, such as `2`, `0.5` or `1/3`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "GammaText")]
pub struct Gamma {
    /// Weights of rollbacks, null messages and idle time: numerators over the common denominator.
    numerators: [u64; 3],
    /// σ: the least common multiple of the denominators.
    sigma: u64,
}

/// The weights as text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GammaText {
    #[serde(default = "one")]
    rollback: String,
    #[serde(default = "one")]
    null: String,
    #[serde(default = "one")]
    idle: String,
}

fn one() -> String {
    "1".to_owned()
}

/// A weight that cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a weight; write a whole number, a decimal or a fraction such as \"1/3\", of at most 1000"
)]
pub struct GammaError {
    text: String,
}

impl TryFrom<GammaText> for Gamma {
    type Error = GammaError;

    fn try_from(written: GammaText) -> Result<Self, GammaError> {
        Self::new(&written.rollback, &written.null, &written.idle)
    }
}

impl Default for Gamma {
    fn default() -> Self {
        Self { numerators: [1; 3], sigma: 1 }
    }
}

const LARGEST: u64 = 1000;

fn fraction(text: &str) -> Result<(u64, u64), GammaError> {
    let wrong = || GammaError { text: text.to_owned() };
    let parse = |part: &str| part.parse::<u64>().map_err(|_| wrong());
    let (numerator, denominator) = if let Some((above, below)) = text.split_once('/') {
        (parse(above)?, parse(below)?)
    } else if let Some((whole, decimals)) = text.split_once('.') {
        let digits = u32::try_from(decimals.len()).ok().filter(|digits| (1..=3).contains(digits));
        let scale = 10u64.pow(digits.ok_or_else(wrong)?);
        let whole = parse(whole)?.checked_mul(scale).ok_or_else(wrong)?;
        (whole.checked_add(parse(decimals)?).ok_or_else(wrong)?, scale)
    } else {
        (parse(text)?, 1)
    };
    if denominator == 0 || denominator > LARGEST || numerator > LARGEST * denominator {
        return Err(wrong());
    }
    let shared = divisor(numerator, denominator);
    Ok((numerator / shared, denominator / shared))
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { divisor(b, a % b) }
}

impl Gamma {
    /// Parses the weights.
    ///
    /// # Errors
    /// The first text that is not a number.
    pub fn new(rollback: &str, null: &str, idle: &str) -> Result<Self, GammaError> {
        let parts = [fraction(rollback)?, fraction(null)?, fraction(idle)?];
        let sigma = parts.iter().fold(1, |sigma, (_, below)| sigma / divisor(sigma, *below) * below);
        Ok(Self { numerators: parts.map(|(above, below)| above * (sigma / below)), sigma })
    }

    /// Annoyance of an ordered pair, unrounded: σ · Σ γ · time lost / λ.
    ///
    /// `lost` holds the nanoseconds lost to rollbacks, null messages and idle time; λ is `baseline_nanoseconds`, the task
    /// duration on a unit of speed 1, at least 1.
    pub fn annoyance(&self, lost: [u64; 3], baseline_nanoseconds: u64) -> Ratio<i128> {
        // Weights are below 2^40, so the sum is below 2^106.
        let weighted =
            lost.into_iter().zip(self.numerators).map(|(lost, weight)| i128::from(lost) * i128::from(weight));
        Ratio::new(weighted.sum(), i128::from(baseline_nanoseconds.max(1)))
    }

    /// σ, the factor by which annoyances are scaled to integers.
    pub fn sigma(&self) -> u64 {
        self.sigma
    }
}

/// How counters become annoyance: weights, and the time that each event loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnoyanceScale {
    /// The weights γ.
    pub gamma: Gamma,
    /// λ: nanoseconds of a useful task.
    pub baseline_nanoseconds: u64,
    /// Nanoseconds that a rollback loses.
    pub rollback_nanoseconds: u64,
    /// Nanoseconds that a null message loses.
    pub null_message_nanoseconds: u64,
}

impl Default for AnnoyanceScale {
    /// Table II of the APO paper: a task of 100 µs.
    fn default() -> Self {
        Self {
            gamma: Gamma::default(),
            baseline_nanoseconds: 100_000,
            rollback_nanoseconds: 100_000,
            null_message_nanoseconds: 20_000,
        }
    }
}

impl AnnoyanceScale {
    /// Annoyance of an ordered pair from the increases of its counters, unrounded.
    pub(crate) fn annoyance(&self, pair: &PairCounts) -> Ratio<i128> {
        #[expect(clippy::cast_precision_loss, reason = "durations are far below 2^53 nanoseconds")]
        let lost = |count: f64, each: u64| round(count * each as f64);
        let lost = [
            lost(pair.rollbacks, self.rollback_nanoseconds),
            lost(pair.null_messages, self.null_message_nanoseconds),
            lost(pair.idle_seconds, NANOSECONDS),
        ];
        self.gamma.annoyance(lost, self.baseline_nanoseconds)
    }
}

/// Nanoseconds of a second.
const NANOSECONDS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use num_rational::Ratio;

    use super::Gamma;

    #[test]
    fn weights_share_a_common_denominator() {
        let gamma = Gamma::new("0.5", "1/3", "2").unwrap();
        assert_eq!((gamma.numerators, gamma.sigma()), ([3, 2, 12], 6));
        // 6 × (0.5 × 1 + 1/3 × 3 + 2 × 0.5) / 0.5.
        assert_eq!(gamma.annoyance([10, 30, 5], 5), Ratio::from(30));
        // 6 × 1/3 × 1 / 7: thirds and sevenths stay exact.
        assert_eq!(gamma.annoyance([0, 1, 0], 7), Ratio::new(2, 7));
        let large = Gamma::new("1000", "1/999", "1/998").unwrap();
        assert_eq!(large.annoyance([u64::MAX; 3], 1).denom(), &1);
        for wrong in ["", "x", "1/0", "-1", "1.2345", "2000", "1/2/3"] {
            let error = Gamma::new(wrong, "1", "1").unwrap_err();
            assert!(error.to_string().starts_with(&format!("{wrong:?} is not a weight; write")), "{error}");
        }
    }
}
