//! The time of a search while others wait. Pure.

use std::time::Duration;

/// Minimum time of a search.
const MIN_SHARE: Duration = Duration::from_millis(10);

/// The time of one search when more wait than there are slots: together they take half of a search's time plus 10 ms each, at
/// most all of it, and at least 10 ms each. Judging and explaining, which take `post_search`, count as part of it. Later
/// background searches improve the plans.
pub fn share(wall: Duration, waiting: usize, slots: usize, post_search: Duration) -> Duration {
    if waiting <= slots {
        return wall;
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let queue = wall.min((wall / 2).saturating_add(MIN_SHARE.saturating_mul(count(waiting))));
    (queue / count(waiting.div_ceil(slots))).saturating_sub(post_search).max(MIN_SHARE.min(wall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_searches_share_half_the_time_plus_10_ms_each() {
        // Milliseconds of a search and after it; waiting searches, slots; milliseconds of each and of all.
        for (wall, post_search, waiting, slots, each, all) in [
            (2000, 0, 1, 2, 2000, 2000),
            (2000, 300, 2, 2, 2000, 2000),
            (2000, 0, 3, 2, 515, 1030),
            (2000, 0, 10, 2, 220, 1100),
            (2000, 70, 10, 2, 150, 1100),
            (2000, 300, 10, 2, 10, 1550),
            (2000, 0, 100, 2, 40, 2000),
            (2000, 0, 1000, 2, 10, 5000),
            (60_000, 0, 10, 1, 3010, 30_100),
            (5, 0, 10, 1, 5, 50),
        ] {
            let [wall, post_search, each] = [wall, post_search, each].map(Duration::from_millis);
            let share = share(wall, waiting, slots, post_search);
            assert_eq!(share, each, "{wall:?}, {waiting} wait, {slots} search");
            let taken = if waiting > slots { share + post_search } else { share };
            assert_eq!(taken.as_millis() * waiting.div_ceil(slots) as u128, all, "{wall:?}, {waiting} wait");
        }
    }
}
