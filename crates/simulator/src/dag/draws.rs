//! Random draws keyed by their purpose, independent of earlier draws.

/// An exponential draw with this mean, by inversion of `uniform` in [0, 1).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates"
)]
pub(super) fn exponential(mean: u64, uniform: f64) -> u64 {
    (-libm::log(1.0 - uniform) * mean as f64).floor() as u64
}

/// `actual` times a factor between 1 - percent/100 and 1 + percent/100; equal for equal `draw`, whatever the scheduler.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "below 2^60"
)]
pub(super) fn jitter(actual: u64, percent: f64, draw: &[u64]) -> u64 {
    if percent <= 0.0 {
        return actual;
    }
    let uniform = fastrand::Rng::with_seed(mix(draw)).f64();
    (actual as f64 * (1.0 + (2.0 * uniform - 1.0) * percent / 100.0)).floor() as u64
}

/// Hashes several numbers into one with the `SplitMix64` finalizer.
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, part| {
        let mut z = (sum ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
