//! CEDR's runtime in simulated time: to the nanosecond, and what always holds.

mod commands;
mod example;
mod properties;
mod published;
mod streaming;

use simulator::dag::{Applications, Arrival, Measures, Record, Setting, run};
use taskgraph::files::workload::Actual;
use taskgraph::{Graph, Platform, files, online};

/// Runs graphs on a platform, both given as YAML, and says who ran where and when.
struct World {
    platform: Platform,
    graphs: Vec<Graph>,
    applications: Applications,
}

impl World {
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

    fn run(&self, scheduler: &str, arrivals: &[Arrival], setting: &Setting) -> (Measures, Vec<Record>) {
        let mut scheduler = online::scheduler(scheduler).expect("a name of the list");
        let mut records = Vec::new();
        let mut log = |record| records.push(record);
        let ran = run(&self.applications, arrivals, &mut *scheduler, setting, &mut log);
        (ran.expect("a short workload"), records)
    }
}
