//! Reads anything as what Instances, their launcher and their peers say to each other, and as topologies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtime::backends::read_anything(data));
