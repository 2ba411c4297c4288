//! The correctly rounded mean.

/// The mean of finite numbers, rounded once: partial sums keep the rounding error of each addition (Shewchuk, 1997).
///
/// `None` for an empty slice.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    let mut partials: Vec<f64> = Vec::new();
    for &number in numbers {
        let mut carried = number;
        let mut kept = 0;
        for at in 0..partials.len() {
            let (mut large, mut small) = (carried, partials[at]);
            if large.abs() < small.abs() {
                (large, small) = (small, large);
            }
            let sum = large + small;
            let lost = small - (sum - large);
            if lost != 0.0 {
                partials[kept] = lost;
                kept += 1;
            }
            carried = sum;
        }
        partials.truncate(kept);
        partials.push(carried);
    }
    // The partials are non-overlapping and ascending. Summed from the largest down, the sum is exact up to the first
    // rounding, which is final except for a tie that the next partial decides.
    let mut sum = partials.pop()?;
    while let Some(next) = partials.pop() {
        let before = sum;
        sum = before + next;
        let lost = next - (sum - before);
        if lost != 0.0 {
            let same_side = partials.last().is_some_and(|below| (*below > 0.0) == (lost > 0.0));
            let doubled = lost * 2.0;
            let moved = sum + doubled;
            #[expect(clippy::float_cmp, reason = "whether it was exactly half a unit in the last place")]
            if same_side && doubled == moved - sum {
                sum = moved;
            }
            break;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 numbers")]
    let count = numbers.len() as f64;
    Some(sum / count)
}

#[cfg(test)]
mod tests {
    use super::mean;

    #[test]
    fn the_mean_is_rounded_once() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[0.1; 10]), Some(0.1));
        assert_eq!(mean(&[1e16, 1.0, -1e16, 3.0]), Some(1.0));
        assert_eq!(mean(&[82.2, 82.3]), Some(82.25));
    }
}
