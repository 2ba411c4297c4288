//! A run: a simulation, window by window, with a planner that is called periodically.

use serde::Serialize;

use crate::config::Config;
use crate::mean::mean;
use crate::planner::{GainEstimate, Observed, Planner, PlannerError, Proposal};
use crate::platform::{Distance, Platform};
use crate::simulation::{PeriodCounters, Simulation, SimulationError};
use crate::trace::Trace;

/// Statistics of one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Committed tasks per millisecond.
    pub throughput: f64,
    /// Tasks committed.
    pub committed: u64,
    /// Tasks executed, including those rolled back later.
    pub executed: u64,
    /// Tasks rolled back.
    pub rolled_back: u64,
    /// Committed tasks that were rolled back nevertheless.
    #[serde(skip_serializing_if = "is_zero")]
    pub undone_committed: u64,
    /// Messages sent.
    pub messages: Messages,
    /// Actors that migrated.
    pub moves: u64,
    /// Mean power, in watts.
    #[serde(skip_serializing_if = "is_nothing")]
    pub watts: f64,
}

/// Messages of a window by distance class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// Within a unit.
    pub same_unit: u64,
    /// To another unit of the same kind.
    pub same_kind: u64,
    /// To a unit of another kind.
    pub other_kind: u64,
    /// To another NUMA domain.
    pub other_numa: u64,
    /// To another node.
    pub other_node: u64,
    /// Anti-messages.
    pub anti: u64,
    /// Null messages.
    pub null: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(number: &f64) -> bool {
    *number <= 0.0
}

impl Window {
    fn of(counted: &PeriodCounters, platform: &Platform, hosts: &[usize]) -> Self {
        let sent = |distance: Distance| counted.sent[distance as usize];
        Self {
            throughput: counted.throughput(),
            committed: counted.committed,
            executed: counted.executed.iter().sum(),
            rolled_back: counted.rolled_back,
            undone_committed: counted.undone_committed,
            messages: Messages {
                same_unit: sent(Distance::SameUnit),
                same_kind: sent(Distance::SameKind),
                other_kind: sent(Distance::OtherKind),
                other_numa: sent(Distance::OtherNuma),
                other_node: sent(Distance::OtherNode),
                anti: counted.anti_messages,
                null: counted.null_messages,
            },
            moves: counted.moves,
            watts: watts(counted, platform, hosts),
        }
    }
}

/// Mean power of a window: idle power of the units that host an actor, plus the power of their work.
fn watts(counted: &PeriodCounters, platform: &Platform, hosts: &[usize]) -> f64 {
    let of_unit = |unit: usize| {
        let (full, idle) = platform.watts[unit];
        let busy = counted.busy[unit] / counted.milliseconds;
        busy * full + if hosts.contains(&unit) { idle } else { 0.0 }
    };
    (0..platform.units()).map(of_unit).sum()
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Statistics by window.
    pub windows: Vec<Window>,
    /// The mean of the windows' throughputs, rounded once; absent without a window.
    pub mean: Option<f64>,
    /// The final assignment.
    pub assignment: Vec<usize>,
    /// The windows after which the planner changed the assignment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replanned: Vec<u64>,
    /// The same changes with their counterfactuals, if requested.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// A change of the assignment, compared with staying.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The window before the change.
    pub after: u64,
    /// Throughput of each window until the next decision.
    pub went: Vec<f64>,
    /// The same in a copy of the simulation that keeps the old assignment.
    pub stayed: Vec<f64>,
    /// Number of actors to migrate.
    pub moves: usize,
    /// The new assignment.
    pub to: Vec<usize>,
    /// The estimate that the decision was based on.
    pub known: Option<GainEstimate>,
}

impl Report {
    /// Throughput of each window.
    pub fn throughputs(&self) -> Vec<f64> {
        self.windows.iter().map(|window| window.throughput).collect()
    }
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The simulation cannot continue.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The planner failed.
    #[error("planning failed after window {window}")]
    Planner {
        /// The window before the failed plan.
        window: u64,
        /// The cause.
        #[source]
        source: PlannerError,
    },
    /// The entries together leave an actor without a kind.
    #[error("actors[{entry}].runsOn: the entries leave actor {actor} without a kind; list it in one entry")]
    Nowhere {
        /// Index of the entry.
        entry: usize,
        /// The actor.
        actor: usize,
    },
    /// The configuration names an actor that is not in the trace.
    #[error("actors[{entry}]: actor {actor} does not exist; the trace has {actors}")]
    NoActor {
        /// Index of the entry.
        entry: usize,
        /// The unknown actor.
        actor: usize,
        /// Number of actors in the trace.
        actors: usize,
    },
}

/// The feasible units of each actor, ascending: those of its kinds.
///
/// # Errors
/// The configuration names an actor that is not in the trace, or leaves one without a kind.
pub fn allowed(config: &Config, platform: &Platform, actors: usize) -> Result<Vec<Vec<usize>>, RunError> {
    let mut allowed = vec![(0..platform.units()).collect::<Vec<usize>>(); actors];
    for (entry, of) in config.actors.iter().enumerate() {
        for &actor in &of.actors {
            let units = allowed.get_mut(actor).ok_or(RunError::NoActor { entry, actor, actors })?;
            units.retain(|unit| of.runs_on.contains(&platform.kinds[*unit]));
            if units.is_empty() {
                return Err(RunError::Nowhere { entry, actor });
            }
        }
    }
    Ok(allowed)
}

/// A simulation and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Its numeric form.
    pub platform: &'a Platform,
    /// The trace.
    pub trace: &'a Trace,
    /// The initial assignment.
    pub start: &'a [usize],
    /// By actor: feasible units.
    pub allowed: &'a [Vec<usize>],
    /// Maximum number of windows.
    pub windows: Option<u64>,
    /// Whether every change is compared with staying, in a forked simulation.
    pub compared: bool,
}

impl Case<'_> {
    /// Runs to the end of the trace; `on_window` receives the statistics of every window.
    ///
    /// # Errors
    /// The simulation cannot continue, or the planner fails.
    pub fn run(
        &self,
        mut planner: Option<&mut dyn Planner>,
        on_window: &mut dyn FnMut(&Window),
    ) -> Result<Report, RunError> {
        let (config, platform) = (self.config, self.platform);
        let mut simulation = Simulation::new(config.world, platform, self.trace, self.start);
        let mut period = PeriodCounters::new(self.start.len(), platform.units());
        let mut total = period.clone();
        let mut recent: Vec<PeriodCounters> = Vec::new();
        let mut report = Report {
            windows: Vec::new(),
            mean: None,
            assignment: self.start.to_vec(),
            replanned: Vec::new(),
            changes: Vec::new(),
        };
        let every = planner.as_deref().map_or(config.replan_every_windows, |planner| planner.period(config));
        let remembered = planner.as_deref().map_or(0, |planner| planner.remembered(config));
        let mut number = 0;
        while self.windows.is_none_or(|most| number < most) {
            let Some(counted) = simulation.window()? else { break };
            number += 1;
            period.absorb(counted);
            total.absorb(counted);
            if planner.is_some() {
                recent.push(counted.clone());
            }
            let window = Window::of(counted, platform, &report.assignment);
            on_window(&window);
            report.windows.push(window);
            if !number.is_multiple_of(every) {
                continue;
            }
            if let Some(planner) = planner.as_deref_mut() {
                let observed = Observed {
                    config,
                    platform,
                    allowed: self.allowed,
                    assignment: &report.assignment,
                    windows: number,
                    period: &period,
                    recent: &recent,
                    total: &total,
                };
                let decided = planner.plan(&observed);
                let decided = decided.map_err(|source| RunError::Planner { window: number, source })?;
                if let Some(Proposal { assignment, known }) = decided
                    && assignment != report.assignment
                {
                    if self.compared {
                        let stayed = simulation.clone().throughputs(config.replan_every_windows)?;
                        let moves = assignment.iter().zip(&report.assignment).filter(|(a, b)| a != b).count();
                        report.changes.push(Change {
                            after: number,
                            went: Vec::new(),
                            stayed,
                            moves,
                            to: assignment.clone(),
                            known,
                        });
                    }
                    let delay = if config.charge_planning { config.planning_milliseconds } else { 0.0 };
                    simulation.reassign(&assignment, delay);
                    report.assignment = assignment;
                    report.replanned.push(number);
                }
            }
            period.clear();
            let forgotten = recent.len().saturating_sub(remembered);
            recent.drain(..forgotten);
        }
        report.mean = mean(&report.throughputs());
        let every = usize::try_from(config.replan_every_windows).unwrap_or(usize::MAX);
        for change in &mut report.changes {
            let after = report.windows.iter().skip(usize::try_from(change.after).unwrap_or(usize::MAX));
            change.went = after.take(every).map(|window| window.throughput).collect();
        }
        Ok(report)
    }
}
