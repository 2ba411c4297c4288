//! An oracle that knows the trace: at each planning time it simulates its candidate decisions and keeps the best.

use crate::mean::mean;
use crate::planner::{Observed, Planner, PlannerError, Proposal};
use crate::run::{Case, Report, RunError};
use crate::simulation::{Simulation, SimulationError};

/// Upper limit on the number of decision sequences for exhaustive search.
pub const MOST: usize = 5_000;

/// Passes of local search per decision.
const SWEEPS: usize = 2;

/// With more actors than this, neighbourhoods are too large for local search.
const MOST_CLIMBED: usize = 16;

/// A candidate assignment for the oracle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    /// If set, the candidate applies after this window only.
    pub after: Option<u64>,
    /// The unit of each actor.
    pub assignment: Vec<usize>,
}

/// The oracle's result.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleResult {
    /// The run; migrations are charged as configured, planning is not.
    pub report: Report,
    /// Whether the search was exhaustive, so that the result is optimal; otherwise it is a lower bound of the optimum.
    pub exact: bool,
}

/// The best mean throughput that decisions after every `replanEveryWindows`-th window reach, with perfect foresight.
///
/// The state of a simulation depends on all earlier decisions, so sequences share no work. Up to [`MOST`] sequences
/// are searched exhaustively. Beyond that each decision is a local optimum of single moves and swaps, started from the
/// running assignment and from `hints`, and judged up to the second next decision. With more than 16 actors it is the
/// best hint. Both are lower bounds.
///
/// # Errors
/// A simulation that cannot continue.
pub fn foresee(case: &Case, hints: &[Hint]) -> Result<OracleResult, RunError> {
    let schedule = match exact(case)? {
        Some(schedule) => (schedule, true),
        None => (climb(case, hints)?, false),
    };
    let mut script = ScriptedPlanner { schedule: schedule.0.into_iter() };
    let uncharged = crate::config::Config { charge_planning: false, ..case.config.clone() };
    let report = Case { config: &uncharged, ..*case }.run(Some(&mut script), &mut |_| {})?;
    Ok(OracleResult { report, exact: schedule.1 })
}

/// A planner that replays a fixed sequence of decisions.
struct ScriptedPlanner {
    schedule: std::vec::IntoIter<Vec<usize>>,
}

impl Planner for ScriptedPlanner {
    fn plan(&mut self, _: &Observed) -> Result<Option<Proposal>, PlannerError> {
        Ok(self.schedule.next().map(|assignment| Proposal { assignment, known: None }))
    }
}

/// A simulation at a decision point.
#[derive(Clone)]
struct DecisionPoint<'a> {
    simulation: Simulation<'a>,
    /// Windows left to run.
    left: u64,
    /// Sum of throughputs so far, and the number of windows in it.
    sum: (f64, u64),
    at: Vec<usize>,
}

impl<'a> DecisionPoint<'a> {
    fn start(case: &Case<'a>) -> Result<Self, SimulationError> {
        let simulation = Simulation::new(case.config.world, case.platform, case.trace, case.start);
        let left = case.windows.unwrap_or(u64::MAX);
        let mut state = Self { simulation, left, sum: (0.0, 0), at: case.start.to_vec() };
        state.go_on(case.config.replan_every_windows)?;
        Ok(state)
    }

    /// Runs up to this many windows; returns fewer if the trace ends.
    fn go_on(&mut self, windows: u64) -> Result<bool, SimulationError> {
        let values = self.simulation.throughputs(windows.min(self.left))?;
        self.sum = (self.sum.0 + values.iter().sum::<f64>(), self.sum.1 + values.len() as u64);
        self.left -= values.len() as u64;
        let all = values.len() as u64 == windows;
        if !all {
            self.left = 0;
        }
        Ok(all && self.left > 0)
    }

    fn order(&mut self, assignment: &[usize]) {
        if self.at != assignment {
            self.simulation.reassign(assignment, 0.0);
            self.at = assignment.to_vec();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are few")]
    fn mean(&self) -> f64 {
        self.sum.0 / (self.sum.1 as f64).max(1.0)
    }
}

/// The best of all sequences; `None` if there are too many.
fn exact(case: &Case) -> Result<Option<Vec<Vec<usize>>>, RunError> {
    let Some(windows) = case.windows else { return Ok(None) };
    let decisions = windows.saturating_sub(1) / case.config.replan_every_windows;
    let many =
        case.allowed.iter().try_fold(1_usize, |all, of| all.checked_mul(of.len()).filter(|all| *all <= MOST));
    let sequences = many.and_then(|many| many.checked_pow(u32::try_from(decisions).ok()?));
    if sequences.is_none_or(|sequences| sequences > MOST) {
        return Ok(None);
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for of in case.allowed {
        all =
            all.iter().flat_map(|start| of.iter().map(move |unit| [&start[..], &[*unit]].concat())).collect();
    }
    let state = DecisionPoint::start(case)?;
    Ok(Some(best_of(case, &state, &all)?.1))
}

/// The best mean throughput from here and the decisions that reach it; staying wins ties.
fn best_of(
    case: &Case,
    state: &DecisionPoint,
    all: &[Vec<usize>],
) -> Result<(f64, Vec<Vec<usize>>), SimulationError> {
    let mut best = (state.mean(), Vec::new());
    if state.left == 0 {
        return Ok(best);
    }
    best.0 = f64::NEG_INFINITY;
    for assignment in std::iter::once(&state.at).chain(all.iter().filter(|other| **other != state.at)) {
        let mut next = state.clone();
        next.order(assignment);
        let goes_on = next.go_on(case.config.replan_every_windows)?;
        let (value, later) = if goes_on { best_of(case, &next, all)? } else { (next.mean(), Vec::new()) };
        if value > best.0 {
            best = (value, [vec![assignment.clone()], later].concat());
        }
    }
    Ok(best)
}

/// Greedy search: one decision after the other, each by local search with single moves and swaps.
fn climb(case: &Case, hints: &[Hint]) -> Result<Vec<Vec<usize>>, RunError> {
    let every = case.config.replan_every_windows;
    let mut state = DecisionPoint::start(case)?;
    let mut schedule = Vec::new();
    let sweeps = if case.start.len() > MOST_CLIMBED { 0 } else { SWEEPS };
    while state.left > 0 {
        let now = (schedule.len() as u64 + 1) * every;
        let worth = |assignment: &[usize]| -> Result<f64, SimulationError> {
            let mut simulation = state.simulation.clone();
            if assignment != state.at {
                simulation.reassign(assignment, 0.0);
            }
            Ok(mean(&simulation.throughputs((2 * every).min(state.left))?).unwrap_or(0.0))
        };
        let mut best = (worth(&state.at)?, state.at.clone());
        let better = |best: &mut (f64, Vec<usize>), other: &[usize]| -> Result<bool, SimulationError> {
            let value = worth(other)?;
            let is_better = value > best.0;
            if is_better {
                *best = (value, other.to_vec());
            }
            Ok(is_better)
        };
        for hint in hints.iter().filter(|hint| hint.after.is_none_or(|after| after == now)) {
            better(&mut best, &hint.assignment)?;
        }
        for _ in 0..sweeps {
            let mut improved = false;
            for change in changes(case.allowed) {
                let mut other = best.1.clone();
                if change.apply(&mut other, case.allowed) {
                    improved |= better(&mut best, &other)?;
                }
            }
            if !improved {
                break;
            }
        }
        state.order(&best.1);
        schedule.push(best.1);
        if !state.go_on(every)? {
            break;
        }
    }
    Ok(schedule)
}

/// A move or swap in the neighbourhood of an assignment.
enum LocalMove {
    Move(usize, usize),
    Swap(usize, usize),
}

impl LocalMove {
    /// Whether the move changes the assignment and is feasible.
    fn apply(&self, assignment: &mut [usize], allowed: &[Vec<usize>]) -> bool {
        match *self {
            Self::Move(actor, unit) => std::mem::replace(&mut assignment[actor], unit) != unit,
            Self::Swap(a, b) => {
                assignment.swap(a, b);
                assignment[a] != assignment[b]
                    && allowed[a].contains(&assignment[a])
                    && allowed[b].contains(&assignment[b])
            }
        }
    }
}

fn changes(allowed: &[Vec<usize>]) -> impl Iterator<Item = LocalMove> {
    let moves = allowed.iter().enumerate();
    let moves = moves.flat_map(|(actor, of)| of.iter().map(move |unit| LocalMove::Move(actor, *unit)));
    let pairs = (0..allowed.len()).flat_map(|a| (0..a).map(move |b| LocalMove::Swap(a, b)));
    moves.chain(pairs)
}
