//! Properties of every strategy, and of plans made with them.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own world should fail at once")]

mod avoid;
mod clock;
mod planning;
mod strategies;

use placement::Strategy;
use search::{Greedy, Local, Random, RoundRobin};

/// Every strategy of this crate.
fn strategies() -> [&'static dyn Strategy; 4] {
    [&Greedy, &Local, &RoundRobin, &Random]
}
