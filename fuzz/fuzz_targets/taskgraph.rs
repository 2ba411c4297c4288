//! Reads anything as a task graph, a platform or a workload.
#![no_main]

#[path = "../taskgraph.rs"]
mod taskgraph_harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    taskgraph_harness::taskgraph(data);
});
