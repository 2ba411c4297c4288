//! A solver in a separate program: it reads a snapshot and prints a placement.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use placement::{
    Answer, Assignment, Budget, FoundBy, ProvenBy, Snapshot, SolveError, Stage, StoppedBy, Strategy,
};
use serde::Deserialize;

/// Runs an external program as a strategy.
///
/// The program gets `--seconds S --seed N` after its own arguments, and the snapshot on standard input. It prints
/// one JSON object like `kubectl-cairn plan -o json`, of which `assignments`, `bound` and `optimal` are read.
/// It enforces the time limit itself: `stop` is ignored.
#[derive(Clone, Debug)]
pub struct External {
    name: &'static str,
    command: Vec<String>,
    time: Duration,
}

#[derive(Deserialize)]
struct Printed {
    assignments: BTreeMap<String, String>,
    #[serde(default)]
    bound: BTreeMap<String, i64>,
    #[serde(default)]
    optimal: bool,
}

impl External {
    /// Runs `command`, a program and its arguments, with the time limit `time`.
    pub fn new(name: &'static str, command: Vec<String>, time: Duration) -> Self {
        Self { name, command, time }
    }

    fn ask(&self, snapshot: &Snapshot, seed: u64) -> Result<Printed, String> {
        let (program, arguments) = self.command.split_first().ok_or("no program is named")?;
        let short = Path::new(program).file_name().map_or(program.into(), OsStr::to_string_lossy);
        let seconds = self.time.as_secs_f64().to_string();
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--seconds", &seconds, "--seed", &seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|problem| format!("{program} does not start: {problem}"))?;
        let mut input = child.stdin.take().expect("standard input is piped");
        // A program that ends early closes the pipe; its exit status is more informative.
        let fed = input.write_all(snapshot.write().as_bytes());
        drop(input);
        let output = child.wait_with_output().map_err(|problem| format!("{short} was lost: {problem}"))?;
        if !output.status.success() {
            return Err(format!("{short} ended with {}", output.status));
        }
        fed.map_err(|problem| format!("{short} does not read its input: {problem}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|problem| format!("the output of {short} is not a placement: {problem}"))
    }
}

impl Strategy for External {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "a program of its own, on the same snapshot"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let printed = self.ask(snapshot, budget.seed).map_err(SolveError::Solver)?;
        let mut assignment = Assignment::of(None, snapshot.actors());
        for (actor, unit) in &printed.assignments {
            let place = snapshot.actor(actor).zip(snapshot.unit(unit));
            let (actor, unit) = place
                .ok_or_else(|| SolveError::Solver(format!("{actor} on {unit}: unknown actor or unit")))?;
            assignment[actor] = Some(unit);
        }
        let answer = Answer {
            assignment,
            bound: printed.bound,
            optimal: printed.optimal,
            effort: 1,
            stage: Stage::Whole,
            found_by: FoundBy::Exact,
            proven_by: printed.optimal.then_some(ProvenBy::BranchAndBound),
            stopped_by: if printed.optimal { StoppedBy::Proof } else { StoppedBy::Deadline },
        };
        Ok(search::repair_violations(snapshot, answer, budget))
    }
}
