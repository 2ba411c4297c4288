//! The four streaming modes.

use simulator::dag::{Arrival, RuntimeSetting};

use crate::Scenario;

/// A chain of three tasks of 10 µs on three cores, four frames arriving at 0; worked out on paper.
#[test]
fn a_chain_is_pipelined_within_its_buffer_limits() {
    // none: frames are ignored. sequential: 4 × 30. single: a producer waits for its consumer, one frame per 20.
    // double: one frame per 10.
    for (mode, tasks, end_to_end) in [
        ("none", 3, 30_000),
        ("sequential", 12, 120_000),
        ("single buffer", 12, 90_000),
        ("double buffer", 12, 60_000),
    ] {
        let graph = format!(
            "{{version: 1, model: measured, streaming: {mode}, frames: 4, tasks: [{{id: A, on: {{cpu: {{expected: 10}}}}}}, \
             {{id: B, on: {{cpu: {{expected: 10}}}}}}, {{id: C, on: {{cpu: {{expected: 10}}}}}}], edges: [{{from: A, to: B}}, {{from: B, to: C}}]}}"
        );
        let scenario = Scenario::new("pes: [{kind: cpu, count: 3}]", &[&graph]);
        let (measures, records) =
            scenario.run("SIMPLE", &[Arrival { at: 0, application: 0 }], &RuntimeSetting::default());
        assert_eq!((measures.tasks, measures.end_to_end_ns), (tasks, end_to_end), "{mode}");
        let frames: Vec<u32> =
            records.iter().filter(|record| record.task == 2).map(|record| record.frame).collect();
        assert_eq!(frames, if mode == "none" { vec![0] } else { vec![0, 1, 2, 3] });
    }
}
