//! An oracle: decides at the same times as a planner, with the trace before it, by running what would come of it.

use crate::mean::mean;
use crate::planner::{Observed, Planner, PlannerError, Proposal};
use crate::run::{Case, Report, RunError};
use crate::world::{World, WorldError};

/// More decision sequences than this are not all tried.
pub const MOST: usize = 5_000;

/// Times that neighbours of the best assignment are gone through at each decision.
const SWEEPS: usize = 2;

/// With more actors than this the neighbours are too many.
const MOST_CLIMBED: usize = 16;

/// An assignment that an oracle looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    /// After which window alone, where only then.
    pub after: Option<u64>,
    /// The unit of each actor.
    pub assignment: Vec<usize>,
}

/// What an oracle decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreseen {
    /// Its run; moves are charged as the configuration says, planning is not.
    pub report: Report,
    /// Whether no sequence of decisions is better: all were tried. Otherwise it is a lower bound of that.
    pub exact: bool,
}

/// The best that decisions at the end of every `replanEveryWindows`-th window can do, with foresight.
///
/// A world's state depends on everything that was decided before, so that there is nothing to share between sequences:
/// where there are at most [`MOST`], all are tried. Otherwise each decision is the best that single moves and exchanges
/// find, from what runs and from `hints`, judged by what comes until the second next decision; with more than 16 actors, the best of
/// the hints. That is a bound from below.
///
/// # Errors
/// When a world cannot go on.
pub fn foresee(case: &Case, hints: &[Hint]) -> Result<Foreseen, RunError> {
    let schedule = match exact(case)? {
        Some(schedule) => (schedule, true),
        None => (climb(case, hints)?, false),
    };
    let mut script = Script { schedule: schedule.0.into_iter() };
    let uncharged = crate::config::Config { charge_planning: false, ..case.config.clone() };
    let report = Case { config: &uncharged, ..*case }.run(Some(&mut script), &mut |_| {})?;
    Ok(Foreseen { report, exact: schedule.1 })
}

/// Decides what it was told beforehand.
struct Script {
    schedule: std::vec::IntoIter<Vec<usize>>,
}

impl Planner for Script {
    fn plan(&mut self, _: &Observed) -> Result<Option<Proposal>, PlannerError> {
        Ok(self.schedule.next().map(|assignment| Proposal { assignment, known: None }))
    }
}

/// A world at a decision.
#[derive(Clone)]
struct State<'a> {
    world: World<'a>,
    /// Windows that may still come.
    left: u64,
    /// The sum of throughputs so far, and of how many windows.
    sum: (f64, u64),
    at: Vec<usize>,
}

impl<'a> State<'a> {
    fn start(case: &Case<'a>) -> Result<Self, WorldError> {
        let world = World::new(case.config.world, case.platform, case.trace, case.start);
        let left = case.windows.unwrap_or(u64::MAX);
        let mut state = Self { world, left, sum: (0.0, 0), at: case.start.to_vec() };
        state.go_on(case.config.replan_every_windows)?;
        Ok(state)
    }

    /// Goes on for so many windows; less than 1 came where the trace ends.
    fn go_on(&mut self, windows: u64) -> Result<bool, WorldError> {
        let values = self.world.throughputs(windows.min(self.left))?;
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
            self.world.reassign(assignment, 0.0);
            self.at = assignment.to_vec();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are few")]
    fn mean(&self) -> f64 {
        self.sum.0 / (self.sum.1 as f64).max(1.0)
    }
}

/// The best sequence of all; `None` where there are too many.
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
    let state = State::start(case)?;
    Ok(Some(best_of(case, &state, &all)?.1))
}

/// The best mean throughput from here, and the decisions that lead to it; staying comes first among equals.
fn best_of(case: &Case, state: &State, all: &[Vec<usize>]) -> Result<(f64, Vec<Vec<usize>>), WorldError> {
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

/// One decision after the other, each by single moves and exchanges.
fn climb(case: &Case, hints: &[Hint]) -> Result<Vec<Vec<usize>>, RunError> {
    let every = case.config.replan_every_windows;
    let mut state = State::start(case)?;
    let mut schedule = Vec::new();
    let sweeps = if case.start.len() > MOST_CLIMBED { 0 } else { SWEEPS };
    while state.left > 0 {
        let now = (schedule.len() as u64 + 1) * every;
        let worth = |assignment: &[usize]| -> Result<f64, WorldError> {
            let mut world = state.world.clone();
            if assignment != state.at {
                world.reassign(assignment, 0.0);
            }
            Ok(mean(&world.throughputs((2 * every).min(state.left))?).unwrap_or(0.0))
        };
        let mut best = (worth(&state.at)?, state.at.clone());
        let better = |best: &mut (f64, Vec<usize>), other: &[usize]| -> Result<bool, WorldError> {
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

/// A small change of an assignment.
enum Change {
    Move(usize, usize),
    Swap(usize, usize),
}

impl Change {
    /// Whether it changes something that may be.
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

fn changes(allowed: &[Vec<usize>]) -> impl Iterator<Item = Change> {
    let moves = allowed.iter().enumerate();
    let moves = moves.flat_map(|(actor, of)| of.iter().map(move |unit| Change::Move(actor, *unit)));
    let pairs = (0..allowed.len()).flat_map(|a| (0..a).map(move |b| Change::Swap(a, b)));
    moves.chain(pairs)
}
