//! The cgroups of nodes. They outlive their processes, so their creator must remove them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "cairn-e2e-";

/// The name of a node's cgroups: `cairn-e2e-PID-NODE`, where PID is this process.
pub(super) fn name(node: &str) -> String {
    format!("{PREFIX}{}-{node}", std::process::id())
}

/// Creates a cgroup in every hierarchy: the kubelet creates only those below its own.
pub(super) fn make(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the cgroup {}", folder.display()))?;
    }
    Ok(())
}

/// Removes the cgroups of this name and their children, unless they contain processes.
pub(super) fn remove(name: &str) {
    for hierarchy in hierarchies() {
        remove_tree(&hierarchy.join(name));
    }
}

/// Removes cgroups of nodes whose supervisor and cleanup process were killed.
pub(super) fn remove_abandoned() {
    for hierarchy in hierarchies() {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(owner).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                remove_tree(&entry.path());
            }
        }
    }
}

/// The process id in the name of a cgroup of this harness.
fn owner(name: &str) -> Option<&str> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.bytes().all(|byte| byte.is_ascii_digit()).then_some(pid)
}

/// One folder for version 2; one per controller for version 1.
fn hierarchies() -> Vec<PathBuf> {
    let is_one = |folder: &PathBuf| folder.join("cgroup.procs").is_file();
    let root = PathBuf::from(ROOT);
    if is_one(&root) {
        return vec![root];
    }
    let folders = fs::read_dir(root).into_iter().flatten().flatten();
    // `cpu` and `cpuacct` may link to the same folder
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).filter(is_one).collect()
}

/// Removes only folders, the innermost first: a cgroup's files are removed with it.
fn remove_tree(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    // a cgroup in use is left alone
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::{name, owner};

    #[test]
    fn the_owner_of_a_cgroup_is_in_its_name() {
        assert_eq!(owner(&name("real-0")), Some(std::process::id().to_string().as_str()));
        assert_eq!(owner("cairn-e2e-real-0"), None);
        assert_eq!(owner("kubepods"), None);
    }
}
