//! The policy section `rebalance`: what is done about measured load, and how many actors move at a time.

use std::time::Duration;

use crds::RebalanceMode;
use serde::Deserialize;

use crate::numbers::{duration, floor};

/// Default of [`Rebalance::max_moves`].
const DEFAULT_PER_DECISION: usize = 8;
/// Default of [`Rebalance::cluster`].
const DEFAULT_CLUSTER: usize = 20;
/// Default of [`Rebalance::give_up`].
const DEFAULT_GIVE_UP: &str = "120s";
/// Largest number of moves.
const MOST_MOVES: usize = 64;
/// Largest number of concurrent moves of all applications.
const MOST_CLUSTER_MOVES: usize = 10_000;

/// What is done about measured load, and how many actors move at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// The mode of applications that choose none.
    pub mode: RebalanceMode,
    /// Minimum gain of moves for load, in percent of the scale of the objective level that they improve.
    pub min_gain_percent: u64,
    /// Windows in which the pauses of the movers must pay.
    pub horizon_windows: u64,
    /// Maximum number of moves of one decision for load.
    pub max_moves: usize,
    /// Maximum number of actors of an application that are stopped for a gain at the same time.
    pub at_once: usize,
    /// The same of all applications.
    pub cluster: usize,
    /// How long an eviction may be refused, or an actor may be not ready on its new unit, before the move is withdrawn.
    pub give_up: Duration,
}

impl Rebalance {
    /// Minimum gain as a fraction.
    pub fn min_gain(self) -> f64 {
        percent(self.min_gain_percent)
    }
}

/// Percent as a fraction.
pub(crate) fn percent(percent: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most 100")]
    let percent = percent as f64;
    percent / 100.0
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RebalanceParameters {
    mode: Option<RebalanceMode>,
    least_gain_percent: Option<u64>,
    horizon_windows: Option<u64>,
    moves: Option<MovesParameters>,
    give_up: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct MovesParameters {
    at_once: Option<usize>,
    per_decision: Option<usize>,
    cluster: Option<usize>,
}

impl RebalanceParameters {
    /// The parameters with their defaults; or the invalid field and its problem.
    pub(crate) fn resolve(self) -> Result<Rebalance, (&'static str, String)> {
        let moves = self.moves.unwrap_or_default();
        let give_up = self.give_up.as_deref().unwrap_or(DEFAULT_GIVE_UP);
        let give_up = duration(give_up).map_err(|e| ("rebalance.giveUp", e.to_string()))?;
        let give_up = Duration::from_micros(floor(give_up));
        if give_up < Duration::from_secs(1) || give_up > Duration::from_hours(1) {
            let problem = format!("{}s; must be from 1s to 1h", give_up.as_secs_f64());
            return Err(("rebalance.giveUp", problem));
        }
        Ok(Rebalance {
            mode: self.mode.unwrap_or_default(),
            min_gain_percent: within("rebalance.leastGainPercent", self.least_gain_percent, 10, 100)?,
            horizon_windows: within("rebalance.horizonWindows", self.horizon_windows, 10, 1000)?,
            max_moves: within(
                "rebalance.moves.perDecision",
                moves.per_decision,
                DEFAULT_PER_DECISION,
                MOST_MOVES,
            )?,
            at_once: within("rebalance.moves.atOnce", moves.at_once, 1, MOST_MOVES)?,
            cluster: within("rebalance.moves.cluster", moves.cluster, DEFAULT_CLUSTER, MOST_CLUSTER_MOVES)?,
            give_up,
        })
    }
}

/// A number from 1 to `most`, or its default.
fn within<N>(field: &'static str, given: Option<N>, default: N, most: N) -> Result<N, (&'static str, String)>
where
    N: Copy + PartialOrd + std::fmt::Display + From<u8>,
{
    let number = given.unwrap_or(default);
    if number < N::from(1) || number > most {
        return Err((field, format!("{number}; must be from 1 to {most}")));
    }
    Ok(number)
}
