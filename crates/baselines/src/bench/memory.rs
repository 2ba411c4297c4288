//! Memory of a run and of its child processes.
//!
//! `getrusage` is unsuitable for children: between fork and exec a child counts as much memory as its
//! parent.

use std::fs;
use std::process::{Child, Output};
use std::time::Duration;
use std::{io, thread};

/// Sampling interval; the kernel keeps each child's peak.
const EVERY: Duration = Duration::from_millis(20);

/// Waits for a process to end; returns its output, and the peak of its largest child in MiB.
pub fn watched(child: Child) -> io::Result<(Output, u64)> {
    let root = child.id();
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut largest = 0;
            // A process that has ended has no memory.
            while peak(root).is_some() {
                largest = children(root).into_iter().filter_map(peak).fold(largest, u64::max);
                thread::sleep(EVERY);
            }
            largest
        });
        let output = child.wait_with_output()?;
        Ok((output, watch.join().unwrap_or_default()))
    })
}

/// Peak memory of a process since exec, in MiB; 0 if it has ended.
pub fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// Children of this process that have not been waited for.
pub fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of_tasks = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    of_tasks
        .flat_map(|all| all.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn parent_and_child_memory_are_measured_separately() {
        // A shell that has read 40 MB into a variable, started by another shell.
        let held = "sh -c 'held=$(head -c 40000000 /dev/zero | tr \"\\0\" x); echo ${#held}; true'; true";
        let child = Command::new("sh").args(["-c", held]).stdout(Stdio::piped()).spawn().unwrap();
        let (output, of_children) = watched(child).unwrap();
        assert_eq!(output.stdout, b"40000000\n");
        assert!((38..400).contains(&of_children), "{of_children} MiB");
        assert!(peak(std::process::id()).unwrap() > 0);
        assert_eq!(peak(u32::MAX), None);
    }
}
