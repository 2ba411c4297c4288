//! Cgroups of pods: paths in the cgroup v2 hierarchy, and CPU sets.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Whether `root` is a cgroup v2 hierarchy.
pub fn is_v2(root: &Path) -> bool {
    root.join("cgroup.controllers").is_file()
}

/// The cgroup of a pod, for each cgroup driver and `QoS` class of the kubelet.
pub fn of_pod(root: &Path, uid: &str) -> Option<PathBuf> {
    // The uid becomes part of a path, so unexpected characters are rejected.
    if uid.is_empty() || !uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return None;
    }
    let flat = uid.replace('-', "_");
    let candidates = ["", "burstable", "besteffort"].into_iter().flat_map(|class| {
        let (folder, slice, prefix) = match class {
            "" => (String::new(), String::new(), String::new()),
            class => (format!("{class}/"), format!("kubepods-{class}.slice/"), format!("{class}-")),
        };
        [
            format!("kubepods/{folder}pod{uid}"),
            format!("kubepods.slice/{slice}kubepods-{prefix}pod{flat}.slice"),
        ]
    });
    candidates.map(|path| root.join(path)).find(|path| path.is_dir())
}

/// Opens a cgroup for `perf_event_open`.
pub fn open(folder: &Path) -> std::io::Result<File> {
    File::open(folder)
}

/// The CPUs that the containers of a pod may use; `None` if unknown.
pub fn cpus(folder: &Path) -> Option<BTreeSet<usize>> {
    let containers = fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_dir());
    let mut cpus = BTreeSet::new();
    for container in containers {
        cpus.extend(parse(&fs::read_to_string(container.path().join("cpuset.cpus.effective")).ok()?)?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// The online CPUs of the machine.
pub fn online() -> BTreeSet<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse(&text).unwrap_or_default()
}

/// Parses the kernel's list format: `0-3,8`.
fn parse(text: &str) -> Option<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No machine has more CPUs, and an invalid range must not be expanded.
        if last >= 8192 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_for_each_cgroup_driver_and_qos_class() {
        let root = tempfile::tempdir().unwrap();
        assert!(!is_v2(root.path()));
        for (uid, path) in [
            ("a-1", "kubepods/poda-1"),
            ("a-2", "kubepods/burstable/poda-2"),
            ("a-3", "kubepods/besteffort/poda-3"),
            ("a-4", "kubepods.slice/kubepods-poda_4.slice"),
            ("a-5", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_5.slice"),
        ] {
            fs::create_dir_all(root.path().join(path)).unwrap();
            assert_eq!(of_pod(root.path(), uid), Some(root.path().join(path)), "{uid}");
        }
        assert_eq!(of_pod(root.path(), "a-6"), None);
        assert_eq!(of_pod(root.path(), "a-1/../poda-1"), None);
        assert_eq!(of_pod(root.path(), ""), None);
    }

    #[test]
    fn the_cpus_of_a_pod_are_those_of_its_containers() {
        let pod = tempfile::tempdir().unwrap();
        assert_eq!(cpus(pod.path()), None);
        for (container, list) in [("a", "2-3\n"), ("b", "3,8\n")] {
            fs::create_dir(pod.path().join(container)).unwrap();
            fs::write(pod.path().join(container).join("cpuset.cpus.effective"), list).unwrap();
        }
        assert_eq!(cpus(pod.path()), Some([2, 3, 8].into()));
        assert_eq!(parse("0-99999999999"), None);
        assert_eq!(parse("x"), None);
        assert!(!online().is_empty());
    }
}
