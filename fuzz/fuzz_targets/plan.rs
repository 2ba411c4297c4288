//! Reads anything as a snapshot, plans it, and explains the plan.
#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::plan(data));
