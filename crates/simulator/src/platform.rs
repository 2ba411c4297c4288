//! A validated configuration in the numeric form that the simulations use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::{Config, Gvt, Start, Units};

/// A configuration error: location, problem and remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A field has an invalid value.
    #[error("{}: {field}: {problem}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Path of the field within the file.
        field: String,
        /// Problem and remedy.
        problem: String,
    },
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, is not YAML, or has an invalid field.
    pub fn read(path: &Path) -> Result<(Self, Platform), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(field, problem)| ConfigError::Field {
            path: path.to_owned(),
            field,
            problem,
        })
    }

    /// Parses a configuration; an error holds the path of a field and the problem.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str) -> Result<(Self, Platform), (String, String)> {
        let reader = serde_yaml::Deserializer::from_str(text);
        let config: Self = serde_path_to_error::deserialize(reader)
            .map_err(|error| (error.path().to_string(), error.inner().to_string()))?;
        let platform = Platform::of(&config)?;
        Ok((config, platform))
    }
}

/// Distance class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Within a unit.
    SameUnit,
    /// To another unit of the same kind.
    SameKind,
    /// To a unit of another kind.
    OtherKind,
    /// To another NUMA domain of the node.
    OtherNuma,
    /// To another node.
    OtherNode,
}

/// Number of distance classes.
pub const DISTANCES: usize = 5;

/// A validated configuration as numbers by unit, the input of the simulations.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// By unit: label `KIND_NUMBER`.
    pub labels: Vec<String>,
    /// By unit: kind.
    pub kinds: Vec<String>,
    /// By unit: rank of its label in text order, the tie-break between simultaneous events.
    pub rank: Vec<u32>,
    /// By unit: relative speed.
    pub speed: Vec<f64>,
    /// By unit: task duration in milliseconds.
    pub task: Vec<f64>,
    /// By pair of units: message factor.
    pub factor: Vec<Vec<f64>>,
    /// By pair of units: message duration in milliseconds.
    pub latency: Vec<Vec<f64>>,
    /// By pair of units: distance class.
    pub distance: Vec<Vec<Distance>>,
    /// By unit: NUMA domain.
    pub numa: Vec<Option<String>>,
    /// By unit: node.
    pub node: Vec<String>,
    /// By unit: power above idle at full load, and idle power.
    pub watts: Vec<(f64, f64)>,
    /// Rollback duration in milliseconds.
    pub undo: f64,
    /// Window length in milliseconds.
    pub window: f64,
    /// Migration downtime in milliseconds.
    pub migration: f64,
    /// Whether global virtual time includes messages in flight.
    pub gvt: Gvt,
}

type Wrong = (String, String);

fn wrong<T>(field: impl Into<String>, problem: impl Into<String>) -> Result<T, Wrong> {
    Err((field.into(), problem.into()))
}

fn positive(field: &str, value: f64) -> Result<f64, Wrong> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        wrong(field, format!("{value}; give a number above 0"))
    }
}

fn not_negative(field: &str, value: f64) -> Result<f64, Wrong> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        wrong(field, format!("{value}; give a number of at least 0"))
    }
}

/// Sanity limit on the number of units: larger values are typing errors.
const MOST_UNITS: usize = 4096;

impl Platform {
    fn of(config: &Config) -> Result<Self, Wrong> {
        let task = positive("taskMilliseconds", config.task_milliseconds)?;
        let message = not_negative("communicationMilliseconds", config.communication_milliseconds)?;
        let same_unit = not_negative("sameUnitFactor", config.same_unit_factor)?;
        let other_numa = not_negative("otherNumaFactor", config.other_numa_factor)?;
        let other_node = not_negative("otherNodeFactor", config.other_node_factor)?;
        not_negative("planningMilliseconds", config.planning_milliseconds)?;
        if config.replan_every_windows == 0 {
            return wrong("replanEveryWindows", "0; give at least 1");
        }
        let mut platform = Self {
            labels: Vec::new(),
            kinds: Vec::new(),
            rank: Vec::new(),
            speed: Vec::new(),
            task: Vec::new(),
            factor: Vec::new(),
            latency: Vec::new(),
            distance: Vec::new(),
            numa: Vec::new(),
            node: Vec::new(),
            watts: Vec::new(),
            undo: not_negative("undoMilliseconds", config.undo_milliseconds)?,
            window: positive("windowMilliseconds", config.window_milliseconds)?,
            migration: not_negative("migrationMilliseconds", config.migration_milliseconds)?,
            gvt: config.gvt,
        };
        for (index, units) in config.units.iter().enumerate() {
            platform.add(units, &format!("units[{index}]"), task)?;
        }
        if platform.labels.is_empty() {
            return wrong("units", "empty; name at least one kind with a count of at least 1");
        }
        platform.rank = ranks(&platform.labels);
        platform.connect(config, (message, same_unit, other_numa, other_node))?;
        platform.check_actors(config)?;
        platform.check_start(&config.start)?;
        Ok(platform)
    }

    fn add(&mut self, units: &Units, field: &str, task: f64) -> Result<(), Wrong> {
        positive(&format!("{field}.speed"), units.speed)?;
        not_negative(&format!("{field}.powerWatts"), units.power_watts)?;
        not_negative(&format!("{field}.idleWatts"), units.idle_watts)?;
        let other = (0..self.kinds.len())
            .find(|at| self.kinds[*at] == units.kind && self.speed[*at].total_cmp(&units.speed).is_ne());
        if let Some(other) = other {
            let problem = format!(
                "{} and {} before it; units of one kind have one speed; use another kind",
                units.speed, self.speed[other]
            );
            return wrong(format!("{field}.speed"), problem);
        }
        if units.count > MOST_UNITS {
            return wrong(format!("{field}.count"), format!("{}; at most {MOST_UNITS}", units.count));
        }
        let before = self.kinds.iter().filter(|kind| **kind == units.kind).count();
        for number in before..before + units.count {
            self.labels.push(format!("{}_{number}", units.kind));
            self.kinds.push(units.kind.clone());
            self.speed.push(units.speed);
            self.task.push(task / units.speed);
            self.numa.push(units.numa.clone());
            self.node.push(units.node.clone().unwrap_or_else(|| "node-0".to_owned()));
            self.watts.push((units.power_watts, units.idle_watts));
        }
        Ok(())
    }

    fn connect(&mut self, config: &Config, costs: (f64, f64, f64, f64)) -> Result<(), Wrong> {
        let (message, same_unit, other_numa, other_node) = costs;
        let known: BTreeSet<&str> = self.kinds.iter().map(String::as_str).collect();
        for (a, row) in &config.exchange_factors {
            for (b, value) in row {
                let field = format!("exchangeFactors.{a}.{b}");
                not_negative(&field, *value)?;
                if let Some(kind) = [a, b].into_iter().find(|kind| !known.contains(kind.as_str())) {
                    return wrong(field, format!("no unit has kind {kind}; remove it or add units"));
                }
                let reverse = config.exchange_factors.get(b).and_then(|row| row.get(a));
                if reverse.is_some_and(|reverse| reverse.total_cmp(value).is_ne()) {
                    return wrong(field, format!("{value} contradicts {b}.{a}; give the pair once"));
                }
            }
        }
        for a in 0..self.labels.len() {
            let mut factors = Vec::new();
            let mut distances = Vec::new();
            for b in 0..self.labels.len() {
                let (of, to) = (&self.kinds[a], &self.kinds[b]);
                let either = [(of, to), (to, of)];
                let mut given = either.iter().filter_map(|(x, y)| config.exchange_factors.get(*x)?.get(*y));
                let (mut factor, mut distance) = match given.next() {
                    _ if a == b => (same_unit, Distance::SameUnit),
                    Some(factor) if of == to => (*factor, Distance::SameKind),
                    Some(factor) => (*factor, Distance::OtherKind),
                    None => {
                        let problem =
                            format!("the factor between {of} and {to} is missing; add {of}: {{{to}: …}}");
                        return wrong("exchangeFactors", problem);
                    }
                };
                if self.node[a] != self.node[b] {
                    (factor, distance) = (factor + other_node, Distance::OtherNode);
                } else if a != b && self.numa[a] != self.numa[b] {
                    (factor, distance) = (factor + other_numa, Distance::OtherNuma);
                }
                factors.push(factor);
                distances.push(distance);
            }
            self.latency.push(factors.iter().map(|factor| factor * message).collect());
            self.factor.push(factors);
            self.distance.push(distances);
        }
        Ok(())
    }

    fn check_actors(&self, config: &Config) -> Result<(), Wrong> {
        for (index, actors) in config.actors.iter().enumerate() {
            let field = format!("actors[{index}].runsOn");
            if actors.runs_on.is_empty() {
                return wrong(field, "empty; name a kind, or remove the entry");
            }
            if let Some(kind) = actors.runs_on.iter().find(|kind| !self.kinds.contains(kind)) {
                return wrong(field, format!("no unit has kind {kind}"));
            }
        }
        Ok(())
    }

    fn check_start(&self, start: &Start) -> Result<(), Wrong> {
        match start {
            Start::Named(name) if name != "round-robin" => {
                wrong("start", format!("{name:?}; write round-robin, or a list with the unit of each actor"))
            }
            Start::Assignment(units) => {
                units.iter().position(|unit| *unit >= self.labels.len()).map_or(Ok(()), |actor| {
                    let problem = format!(
                        "unit {} does not exist; the platform has {}",
                        units[actor],
                        self.labels.len()
                    );
                    wrong(format!("start[{actor}]"), problem)
                })
            }
            _ => Ok(()),
        }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.labels.len()
    }
}

/// The rank of each label in text order, from 1; 0 precedes every unit.
fn ranks(labels: &[String]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|a, b| labels[*a].cmp(&labels[*b]));
    let mut rank = vec![0; labels.len()];
    for (place, unit) in order.into_iter().enumerate() {
        rank[unit] = u32::try_from(place + 1).expect("units are few");
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "units: [{kind: cpu, count: 2, speed: 1.0}, {kind: gpu, count: 1, speed: 4}]
taskMilliseconds: 0.040
undoMilliseconds: 0.100
communicationMilliseconds: 0.020
exchangeFactors: {cpu: {cpu: 1, gpu: 3}, gpu: {gpu: 1}}
sameUnitFactor: 0.5
windowMilliseconds: 500
replanEveryWindows: 5
start: round-robin
";

    #[test]
    fn platform_numbers_are_by_unit() {
        let (_, platform) = Config::parse(GOOD).unwrap();
        assert_eq!(platform.labels, ["cpu_0", "cpu_1", "gpu_0"]);
        assert_eq!(platform.task, [0.04, 0.04, 0.01]);
        assert_eq!(platform.factor, [[0.5, 1.0, 3.0], [1.0, 0.5, 3.0], [3.0, 3.0, 0.5]]);
    }

    #[test]
    fn configuration_errors_name_the_field() {
        let cases = [
            ("count: 2, speed: 1.0", "count: 2, speed: 0", "units[0].speed: 0; give a number above 0"),
            ("count: 2,", "number: 2,", "units[0].number: units[0]: unknown field `number`"),
            (
                "taskMilliseconds: 0.040",
                "taskMilliseconds: -1",
                "taskMilliseconds: -1; give a number above 0",
            ),
            ("cpu: 1, gpu: 3", "cpu: 1", "exchangeFactors: the factor between cpu and gpu is missing"),
            ("gpu: {gpu: 1}", "gpu: {gpu: 1, cpu: 4}", "exchangeFactors.cpu.gpu: 3 contradicts gpu.cpu"),
            ("gpu: {gpu: 1}", "gpu: {gpu: 1, fpga: 4}", "exchangeFactors.gpu.fpga: no unit has kind fpga"),
            ("start: round-robin", "start: [0, 3]", "start[1]: unit 3 does not exist; the platform has 3"),
            ("start: round-robin", "start: best", "start: \"best\"; write round-robin"),
            (
                "start: round-robin",
                "actors: [{actors: [1], runsOn: [tpu]}]",
                "actors[0].runsOn: no unit has kind tpu",
            ),
            ("replanEveryWindows: 5", "replanEveryWindows: 0", "replanEveryWindows: 0; give at least 1"),
            ("windowMilliseconds: 500\n", "", ".: missing field `windowMilliseconds`"),
        ];
        for (from, to, expected) in cases {
            let (field, problem) = Config::parse(&GOOD.replace(from, to)).unwrap_err();
            let said = format!("{field}: {problem}");
            assert!(said.starts_with(expected), "{said}\n{expected}");
        }
    }
}
