//! One run, in its own process so that its memory is measured alone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use placement::ix::ActorIx;
use placement::{
    Assignment, Budget, Cost, Derived, Judge, JudgeError, Judged, Judgement, Objectives, Plan, Snapshot,
    Strategy,
};
use portfolio::{ClingoJudge, Limits};

use super::{Instance, Record, memory};

/// Parameters of a run.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// The strategy.
    pub strategy: &'a dyn Strategy,
    /// Time budget.
    pub budget: Duration,
    /// Whether the budget is processor time, of two processors. This makes runs robust to other load on the machine; a
    /// single-threaded run gets twice the time.
    pub by_processor: bool,
    /// The seed.
    pub seed: u64,
}

/// Least grounding limit of a policy program, in milliseconds.
const JUDGING_MILLISECONDS: u64 = 2_000;

/// The judge, and its time on finished plans.
struct TimedJudge {
    judge: ClingoJudge,
    took: Mutex<Duration>,
}

impl Judge for TimedJudge {
    fn derive(&self, snapshot: &Snapshot) -> Result<Derived, JudgeError> {
        self.judge.derive(snapshot)
    }

    fn judge(&self, snapshot: &Snapshot, assignment: &Assignment) -> Result<Judgement, JudgeError> {
        self.judge.judge(snapshot, assignment)
    }

    fn time_to_confirm(&self, world: &Snapshot, most: Duration) -> Duration {
        self.judge.time_to_confirm(world, most)
    }

    fn confirm(&self, world: &Snapshot, assignment: &Assignment, cost: &Cost) -> Result<Judged, JudgeError> {
        let started = Instant::now();
        let judged = self.judge.confirm(world, assignment, cost);
        *self.took.lock().unwrap_or_else(PoisonError::into_inner) += started.elapsed();
        judged
    }
}

/// Plans once in a child process: this program with the command `one`.
///
/// # Errors
/// The process cannot be started, or fails.
pub fn apart(
    file: &Path,
    strategy: &str,
    budget: (f64, bool),
    seed: u64,
    cp_sat: &str,
) -> Result<Record, Box<dyn std::error::Error>> {
    let child = Command::new(std::env::current_exe()?)
        .args(["one", "--strategy", strategy, "--cp-sat", cp_sat, "--instance"])
        .arg(file)
        .args(["--budget", &budget.0.to_string(), "--seed", &seed.to_string()])
        .args(budget.1.then_some("--processor"))
        .stdout(Stdio::piped())
        .spawn()?;
    let (output, of_children) = memory::watched(child)?;
    if !output.status.success() {
        return Err(format!("{strategy} on {}: the run ended with {}", file.display(), output.status).into());
    }
    // METIS prints its own errors from C, before the record or at exit.
    let mut lines = output.stdout.split(|byte| *byte == b'\n');
    let record = lines.find(|line| line.starts_with(b"{")).unwrap_or_default();
    let mut record: Record = serde_json::from_slice(record)?;
    record.peak_memory_mib += of_children;
    Ok(record)
}

/// Plans once and records result and cost.
///
/// The answer is checked and evaluated again here, independently of the plan.
pub fn measure(run: &Run) -> Record {
    let Run { instance, strategy, budget, by_processor, seed } = *run;
    let snapshot = &instance.snapshot;
    let before = processor_time();
    let started = Instant::now();
    let left = || {
        if by_processor {
            (budget * 2).saturating_sub(processor_time() + of_children()) / 2
        } else {
            budget.saturating_sub(started.elapsed())
        }
    };
    let stop = || left().is_zero();
    let wall = run.budget;
    let until_deadline = Arc::new(move || wall.saturating_sub(started.elapsed()));
    let milliseconds = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX).max(JUDGING_MILLISECONDS);
    let judge = ClingoJudge::new(Limits::default(), milliseconds);
    let judge = TimedJudge {
        judge: if by_processor { judge } else { judge.until(until_deadline) },
        took: Mutex::default(),
    };
    let budget = Budget { effort: None, seed, stop: &stop, left: Some(&left) };
    let planned = placement::plan(snapshot, strategy, &judge, &budget);
    let wall = started.elapsed();
    let levels = snapshot.objectives().levels().iter().map(|level| Objectives::key(level));
    let mut record = Record {
        instance: instance.name.clone(),
        actors: snapshot.actors(),
        units: snapshot.units(),
        strategy: strategy.name().to_owned(),
        budget_seconds: run.budget.as_secs_f64(),
        by_processor,
        seed,
        levels: std::iter::once("unplaced".to_owned()).chain(levels).collect(),
        wall_seconds: wall.as_secs_f64(),
        judged_seconds: judge.took.into_inner().unwrap_or_else(PoisonError::into_inner).as_secs_f64(),
        cpu_seconds: processor_time().saturating_sub(before).as_secs_f64(),
        peak_memory_mib: memory::peak(std::process::id()).unwrap_or(0),
        ..Record::default()
    };
    match planned {
        Ok(plan) => fill(&mut record, instance, &plan),
        Err(problem) => record.problem = Some(in_full(&problem)),
    }
    record
}

fn fill(record: &mut Record, instance: &Instance, plan: &Plan) {
    let snapshot = &instance.snapshot;
    let violations = snapshot.violations(&plan.assignment);
    let exact = snapshot.cost(&plan.assignment);
    // Only the judge computes `policy`; cost() leaves it 0.
    let priced = placement::Cost { policy: plan.cost.policy, ..exact };
    if let Some(violation) = violations.first() {
        record.problem = Some(format!("infeasible: {violation}"));
    } else if priced == plan.cost {
        record.vector = priced.vector(snapshot);
    } else {
        record.problem = Some(format!("costs {priced:?}, not {:?} as the plan says", plan.cost));
    }
    record.bound = plan.bound.clone();
    record.optimal = plan.optimal;
    record.proven_by = plan.proven_by.map(|by| by.to_string());
    record.judged = plan.judged.to_string();
    record.effort = plan.effort;
    record.stage = plan.stage.to_string();
    record.stopped_by = plan.stopped_by.to_string();
    let running = ActorIx::first(snapshot.actors()).filter(|&actor| snapshot.current(actor).is_some());
    let (stays, runs) = running.fold((0, 0), |(stays, runs), actor| {
        (stays + usize::from(plan.assignment[actor] == snapshot.current(actor)), runs + 1)
    });
    record.stay = (runs > 0).then(|| super::summary::quotient(stays, runs));
}

/// Processor time of running children, from Linux, in hundredths of a second.
fn of_children() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let mut ticks = 0;
    for child in memory::children(std::process::id()) {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // Fields after the name in brackets: the twelfth is user time, the next system time.
        let times = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        ticks += times.filter_map(|ticks| ticks.parse::<u32>().ok()).sum::<u32>();
    }
    TICK * ticks
}

/// Processor time of this process and of its children that have ended.
fn processor_time() -> Duration {
    let of = |usage: &Usage| {
        let parts = [usage.user_time(), usage.system_time()];
        parts.map(|time| seconds(time.tv_sec(), time.tv_usec())).iter().sum()
    };
    usages().iter().map(of).fold(Duration::ZERO, |sum, time: Duration| sum + time)
}

fn seconds(whole: i64, micros: i64) -> Duration {
    let whole = Duration::from_secs(u64::try_from(whole).unwrap_or(0));
    whole + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn usages() -> [Usage; 2] {
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .map(|who| getrusage(who).expect("both are known to every kernel"))
}

/// An error with its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
