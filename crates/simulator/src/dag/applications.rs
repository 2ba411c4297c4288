//! Task graphs prepared for a pool: indices instead of names.

use std::collections::BTreeMap;

use taskgraph::files::workload::Actual;
use taskgraph::online::{Classes, NEVER};
use taskgraph::{Cost, Costs, FileError, Graph, HostCores, Kind, Platform, Streaming};

use super::arrivals::Arrival;

/// Upper limit on times in nanoseconds (36 years), so that no sum overflows.
const LONGEST: u128 = 1 << 60;
/// Upper limit on the tasks of a workload over all frames: such a run takes minutes and about 16 bytes per task.
const MOST_TASKS: u64 = 50_000_000;

/// A workload's graphs and the properties of the platform that a run needs.
#[derive(Clone, Debug)]
pub struct Applications {
    /// One per graph, in workload order.
    pub all: Vec<Application>,
    pub(super) classes: Classes,
    pub(super) names: Vec<String>,
    /// The core that hosts an accelerator's worker thread.
    pub(super) hosts: Vec<Option<usize>>,
    pub(super) costs: Costs,
}

/// A task graph on a pool.
#[derive(Clone, Debug)]
pub struct Application {
    /// Name of the graph.
    pub name: String,
    /// Names of its tasks.
    pub tasks: Vec<String>,
    pub(super) class: Vec<u32>,
    pub(super) origin: Vec<u32>,
    /// Actual execution times including transfers, by task × processing element.
    pub(super) actual: Vec<u64>,
    pub(super) successors: Vec<Vec<u32>>,
    pub(super) predecessors: Vec<Vec<u32>>,
    pub(super) heads: Vec<u32>,
    pub(super) streaming: Streaming,
    pub(super) frames: u32,
    /// Upper bound on the duration of one instance, in nanoseconds.
    longest: u128,
}

impl Applications {
    /// Prepares `graphs` for the pool of `platform`.
    ///
    /// # Errors
    /// A graph without times per kind, or a task that no processing element of the pool can run; with the graph's index.
    pub fn new(graphs: &[&Graph], platform: &Platform, actual: &Actual) -> Result<Self, (usize, FileError)> {
        let mut classes = Classes::new(platform);
        let mut origins = BTreeMap::new();
        let mut all = Vec::with_capacity(graphs.len());
        for (number, graph) in graphs.iter().enumerate() {
            let one = Application::new(graph, platform, actual, &mut classes, &mut origins);
            all.push(one.map_err(|error| (number, error))?);
        }
        let cores = platform.pes().iter().filter(|pe| pe.kind == Kind::Cpu).count();
        let shared = platform.costs.host_cores == HostCores::Shared && cores > 0;
        let host = |(pe, kind): (usize, &Kind)| (shared && *kind != Kind::Cpu).then(|| pe % cores);
        let hosts = platform.pes().iter().map(|pe| &pe.kind).enumerate().map(host).collect();
        let names = platform.pes().iter().map(|pe| pe.name.clone()).collect();
        Ok(Self { all, classes, names, hosts, costs: platform.costs })
    }

    /// Names of the processing elements, in pool order.
    pub fn pes(&self) -> &[String] {
        &self.names
    }

    /// Rejects workloads that may exceed memory or overflow simulated time.
    pub(super) fn check(&self, arrivals: &[Arrival]) -> Result<(), FileError> {
        let tasks: u64 = arrivals.iter().map(|one| self.all[one.application].tasks_in_all()).sum();
        if tasks > MOST_TASKS {
            let remedy = format!("write fewer instances or frames: at most {MOST_TASKS} tasks in all");
            return Err(FileError::new("dags", format!("{tasks} tasks in all"), remedy));
        }
        let last = arrivals.last().map_or(0, |last| u128::from(last.at));
        let work: u128 = arrivals.iter().map(|one| self.all[one.application].longest).sum();
        if last + work <= LONGEST {
            return Ok(());
        }
        let remedy = "write fewer instances, shorter periods or shorter times";
        Err(FileError::new("dags", "the workload may run for more than 36 years", remedy))
    }
}

impl Application {
    /// Number of tasks of an instance over all frames.
    fn tasks_in_all(&self) -> u64 {
        self.tasks.len() as u64 * u64::from(self.frames)
    }

    fn new(
        graph: &Graph,
        platform: &Platform,
        actual: &Actual,
        classes: &mut Classes,
        origins: &mut BTreeMap<(String, String), u32>,
    ) -> Result<Self, FileError> {
        let pes = platform.pes();
        let count = graph.tasks().len();
        let streaming = graph.streaming();
        let number = |task: usize| u32::try_from(task).expect("graphs have at most 20,000 tasks");
        let mut this = Self {
            name: graph.name().to_owned(),
            tasks: graph.tasks().iter().map(|task| task.id.clone()).collect(),
            class: Vec::with_capacity(count),
            origin: Vec::with_capacity(count),
            actual: vec![NEVER; count * pes.len()],
            successors: (0..count).map(|task| graph.successors(task).map(number).collect()).collect(),
            predecessors: (0..count).map(|task| graph.predecessors(task).map(number).collect()).collect(),
            heads: graph.heads().map(number).collect(),
            streaming,
            frames: if streaming == Streaming::None { 1 } else { graph.frames() },
            longest: 0,
        };
        for (position, task) in graph.tasks().iter().enumerate() {
            let Cost::Measured(on) = &task.cost else {
                let problem = format!("the model is {}", graph.model());
                return Err(FileError::new("model", problem, "only graphs of the model measured can be run"));
            };
            this.class.push(classes.intern(task, on)?);
            let next = u32::try_from(origins.len()).expect("fewer tasks than that");
            this.origin.push(*origins.entry((this.name.clone(), task.id.clone())).or_insert(next));
            let bytes = task
                .arguments
                .iter()
                .fold(0_u64, |sum, argument| sum.saturating_add(graph.variables()[*argument].allocated));
            let mut longest = 0;
            for (pe, at) in pes.iter().enumerate() {
                let Some(implementation) = on.get(&at.kind) else { continue };
                let given = actual.nanoseconds(&this.name, &task.id, &at.kind);
                let time = given.unwrap_or_else(|| implementation.actual_ns());
                let moved = platform.transfer.get(&at.kind).map_or(0, |transfer| transfer.nanoseconds(bytes));
                let whole = time.saturating_add(moved);
                this.actual[position * pes.len() + pe] = whole;
                longest = longest.max(whole).max(implementation.expected_ns());
            }
            // Jitter may double the time; dispatch and scheduling overhead are added.
            let around = u128::from(platform.costs.dispatch) + u128::from(platform.costs.assign);
            this.longest += (2 * u128::from(longest) + around) * u128::from(this.frames);
        }
        Ok(this)
    }
}
