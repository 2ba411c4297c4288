//! Violations found by the schedule checker.

use taskgraph::{CostModel, Graph, Schedule, Slot, Violation, files};

/// Each task takes 10, on the core only except for b; messages between processing elements take 5.
struct Costs;

impl CostModel for Costs {
    fn duration(&self, task: usize, pes: &[usize]) -> Option<f64> {
        (pes == [0] || task == 1).then_some(10.0)
    }

    fn delay(&self, _: usize, from: &[usize], to: &[usize]) -> f64 {
        if from == to { 0.0 } else { 5.0 }
    }
}

/// a -> b -> c.
fn chain() -> Graph {
    let text = "{version: 1, model: work, tasks: [{id: a, work: 1}, {id: b, work: 1}, {id: c, work: 1}], edges: [{from: a, to: b}, {from: b, to: c}]}";
    files::graph::read(text).expect("a sound graph")
}

/// Violations of slots (task, processing element, start, end) on a core and an FFT.
fn found(slots: &[(usize, usize, f64, f64)]) -> Vec<Violation> {
    let platform = files::platform::read("pes: [{kind: cpu}, {kind: fft}]").expect("a sound platform");
    let slot = |(task, pe, start, end): &(usize, usize, f64, f64)| Slot {
        task: *task,
        pes: vec![*pe],
        start: *start,
        end: *end,
    };
    Schedule { slots: slots.iter().map(slot).collect() }.violations(&chain(), &platform, &Costs)
}

#[test]
fn a_feasible_schedule_has_no_violation() {
    assert_eq!(found(&[(0, 0, 0.0, 10.0), (1, 0, 10.0, 20.0), (2, 0, 20.0, 30.0)]), []);
    assert_eq!(found(&[(2, 0, 30.0, 40.0), (1, 1, 15.0, 25.0), (0, 0, 0.0, 10.0)]), []);
}

#[test]
fn each_violation_is_reported() {
    let (a, b, c) = ((0, 0, 0.0, 10.0), (1, 1, 15.0, 25.0), (2, 0, 30.0, 40.0));
    let cases = [
        (vec![a, b], "task 2 is not scheduled"),
        (vec![a, b, c, (2, 0, 50.0, 60.0)], "task 2 is scheduled twice"),
        (vec![a, b, c, (3, 0, 0.0, 10.0)], "slot 3 names a task or processing element that is none"),
        (vec![a, b, (2, 2, 30.0, 40.0)], "slot 2 names a task or processing element that is none"),
        (vec![a, b, (2, 1, 25.0, 35.0)], "task 2 cannot run on [1]"),
        (vec![a, b, (2, 0, 30.0, 39.0)], "task 2 runs for 9, and should for 10"),
        (vec![a, (1, 1, 14.0, 24.0), c], "edge 0: its second task starts at 14, its data are there at 15"),
        (vec![a, (1, 0, 5.0, 15.0), c], "tasks 0 and 1 run on processing element 0 at once"),
    ];
    for (slots, expected) in cases {
        let words: Vec<String> = found(&slots).iter().map(ToString::to_string).collect();
        assert!(words.iter().any(|word| word == expected), "{expected}\n{words:?}");
    }
}
