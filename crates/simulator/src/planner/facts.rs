//! From counters to a snapshot: what the planner is told of a world.

use std::collections::BTreeMap;

use placement::file::{
    Actor, CapScope, Constraint, Drag, ExchangeCost, Levels, Message, Node, PairCost, RunsOn, SnapshotFile,
    Unit, VERSION,
};
use placement::{Snapshot, SnapshotError};

use super::observed::Observed;
use crate::config::Counters;
use crate::gamma::Gamma;

/// What work is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Microseconds of a unit: an actor's committed tasks times what one was measured to take on the kind. The demand of a trace has no bound, so each unit's capacity is its share of the work at perfect balance, and one per cent.
    #[default]
    Time,
    /// Tasks, as the authors of the APO paper do: those that ran, and 1.01 times what the unit ran as its capacity.
    Tasks,
}

/// How a world becomes a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What work is measured in.
    pub measure: Measure,
    /// The weights of what gets in the way.
    pub gamma: Gamma,
    /// The levels that plans are compared by.
    pub objectives: Levels,
}

/// One per cent above the share at perfect balance.
const SLACK: f64 = 1.01;

impl Facts {
    /// The snapshot of what was observed; rates are per window.
    ///
    /// # Errors
    /// When the numbers are too large for a snapshot.
    pub fn snapshot(&self, observed: &Observed) -> Result<Snapshot, SnapshotError> {
        let (config, platform) = (observed.config, observed.platform);
        let mut file = SnapshotFile {
            version: VERSION,
            application: Some("sim/trace".to_owned()),
            window_microseconds: Some(whole(platform.window * 1000.0)),
            objectives: self.objectives.clone(),
            ..SnapshotFile::default()
        };
        let mut nodes: Vec<&String> = platform.node.iter().collect();
        nodes.sort();
        nodes.dedup();
        file.nodes = nodes.into_iter().map(|id| Node { id: id.clone(), ..Node::default() }).collect();
        let (capacity, work) = match self.measure {
            Measure::Time => time(observed),
            Measure::Tasks => tasks(observed),
        };
        file.units = (0..platform.units()).map(|unit| unit_of(observed, unit, capacity[unit])).collect();
        file.actors = work.iter().enumerate().map(|(actor, work)| actor_of(observed, actor, work)).collect();
        file.exchange_cost = exchange_cost(observed);
        self.add_pairs(observed, &mut file);
        if let Some(max) = config.power_cap {
            file.constraints.push(Constraint::PowerCap { on: CapScope::All, max, reason: None });
        }
        Snapshot::new(file)
    }

    /// Messages and annoyance per window.
    fn add_pairs(&self, observed: &Observed, file: &mut SnapshotFile) {
        let (config, platform) = (observed.config, observed.platform);
        let counted = match config.counters {
            Counters::Window => observed.period,
            Counters::Cumulative => observed.total,
        };
        let windows = match config.counters {
            Counters::Window => counted.milliseconds / platform.window,
            // The authors do not divide: sums grow with the run.
            Counters::Cumulative => 1.0,
        };
        let actors = observed.assignment.len();
        for at in 0..actors {
            for from in (0..actors).filter(|from| *from != at) {
                let count = whole(f64::from(counted.messages.get(at, from)) / windows);
                if count > 0 {
                    file.messages.push(Message { from: name(from), to: name(at), count });
                }
                // A rollback loses the time of undoing one, a null message that of a message at factor 1.
                let lost = [
                    f64::from(counted.late.get(at, from)) * platform.undo,
                    f64::from(counted.nulls.get(at, from)) * config.communication_milliseconds,
                    f64::from(counted.waited.get(at, from)) / 1000.0,
                ];
                let drag = whole(self.gamma.annoyance(lost, config.task_milliseconds) / windows);
                if drag > 0 {
                    file.annoyance.push(Drag { a: name(at), b: name(from), drag });
                }
            }
        }
    }
}

/// The id of an actor in snapshots.
fn name(actor: usize) -> String {
    format!("sim/trace/a-{actor}")
}

/// Rounded to the nearest whole number, not below 0.
fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; checked by the snapshot"
    )]
    let number = number.round().max(0.0) as u64;
    number
}

fn unit_of(observed: &Observed, unit: usize, capacity: f64) -> Unit {
    let platform = observed.platform;
    let (full, idle) = platform.watts[unit];
    let watts = |watts: f64| Some(whole(watts)).filter(|watts| *watts > 0);
    Unit {
        id: platform.labels[unit].clone(),
        kind: platform.kinds[unit].clone(),
        node: platform.node[unit].clone(),
        numa: platform.numa[unit].clone(),
        capacity: whole(capacity.floor()).max(1),
        power_watts: watts(full),
        idle_watts: watts(idle),
        ..Unit::default()
    }
}

/// An actor that needs so much of each unit; units of a kind are alike.
fn actor_of(observed: &Observed, actor: usize, work: &[f64]) -> Actor {
    let platform = observed.platform;
    let runs_on: BTreeMap<String, RunsOn> = observed.allowed[actor]
        .iter()
        .map(|&unit| (platform.kinds[unit].clone(), RunsOn { work: whole(work[unit]), ..RunsOn::default() }))
        .collect();
    Actor {
        id: name(actor),
        runs_on,
        move_cost: move_cost(observed),
        current: Some(platform.labels[observed.assignment[actor]].clone()),
        ..Actor::default()
    }
}

/// What a move costs, in the currency of communication: the time that the actor runs nowhere, in messages, shared among
/// the windows until the next plan.
fn move_cost(observed: &Observed) -> u64 {
    let config = observed.config;
    if config.migration_milliseconds <= 0.0 || config.communication_milliseconds <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let windows = config.replan_every_windows as f64;
    let messages = config.migration_milliseconds / config.communication_milliseconds / windows;
    whole(messages * scale(observed)).max(1)
}

/// By what factors are multiplied to be whole numbers.
fn scale(observed: &Observed) -> f64 {
    let factors = || {
        let rows = observed.platform.factor.iter().enumerate();
        rows.flat_map(|(a, row)| row.iter().enumerate().filter(move |(b, _)| a != *b).map(|(_, f)| *f))
    };
    let fits = |scale: f64| factors().all(|factor| (factor * scale - (factor * scale).round()).abs() < 1e-9);
    [1.0, 2.0, 10.0].into_iter().find(|scale| fits(*scale)).unwrap_or(100.0)
}

/// Factors between kinds, and between units where their places make a difference.
fn exchange_cost(observed: &Observed) -> ExchangeCost {
    let (platform, config) = (observed.platform, observed.config);
    let scale = scale(observed);
    let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (a, row) in &config.exchange_factors {
        for (b, factor) in row {
            kinds.entry(a.clone()).or_default().insert(b.clone(), whole(factor * scale));
        }
    }
    let mut pairs = Vec::new();
    let by_place = config.other_node_factor > 0.0 || config.other_numa_factor > 0.0;
    for a in (0..platform.units()).filter(|_| by_place) {
        for b in 0..a {
            let (to, of) = (platform.labels[a].clone(), platform.labels[b].clone());
            pairs.push(PairCost { a: of, b: to, cost: whole(platform.factor[a][b] * scale) });
        }
    }
    ExchangeCost { kinds, pairs, ..ExchangeCost::default() }
}

/// Capacities by unit, and by actor its work on each unit.
type Work = (Vec<f64>, Vec<Vec<f64>>);

/// Milliseconds that a task takes on a unit, with what it sends and undoes: as measured on the units of its kind, and where none
/// worked, its own time and a message within the unit.
fn service(observed: &Observed, unit: usize) -> f64 {
    let (platform, period) = (observed.platform, observed.period);
    let alike = (0..platform.units()).filter(|other| platform.kinds[*other] == platform.kinds[unit]);
    let (busy, ran) = alike
        .fold((0.0, 0), |(busy, ran), other| (busy + period.busy[other], ran + period.executed_on[other]));
    if ran == 0 {
        return platform.task[unit] + platform.latency[unit][unit];
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let ran = ran as f64;
    busy / ran
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn time(observed: &Observed) -> Work {
    let platform = observed.platform;
    let period = observed.period;
    let windows = period.milliseconds / platform.window;
    let finished = if period.committed > 0 { &period.committed_by } else { &period.executed };
    let tasks: Vec<f64> = finished.iter().map(|tasks| *tasks as f64 / windows).collect();
    let each: Vec<f64> = (0..platform.units()).map(|unit| service(observed, unit) * 1000.0).collect();
    let together: f64 = each.iter().map(|each| 1.0 / each).sum();
    let share = tasks.iter().sum::<f64>() / together;
    // Actors are not divisible: half of one more than the share is no overload.
    let half = tasks.iter().sum::<f64>() / tasks.len().max(1) as f64 / 2.0;
    let capacity = each.iter().map(|each| share * SLACK + half * each).collect();
    let work = tasks.iter().map(|tasks| each.iter().map(|each| tasks * each).collect()).collect();
    (capacity, work)
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn tasks(observed: &Observed) -> Work {
    let platform = observed.platform;
    let period = observed.period;
    let ran: Vec<f64> = period.executed_on.iter().map(|tasks| *tasks as f64).collect();
    let busy: Vec<usize> = (0..platform.units()).filter(|unit| ran[*unit] > 0.0).collect();
    let at_speed_1: f64 = busy.iter().map(|unit| ran[*unit] / platform.speed[*unit]).sum();
    let baseline = at_speed_1 / busy.len().max(1) as f64;
    let capacity = (0..platform.units())
        .map(|unit| if ran[unit] > 0.0 { ran[unit] * SLACK } else { baseline * platform.speed[unit] });
    let work = period.executed.iter().map(|tasks| vec![*tasks as f64; platform.units()]);
    (capacity.collect(), work.collect())
}

/// The levels that plans are compared by: the usual ones, or ordered by their relevance in what was counted.
pub fn levels(adaptive: bool) -> Levels {
    if adaptive { Levels::Adaptive } else { Levels::default() }
}
