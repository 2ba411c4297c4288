//! Workloads as YAML: which graphs arrive when, and actual task times.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::graph::{LONGEST_MICROSECONDS, kind};
use super::{Pairs, version, within, yaml};
use crate::{FileError, Kind, nanoseconds};

/// Upper limit on instances.
pub const MOST_INSTANCES: u64 = 1_000_000;

/// Arrivals, and actual task times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Arrivals; their order is the tie-break.
    pub dags: Vec<Arriving>,
    /// Actual times by application and task.
    pub actual: Actual,
    /// Jitter: actual times vary uniformly by this percentage in both directions.
    pub jitter_percent: f64,
}

/// Instances of one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Arriving {
    /// The graph's file, relative to the workload's.
    pub file: String,
    /// Number of instances.
    pub instances: u64,
    /// Period: time between two instances, and before the first, in nanoseconds.
    pub period_ns: u64,
    /// Distribution of the time between arrivals.
    pub arrivals: Arrivals,
}

/// Distribution of the time between arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Constant.
    #[default]
    Periodic,
    /// Exponential, with the period as the mean.
    Exponential,
}

/// Actual times in nanoseconds: by application, then by the first pattern that matches the task, then by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual(Vec<(String, Vec<Pattern>)>);

/// A pattern of task names with times by kind.
type Pattern = (String, BTreeMap<Kind, u64>);

impl Actual {
    /// The time for `kind` by the first pattern that matches `task`; `None` leaves it to the graph.
    pub fn nanoseconds(&self, application: &str, task: &str, kind: &Kind) -> Option<u64> {
        let (_, patterns) = self.0.iter().find(|(name, _)| name == application)?;
        let (_, times) = patterns.iter().find(|(pattern, _)| matches(pattern, task))?;
        times.get(kind).copied()
    }

    /// Adds times, in microseconds, of the tasks of `application` that match `pattern`, after the existing patterns.
    #[must_use]
    pub fn with(mut self, application: &str, pattern: &str, times: &[(Kind, f64)]) -> Self {
        let times = times.iter().map(|(kind, time)| (kind.clone(), nanoseconds(*time))).collect();
        let at = self.0.iter().position(|(name, _)| name == application).unwrap_or_else(|| {
            self.0.push((application.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        self.0[at].1.push((pattern.to_owned(), times));
        self
    }

    /// The named applications.
    pub fn applications(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters and `?` for one.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Position of the last star, and the length of the text it matches.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WorkloadFile {
    version: Option<u32>,
    dags: Vec<ArrivingFile>,
    #[serde(default)]
    actual: Pairs<Pairs<Pairs<f64>>>,
    #[serde(default)]
    jitter_percent: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ArrivingFile {
    file: String,
    #[serde(default = "one")]
    instances: u64,
    #[serde(default)]
    period_microseconds: f64,
    #[serde(default)]
    arrivals: Arrivals,
}

fn one() -> u64 {
    1
}

/// Reads a workload from its YAML text.
pub fn read(text: &str) -> Result<Workload, FileError> {
    let file: WorkloadFile = yaml(text)?;
    version(file.version.unwrap_or(super::VERSION))?;
    let mut workload = Workload { jitter_percent: file.jitter_percent, ..Workload::default() };
    within("jitterPercent", file.jitter_percent, 0.0, 100.0)?;
    for (position, dag) in file.dags.into_iter().enumerate() {
        let path = |field: &str| format!("dags[{position}].{field}");
        if !(1..=MOST_INSTANCES).contains(&dag.instances) {
            let remedy = format!("write a number from 1 to {MOST_INSTANCES}");
            return Err(FileError::new(path("instances"), format!("{} instances", dag.instances), remedy));
        }
        let period = within(&path("periodMicroseconds"), dag.period_microseconds, 0.0, LONGEST_MICROSECONDS)?;
        let ArrivingFile { file, instances, arrivals, .. } = dag;
        workload.dags.push(Arriving { file, instances, period_ns: nanoseconds(period), arrivals });
    }
    if workload.dags.is_empty() {
        return Err(FileError::new("dags", "empty", "name at least one graph"));
    }
    for (application, patterns) in file.actual.0 {
        let mut read = Vec::new();
        for (pattern, times) in patterns.0 {
            let mut by_kind = BTreeMap::new();
            for (name, time) in times.0 {
                let path = format!("actual.{application}.{pattern}.{name}");
                let kind = kind(&path, &name)?;
                by_kind.insert(kind, nanoseconds(within(&path, time, 0.0, LONGEST_MICROSECONDS)?));
            }
            read.push((pattern, by_kind));
        }
        workload.actual.0.push((application, read));
    }
    Ok(workload)
}
