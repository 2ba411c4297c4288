//! The four applications of CEDR's experiments, and their arrival rates.
//!
//! Pulse Doppler has the structure published by the authors; the others have their numbers of tasks and their total times
//! (Table 1) in a structure of ours (docs/adr/0060). Schedulers see expected times; tasks take actual times.

use std::collections::BTreeMap;

use crate::files::workload::{Actual, Arrivals, Arriving};
use crate::{Cost, Edge, Graph, Implementation, Kind, Model, Parts, Task, Weight};

/// The applications of the experiments, in the order of Table 1.
pub const APPLICATIONS: [&str; 4] = ["radar-correlator", "temporal-mitigation", "wifi-tx", "pulse-doppler"];

/// The application with this name, as in `cairn-sim dag generate`.
pub fn application(name: &str) -> Option<Graph> {
    let parts = match name {
        "radar-correlator" => radar_correlator(),
        "temporal-mitigation" => temporal_mitigation(),
        "wifi-tx" => wifi_tx(),
        "pulse-doppler" => pulse_doppler(),
        _ => return None,
    };
    Some(Graph::new(parts).expect("a known graph is sound"))
}

/// Actual times that differ from expected ones: those of Pulse Doppler.
pub fn actual() -> Actual {
    let transform = [(Kind::Cpu, 40.0), (Kind::Fft, 37.0)];
    Actual::default()
        .with("pulse-doppler", "FFT_*", &transform)
        .with("pulse-doppler", "IFFT_*", &transform)
        .with("pulse-doppler", "*", &[(Kind::Cpu, 4.3)])
}

/// A workload of the experiments (Table 2): its applications, instances of each, Kb per pair and rates in Mbps.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Two applications that arrive together.
    pub applications: [&'static str; 2],
    /// Number of instances of each.
    pub instances: u64,
    /// Input per instance of each, in Kb.
    pub kilobits: f64,
    /// The 29 injection rates, in Mbps.
    pub rates: Vec<u32>,
}

impl Pair {
    /// The high latency workload: 5 Pulse Doppler and 5 `WiFi` TX, 10–2000 Mbps.
    pub fn high() -> Self {
        let rates = (1..=10).map(|n| 10 * n).chain((2..=20).map(|n| 100 * n)).collect();
        Self { applications: ["pulse-doppler", "wifi-tx"], instances: 5, kilobits: 1037.0, rates }
    }

    /// The low latency workload: 10 Radar Correlator and 10 Temporal Mitigation, 1–1000 Mbps.
    pub fn low() -> Self {
        let middle = (1..=18).map(|n| 25 * n);
        let rates = std::iter::once(1).chain(middle).chain((10..=19).map(|n| 50 * n)).collect();
        Self {
            applications: ["radar-correlator", "temporal-mitigation"],
            instances: 10,
            kilobits: 64.0,
            rates,
        }
    }

    /// Period of the pairs at a rate, round(Kb × 10⁶ / 1024 / Mbps) µs, in nanoseconds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are at least 1 Mbps")]
    pub fn period_ns(&self, mbps: u32) -> u64 {
        1000 * (self.kilobits * 1e6 / 1024.0 / f64::from(mbps)).round() as u64
    }

    /// The arrivals at a rate.
    pub fn arriving(&self, mbps: u32) -> Vec<Arriving> {
        let one = |name: &&str| Arriving {
            file: format!("{name}.json"),
            instances: self.instances,
            period_ns: self.period_ns(mbps),
            arrivals: Arrivals::Periodic,
        };
        self.applications.iter().map(one).collect()
    }
}

/// Builds graphs by name.
struct Builder {
    tasks: Vec<Task>,
    edges: Vec<Edge>,
}

impl Builder {
    fn task(&mut self, id: String, times: &[(Kind, f64)]) -> usize {
        let function =
            |kind: &Kind| format!("{}_{kind}", id.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'));
        let on: BTreeMap<Kind, Implementation> = times
            .iter()
            .map(|(kind, expected)| {
                (kind.clone(), Implementation { expected: *expected, actual: None, function: function(kind) })
            })
            .collect();
        self.tasks.push(Task { id, cost: Cost::Measured(on), arguments: Vec::new() });
        self.tasks.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize) {
        self.edges.push(Edge { from, to, weight: Weight::Measured(0.0) });
    }

    fn parts(mut self, name: &str) -> Parts {
        // CEDR orders tasks by name, and successors by edge order.
        let mut by_name: Vec<usize> = (0..self.tasks.len()).collect();
        by_name.sort_by(|a, b| self.tasks[*a].id.cmp(&self.tasks[*b].id));
        let mut place = vec![0; by_name.len()];
        for (position, task) in by_name.iter().enumerate() {
            place[*task] = position;
        }
        self.tasks.sort_by(|a, b| a.id.cmp(&b.id));
        for edge in &mut self.edges {
            (edge.from, edge.to) = (place[edge.from], place[edge.to]);
        }
        self.edges.sort_by_key(|edge| (edge.from, edge.to));
        let mut parts = Parts::new(name, Model::Measured, self.tasks, self.edges);
        parts.shared_object = format!("{name}.so");
        parts
    }
}

const CPU: Kind = Kind::Cpu;

/// Pulse Doppler: 1,027 tasks, 1,408 edges, 512 transforms; levels of 1, 256, 128, 128, 1, 128, 128, 128, 128, 1.
fn pulse_doppler() -> Parts {
    let mut graph = Builder { tasks: Vec::new(), edges: Vec::new() };
    let (plain, transform) = ([(CPU, 30.0)], [(CPU, 30.0), (Kind::Fft, 28.0)]);
    let start = graph.task("S0".to_owned(), &[(CPU, 1.0)]);
    let realign = graph.task("REALIGN_MAT".to_owned(), &plain);
    let last = graph.task("FINAL_MAX".to_owned(), &plain);
    for pulse in 0..128 {
        let transforms = ["FFT_0", "FFT_1"].map(|name| graph.task(format!("{name}_{pulse}"), &transform));
        let product = graph.task(format!("MUL_{pulse}"), &plain);
        for one in transforms {
            graph.edge(start, one);
            graph.edge(one, product);
        }
        let inverse = graph.task(format!("IFFT_{pulse}"), &transform);
        graph.edge(product, inverse);
        graph.edge(inverse, realign);
        let mut before = graph.task(format!("FFT_2_{pulse}"), &transform);
        graph.edge(realign, before);
        for name in ["AMP", "FFTSHIFT", "MAX"] {
            let next = graph.task(format!("{name}_{pulse}"), &plain);
            graph.edge(before, next);
            before = next;
        }
        graph.edge(before, last);
    }
    graph.parts("pulse-doppler")
}

/// `WiFi` TX: a chain of 93, one in nine an inverse transform, ten in all.
fn wifi_tx() -> Parts {
    let mut graph = Builder { tasks: Vec::new(), edges: Vec::new() };
    let mut before = None;
    for number in 0..93 {
        let inverse = number % 9 == 8;
        let id = if inverse { format!("T{number:02}_IFFT") } else { format!("T{number:02}") };
        let task = if inverse {
            graph.task(id, &[(CPU, 40.0), (Kind::Fft, 37.0)])
        } else {
            graph.task(id, &[(CPU, 126.0)])
        };
        if let Some(before) = before {
            graph.edge(before, task);
        }
        before = Some(task);
    }
    graph.parts("wifi-tx")
}

/// Radar Correlator: 7 tasks (those of Table 5), 7 edges, two transforms, of the chirp and of the received signal.
fn radar_correlator() -> Parts {
    let tasks = ["HEAD_NODE", "LFM", "FFT_0", "FFT_1", "MUL", "IFFT", "MAX"];
    let edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6)];
    let (plain, transform) = ([(CPU, 60.0)], [(CPU, 60.0), (Kind::Fft, 45.0)]);
    listed("radar-correlator", &tasks, &edges, |id| if id.starts_with("FFT") { &transform } else { &plain })
}

/// Temporal Mitigation: 11 tasks, 15 edges, two matrix products.
fn temporal_mitigation() -> Parts {
    let tasks = [
        ["00_HEAD", "01_READ_S", "02_READ_R", "03_HERMITIAN"].as_slice(),
        &["04_MMULT_0", "05_MMULT_1", "06_INVERSE", "07_SOLVE"],
        &["08_CANCEL", "09_SUBTRACT", "10_WRITE"],
    ]
    .concat();
    let edges = [
        [(0, 1), (0, 2), (1, 3), (1, 4), (3, 4)],
        [(3, 5), (2, 5), (4, 6), (5, 7), (6, 7)],
        [(7, 8), (1, 8), (2, 9), (8, 9), (9, 10)],
    ]
    .concat();
    let (plain, product) = ([(CPU, 216.0)], [(CPU, 216.0), (Kind::Mmult, 160.0)]);
    listed("temporal-mitigation", &tasks, &edges, |id| if id.contains("MMULT") { &product } else { &plain })
}

/// The graph of these tasks, each with its times by kind, and of edges between their positions.
fn listed<'a>(
    name: &str,
    tasks: &[&str],
    edges: &[(usize, usize)],
    times: impl Fn(&str) -> &'a [(Kind, f64)],
) -> Parts {
    let mut graph = Builder { tasks: Vec::new(), edges: Vec::new() };
    let tasks: Vec<usize> = tasks.iter().map(|id| graph.task((*id).to_owned(), times(id))).collect();
    for (from, to) in edges {
        graph.edge(tasks[*from], tasks[*to]);
    }
    graph.parts(name)
}
