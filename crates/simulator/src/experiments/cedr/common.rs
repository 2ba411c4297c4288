//! Shared parts of CEDR's experiments: pools, graphs, runs, tables.

use std::fmt::Write as _;

use taskgraph::files::workload::Arriving;
use taskgraph::generate::cedr::{Pair, actual, application};
use taskgraph::online::scheduler;
use taskgraph::{Costs, Graph, Group, Kind, Platform};

use crate::dag::{Applications, Measures, Record, RuntimeSetting, arrivals, run};
use crate::experiments::setting::Failure;

/// The five schedulers of the paper, in its order; the paper calls SIMPLE round-robin (RR).
pub(super) const SCHEDULERS: [&str; 5] = ["SIMPLE", "MET", "EFT", "ETF", "HEFT_RT"];

/// Numbers of cores, FFT and MMULT accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts(pub(super) usize, pub(super) usize, pub(super) usize);

/// The most heterogeneous pool.
pub(super) const FULL: Counts = Counts(3, 1, 1);

impl Counts {
    /// The 12 pools, in the order of the paper's axes.
    pub(super) fn all() -> Vec<Self> {
        let cores = 1..=3;
        cores.flat_map(|c| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(f, m)| Self(c, f, m))).collect()
    }

    pub(super) fn name(self) -> String {
        format!("C{}-F{}-M{}", self.0, self.1, self.2)
    }

    pub(super) fn platform(self) -> Platform {
        let groups =
            [Group::new(Kind::Cpu, self.0), Group::new(Kind::Fft, self.1), Group::new(Kind::Mmult, self.2)];
        let mut platform = Platform::new(&groups).expect("every pool has a core");
        platform.costs = Costs::ZCU102;
        platform
    }
}

/// The graphs of a workload.
pub(super) fn graphs(pair: &Pair) -> Vec<Graph> {
    pair.applications.iter().map(|name| application(name).expect("a known application")).collect()
}

/// Graphs on a pool.
pub(super) fn prepare(graphs: &[Graph], platform: &Platform) -> Result<Applications, Failure> {
    let graphs: Vec<&Graph> = graphs.iter().collect();
    Applications::new(&graphs, platform, &actual()).map_err(|(_, error)| error.into())
}

/// One run.
pub(super) fn measure(
    applications: &Applications,
    dags: &[Arriving],
    name: &str,
    setting: &RuntimeSetting,
) -> Result<Measures, Failure> {
    let mut scheduler = scheduler(name).expect("a name of the list");
    Ok(run(applications, &arrivals(dags, setting.seed), &mut *scheduler, setting, &mut |_| {})?)
}

/// One run with its task log.
pub(super) fn record(
    applications: &Applications,
    dags: &[Arriving],
    name: &str,
    setting: &RuntimeSetting,
) -> Result<(Measures, Vec<Record>), Failure> {
    let mut scheduler = scheduler(name).expect("a name of the list");
    let mut records = Vec::new();
    let mut log = |one| records.push(one);
    let measures = run(applications, &arrivals(dags, setting.seed), &mut *scheduler, setting, &mut log)?;
    Ok((measures, records))
}

/// Milliseconds per application of `total` nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "for display")]
pub(super) fn each_ms(total: u64, measures: &Measures) -> f64 {
    total as f64 / 1e6 / measures.applications.max(1) as f64
}

/// Nanoseconds as milliseconds.
#[expect(clippy::cast_precision_loss, reason = "for display")]
pub(super) fn ms(total: u64) -> f64 {
    total as f64 / 1e6
}

/// A Markdown table; the first column is text, the others are numbers.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|---|{}\n", head.join(" | "), "---:|".repeat(head.len() - 1));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// The head of a results page.
pub(super) fn page(title: &str) -> String {
    format!("# {title}\n\nTimes are in milliseconds. ")
}

/// The ratio ours / paper, our value, and the paper's.
pub(super) fn ratio_columns(ours: f64, paper: f64) -> [String; 3] {
    [format!("{:.2}", ours / paper), format!("{ours:.2}"), format!("{paper}")]
}
