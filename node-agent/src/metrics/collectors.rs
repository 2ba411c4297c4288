//! The collectors and the reasons of their errors: values of the labels `collector` and `reason`.

/// Collectors by name, with their values of the label `reason`.
const COLLECTORS: [(&str, &[&str]); 10] = [
    ("described", &["unreadable", "denied", "malformed", "duplicate", "too_large"]),
    ("device_plugin", &["denied", "error"]),
    ("fpga", &["denied", "error"]),
    ("hwloc", &["unreadable", "denied", "malformed", "too_large", "error"]),
    ("nvml", &["denied", "error", "timeout"]),
    ("opencl", &["denied", "error"]),
    ("perf_hardware", &["denied", "error"]),
    ("perf_software", &["denied", "error"]),
    ("sysfs", &["denied", "error"]),
    ("pod_resources", &["denied", "unreachable", "timeout", "throttled", "unknown", "refused"]),
];

/// The error reasons of a collector; empty for an unknown one.
pub fn reasons(collector: &str) -> &'static [&'static str] {
    COLLECTORS.iter().find(|(name, _)| *name == collector).map_or(&[], |(_, reasons)| reasons)
}
