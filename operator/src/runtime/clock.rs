//! The current time.
//!
//! Intervals, such as backoffs, are measured by [`moment`], which a wall clock that is set back or forward does not change. Times
//! written to objects for others to read are `Timestamp::now()`.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use control::Moment;
use crds::MicroTime;
use jiff::Timestamp;

/// Smaller differences from the wall clock are ignored, as both are read one after the other.
const TOLERANCE: Duration = Duration::from_secs(2);

/// When the process started, by both clocks.
static START: OnceLock<(Moment, Instant)> = OnceLock::new();

/// Now, in the unit of `control`: the wall clock at the start of the process, and the time that has passed since.
pub fn moment() -> Moment {
    let (wall, at) = START.get_or_init(|| (wall_clock(), Instant::now()));
    *wall + at.elapsed()
}

/// The same as a timestamp.
pub fn steady_now() -> Timestamp {
    let since = jiff::SignedDuration::try_from(moment()).unwrap_or(jiff::SignedDuration::MAX);
    Timestamp::from_duration(since).unwrap_or(Timestamp::MAX)
}

/// A time that was written to an object, on the scale of [`moment`].
pub fn from_wall_clock(written: Moment) -> Moment {
    shifted(written, wall_clock(), moment())
}

/// A time on the scale of [`moment`], as it is written to objects.
pub fn to_wall_clock(at: Moment) -> Moment {
    shifted(at, moment(), wall_clock())
}

fn wall_clock() -> Moment {
    Timestamp::now().as_duration().try_into().unwrap_or_default()
}

/// A time by one clock, on the scale of another; `from` and `to` are the present time by both.
///
/// Their difference is rounded to seconds, so that a time is converted to the same one whenever it is asked.
fn shifted(time: Moment, from: Moment, to: Moment) -> Moment {
    let apart = from.abs_diff(to);
    if apart < TOLERANCE {
        return time;
    }
    let apart = Duration::from_secs((apart + Duration::from_millis(500)).as_secs());
    if to > from { time.saturating_add(apart) } else { time.saturating_sub(apart) }
}

/// A time as the API server keeps it, in microseconds.
pub fn micro_time(at: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_others_keep_their_distance_when_the_wall_clock_jumps() {
        let at = Duration::from_secs;
        for (written, wall, steady, expected) in [
            (100, 160, 160, 100),
            (100, 160, 161, 100),
            // The wall clock was set back by an hour, and forward.
            (100, 160, 3760, 3700),
            (7200, 7260, 3660, 3600),
            (100, 7200, 10, 0),
        ] {
            assert_eq!(shifted(at(written), at(wall), at(steady)), at(expected), "{written} {wall} {steady}");
        }
        // The clocks are read one after the other.
        let later = at(3760) + Duration::from_micros(7);
        assert_eq!(shifted(at(100), at(160), later), at(3700));
    }

    #[test]
    fn the_clock_starts_at_the_wall_clock_and_never_goes_back() {
        let before = moment();
        assert!(before.abs_diff(wall_clock()) < Duration::from_hours(1), "{before:?}");
        assert!(moment() >= before);
    }
}
