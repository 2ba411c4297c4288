//! The current time.

use control::Moment;
use crds::MicroTime;
use jiff::Timestamp;

/// Now, in the unit of `control`.
pub fn moment() -> Moment {
    Timestamp::now().as_duration().try_into().unwrap_or_default()
}

/// A time as the API server keeps it, in microseconds.
pub fn micro_time(at: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at))
}
