//! Reads anything as the ConfigMap of a policy, and grounds its program.
#![no_main]

#[path = "../policy.rs"]
mod policy_harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| policy_harness::policy(data));
