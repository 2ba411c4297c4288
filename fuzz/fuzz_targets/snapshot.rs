//! Reads anything as a snapshot.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    harness::snapshot(data);
});
