//! CEDR's experiments (Mack et al., ACM TECS 2022, sections 4 and 5), in simulated time.
//!
//! Schedulers, runtime and costs are those of docs/taskgraph.md; nothing is fitted to a single experiment. Without
//! jitter a run has one outcome, so that the authors' five repetitions are one here.

mod cases;
mod jetson;
mod sweep;

use std::fmt::Write as _;

use taskgraph::files::workload::Arriving;
use taskgraph::generate::cedr::{Pair, actual, application};
use taskgraph::online::scheduler;
use taskgraph::{Costs, Graph, Group, Kind, Platform};

use super::{Experiment, Failure};
use crate::dag::{Applications, Measures, Record, Setting, arrivals, run};

/// Figures 3, 4, 6.
pub const SWEEP: Experiment =
    Experiment { name: "cedr-sweep", summary: "CEDR, Figures 3, 4, 6: 3,480 runs", run: sweep::sweep };
/// Figures 5, 7, 10.
pub const SLICES: Experiment = Experiment {
    name: "cedr-slices",
    summary: "CEDR, Figures 5, 7, 10: over rates, on the full pool",
    run: sweep::slices,
};
/// Figure 8.
pub const UTILISATION: Experiment = Experiment {
    name: "cedr-utilisation",
    summary: "CEDR, Figure 8: how busy the full pool is",
    run: sweep::utilisation,
};
/// Figures 9, 15.
pub const GANTT: Experiment = Experiment {
    name: "cedr-gantt",
    summary: "CEDR, Figures 9, 15: who ran when and where",
    run: cases::charts,
};
/// Figure 11.
pub const CACHE: Experiment =
    Experiment { name: "cedr-cache", summary: "CEDR, Figure 11: schedule caching", run: cases::cache };
/// Figure 13.
pub const QUEUES: Experiment =
    Experiment { name: "cedr-queues", summary: "CEDR, Figure 13: work queues", run: cases::queues };
/// Table 6.
pub const STREAMING: Experiment =
    Experiment { name: "cedr-streaming", summary: "CEDR, Table 6: streaming", run: cases::streaming };
/// Figure 16.
pub const GPU: Experiment =
    Experiment { name: "cedr-gpu", summary: "CEDR, Figure 16: a board with a GPU", run: jetson::gpu };

/// The five schedulers of the paper, in its order; it calls SIMPLE round-robin, RR.
const SCHEDULERS: [&str; 5] = ["SIMPLE", "MET", "EFT", "ETF", "HEFT_RT"];

/// Cores, FFT and MMULT accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts(usize, usize, usize);

/// The most heterogeneous pool.
const FULL: Counts = Counts(3, 1, 1);

impl Counts {
    /// The 12 pools, in the order of the paper's axes.
    fn all() -> Vec<Self> {
        let cores = 1..=3;
        cores.flat_map(|c| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(f, m)| Self(c, f, m))).collect()
    }

    fn name(self) -> String {
        format!("C{}-F{}-M{}", self.0, self.1, self.2)
    }

    fn platform(self) -> Platform {
        let groups =
            [Group::new(Kind::Cpu, self.0), Group::new(Kind::Fft, self.1), Group::new(Kind::Mmult, self.2)];
        let mut platform = Platform::new(&groups).expect("every pool has a core");
        platform.costs = Costs::ZCU102;
        platform
    }
}

/// The graphs of a workload.
fn graphs(pair: &Pair) -> Vec<Graph> {
    pair.applications.iter().map(|name| application(name).expect("a known application")).collect()
}

/// Graphs on a pool.
fn prepare(graphs: &[Graph], platform: &Platform) -> Result<Applications, Failure> {
    let graphs: Vec<&Graph> = graphs.iter().collect();
    Applications::new(&graphs, platform, &actual()).map_err(|(_, error)| error.into())
}

/// One run.
fn measure(
    applications: &Applications,
    dags: &[Arriving],
    name: &str,
    setting: &Setting,
) -> Result<Measures, Failure> {
    let mut scheduler = scheduler(name).expect("a name of the list");
    Ok(run(applications, &arrivals(dags, setting.seed), &mut *scheduler, setting, &mut |_| {})?)
}

/// One run with everything that ran.
fn record(
    applications: &Applications,
    dags: &[Arriving],
    name: &str,
    setting: &Setting,
) -> Result<(Measures, Vec<Record>), Failure> {
    let mut scheduler = scheduler(name).expect("a name of the list");
    let mut records = Vec::new();
    let mut log = |one| records.push(one);
    let measures = run(applications, &arrivals(dags, setting.seed), &mut *scheduler, setting, &mut log)?;
    Ok((measures, records))
}

/// Milliseconds of `total` nanoseconds per application.
#[expect(clippy::cast_precision_loss, reason = "for people")]
fn each_ms(total: u64, measures: &Measures) -> f64 {
    total as f64 / 1e6 / measures.applications.max(1) as f64
}

/// Nanoseconds in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "for people")]
fn ms(total: u64) -> f64 {
    total as f64 / 1e6
}

/// A Markdown table; the first column is text, the others are numbers.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|---|{}\n", head.join(" | "), "---:|".repeat(head.len() - 1));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// The first lines of a page of results.
fn page(title: &str, name: &str) -> String {
    format!(
        "# {title}\n\nMade by `cairn-sim experiment {name} --out docs/results/cedr`; times in milliseconds.\n\n"
    )
}

/// ours / paper, and both.
fn beside(ours: f64, paper: f64) -> [String; 3] {
    [format!("{:.2}", ours / paper), format!("{ours:.2}"), format!("{paper}")]
}
