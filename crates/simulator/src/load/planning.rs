//! The operator's planning for measured load, and simpler ways to compare it with.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{
    CHANGE_WINDOWS, ElectiveMoves, GateRule, GateVerdict, LastLoadSearch, LoadJudgement, LoadSignal,
    LoadTerms, due_load_rule, judge_moves,
};
use counters::{MeasuredLoad, WindowChoice};
use placement::{Assignment, Budget, NoPolicy, PlanError, Snapshot, SnapshotError, plan};
use portfolio::{Limits, Purpose, UnknownStrategy};

use super::application::MeasuredApplication;
use super::world::{LoadWorld, WINDOW_SECONDS};

/// Effort of a search: eight actors on three units are solved to optimality.
const EFFORT: u64 = 200;
/// The default policy's terms.
pub const TERMS: LoadTerms = LoadTerms {
    least: 0.1,
    max_moves: 8,
    pause_seconds: 10.0,
    pauses: BTreeMap::new(),
    horizon_seconds: 10.0 * WINDOW_SECONDS,
};

/// Why nothing can be decided.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The numbers form no snapshot.
    #[error("the measured numbers form no valid snapshot")]
    Snapshot(#[from] SnapshotError),
    /// There is no plan.
    #[error("there is no plan for the measured load")]
    Plan(#[from] PlanError),
    /// The default strategy is not known.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
}

/// Which moves are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionRule {
    /// The operator's: a search when the load differs, and the gate.
    Gate,
    /// Without the rule for changes.
    SteadyAlone,
    /// Without the rule for steady gains.
    ChangeAlone,
    /// Both rules, but the mean gain alone decides.
    MeanGain,
    /// Both rules in every window, whether the load differs or not.
    EveryWindow,
    /// The facts are those of the last window; its gain must reach the least gain.
    LastWindow,
    /// The APO paper's way: the facts are those of the last window, and every improvement is made.
    Paper,
}

/// All rules with their names in tables.
pub const RULES: [(DecisionRule, &str); 7] = [
    (DecisionRule::Gate, "the operator's"),
    (DecisionRule::ChangeAlone, "no steady rule"),
    (DecisionRule::SteadyAlone, "no change rule"),
    (DecisionRule::MeanGain, "the mean gain alone decides"),
    (DecisionRule::EveryWindow, "both rules judged in every window"),
    (DecisionRule::LastWindow, "at least 10 % in the last window"),
    (DecisionRule::Paper, "the APO paper's: last window, no gate"),
];

/// Planning of one application by a rule.
#[derive(Clone, Debug)]
pub struct LoadPlanning {
    rule: DecisionRule,
    last: Option<LastSearch>,
}

/// The last search.
#[derive(Clone, Debug)]
struct LastSearch {
    /// The load that the present one is compared with.
    facts: MeasuredLoad,
    search: LastLoadSearch,
    /// The places that the last search for a steady gain was made for.
    places: Vec<Option<usize>>,
}

impl LoadPlanning {
    /// Planning by this rule.
    pub fn new(rule: DecisionRule) -> Self {
        Self { rule, last: None }
    }

    /// The moves that would be made after so many windows, and their gain; `None` if nothing would move.
    ///
    /// # Errors
    /// No snapshot or plan can be made.
    pub fn decide(
        &mut self,
        world: &LoadWorld,
        application: &MeasuredApplication,
        current: &[Option<usize>],
        window: usize,
    ) -> Result<Option<(ElectiveMoves, f64)>, LoadError> {
        match self.rule {
            DecisionRule::LastWindow | DecisionRule::Paper => {
                let snapshot = application.snapshot(world, WindowChoice::Newest(1), current)?;
                let least = if self.rule == DecisionRule::Paper { 0.0 } else { TERMS.least };
                let terms = LoadTerms { least, ..TERMS };
                let moves = ElectiveMoves::of_plan(&snapshot, &planned(&snapshot)?, &terms);
                let gains = moves.map(|moves| {
                    let gain = moves.gain(&snapshot);
                    (moves, gain)
                });
                Ok(gains.filter(|(_, gain)| *gain > 0.0 && *gain >= least))
            }
            DecisionRule::EveryWindow => {
                for rule in [GateRule::Change, GateRule::Steady] {
                    if application.windows.usable_windows() >= rule.needed() {
                        let judged = judge(rule, world, application, current)?;
                        if let Some((moves, gain)) = judged.pays() {
                            return Ok(Some((moves.clone(), gain)));
                        }
                    }
                }
                Ok(None)
            }
            _ => self.decide_if_due(world, application, current, window),
        }
    }

    fn decide_if_due(
        &mut self,
        world: &LoadWorld,
        application: &MeasuredApplication,
        current: &[Option<usize>],
        window: usize,
    ) -> Result<Option<(ElectiveMoves, f64)>, LoadError> {
        let windows = &application.windows;
        let seconds = u32::try_from(window).map_or(f64::MAX, f64::from) * WINDOW_SECONDS;
        let now = Duration::from_secs_f64(seconds);
        let settled = windows.usable_windows();
        let signal = match &self.last {
            None => LoadSignal { windows: settled, ..LoadSignal::default() },
            Some(last) => {
                let difference = last.facts.difference(&windows.load(WindowChoice::All));
                LoadSignal {
                    windows: settled,
                    has_changed: self.rule != DecisionRule::SteadyAlone && windows.has_changed(&last.facts),
                    mean_difference: difference.messages.max(difference.work),
                    // As in the operator. Nothing is freed in these worlds, and no others use the units.
                    has_opportunity: last.places != current,
                }
            }
        };
        let last = self.last.as_ref().map(|last| last.search);
        let Some(rule) = due_load_rule(last, signal, now) else { return Ok(None) };
        let is_left_out = match self.rule {
            DecisionRule::ChangeAlone => rule == GateRule::Steady,
            DecisionRule::SteadyAlone => rule == GateRule::Change,
            _ => false,
        };
        let judged =
            if is_left_out { LoadJudgement::NoGain } else { judge(rule, world, application, current)? };
        let search = LastLoadSearch::after(last, now, signal, judged.verdict());
        let last = self.last.take();
        let places = match &last {
            // The rule for changes ignores steady gains.
            Some(last) if rule == GateRule::Change => last.places.clone(),
            _ => current.to_vec(),
        };
        let facts = match last {
            Some(last) if search.is_repeated() => last.facts,
            _ => windows.load(choice(rule)),
        };
        self.last = Some(LastSearch { facts, search, places });
        Ok(match (self.rule, &judged) {
            (
                DecisionRule::MeanGain,
                LoadJudgement::Judged { moves, verdict: GateVerdict::Uncertain { gain } },
            ) => Some((moves.clone(), *gain)),
            _ => judged.pays().map(|(moves, gain)| (moves.clone(), gain)),
        })
    }
}

fn choice(rule: GateRule) -> WindowChoice {
    match rule {
        GateRule::Change => WindowChoice::Newest(CHANGE_WINDOWS),
        GateRule::Steady => WindowChoice::All,
    }
}

fn judge(
    rule: GateRule,
    world: &LoadWorld,
    application: &MeasuredApplication,
    current: &[Option<usize>],
) -> Result<LoadJudgement, LoadError> {
    let snapshot = application.snapshot(world, choice(rule), current)?;
    let goes = planned(&snapshot)?;
    let windows = application.windows.usable_windows();
    let of_window = |at| application.snapshot(world, WindowChoice::One(at), current);
    Ok(judge_moves(rule, (&snapshot, &goes), &TERMS, windows, of_window)?)
}

/// The plan of the default strategy.
///
/// # Errors
/// The strategy fails.
pub fn planned(snapshot: &Snapshot) -> Result<Assignment, LoadError> {
    let entry = portfolio::strategy("asp", Purpose::Production)?;
    let strategy = entry.make(Limits::default());
    Ok(plan(snapshot, &*strategy, &NoPolicy, &Budget::effort(Some(EFFORT), 1))?.assignment)
}
