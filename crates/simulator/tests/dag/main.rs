//! CEDR's runtime in simulated time: exact times and properties of every run.

mod commands;
mod example;
mod properties;
mod published;
mod streaming;

use simulator::dag::{Applications, Arrival, Measures, Record, RuntimeSetting, run};
use taskgraph::files::workload::Actual;
use taskgraph::{Graph, Platform, files, online};

/// Graphs and a platform, both from YAML, and their runs.
struct Scenario {
    platform: Platform,
    graphs: Vec<Graph>,
    applications: Applications,
}

impl Scenario {
    fn new(platform: &str, graphs: &[&str]) -> Self {
        let platform = files::platform::read(platform).expect("a sound platform");
        let graphs = graphs.iter().map(|text| files::graph::read(text).expect("a sound graph")).collect();
        Self::of(platform, graphs)
    }

    fn of(platform: Platform, graphs: Vec<Graph>) -> Self {
        let all: Vec<&Graph> = graphs.iter().collect();
        let applications =
            Applications::new(&all, &platform, &Actual::default()).expect("all kinds are there");
        Self { platform, graphs, applications }
    }

    fn run(
        &self,
        scheduler: &str,
        arrivals: &[Arrival],
        setting: &RuntimeSetting,
    ) -> (Measures, Vec<Record>) {
        let mut scheduler = online::scheduler(scheduler).expect("a name of the list");
        let mut records = Vec::new();
        let mut log = |record| records.push(record);
        let ran = run(&self.applications, arrivals, &mut *scheduler, setting, &mut log);
        (ran.expect("a short workload"), records)
    }
}
