//! The current time.

use control::Moment;
use jiff::Timestamp;

/// Now, in the unit of `control`.
pub fn moment() -> Moment {
    Timestamp::now().as_duration().try_into().unwrap_or_default()
}
