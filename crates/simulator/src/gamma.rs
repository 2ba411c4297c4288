//! Annoyance weights γ (APO paper, section III-C).

use serde::Deserialize;

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
    /// `lost` holds the milliseconds lost to rollbacks, null messages and idle time; λ is `useful`, the task duration on a
    /// unit of speed 1.
    pub fn annoyance(&self, lost: [f64; 3], useful: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "weights are small")]
        let weighted = lost.iter().zip(self.numerators).map(|(lost, weight)| lost * weight as f64);
        weighted.sum::<f64>() / useful
    }

    /// σ, the factor by which annoyances are scaled to integers.
    pub fn sigma(&self) -> u64 {
        self.sigma
    }
}

#[cfg(test)]
mod tests {
    use super::Gamma;

    #[test]
    fn weights_share_a_common_denominator() {
        let gamma = Gamma::new("0.5", "1/3", "2").unwrap();
        assert_eq!((gamma.numerators, gamma.sigma()), ([3, 2, 12], 6));
        // 6 × (0.5 × 1 + 1/3 × 3 + 2 × 0.5) / 0.5.
        assert!((gamma.annoyance([1.0, 3.0, 0.5], 0.5) - 30.0).abs() < 1e-9);
        for wrong in ["", "x", "1/0", "-1", "1.2345", "2000", "1/2/3"] {
            let error = Gamma::new(wrong, "1", "1").unwrap_err();
            assert!(error.to_string().starts_with(&format!("{wrong:?} is not a weight; write")), "{error}");
        }
    }
}
