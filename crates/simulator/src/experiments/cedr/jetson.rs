//! The same workload on a board with a GPU, where data transfers cost more than computation.

use taskgraph::generate::cedr::{Pair, actual};
use taskgraph::{Cost, Costs, Graph, Group, HostCores, Kind, Platform, Transfer, Variable};

use super::common::{SCHEDULERS, each_ms, graphs, measure, page, table};
use crate::dag::{Applications, Measures, RuntimeSetting};
use crate::experiments::chart::{Labels, Panel, Series, lines};
use crate::experiments::claims::{claims, yes};
use crate::experiments::setting::{Failure, Setting as Experiment};

/// Our estimate of the Jetson's costs: ETF's overhead per application is 10 ms there and 65.5 ms on the ZCU102 (Figures
/// 16(b), 7(b)), hence scheduling costs are 0.153 of the ZCU102's; dispatch costs are equal.
const JETSON: Costs =
    Costs { assign: 153, look: 13, compare: 15, dispatch: 56_000, host_cores: HostCores::Shared };

/// Our estimate of a transform's copies and launches on the GPU: two copies of 30 µs, and 11 GB/s.
const TRANSFER: Transfer = Transfer { fixed_ns: 60_000, ns_per_kib: 90.0 };

/// Replaces the FFT by the GPU for transforms, as the authors' files do: the expected times of the schedulers stay, and
/// exclude the transfer of the 4 KiB of arguments.
fn with_gpu(graph: Graph) -> Result<Graph, Failure> {
    let mut parts = graph.into_parts();
    let variable = Variable {
        name: "samples".to_owned(),
        bytes: 8,
        pointer: true,
        allocated: 4096,
        ..Variable::default()
    };
    parts.variables.push(variable);
    for task in &mut parts.tasks {
        if let Cost::Measured(on) = &mut task.cost
            && let Some(implementation) = on.remove(&Kind::Fft)
        {
            on.insert(Kind::Gpu, implementation);
            task.arguments.push(0);
        }
    }
    Ok(Graph::new(parts)?)
}

/// `cedr-gpu`.
pub fn gpu(setting: &Experiment) -> Result<(), Failure> {
    let pair = Pair::high();
    let graphs = graphs(&pair).into_iter().map(with_gpu).collect::<Result<Vec<_>, _>>()?;
    let graphs: Vec<&Graph> = graphs.iter().collect();
    let mut panels: [Vec<Panel>; 2] = [Vec::new(), Vec::new()];
    let (mut rows, mut with_gpu) = (Vec::new(), Vec::new());
    for (cores, gpus) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let name = format!("C{cores}-G{gpus}");
        let mut platform = Platform::new(&[Group::new(Kind::Cpu, cores), Group::new(Kind::Gpu, gpus)])?;
        platform.costs = JETSON;
        platform.transfer.insert(Kind::Gpu, TRANSFER);
        let applications = Applications::new(&graphs, &platform, &actual()).map_err(|(_, error)| error)?;
        let mut lines_of: [Vec<Series>; 2] = [Vec::new(), Vec::new()];
        let mut row = vec![name.clone()];
        let mut ends = [Vec::new(), Vec::new()];
        for scheduler in SCHEDULERS {
            let mut all: Vec<(u32, Measures)> = Vec::new();
            for mbps in &pair.rates {
                all.push((
                    *mbps,
                    measure(&applications, &pair.arriving(*mbps), scheduler, &RuntimeSetting::default())?,
                ));
            }
            let last = &all.last().expect("29 rates").1;
            let (execution, overhead) = (each_ms(last.execution_ns, last), each_ms(last.overhead_ns, last));
            row.push(format!("{execution:.1} ({overhead:.2})"));
            ends[0].push(execution);
            ends[1].push(overhead);
            for (series, read) in lines_of.iter_mut().zip([execution_ns, overhead_ns]) {
                let points =
                    all.iter().map(|(mbps, one)| (f64::from(*mbps), each_ms(read(one), one))).collect();
                series.push(Series { name: scheduler.to_owned(), points });
            }
        }
        rows.push(row);
        if gpus > 0 {
            with_gpu.push(ends);
        }
        for (panels, series) in panels.iter_mut().zip(lines_of) {
            panels.push(Panel { title: name.clone(), series });
        }
    }
    for ((letter, name), panels) in [("a", "execution"), ("b", "overhead")].iter().zip(&panels) {
        let title = format!("Figure 16({letter}), high latency workload with a GPU: {name} per application");
        let labels = Labels { title: &title, x: "injection rate (Mbps)", y: "ms", log: true };
        setting.write(&format!("figure-16{letter}.svg"), &lines(&labels, panels))?;
    }
    let mut text = page("Platform with a GPU (Figure 16)");
    text += "High latency workload at 2000 Mbps: execution per application (overhead). A transform is expected to \
             take on the GPU what it takes on the FFT, does so, and takes 60 µs + 90 ns per KiB more to move its 4 KiB.\n\n";
    let head: Vec<&str> = std::iter::once("pool").chain(SCHEDULERS).collect();
    text += &table(&head, &rows);
    let most = |scheduler: &str, of: usize| {
        let first = with_gpu.iter().filter(|ends| most(&ends[of]) == Some(scheduler)).count();
        format!("{}: on {first} of {} pools with a GPU", yes(first == with_gpu.len()), with_gpu.len())
    };
    // Figure 16.
    text += &claims(&[
        ("with a GPU and its transfers MET has the longest execution", "yes", most("MET", 0)),
        ("ETF has the highest overhead", "yes", most("ETF", 1)),
    ]);
    setting.write("gpu.md", &text)
}

/// The scheduler with the largest value.
fn most(values: &[f64]) -> Option<&'static str> {
    SCHEDULERS.into_iter().zip(values).max_by(|a, b| a.1.total_cmp(b.1)).map(|(scheduler, _)| scheduler)
}

fn execution_ns(measures: &Measures) -> u64 {
    measures.execution_ns
}

fn overhead_ns(measures: &Measures) -> u64 {
    measures.overhead_ns
}
