//! Which collectors there are, and for which reasons each may have problems: the labels of every family about them.

/// By name, with the values of the label `reason`.
const COLLECTORS: [(&str, &[&str]); 8] = [
    ("described", &["unreadable", "denied", "malformed", "duplicate", "too_large"]),
    ("fpga", &["denied", "error"]),
    ("hwloc", &["unreadable", "denied", "malformed", "too_large", "error"]),
    ("nvml", &["denied", "error", "timeout"]),
    ("opencl", &["denied", "error"]),
    ("perf_hardware", &["denied", "error"]),
    ("perf_software", &["denied", "error"]),
    ("pod_resources", &["denied", "unreachable", "timeout", "throttled", "unknown", "refused"]),
];

/// The reasons for which a collector may have problems; none of one that is not known.
pub fn reasons(collector: &str) -> &'static [&'static str] {
    COLLECTORS.iter().find(|(name, _)| *name == collector).map_or(&[], |(_, reasons)| reasons)
}
