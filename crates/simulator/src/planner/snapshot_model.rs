//! Builds the planner's snapshot from simulation counters.

use std::collections::BTreeMap;

use counters::Gamma;
use num_rational::Ratio;
use placement::file::{
    Actor, CapScope, Constraint, Drag, ExchangeCost, Levels, Message, Node, PairCost, RunsOn, SnapshotFile,
    Unit, VERSION,
};
use placement::{Criterion, Snapshot, SnapshotError};

use super::observed::Observed;
use super::work;
use crate::config::Counters;

/// Unit of measurement for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkMeasure {
    /// Tenths of a microsecond of unit time ([`work::time`]).
    #[default]
    Time,
    /// The same with capacity for half an actor more per unit, as actors are indivisible.
    Roomy,
    /// Executed tasks, with 1.01 times the tasks of the unit as its capacity (APO paper).
    Tasks,
    /// The same as approximated in the authors' program: every actor counts as the mean of all.
    Mean,
    /// Tenths of a microsecond of unit time as if all messages were local ([`work::alone`]).
    Alone,
}

/// Cost of a message between two units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageCost {
    /// The configured factors, as in the APO paper.
    #[default]
    Factors,
    /// Half of its duration, divided by the number of units, in the units of [`WorkMeasure::Time`]: added to overload, it
    /// extends the busiest unit's work. Half, since a task's measured time includes the sender's share.
    Time,
    /// Its extra duration over a message within a unit, in the units of [`WorkMeasure::Alone`].
    Longer,
}

/// Parameters for building a snapshot from counters.
#[derive(Clone, Debug, Default)]
pub struct SnapshotModel {
    /// Unit of measurement for work.
    pub measure: WorkMeasure,
    /// Cost of messages.
    pub exchange: MessageCost,
    /// Annoyance weights.
    pub gamma: Gamma,
    /// Objective levels of plans.
    pub objectives: Levels,
    /// Time span of message and annoyance rates, if different from the configuration.
    pub counters: Option<Counters>,
}

impl SnapshotModel {
    /// Overload and message time as one level, in the same unit; then annoyance.
    pub fn in_time(gamma: Gamma) -> Self {
        use Criterion::{Annoyance, Communication, Migration, Overload};
        let objectives = Levels::InOrder(vec![vec![Overload, Communication, Migration], vec![Annoyance]]);
        Self { exchange: MessageCost::Time, gamma, objectives, ..Self::default() }
    }

    /// Work of the busiest unit including its messages; then the difference to the least loaded unit, which runs ahead;
    /// then annoyance, then all messages.
    pub fn busiest(gamma: Gamma) -> Self {
        use Criterion::{Annoyance, Busiest, Communication, Migration, Overload};
        let objectives = Levels::InOrder(vec![
            vec![Busiest],
            vec![Overload],
            vec![Annoyance],
            vec![Communication, Migration],
        ]);
        Self {
            measure: WorkMeasure::Alone,
            exchange: MessageCost::Longer,
            gamma,
            objectives,
            ..Self::default()
        }
    }
}

impl SnapshotModel {
    /// The snapshot of an observation; rates are per window.
    ///
    /// # Errors
    /// The numbers exceed the range of a snapshot.
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
            WorkMeasure::Time => work::time(observed, 0.0),
            WorkMeasure::Roomy => work::time(observed, 0.5),
            WorkMeasure::Tasks => work::tasks(observed),
            WorkMeasure::Mean => work::mean_tasks(observed),
            WorkMeasure::Alone => work::alone(observed),
        };
        file.units = (0..platform.units()).map(|unit| unit_of(observed, unit, capacity[unit])).collect();
        file.actors =
            work.iter().enumerate().map(|(actor, work)| self.actor_of(observed, actor, work)).collect();
        file.exchange_cost = self.exchange_cost(observed);
        self.add_pairs(observed, &mut file);
        if let Some(max) = config.power_cap {
            file.constraints.push(Constraint::PowerCap { on: CapScope::All, max, reason: None });
        }
        Snapshot::new(file)
    }

    /// Messages and annoyance per window.
    fn add_pairs(&self, observed: &Observed, file: &mut SnapshotFile) {
        let (config, platform) = (observed.config, observed.platform);
        let counters = self.counters.unwrap_or(config.counters);
        let counted = match counters {
            Counters::Window => observed.period,
            Counters::Cumulative => observed.total,
        };
        // The authors' program does not divide: its sums grow with the run.
        let (length, window) = match counters {
            Counters::Window => (counted.milliseconds, platform.window),
            Counters::Cumulative => (1.0, 1.0),
        };
        let windows = length / window;
        let exact = |milliseconds| i128::from(nanoseconds(milliseconds).max(1));
        let per_window = Ratio::new(exact(window), exact(length));
        // A rollback loses the duration of one rollback, a null message that of a message at factor 1.
        let (undo, message) = (nanoseconds(platform.undo), nanoseconds(config.communication_milliseconds));
        let task = nanoseconds(config.task_milliseconds);
        let actors = observed.assignment.len();
        let paces =
            if self.exchange == MessageCost::Longer { work::paces(observed) } else { vec![1.0; actors] };
        for at in 0..actors {
            for from in (0..actors).filter(|from| *from != at) {
                let count = whole(f64::from(counted.messages.get(at, from)) / windows * paces[from]);
                if count > 0 {
                    file.messages.push(Message { from: name(from), to: name(at), count });
                }
                let lost = [
                    u64::from(counted.late.get(at, from)).saturating_mul(undo),
                    u64::from(counted.nulls.get(at, from)).saturating_mul(message),
                    u64::from(counted.waited.get(at, from)) * 1000,
                ];
                let drag = (self.gamma.annoyance(lost, task) * per_window).round().to_integer();
                if drag > 0 {
                    let drag = u64::try_from(drag).unwrap_or(u64::MAX);
                    file.annoyance.push(Drag { a: name(at), b: name(from), drag });
                }
            }
        }
    }
}

/// The actor id used in snapshots.
fn name(actor: usize) -> String {
    format!("sim/trace/a-{actor}")
}

/// Milliseconds in whole nanoseconds.
fn nanoseconds(milliseconds: f64) -> u64 {
    whole(milliseconds * 1e6)
}

/// Rounded to the nearest non-negative integer.
fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; checked by the snapshot"
    )]
    let number = number.round().max(0.0) as u64;
    number
}

/// A trace has no arrival rate: a unit that hosts an actor may be busy all the time, if only by running ahead, so its
/// full-load power counts.
fn unit_of(observed: &Observed, unit: usize, capacity: f64) -> Unit {
    let platform = observed.platform;
    let (full, idle) = platform.watts[unit];
    Unit {
        id: platform.labels[unit].clone(),
        kind: platform.kinds[unit].clone(),
        node: platform.node[unit].clone(),
        numa: platform.numa[unit].clone(),
        capacity: whole(capacity.floor()).max(1),
        idle_watts: Some(whole(full + idle)).filter(|watts| *watts > 0),
        ..Unit::default()
    }
}

impl SnapshotModel {
    /// An actor with this work on each unit; units of a kind are equal.
    fn actor_of(&self, observed: &Observed, actor: usize, work: &[f64]) -> Actor {
        let platform = observed.platform;
        let needs = |unit: usize| RunsOn { work: whole(work[unit]), ..RunsOn::default() };
        let units = observed.allowed[actor].iter();
        let runs_on: BTreeMap<String, RunsOn> =
            units.map(|&unit| (platform.kinds[unit].clone(), needs(unit))).collect();
        Actor {
            id: name(actor),
            runs_on,
            move_cost: self.move_cost(observed),
            current: Some(platform.labels[observed.assignment[actor]].clone()),
            ..Actor::default()
        }
    }

    /// Migration cost in the unit of communication cost: the downtime in messages, spread over the windows until the
    /// next plan.
    fn move_cost(&self, observed: &Observed) -> u64 {
        let config = observed.config;
        if config.migration_milliseconds <= 0.0 || config.communication_milliseconds <= 0.0 {
            return 0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let windows = config.replan_every_windows as f64;
        let messages = config.migration_milliseconds / config.communication_milliseconds / windows;
        whole(messages * self.scale(observed)).max(1)
    }

    /// Scale from factors, reduced by `less`, to integer costs.
    fn scale(&self, observed: &Observed) -> f64 {
        let platform = observed.platform;
        if self.exchange == MessageCost::Time {
            #[expect(clippy::cast_precision_loss, reason = "units are few")]
            let units = platform.units() as f64;
            return observed.config.communication_milliseconds * work::PER_MILLISECOND / 2.0 / units;
        }
        if self.exchange == MessageCost::Longer {
            return observed.config.communication_milliseconds * work::PER_MILLISECOND;
        }
        let factors = || {
            let rows = platform.factor.iter().enumerate();
            rows.flat_map(|(a, row)| row.iter().enumerate().filter(move |(b, _)| a != *b).map(|(_, f)| *f))
        };
        let fits =
            |scale: f64| factors().all(|factor| (factor * scale - (factor * scale).round()).abs() < 1e-9);
        [1.0, 2.0, 10.0].into_iter().find(|scale| fits(*scale)).unwrap_or(100.0)
    }

    /// Costs between kinds, and between units where the place matters.
    fn exchange_cost(&self, observed: &Observed) -> ExchangeCost {
        let (platform, config) = (observed.platform, observed.config);
        let scale = self.scale(observed);
        let within = if self.exchange == MessageCost::Longer { config.same_unit_factor } else { 0.0 };
        let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (a, row) in &config.exchange_factors {
            for (b, factor) in row {
                kinds.entry(a.clone()).or_default().insert(b.clone(), whole((factor - within) * scale));
            }
        }
        let mut pairs = Vec::new();
        let by_place = config.other_node_factor > 0.0 || config.other_numa_factor > 0.0;
        for a in (0..platform.units()).filter(|_| by_place) {
            for b in 0..a {
                let (to, of) = (platform.labels[a].clone(), platform.labels[b].clone());
                pairs.push(PairCost { a: of, b: to, cost: whole((platform.factor[a][b] - within) * scale) });
            }
        }
        ExchangeCost { kinds, pairs, ..ExchangeCost::default() }
    }
}

/// Objective levels: the default ones, or ordered by relevance in the counters.
pub fn levels(adaptive: bool) -> Levels {
    if adaptive { Levels::Adaptive } else { Levels::default() }
}
