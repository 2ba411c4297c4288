//! Compares several strategies in one simulation over several seeds.

use std::fmt::Write as _;

use super::setting::{Failure, Setting};
use crate::best_static::in_parallel;
use crate::config::{Config, Counters};
use crate::mean::mean;
use crate::oracle::{Hint, OracleResult, foresee};
use crate::planner::{SnapshotModel, WorkMeasure, levels};
use crate::platform::Platform;
use crate::run::{Case, Change, Report, allowed};
use crate::simulation;
use crate::strategies::{NONE, gate_planner, planner};
use crate::trace::{Kind, Trace};

/// A strategy and its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// Name in tables.
    pub label: &'static str,
    /// The strategy.
    pub strategy: &'static str,
    /// Its model of the simulation, and how its answers are applied.
    pub input: InputModel,
    /// Effort per plan.
    pub effort: Option<u64>,
}

/// The snapshot model that a strategy receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputModel {
    /// Work of the busiest unit including its messages; a plan must gain 2 %.
    Busiest,
    /// The same; moves are judged in every window as the operator judges those for measured load.
    EveryWindow,
    /// The same; every improvement is applied.
    Ungated,
    /// Time, default levels; every improvement is applied.
    Levels,
    /// The same with capacity for half an actor more per unit, the best setting for METIS and annealing.
    Roomy,
    /// Time, with overload and messages as one level; every improvement is applied.
    Time,
    /// Time, default levels ordered by the counters.
    Adaptive,
    /// Tasks, as in the paper.
    Paper,
    /// The same, with adaptive levels.
    PaperAdaptive,
    /// As in the authors' program: the mean task count for every actor, rates since the start, and levels ordered by
    /// relevance.
    Authors,
}

impl InputModel {
    fn facts(self, config: &Config) -> SnapshotModel {
        let gamma = config.gamma.clone();
        let measure = match self {
            Self::Busiest | Self::EveryWindow | Self::Ungated => return SnapshotModel::busiest(gamma),
            Self::Time => return SnapshotModel::in_time(gamma),
            Self::Levels | Self::Adaptive => WorkMeasure::Time,
            Self::Roomy => WorkMeasure::Roomy,
            Self::Paper | Self::PaperAdaptive => WorkMeasure::Tasks,
            Self::Authors => WorkMeasure::Mean,
        };
        let adaptive = matches!(self, Self::Adaptive | Self::PaperAdaptive | Self::Authors);
        let counters = (self == Self::Authors).then_some(Counters::Cumulative);
        SnapshotModel { measure, gamma, objectives: levels(adaptive), counters, ..SnapshotModel::default() }
    }

    fn least_gain(self) -> Option<f64> {
        (self == Self::Busiest).then_some(LEAST_GAIN)
    }
}

/// Minimum gain of a plan of `asp`, also the largest acceptable loss of a decision.
const LEAST_GAIN: f64 = 0.02;

/// Effort per plan: about a second for 64 actors; the authors' limit is five.
const EFFORT: u64 = 500;

const fn ours(label: &'static str, input: InputModel) -> Contestant {
    Contestant { label, strategy: "asp", input, effort: Some(EFFORT) }
}

const fn other(strategy: &'static str) -> Contestant {
    Contestant { label: strategy, strategy, input: InputModel::Roomy, effort: None }
}

/// All contestants; ours is the first.
pub const ALL: &[Contestant] = &[
    ours("asp", InputModel::Busiest),
    ours("asp without gate", InputModel::Ungated),
    ours("asp, objective in time", InputModel::Time),
    ours("asp, plain objective", InputModel::Levels),
    ours("asp, plain objective, slack", InputModel::Roomy),
    ours("asp, adaptive", InputModel::Adaptive),
    ours("asp on the paper's inputs", InputModel::Paper),
    ours("asp on the paper's inputs, adaptive", InputModel::PaperAdaptive),
    ours("authors' objective", InputModel::Authors),
    other("metis"),
    other("metis-apolike"),
    other("metis-apolike-published"),
    other("metis-capacities"),
    other("metis-homogeneous"),
    other("annealing-next-state"),
    other("annealing-standard"),
    other("round-robin"),
    other("random"),
    Contestant { label: "static start", ..other(NONE) },
];

/// The operator's planning for measured load.
pub const OPERATOR: Contestant = ours("the operator's gate for measured load", InputModel::EveryWindow);

/// The contestants whose changes the results compare with staying.
const OURS: [&str; 4] = ["asp", "asp without gate", "asp, objective in time", "asp, plain objective"];

/// A simulation in which strategies compete.
pub struct Contest {
    /// Its configuration.
    pub config: Config,
    /// Its numeric form.
    pub platform: Platform,
    /// The trace, by seed.
    pub trace: Trace,
    /// Maximum number of windows.
    pub windows: Option<u64>,
    start: Vec<usize>,
    allowed: Vec<Vec<usize>>,
}

/// Runs of one contestant.
pub struct ContestantRuns {
    /// The contestant.
    pub label: &'static str,
    /// By seed.
    pub reports: Vec<Report>,
}

impl Contest {
    /// From the text of a configuration and a generated trace.
    ///
    /// # Errors
    /// The configuration does not match the trace.
    pub fn new(config: &str, kind: Kind, windows: Option<u64>) -> Result<Self, Failure> {
        let (config, platform) =
            Config::parse(config).map_err(|(field, problem)| format!("{field}: {problem}"))?;
        let trace = Trace::collect(kind.rows()?)?;
        let allowed = allowed(&config, &platform, trace.actors())?;
        let start = simulation::start(&config.start, &allowed, &platform)?;
        Ok(Self { config, platform, trace, windows, start, allowed })
    }

    fn case<'a>(&'a self, start: &'a [usize], windows: Option<u64>) -> Case<'a> {
        Case {
            config: &self.config,
            platform: &self.platform,
            trace: &self.trace,
            start,
            allowed: &self.allowed,
            windows,
            compared: true,
        }
    }

    /// The runs of all contestants, with seeds from 1.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn compete(
        &self,
        setting: &Setting,
        contestants: &[Contestant],
    ) -> Result<Vec<ContestantRuns>, Failure> {
        let seeds = usize::try_from(setting.seeds)?;
        let runs = in_parallel(contestants.len() * seeds, &|done, all| setting.report(done, all), &|job| {
            let (contestant, seed) = (&contestants[job / seeds], (job % seeds + 1) as u64);
            self.one(contestant, seed).map_err(|failure| format!("{}: {failure}", contestant.label))
        })?;
        let mut runs = runs.into_iter();
        Ok(contestants
            .iter()
            .map(|contestant| ContestantRuns {
                label: contestant.label,
                reports: runs.by_ref().take(seeds).collect(),
            })
            .collect())
    }

    fn one(&self, contestant: &Contestant, seed: u64) -> Result<Report, Failure> {
        let (input, strategy) = (contestant.input, contestant.strategy);
        let case = self.case(&self.start, self.windows);
        if input == InputModel::EveryWindow {
            let mut planner = gate_planner(strategy, input.facts(&self.config), contestant.effort, seed)?;
            return Ok(case.run(Some(&mut planner), &mut |_| {})?);
        }
        let mut planner =
            planner(strategy, input.facts(&self.config), contestant.effort, seed, input.least_gain())?;
        Ok(case.run(planner.as_deref_mut().map(|planner| planner as _), &mut |_| {})?)
    }

    /// The best static assignment that hill climbing finds, by the mean of the first `windows`: single moves and swaps,
    /// started from the final assignment of each run in `from`.
    ///
    /// # Errors
    /// A simulation that cannot continue.
    pub fn best_static_found(
        &self,
        from: &[ContestantRuns],
        windows: Option<u64>,
    ) -> Result<(Vec<usize>, f64), Failure> {
        let worth = |start: &[usize]| -> Result<f64, Failure> {
            Ok(self.case(start, windows).run(None, &mut |_| {})?.mean.unwrap_or(0.0))
        };
        let mut starts: Vec<&Vec<usize>> =
            from.iter().filter_map(|result| Some(&result.reports.first()?.assignment)).collect();
        starts.sort();
        starts.dedup();
        let mut best = (self.start.clone(), worth(&self.start)?);
        for start in starts {
            let value = worth(start)?;
            if value > best.1 {
                best = (start.clone(), value);
            }
        }
        loop {
            let neighbours = self.neighbours(&best.0);
            let values = in_parallel(neighbours.len(), &|_, _| {}, &|number| worth(&neighbours[number]))?;
            let first = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b]).then(b.cmp(a)));
            match first {
                Some(first) if values[first] > best.1 => best = (neighbours[first].clone(), values[first]),
                _ => return Ok(best),
            }
        }
    }

    /// By contestant: mean throughput, over its runs, in the first `windows` of a simulation that starts from the final
    /// assignment.
    ///
    /// # Errors
    /// A simulation that cannot continue.
    pub fn from_the_start(
        &self,
        results: &[ContestantRuns],
        windows: Option<u64>,
    ) -> Result<Vec<f64>, Failure> {
        let worth = |report: &Report| -> Result<f64, Failure> {
            Ok(self.case(&report.assignment, windows).run(None, &mut |_| {})?.mean.unwrap_or(0.0))
        };
        let of = |result: &ContestantRuns| -> Result<f64, Failure> {
            let each = result.reports.iter().map(worth).collect::<Result<Vec<f64>, _>>()?;
            Ok(interval(&each).0)
        };
        results.iter().map(of).collect()
    }

    /// Number of windows before the first decision takes effect.
    pub fn before(&self) -> usize {
        usize::try_from(self.config.replan_every_windows).unwrap_or(usize::MAX)
    }

    /// Upper bound on the throughput of any sequence of assignments, in tasks per millisecond: all units busy, all messages
    /// local, no rollbacks. Each task sends one message, as in traces.
    pub fn most(&self) -> f64 {
        let rate = |unit: usize| 1.0 / (self.platform.task[unit] + self.platform.latency[unit][unit]);
        (0..self.platform.units()).map(rate).sum()
    }

    /// An oracle that decides at the same times, with the contestants' final assignments as hints.
    ///
    /// # Errors
    /// A simulation that cannot continue.
    pub fn foreseen(&self, hints: &[Hint]) -> Result<OracleResult, Failure> {
        Ok(foresee(&Case { compared: false, ..self.case(&self.start, self.windows) }, hints)?)
    }

    fn neighbours(&self, of: &[usize]) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        for actor in 0..of.len() {
            for &unit in self.allowed[actor].iter().filter(|unit| **unit != of[actor]) {
                let mut moved = of.to_vec();
                moved[actor] = unit;
                found.push(moved);
            }
            for other in (0..actor).filter(|other| of[*other] != of[actor]) {
                if self.allowed[actor].contains(&of[other]) && self.allowed[other].contains(&of[actor]) {
                    let mut swapped = of.to_vec();
                    swapped.swap(actor, other);
                    found.push(swapped);
                }
            }
        }
        found
    }
}

/// The mean and the half-width of its 95 % interval (normal approximation); half-width 0 for one number.
pub fn interval(numbers: &[f64]) -> (f64, f64) {
    let centre = mean(numbers).unwrap_or(0.0);
    if numbers.len() < 2 {
        return (centre, 0.0);
    }
    #[expect(clippy::cast_precision_loss, reason = "few numbers")]
    let count = numbers.len() as f64;
    let variance = numbers.iter().map(|number| (number - centre).powi(2)).sum::<f64>() / (count - 1.0);
    (centre, 1.96 * (variance / count).sqrt())
}

/// A measure of a run.
pub type ReportMeasure<'a> = &'a dyn Fn(&Report) -> f64;

/// Throughput of the last complete window.
pub fn last(report: &Report) -> f64 {
    report.windows.last().map_or(0.0, |window| window.throughput)
}

/// Mean throughput of the run.
pub fn overall(report: &Report) -> f64 {
    report.mean.unwrap_or(0.0)
}

/// A Markdown table: contestant, its value and the mean of all windows relative to `reference` with intervals, migrations,
/// and the worst change compared with staying. `added` is an extra column: its title, and a number by contestant.
pub fn table(
    results: &[ContestantRuns],
    reference: f64,
    what: &str,
    of: ReportMeasure,
    added: Option<(&str, &[f64])>,
) -> String {
    let (title, line) = added.map_or_else(Default::default, |(title, _)| (format!(" {title} |"), "---:|"));
    let mut text = format!(
        "| strategy | ratio | {what}, tasks/ms | ratio, whole run | mean, whole run | moves | worst change |{title}\n\
         |---|---:|---:|---:|---:|---:|---:|{line}\n"
    );
    for (number, result) in results.iter().enumerate() {
        let each = |of: ReportMeasure| interval(&result.reports.iter().map(of).collect::<Vec<f64>>());
        let ((centre, half), (all, of_all), (moves, _)) = (each(of), each(&overall), each(&moves));
        let changes = result.reports.iter().flat_map(|report| &report.changes).map(percent);
        let worst =
            changes.min_by(f64::total_cmp).map_or_else(|| "–".to_owned(), |worst| format!("{worst:+.1} %"));
        let more = added.map_or_else(String::new, |(_, of)| format!(" {:.3} |", of[number]));
        writeln!(
            text,
            "| {} | {:.3} | {centre:.2} ± {half:.2} | {:.3} | {all:.2} ± {of_all:.2} | {moves:.1} | {worst} |{more}",
            result.label,
            centre / reference,
            all / reference,
        )
        .expect("writing to a string succeeds");
    }
    text
}

fn moves(report: &Report) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let moves = report.windows.iter().map(|window| window.moves).sum::<u64>() as f64;
    moves
}

/// Means of staying and of moving over their common windows: one of the traces may end earlier.
fn means(change: &Change) -> (f64, f64) {
    let both = change.went.len().min(change.stayed.len());
    let of = |windows: &[f64]| mean(&windows[..both]).unwrap_or(0.0);
    (of(&change.stayed), of(&change.went))
}

/// Gain of a change over staying, in per cent.
fn percent(change: &Change) -> f64 {
    let (stayed, went) = means(change);
    if stayed > 0.0 { (went / stayed - 1.0) * 100.0 } else { 0.0 }
}

/// The mean over windows, and each window.
fn each_window(mean: f64, windows: &[f64]) -> String {
    let each: Vec<String> = windows.iter().map(|window| format!("{window:.1}")).collect();
    format!("{mean:.2} ({})", each.join(" "))
}

/// Changes that lose more than this against staying are listed, in per cent.
const LOSS: f64 = 2.0;

/// Compares every change with staying until the next decision: the number of changes, and those that lost more than 2 %
/// with the planner's observation.
pub fn losses(results: &[ContestantRuns]) -> String {
    let mut text = String::from(
        "\nRe-planning against staying, from the same state until the next decision:\n\n\
         | strategy | re-plannings | mean gain | losses above 2 % |\n|---|---:|---:|---:|\n",
    );
    let mut listed = String::new();
    for result in results.iter().filter(|result| OURS.contains(&result.label)) {
        let seeds = result.reports.iter().zip(1..);
        let changes: Vec<(u64, &Change)> = seeds
            .flat_map(|(report, seed)| report.changes.iter().map(move |change| (seed, change)))
            .collect();
        let gains: Vec<f64> = changes.iter().map(|(_, change)| percent(change)).collect();
        let lost = changes.iter().filter(|(_, change)| percent(change) < -LOSS);
        let (count, gain) = (lost.clone().count(), interval(&gains).0);
        writeln!(text, "| {} | {} | {gain:+.1} % | {count} |", result.label, changes.len())
            .expect("writing to a string succeeds");
        for (seed, change) in lost {
            let known = change.known.as_ref().map_or_else(String::new, |known| {
                let (gain, half) = (known.gain.expected * 100.0, known.gain.margin * 100.0);
                format!("{gain:+.1} ± {half:.1} % | {:?} → {:?}", known.stay, known.go)
            });
            let (stayed, went) = means(change);
            writeln!(
                listed,
                "| {} | {seed} | {} | {} | {} | {:+.1} % | {} | {known} |",
                result.label,
                change.after,
                each_window(stayed, &change.stayed),
                each_window(went, &change.went),
                percent(change),
                change.moves
            )
            .expect("writing to a string succeeds");
        }
    }
    if !listed.is_empty() {
        text.push_str(
            "\n| strategy | seed | after window | staying, tasks/ms (by window) | re-planned | change | moves | expected gain \
             | objective |\n|---|---:|---:|---:|---:|---:|---:|---|---|\n",
        );
        text.push_str(&listed);
    }
    text
}
