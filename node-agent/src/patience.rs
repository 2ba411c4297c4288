//! When what failed is asked again.

use std::time::Duration;

/// How often the machine is looked at: a device that comes or goes is published within 5 s.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How rarely hwloc or OpenCL is asked, at most, when it fails again and again: from 2 s on twice as long each time.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_mins(2);

/// How long after its last failure in a row of so many hwloc, or OpenCL, is asked again.
pub fn patience(failures: u32) -> Duration {
    LOOK_EVERY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LOOK_AT_LEAST_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_two_minutes() {
        let waits = (0..=9).map(|failures| patience(failures).as_secs());
        assert_eq!(waits.collect::<Vec<_>>(), [2, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    }
}
