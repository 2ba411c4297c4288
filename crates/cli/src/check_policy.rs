//! `check-policy`: validates a program, and shows its grounding cost and its effect on a plan.

use std::path::Path;
use std::time::{Duration, Instant};

use placement::ix::{ActorIx, UnitIx};
use placement::{Plan, Snapshot};
use policy::{Fault, GroundBudget, GroundSize, Program};
use portfolio::Purpose;
use serde::Serialize;

use crate::args::{CheckPolicyArgs, Output};
use crate::error::CliError;
use crate::plan::{json, with_program, yaml};
use crate::policy::PolicyFile;
use crate::search::{self, Search};
use crate::style::{Style, Tone};
use crate::summary::objective;
use crate::text::grouped;
use crate::{Outcome, print, read};

/// The most changes that the table lists.
const MAX_LISTED: usize = 10;
/// The most characters of a line that an error shows.
const MAX_LINE: usize = 100;

/// Runs the command.
pub fn run(args: &CheckPolicyArgs) -> Result<Outcome, CliError> {
    search::check_strategy(&args.strategy, Purpose::Offline, "--strategy")?;
    let given = PolicyFile::read_unchecked(&args.policy)?;
    search::check_strategy(
        &given.policy.strategy,
        Purpose::Production,
        &format!("{}: strategy", given.file()),
    )?;
    let program = match &given.policy.program {
        None => None,
        Some(text) => match Program::parse(text) {
            Ok(program) => Some(program),
            Err(faults) => return Err(CliError::InvalidProgram(render_faults(&given, text, &faults))),
        },
    };
    let statements = program.as_ref().map_or(0, Program::len);
    let mut report = CheckReport { policy: given.file(), statements, effect: None };
    let mut page = title(&report, program.as_ref());
    if let Some(file) = args.snapshot.as_ref().filter(|_| program.is_some()) {
        let effect = examine(file, &given, args)?;
        page.push_str(&effect.render());
        report.effect = Some(effect);
    }
    print(&match args.output {
        Output::Table => page,
        Output::Json => json(&report),
        Output::Yaml => yaml(&report),
    })?;
    Ok(Outcome::Ok)
}

/// Each fault with its position, the source line, and a mark under the column.
fn render_faults(given: &PolicyFile, text: &str, faults: &[Fault]) -> String {
    let style = Style::of_stderr();
    let key = if given.is_program { "" } else { "program.lp:" };
    let lines: Vec<&str> = text.lines().collect();
    let one = |fault: &Fault| {
        let position = format!("{}:{key}{}:{}", given.file(), fault.line(), fault.column());
        let line = lines.get(fault.line() - 1).copied().unwrap_or_default().replace('\t', " ");
        // Of a long line only the neighbourhood of the fault is shown.
        let column = fault.column() - 1;
        let start = if line.chars().count() > MAX_LINE { column.saturating_sub(MAX_LINE / 2) } else { 0 };
        let line: String = line.chars().skip(start).take(MAX_LINE).collect();
        let indent = " ".repeat(column - start);
        let mark = style.paint(Tone::Bad, "^");
        format!("{}: {}\n  {line}\n  {indent}{mark}", style.paint(Tone::Heading, &position), fault.problem())
    };
    let faults: Vec<String> = faults.iter().map(one).collect();
    faults.join("\nerror: ")
}

fn title(report: &CheckReport, program: Option<&Program>) -> String {
    let Some(program) = program else {
        return format!(
            "{}: valid · parameters without a program; `kubectl cairn plan --policy` shows their effect\n",
            report.policy
        );
    };
    let kind = if program.depends_on_placement() {
        "depends on the placement"
    } else {
        "independent of the placement"
    };
    let statements = match report.statements {
        1 => "1 rule".to_owned(),
        many => format!("{many} rules"),
    };
    format!("{}: valid · {statements} · {kind}\n", report.policy)
}

/// The machine-readable result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    policy: String,
    /// Rules, constraints and weak constraints.
    statements: usize,
    #[serde(rename = "on", skip_serializing_if = "Option::is_none")]
    effect: Option<ProgramEffect>,
}

/// The grounding cost of the program for a snapshot, and its effect on the plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgramEffect {
    snapshot: String,
    actors: usize,
    units: usize,
    conclusions: usize,
    ground_rules: usize,
    constraint_cases: usize,
    penalty_cases: usize,
    steps: u64,
    steps_allowed: u64,
    kept: u64,
    kept_allowed: u64,
    milliseconds: u64,
    /// Actors that the program moves: name, unit without it, unit with it.
    changes: Vec<(String, String, String)>,
    unplaced_without: usize,
    unplaced_with: usize,
    objective_without: String,
    objective_with: String,
}

fn examine(file: &Path, given: &PolicyFile, args: &CheckPolicyArgs) -> Result<ProgramEffect, CliError> {
    let invalid = |source| CliError::Snapshot { file: read::name(file), source };
    let before = read::snapshot(file)?;
    let mut plain = before.file().clone();
    if let Some(policy) = &mut plain.policy {
        policy.program = None;
    }
    let plain = Snapshot::new(plain).map_err(invalid)?;
    let with = with_program(&plain, &given.policy).map_err(invalid)?;
    let search = Search {
        strategy: args.strategy.clone(),
        wall: args.budget.or_else(|| {
            let own = Duration::from_millis(given.policy.wall_milliseconds);
            args.effort.is_none().then_some(own)
        }),
        effort: args.effort,
        seed: args.seed,
        memory_mib: given.policy.memory_mib,
        requires_judge: given.policy.requires_judge(),
        // Show what the program changes, even if the gain is small.
        least_gain: 0.0,
    };
    let judge = search.judge();
    let started = Instant::now();
    let failed = |source: placement::PlanError| CliError::Plan { subject: given.file(), source };
    let (_, size) = judge.examine(&with).map_err(|problem| failed(problem.into()))?;
    let took = started.elapsed();
    let plan_without = search.plan(&plain, false).map_err(failed)?.plan;
    let plan_with = search.plan(&with, false).map_err(failed)?.plan;
    let name = plain.file().name.clone().unwrap_or_else(|| read::name(file));
    Ok(effect(name, (&plain, &plan_without), (&with, &plan_with), size, judge.budget(), took))
}

fn effect(
    snapshot: String,
    (plain, plan_without): (&Snapshot, &Plan),
    (with, plan_with): (&Snapshot, &Plan),
    size: GroundSize,
    budget: GroundBudget,
    took: Duration,
) -> ProgramEffect {
    let unit =
        |unit: Option<UnitIx>| unit.map_or("unplaced".to_owned(), |unit| plain.unit_id(unit).to_owned());
    let both = plan_without.assignment.iter().zip(&plan_with.assignment);
    let units = ActorIx::first(plain.actors()).zip(both);
    let changes = units.filter(|(_, (before, after))| before != after);
    ProgramEffect {
        snapshot,
        actors: plain.actors(),
        units: plain.units(),
        conclusions: size.conclusions,
        ground_rules: size.rules,
        constraint_cases: size.constraints,
        penalty_cases: size.penalties,
        steps: size.steps,
        steps_allowed: budget.steps,
        kept: size.kept,
        kept_allowed: budget.kept,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        changes: changes
            .map(|(actor, (before, after))| (plain.actor_id(actor).to_owned(), unit(*before), unit(*after)))
            .collect(),
        unplaced_without: plan_without.unplaced.len(),
        unplaced_with: plan_with.unplaced.len(),
        objective_without: objective(plain, &plan_without.cost),
        objective_with: objective(with, &plan_with.cost),
    }
}

impl ProgramEffect {
    fn render(&self) -> String {
        let share = |part: u64, whole: u64| format!("{:.1} %", 100.0 * ratio(part, whole));
        let unplaced = |number: usize| match number {
            0 => String::new(),
            some => format!("{some} unplaced · "),
        };
        let mut lines = vec![
            format!("on {} ({} actors, {} units)", self.snapshot, count(self.actors), count(self.units)),
            format!(
                "grounding     {} conclusions, {} rules, {} constraints, {} penalties",
                count(self.conclusions),
                count(self.ground_rules),
                count(self.constraint_cases),
                count(self.penalty_cases)
            ),
            format!(
                "budget        {} of the steps, {} of the memory, {} ms",
                share(self.steps, self.steps_allowed),
                share(self.kept, self.kept_allowed),
                self.milliseconds
            ),
            format!("without       {}{}", unplaced(self.unplaced_without), self.objective_without),
            format!("with          {}{}", unplaced(self.unplaced_with), self.objective_with),
            match self.changes.len() {
                0 => "changes       none".to_owned(),
                some => format!("changes       {} of {} actors", count(some), count(self.actors)),
            },
        ];
        for (actor, before, after) in self.changes.iter().take(MAX_LISTED) {
            lines.push(format!("              {actor}: {after} instead of {before}"));
        }
        if self.changes.len() > MAX_LISTED {
            lines.push(format!("              and {} more", count(self.changes.len() - MAX_LISTED)));
        }
        lines.join("\n") + "\n"
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share that is shown with one digit")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn count(number: usize) -> String {
    grouped(i64::try_from(number).unwrap_or(i64::MAX))
}
