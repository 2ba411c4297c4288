//! Whether moves for a gain paid, and how long an application waits after moves that did not.

use std::time::Duration;

/// Settled windows that moves are judged by.
pub const JUDGED_WINDOWS: usize = 4;
/// An actor is slower than before from this factor of its service time.
const SLOWER: f64 = 1.1;
/// Windows that an application waits after its moves did not pay; doubled each time,
const WAIT_WINDOWS: u32 = 10;
/// up to this.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What was measured before and after moves for a gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RealisedMoves {
    /// The gain that they were decided for, in percent.
    pub expected_percent: i64,
    /// The mean gain of the present places over the places before, in percent.
    pub realised_percent: i64,
    /// Messages per second before, if they were measured.
    pub messages_before: Option<f64>,
    /// Messages per second after.
    pub messages_after: f64,
    /// Whether a mover takes longer for a message than before.
    pub has_slower_mover: bool,
}

/// Whether moves paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealisedGain {
    /// At least half of the expected gain was realised.
    Paid,
    /// Less than half of it.
    Less,
    /// The places before were better.
    Loss,
}

impl RealisedMoves {
    /// Whether the moves paid, where `least` is the policy's least gain as a fraction.
    ///
    /// It is a loss, too, if the movers are slower than before and the application processes fewer messages than it did.
    pub fn gain(&self, least: f64) -> RealisedGain {
        let processes_less =
            self.messages_before.is_some_and(|before| self.messages_after < before * (1.0 - least));
        match () {
            () if self.realised_percent < 0 || self.has_slower_mover && processes_less => RealisedGain::Loss,
            () if 2 * self.realised_percent < self.expected_percent => RealisedGain::Less,
            () => RealisedGain::Paid,
        }
    }
}

/// Whether the application processes more messages per second than before, where `least` is the policy's least gain as a fraction.
pub fn has_grown(before: Option<f64>, after: f64, least: f64) -> bool {
    before.is_some_and(|before| after > before * (1.0 + least))
}

/// Whether an actor takes longer for a message than before its move, from its service times in the same unit of time.
pub fn is_slower(before: f64, now: f64) -> bool {
    now > before * SLOWER
}

/// How long an application waits after so many decisions that did not pay, with windows of this length.
pub fn wait_after_failures(failures: usize, window: Duration) -> Duration {
    match failures.checked_sub(1) {
        Some(doublings) => {
            window.saturating_mul(WAIT_WINDOWS).saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT)
        }
        None => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_messages_than_noise_are_growth() {
        for (before, after, expected) in [
            (Some(600.0), 3000.0, true),
            (Some(600.0), 661.0, true),
            (Some(600.0), 659.0, false),
            (Some(600.0), 100.0, false),
            (None, 3000.0, false),
        ] {
            assert_eq!(has_grown(before, after, 0.1), expected, "{before:?} {after}");
        }
    }

    #[test]
    fn moves_are_judged_by_their_gain_and_by_slower_actors() {
        use RealisedGain::{Less, Loss, Paid};
        for (expected_percent, realised_percent, messages_before, messages_after, has_slower_mover, wanted) in [
            (30, 28, Some(100.0), 130.0, false, Paid),
            (30, 15, Some(100.0), 100.0, false, Paid),
            (30, 14, Some(100.0), 100.0, false, Less),
            (30, -1, Some(100.0), 130.0, false, Loss),
            // A trap: the model promises a gain, but the actor is slower at its new place.
            (30, 28, Some(100.0), 89.0, true, Loss),
            (30, 28, Some(100.0), 91.0, true, Paid),
            // Fewer messages are processed, but not because of the moved actors.
            (30, 28, Some(100.0), 50.0, false, Paid),
            (30, 28, None, 0.0, true, Paid),
        ] {
            let moves = RealisedMoves {
                expected_percent,
                realised_percent,
                messages_before,
                messages_after,
                has_slower_mover,
            };
            assert_eq!(moves.gain(0.1), wanted, "{moves:?}");
        }
    }
}
