//! The results page of all batches.

use std::fmt::Write as _;

use super::batch::{Batch, ChaosSize, Form};

/// One series of durations that a batch measured.
type Durations = fn(&Batch) -> &Vec<f64>;

pub(super) fn page(all: &[Batch], size: ChaosSize, commit: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let sum = |of: fn(&Batch) -> usize| all.iter().map(of).sum::<usize>();
    let mut text = format!(
        "# Failover: operators killed at random moments\n\n{} nodes, {} applications of about {} actors each, two operators with a \
         lease of {} s; the control plane, KWOK and both\noperators share {cores} cores. Each strike changes the cluster: an \
         application is scaled, deleted and recreated or gets a new template, or\na node is lost or drained. Up to {} ms later the leader \
         gets SIGKILL or SIGTERM.\n\n| measured | strikes | median | max | target |\n|---|---:|---:|---:|---:|\n",
        size.nodes, size.applications, size.actors, size.lease_seconds, size.moments
    );
    let rows: [(&str, Durations, &str); 3] = [
        ("SIGKILL until the standby leads", |batch| &batch.after_kill, "20 s"),
        ("SIGTERM until the standby leads", |batch| &batch.after_stop, "3 s"),
        ("new leader until all actors run", |batch| &batch.until_all_run, ""),
    ];
    for (what, of, aim) in rows {
        row(&mut text, (what, aim), all.iter().flat_map(of).copied().collect());
    }
    for form in Form::ALL {
        let settled = all.iter().flat_map(|batch| batch.until_all_run.iter().zip(&batch.changes));
        let of_it: Vec<f64> =
            settled.filter(|(_, other)| **other == form).map(|(seconds, _)| *seconds).collect();
        if !of_it.is_empty() {
            row(&mut text, (&format!("… after {}", form.description()), ""), of_it);
        }
    }
    let _ = writeln!(
        text,
        "\n{} pods were started, {} deleted, {} templates rolled out, {} nodes lost and {} drained; leadership changed {} times.\n",
        sum(|batch| batch.started),
        sum(|batch| batch.stopped),
        sum(|batch| batch.updates),
        sum(|batch| batch.lost_nodes),
        sum(|batch| batch.drained_nodes),
        sum(|batch| batch.hand_overs)
    );
    text.push_str(
        "A recreated application waits until the garbage collector has removed the objects of the old one. The garbage collector discovers \
         new kinds\nevery 30 s, so the first strike after an installation can wait as long.\n\n",
    );
    let findings: Vec<&String> = all.iter().flat_map(|batch| &batch.findings).collect();
    let _ = writeln!(
        text,
        "Violations in the audit log (duplicate actor, lost actor, pod deleted without cause, two operators writing; target 0): {}.",
        findings.len()
    );
    for finding in findings {
        let _ = writeln!(text, "- {finding}");
    }
    let _ = writeln!(
        text,
        "\nMade at {commit} by `make bench`, which runs `cairn-e2e chaos`; the numbers are in [chaos.json](chaos.json)."
    );
    text
}

/// A table row.
fn row(text: &mut String, (what, aim): (&str, &str), mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let at = |index: usize| seconds.get(index).copied().unwrap_or_default();
    let (median, worst) = (at(seconds.len() / 2), at(seconds.len().saturating_sub(1)));
    // writing into a String cannot fail
    let _ = writeln!(text, "| {what} | {} | {median:.1} s | {worst:.1} s | {aim} |", seconds.len());
}
