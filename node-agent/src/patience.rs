//! Retry intervals of probes.

use std::time::Duration;

/// The probing interval: device changes are published within 5 s.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The maximum retry interval of hwloc and OpenCL; it starts at 2 s and doubles.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_mins(2);

/// The backoff after a number of consecutive failures of hwloc or OpenCL.
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
