//! The example of docs/reference/task-graphs.md: two diamonds on two cores and an FFT.

use std::fmt::Write as _;

use simulator::dag::{Measures, RuntimeSetting, arrivals};
use taskgraph::files::workload::{Arrivals, Arriving};

use crate::Scenario;

pub const DIAMOND: &str = "
version: 1
model: measured
name: diamond
tasks:
- {id: A, on: {cpu: {expected: 10}}}
- {id: B, on: {cpu: {expected: 20}, fft: {expected: 5}}}
- {id: C, on: {cpu: {expected: 20}, fft: {expected: 5}}}
- {id: D, on: {cpu: {expected: 10}}}
edges: [{from: A, to: B}, {from: A, to: C}, {from: B, to: D}, {from: C, to: D}]
";

/// The processing elements of A B C D of each instance, and the measurements.
fn run_diamond(scheduler: &str, costs: &str, setting: &RuntimeSetting) -> (String, Measures) {
    let scenario = Scenario::new(
        &format!("{{pes: [{{kind: cpu, count: 2}}, {{kind: fft}}], costs: {costs}}}"),
        &[DIAMOND],
    );
    let dags =
        [Arriving { file: String::new(), instances: 2, period_ns: 5_000, arrivals: Arrivals::Periodic }];
    let (measures, records) = scenario.run(scheduler, &arrivals(&dags, 1), setting);
    let mut places = [[""; 4]; 2];
    for record in records {
        places[record.instance][record.task] = ["1", "2", "F"][record.pe];
    }
    (format!("{} / {}", places[0].join(" "), places[1].join(" ")), measures)
}

#[test]
fn the_documented_example_is_exact_to_the_nanosecond() {
    let expected = "
SIMPLE  1 F 1 1 / 2 2 F 2  80000 45000  531255 271170  8680
MET     1 F F 1 / 2 F F 2  65000 40000  633680 322425 10210
EFT     2 F F 2 / 1 F F 1  65000 40000  426020 275255 10040
ETF     1 F F 2 / 2 F 1 2  70000 45000  532275 271765 10550
HEFT_RT 1 F F 1 / 2 F F 1  65000 40000  693910 382455 10440
";
    let mut found = String::from("\n");
    for name in ["SIMPLE", "MET", "EFT", "ETF", "HEFT_RT"] {
        let (places, free) = run_diamond(name, "free", &RuntimeSetting::default());
        let (_, zcu) = run_diamond(name, "zcu102", &RuntimeSetting::default());
        assert_eq!((free.applications, free.tasks, free.overhead_ns), (2, 8, 0));
        writeln!(
            found,
            "{name:7} {places}  {} {}  {} {} {:>5}",
            free.execution_ns, free.end_to_end_ns, zcu.execution_ns, zcu.end_to_end_ns, zcu.overhead_ns
        )
        .unwrap();
    }
    assert_eq!(found, expected);
}

/// Worked out on paper: the FFT rejects C of instance 1 until B has been collected, and so on. ETF stops there; MET's
/// cursor has wrapped around, so that D of instance 2 is tried on core 1 first.
#[test]
fn without_queues_a_busy_processing_element_rejects_tasks() {
    let off = RuntimeSetting { queueing: false, ..RuntimeSetting::default() };
    let mut found = String::from("\n");
    for name in ["SIMPLE", "MET", "EFT", "ETF", "HEFT_RT"] {
        let (places, free) = run_diamond(name, "free", &off);
        writeln!(found, "{name:7} {places}  {} {}", free.execution_ns, free.end_to_end_ns).unwrap();
    }
    let expected = "
SIMPLE  1 F 1 1 / 2 2 F 2  80000 45000
MET     1 F F 1 / 2 F F 1  65000 40000
EFT     2 F F 2 / 1 F F 1  65000 40000
ETF     1 F F 1 / 2 F F 2  65000 40000
HEFT_RT 1 F F 1 / 2 F F 1  65000 40000
";
    assert_eq!(found, expected);
}
