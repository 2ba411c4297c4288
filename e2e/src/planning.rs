//! `cairn-e2e planning`: time and memory of the command line for small instances, measured from outside.
//!
//! Each plan is a separate process, as for users. CPU time includes the solvers.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

use crate::{keeper, product::tree};

/// The number of runs per instance.
const RUNS: usize = 9;

/// The instances and their expected results.
const PLANS: [(&str, &[&str], &str); 2] = [
    (
        "P-8x4-s1, proven optimal at [0, 3884, 77]",
        &["plan", "--snapshot", "examples/instances/P-8x4-s1.json", "-o", "json"],
        "[0,3884,77]",
    ),
    (
        "the surveillance example, proven optimal at [0, 59040, 21]",
        &[
            "plan",
            "-f",
            "examples/nodes.yaml",
            "-f",
            "examples/topologies",
            "-f",
            "examples/pools.yaml",
            "-f",
            "examples/surveillance.yaml",
            "-f",
            "policies/throughput.yaml",
            "--application",
            "vision/surveillance",
            "-o",
            "json",
        ],
        "[0,59040,21]",
    ),
];

/// One run.
#[derive(Clone, Debug)]
struct Ran {
    wall: Duration,
    processor: Duration,
    /// What proved the plan optimal.
    proven_by: String,
}

/// Plans, prints a table, and writes `planning.md` into `results`.
pub fn run(commit: &str, results: &Path) -> Result<()> {
    let mut table =
        "| instance | proven by | wall clock | CPU time | command |\n|---|---|---:|---:|---|\n".to_owned();
    for (what, arguments, best) in PLANS {
        let runs = (0..RUNS).map(|_| plan(arguments, best)).collect::<Result<Vec<_>>>()?;
        let proven_by: BTreeSet<&str> = runs.iter().map(|ran| ran.proven_by.as_str()).collect();
        let proven_by = proven_by.into_iter().collect::<Vec<_>>().join(", ");
        let [wall, processor] =
            [|ran: &Ran| ran.wall, |ran: &Ran| ran.processor].map(|of| spread(runs.iter().map(of)));
        // writing into a String cannot fail
        let _ = writeln!(
            table,
            "| {what} | {proven_by} | {wall} | {processor} | `kubectl-cairn {}` |",
            arguments.join(" ")
        );
    }
    print!("{table}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let page = format!(
        "# Offline planning of small instances\n\n`kubectl-cairn plan`, {RUNS} runs each on {cores} cores, process start included: min / median / max. \
         A run that does not prove its\nplan optimal fails the measurement. Objectives are [overload, communication, annoyance].\n\n{table}\n\
         Made at {commit} by `make bench`, which runs `cairn-e2e planning`.\n"
    );
    fs::create_dir_all(results).with_context(|| format!("cannot write to {}", results.display()))?;
    fs::write(results.join("planning.md"), page).context("cannot write planning.md")
}

fn plan(arguments: &[&str], best: &str) -> Result<Ran> {
    let mut command = Command::new(keeper::built("kubectl-cairn")?);
    command.args(arguments).current_dir(tree("")).env("KUBECONFIG", "/does/not/exist").stdout(Stdio::piped());
    let (before, began) = (processor_time()?, Instant::now());
    let mut child = command.spawn().context("cannot start kubectl-cairn")?;
    let mut said = String::new();
    child.stdout.take().context("its output is piped")?.read_to_string(&mut said)?;
    let status = child.wait()?;
    let (wall, processor) = (began.elapsed(), processor_time()?.saturating_sub(before));
    ensure!(status.success(), "kubectl-cairn {}: {status}", arguments.join(" "));
    let plan: Value = serde_json::from_str(&said).context("it prints no JSON")?;
    let objective =
        ["overload", "communication", "annoyance"].map(|criterion| plan["objective"][criterion].to_string());
    ensure!(
        format!("[{}]", objective.join(",")) == best && plan["optimal"] == true,
        "it is not {best}, proven: {plan}"
    );
    let proven_by = plan["provenBy"].as_str().context("nothing proved it")?.to_owned();
    Ok(Ran { wall, processor, proven_by })
}

/// The CPU time of all terminated children so far.
fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read what children used")?;
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_secs(u64::try_from(value.tv_sec()).unwrap_or_default())
            + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or_default())
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// Minimum, median and maximum, in seconds.
fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut times: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    format!("{:.2} / {:.2} / {:.2} s", at(0), at(times.len() / 2), at(times.len().saturating_sub(1)))
}
