//! Memory of a run and of the processes that it starts.
//!
//! What `getrusage` tells of children is no measure: a process that is started counts, until it runs a program of its own, as much
//! as the one that started it.

use std::fs;
use std::process::{Child, Output};
use std::time::Duration;
use std::{io, thread};

/// How often it is looked at children, which keep their peaks themselves.
const EVERY: Duration = Duration::from_millis(20);

/// Waits for a process to end; returns its output, and the peak of the largest process that it started itself, in MiB.
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

/// The most that a process has had in memory since it runs its program, in MiB; nothing of one that has ended.
pub fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// The processes that this one has started and that have not been waited for.
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
    fn a_process_and_whom_it_starts_have_memory_of_their_own() {
        // As much as a shell holds when it has read 40 MB into a variable, in a process that another shell started.
        let held = "sh -c 'held=$(head -c 40000000 /dev/zero | tr \"\\0\" x); echo ${#held}; true'; true";
        let child = Command::new("sh").args(["-c", held]).stdout(Stdio::piped()).spawn().unwrap();
        let (output, of_children) = watched(child).unwrap();
        assert_eq!(output.stdout, b"40000000\n");
        assert!((38..400).contains(&of_children), "{of_children} MiB");
        assert!(peak(std::process::id()).unwrap() > 0);
        assert_eq!(peak(u32::MAX), None);
    }
}
