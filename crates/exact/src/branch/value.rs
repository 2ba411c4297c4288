//! Numbers for the weighted sum of levels: 64 bits where these suffice, otherwise 128.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

/// Needs are below 2^53, as all numbers of a file.
const NEED_BITS: u32 = 53;

/// The type of the one number.
pub(crate) trait Value:
    Copy
    + Ord
    + Default
    + From<i32>
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Sum
{
    /// The most that the levels may add up to, so that doubled sums over all pairs and prices fit.
    const LARGEST: Self;
    /// The cost of what is not allowed: more than twice that of anything feasible.
    const FORBIDDEN: Self;
    /// The largest number.
    const MAX: Self;
    /// The largest price; larger ones decide nothing, and sums of them fit.
    const HIGHEST_PRICE: Self;

    /// A number that fits; `None` otherwise.
    fn of(wide: i128) -> Option<Self>;
    /// The same number.
    fn wide(self) -> i128;
    /// The nearest floating-point number.
    fn real(self) -> f64;
    /// The nearest integer.
    fn rounded(real: f64) -> Self;
    fn saturating_add(self, other: Self) -> Self;
    fn saturating_sub(self, other: Self) -> Self;
    fn saturating_mul(self, other: Self) -> Self;
    /// Compares `a` × `p` with `b` × `q`; none of them is negative.
    fn compare_products(a: Self, p: i64, b: Self, q: i64) -> Ordering;
    /// `part` of `whole` of it, rounded down. Neither is negative, and the part is no larger than the whole.
    fn share(self, part: i64, whole: i64) -> Self;
}

impl Value for i64 {
    const LARGEST: Self = 1 << 42;
    const FORBIDDEN: Self = 1 << 45;
    const MAX: Self = Self::MAX;
    const HIGHEST_PRICE: Self = 1 << 55;

    #[inline]
    fn of(wide: i128) -> Option<Self> {
        Self::try_from(wide).ok()
    }

    #[inline]
    fn wide(self) -> i128 {
        i128::from(self)
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "what follows from it is approximate, and judged exactly")]
    fn real(self) -> f64 {
        self as f64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "any price is as right as another")]
    fn rounded(real: f64) -> Self {
        real.round() as Self
    }

    #[inline]
    fn saturating_add(self, other: Self) -> Self {
        Self::saturating_add(self, other)
    }

    #[inline]
    fn saturating_sub(self, other: Self) -> Self {
        Self::saturating_sub(self, other)
    }

    #[inline]
    fn saturating_mul(self, other: Self) -> Self {
        Self::saturating_mul(self, other)
    }

    #[inline]
    fn compare_products(a: Self, p: i64, b: Self, q: i64) -> Ordering {
        (i128::from(a) * i128::from(p)).cmp(&(i128::from(b) * i128::from(q)))
    }

    #[inline]
    fn share(self, part: i64, whole: i64) -> Self {
        Self::try_from(i128::from(self) * i128::from(part) / i128::from(whole)).unwrap_or(self)
    }
}

impl Value for i128 {
    const LARGEST: Self = 1 << 104;
    const FORBIDDEN: Self = 1 << 107;
    const MAX: Self = Self::MAX;
    const HIGHEST_PRICE: Self = 1 << 118;

    fn of(wide: i128) -> Option<Self> {
        Some(wide)
    }

    fn wide(self) -> i128 {
        self
    }

    #[expect(clippy::cast_precision_loss, reason = "what follows from it is approximate, and judged exactly")]
    fn real(self) -> f64 {
        self as f64
    }

    #[expect(clippy::cast_possible_truncation, reason = "any price is as right as another")]
    fn rounded(real: f64) -> Self {
        real.round() as Self
    }

    fn saturating_add(self, other: Self) -> Self {
        Self::saturating_add(self, other)
    }

    fn saturating_sub(self, other: Self) -> Self {
        Self::saturating_sub(self, other)
    }

    fn saturating_mul(self, other: Self) -> Self {
        Self::saturating_mul(self, other)
    }

    fn compare_products(a: Self, p: i64, b: Self, q: i64) -> Ordering {
        // Each product as a high and a low part of 53 bits.
        let product = |a: Self, p: i64| {
            let (high, low) = (a >> NEED_BITS, a & ((1 << NEED_BITS) - 1));
            let low = low * Self::from(p);
            (high * Self::from(p) + (low >> NEED_BITS), low & ((1 << NEED_BITS) - 1))
        };
        product(a, p).cmp(&product(b, q))
    }

    fn share(self, part: i64, whole: i64) -> Self {
        let (part, whole) = (Self::from(part), Self::from(whole));
        self / whole * part + self % whole * part / whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_agree() {
        let values = [0, 1, 2, 999, 1 << 20, (1 << 41) + 7, (1 << 42) - 1];
        let needs = [1, 2, 3, 17, 1 << 13, (1 << 20) - 1];
        let wide = i128::from;
        let all = || values.iter().flat_map(|value| needs.map(|need| (*value, need)));
        for (a, p) in all() {
            for (b, q) in all() {
                assert_eq!(
                    i64::compare_products(a, p, b, q),
                    i128::compare_products(wide(a), p, wide(b), q),
                    "{a} × {p}, {b} × {q}"
                );
                assert_eq!(wide(a.share(p.min(q), q)), wide(a).share(p.min(q), q), "{p} of {q} of {a}");
            }
        }
    }

    #[test]
    fn products_that_pass_128_bits_are_compared() {
        let (large, need) = (i128::LARGEST, (1 << NEED_BITS) - 1);
        assert_eq!(i128::compare_products(large, need, large, need - 1), Ordering::Greater);
        assert_eq!(i128::compare_products(large - 1, need, large, need), Ordering::Less);
        assert_eq!(i128::compare_products(large, need, large, need), Ordering::Equal);
        assert_eq!(large.share(need, need), large);
        assert_eq!(large.share(need - 1, need), large - large / i128::from(need) - 1);
    }
}
