//! Memory of the process and its children together.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Acceptance, Problem, Row};
use crate::bench::{Record, children};

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(20);

/// Peak memory of the process and its children, with shared pages counted proportionally: `Pss` of
/// `/proc/PID/smaps_rollup`, sampled every 20 ms.
pub(super) fn measure(acceptance: &Acceptance, report: &mut dyn FnMut(Row)) -> Result<(), Problem> {
    for (name, seconds) in [("C-1000x200-s1", 10.0), ("P-1000x128-s1", 10.0), ("C-20000x4000-s1", 30.0)] {
        let budget = acceptance.scaled(seconds);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["one", "--strategy", "asp", "--budget", &budget.to_string(), "--instance"])
            .arg(acceptance.instance(name)?)
            .stdout(Stdio::piped())
            .spawn()?;
        let (mut peak, mut looks) = (0, 0);
        while child.try_wait()?.is_none() {
            peak = peak.max(together(child.id()));
            looks += 1;
            std::thread::sleep(EVERY);
        }
        let output = child.wait_with_output()?;
        let record: Record = serde_json::from_slice(&output.stdout)?;
        report(Row {
            margin: format!("{} MiB", peak / 1024),
            what: "memory: peak PSS of the process and its children",
            subject: format!("{name}, asp, {budget} s"),
            measured: format!("sampled {looks} times; the process alone: {} MiB", record.peak_memory_mib),
            runs: 1,
        });
    }
    Ok(())
}

/// KiB of a process and its descendants; 0 for processes that have ended.
fn together(root: u32) -> u64 {
    let mut all = BTreeSet::new();
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        if all.insert(process) {
            open.extend(children(process));
        }
    }
    all.into_iter().filter_map(resident).sum()
}

fn resident(process: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_has_memory() {
        let own = std::process::id();
        assert!(together(own) > 500, "{}", together(own));
    }
}
