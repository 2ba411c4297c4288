//! Means and confidence intervals.

/// The mean and the half-width of its 95 % interval by the normal distribution; 0 for fewer than two values.
pub fn mean(values: &[f64]) -> (f64, f64) {
    let count = real(values.len());
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() < 2 { 0.0 } else { 1.96 * (squares / (count - 1.0) / count).sqrt() })
}

/// A count as a divisor.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub fn real(count: usize) -> f64 {
    count as f64
}
