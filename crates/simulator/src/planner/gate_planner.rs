//! The operator's planning for measured load in a simulation: moves that surely pay, judged in every window.

use std::collections::BTreeMap;

use control::{CHANGE_WINDOWS, GateRule, LoadTerms, judge_moves};
use placement::{Budget, NoPolicy, Snapshot, Strategy, plan};

use super::observed::{Observed, Planner, PlannerError, Proposal};
use super::snapshot_model::SnapshotModel;
use super::strategy_planner::complete;
use crate::config::Config;
use crate::simulation::PeriodCounters;

/// Windows that are judged at most, as in the operator.
const WINDOWS: usize = 16;
/// The default policy's least gain.
const LEAST: f64 = 0.1;
/// Most moves of a decision, as in the default policy.
const MAX_MOVES: usize = 8;
/// Windows in which pauses must pay, as in the default policy.
const HORIZON_WINDOWS: f64 = 10.0;
/// Windows after a decision that are not settled: the moves are in the first one.
const UNSETTLED: u64 = 1;

/// A planner that decides like the operator for measured load.
pub struct GatePlanner {
    strategy: Box<dyn Strategy>,
    facts: SnapshotModel,
    effort: Option<u64>,
    seed: u64,
    /// The first settled window since the last decision, counted from 0.
    settled_from: u64,
}

impl GatePlanner {
    /// Plans with `strategy` on the snapshot that `facts` builds; reproducible by `effort` per plan and `seed`.
    pub fn new(strategy: Box<dyn Strategy>, facts: SnapshotModel, effort: Option<u64>, seed: u64) -> Self {
        Self { strategy, facts, effort, seed, settled_from: 0 }
    }

    /// The snapshot of the mean of these windows.
    fn snapshot(&self, observed: &Observed, windows: &[PeriodCounters]) -> Result<Snapshot, PlannerError> {
        let Some((first, others)) = windows.split_first() else {
            return Ok(self.facts.snapshot(observed)?);
        };
        let mut period = first.clone();
        for window in others {
            period.absorb(window);
        }
        Ok(self.facts.snapshot(&Observed { period: &period, total: &period, ..*observed })?)
    }

    /// The moves that pay by this rule.
    fn judge(
        &self,
        rule: GateRule,
        observed: &Observed,
        settled: &[PeriodCounters],
    ) -> Result<Option<Proposal>, PlannerError> {
        if settled.len() < rule.needed() {
            return Ok(None);
        }
        let facts = match rule {
            GateRule::Change => &settled[settled.len() - CHANGE_WINDOWS..],
            GateRule::Steady => settled,
        };
        let snapshot = self.snapshot(observed, facts)?;
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(observed.windows);
        let budget = Budget::effort(self.effort, seed);
        let goes = plan(&snapshot, self.strategy.as_ref(), &NoPolicy, &budget)?;
        let window_seconds = observed.config.window_milliseconds / 1000.0;
        let terms = LoadTerms {
            least: LEAST,
            max_moves: MAX_MOVES,
            pauses: BTreeMap::new(),
            pause_seconds: observed.config.migration_milliseconds / 1000.0,
            horizon_seconds: HORIZON_WINDOWS * window_seconds,
        };
        let newest_first = |at: usize| {
            let window = settled.len() - 1 - at;
            self.snapshot(observed, &settled[window..=window])
        };
        let judged = judge_moves(rule, (&snapshot, &goes.assignment), &terms, settled.len(), newest_first)?;
        let pays = judged.pays().and_then(|(moves, _)| complete(&moves.goes));
        Ok(pays.map(|assignment| Proposal { assignment, known: None }))
    }
}

impl Planner for GatePlanner {
    fn plan(&mut self, observed: &Observed) -> Result<Option<Proposal>, PlannerError> {
        let since = usize::try_from(observed.windows.saturating_sub(self.settled_from)).unwrap_or(usize::MAX);
        let settled = &observed.recent[observed.recent.len().saturating_sub(since.min(WINDOWS))..];
        for rule in [GateRule::Change, GateRule::Steady] {
            if let Some(moves) = self.judge(rule, observed, settled)? {
                self.settled_from = observed.windows + UNSETTLED;
                return Ok(Some(moves));
            }
        }
        Ok(None)
    }

    fn period(&self, _: &Config) -> u64 {
        1
    }

    fn remembered(&self, _: &Config) -> usize {
        WINDOWS
    }
}
