//! Reads anything as a snapshot, plans it, and explains the plan.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::plan(data));
