//! Rounding of measured numbers.

/// Relative error of a measured number: `increase()` extrapolates in floating point, and windows are kept with 24 bits.
const RELATIVE_ERROR: f64 = 1.0 / (1 << 20) as f64;

/// The number rounded up, at least 0; a number that differs from an integer only by the error of measurement is that integer.
pub fn round_up(number: f64) -> u64 {
    let nearest = number.round();
    if (number - nearest).abs() <= nearest.abs() * RELATIVE_ERROR {
        whole(nearest)
    } else {
        whole(number.ceil())
    }
}

/// The number rounded to the nearest integer, at least 0.
pub(crate) fn round(number: f64) -> u64 {
    whole(number.round())
}

/// The integer; values outside the range of the type saturate.
fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = number.max(0.0) as u64;
    whole
}
