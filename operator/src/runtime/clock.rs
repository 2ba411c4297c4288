//! What time it is.

use control::Moment;
use jiff::Timestamp;

/// Now, as `control` counts time.
pub fn moment() -> Moment {
    Timestamp::now().as_duration().try_into().unwrap_or_default()
}
