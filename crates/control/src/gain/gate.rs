//! Whether measured load justifies moves: the gains of a plan in the windows that were measured.

/// Deviations above the mean of the windows before, from which a gain is a change rather than noise.
const CHANGE_DEVIATIONS: f64 = 5.0;
/// Windows before the newest two that this is judged by, at least.
const WINDOWS_BEFORE_CHANGE: usize = 6;
/// Windows before the newest two that this is judged by, at most: older ones may be from before an earlier change.
const MOST_WINDOWS_BEFORE_CHANGE: usize = 8;
/// Windows between these and the newest two: the load may have changed within one.
const MIXED_WINDOWS: usize = 1;
/// Standard errors below the mean gain that must not be a loss.
const STEADY_ERRORS: f64 = 3.0;
/// Windows that a steady gain is judged by, at least.
const STEADY_WINDOWS: usize = 8;
/// Windows whose mean are the facts of a change.
pub const CHANGE_WINDOWS: usize = 2;

/// The facts that a plan for measured load is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum GateRule {
    /// The mean of the newest [`CHANGE_WINDOWS`]: the load changed.
    Change,
    /// The mean of all windows: a gain that does not go away.
    Steady,
}

/// What the gate says of the moves of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateVerdict {
    /// The moves pay; the expected gain.
    Pays {
        /// The rule that they pass.
        rule: GateRule,
        /// Mean gain in the windows of the rule.
        gain: f64,
    },
    /// The mean gain is below the least.
    Small {
        /// Mean gain in the windows of the rule.
        gain: f64,
        /// What it must be: the least gain of the policy and the cost of the moves in time.
        least: f64,
    },
    /// The windows disagree too much.
    Uncertain {
        /// Mean gain in the windows of the rule.
        gain: f64,
    },
    /// There are too few windows for the rule.
    FewWindows {
        /// Settled windows.
        windows: usize,
        /// Settled windows that the rule needs.
        needed: usize,
    },
}

impl GateRule {
    /// The settled windows that it needs.
    pub fn needed(self) -> usize {
        match self {
            Self::Change => WINDOWS_BEFORE_CHANGE + MIXED_WINDOWS + CHANGE_WINDOWS,
            Self::Steady => STEADY_WINDOWS,
        }
    }

    /// Judges the gains in single windows, oldest first, each computed on the facts of that window alone.
    ///
    /// *Change*: both newest gains reach `least` and are five standard deviations above the mean of six to eight windows before,
    /// without the last of them, in which the load may have changed.
    /// *Steady*: the mean gain reaches `least`, and three standard errors below it is no loss.
    pub fn judge(self, gains: &[f64], least: f64) -> GateVerdict {
        let needed = self.needed();
        let newest = match self {
            Self::Change => CHANGE_WINDOWS,
            Self::Steady => gains.len(),
        };
        if gains.len() < needed {
            return GateVerdict::FewWindows { windows: gains.len(), needed };
        }
        let (before, newest) = gains.split_at(gains.len() - newest);
        let gain = mean(newest);
        if gain < least {
            return GateVerdict::Small { gain, least };
        }
        let is_certain = match self {
            Self::Change => {
                let before = &before[..before.len() - MIXED_WINDOWS];
                let before = &before[before.len().saturating_sub(MOST_WINDOWS_BEFORE_CHANGE)..];
                let from = least.max(mean(before) + CHANGE_DEVIATIONS * deviation(before));
                newest.iter().all(|gain| *gain >= from)
            }
            Self::Steady => gain - STEADY_ERRORS * standard_error(newest) >= 0.0,
        };
        if is_certain { GateVerdict::Pays { rule: self, gain } } else { GateVerdict::Uncertain { gain } }
    }
}

/// The least gain of moves that stop actors for a while, as a fraction: the policy's, and the work lost in the pauses.
///
/// `pauses` are the pause of each mover in seconds and its part of the application's work; `seconds` is the time in which the
/// moves must pay.
pub fn least_with_pauses(least: f64, pauses: impl IntoIterator<Item = (f64, f64)>, seconds: f64) -> f64 {
    let lost: f64 = pauses.into_iter().map(|(pause, part)| pause * part).sum();
    least + lost / seconds
}

#[expect(clippy::cast_precision_loss, reason = "windows are few")]
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

/// Standard deviation of a sample; 0 for fewer than two numbers.
#[expect(clippy::cast_precision_loss, reason = "windows are few")]
fn deviation(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let mean = mean(numbers);
    // Not `powi`, whose last bit depends on the platform.
    let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
    (squares / (numbers.len() as f64 - 1.0)).sqrt()
}

/// Standard error of the mean; 0 for fewer than two numbers.
#[expect(clippy::cast_precision_loss, reason = "windows are few")]
pub(crate) fn standard_error(numbers: &[f64]) -> f64 {
    deviation(numbers) / (numbers.len().max(1) as f64).sqrt()
}
