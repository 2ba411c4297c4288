//! Retry intervals of probes.

use std::time::Duration;

/// The probe interval. Device changes are published within 5 s.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum backoff of hwloc and OpenCL; it starts at 2 s and doubles.
const MAX_BACKOFF: Duration = Duration::from_mins(2);

/// The backoff after a number of consecutive failures of hwloc or OpenCL.
pub fn backoff(failures: u32) -> Duration {
    PROBE_INTERVAL.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_two_minutes() {
        let delays = (0..=9).map(|failures| backoff(failures).as_secs());
        assert_eq!(delays.collect::<Vec<_>>(), [2, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
    }
}
