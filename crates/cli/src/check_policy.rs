//! `check-policy`: the faults of a program like a compiler's, what it takes on a snapshot, and what it would change.

use std::path::Path;
use std::time::{Duration, Instant};

use placement::ix::{ActorIx, UnitIx};
use placement::{Plan, Snapshot};
use policy::{Fault, GroundBudget, GroundSize, Program};
use portfolio::Use;
use serde::Serialize;

use crate::arguments::{CheckArguments, Output};
use crate::decide::{self, Search};
use crate::error::CliError;
use crate::plan::{json, with_program, yaml};
use crate::policy::PolicyFile;
use crate::style::{Style, Tone};
use crate::summary::objective;
use crate::text::grouped;
use crate::{Outcome, print, read};

/// Moves that are listed for people.
const MOST_SHOWN: usize = 10;

/// Checks and prints.
pub fn run(arguments: &CheckArguments) -> Result<Outcome, CliError> {
    decide::check(&arguments.strategy, Use::Desk, "--strategy")?;
    let given = PolicyFile::read_unchecked(&arguments.policy)?;
    let Some(text) = &given.policy.program else {
        let problem = "has no program.lp; `plan --policy` reads its parameters".to_owned();
        return Err(CliError::PolicyFile { file: given.file(), problem });
    };
    let program = match Program::parse(text) {
        Ok(program) => program,
        Err(faults) => return Err(CliError::Faults(told(&given, text, &faults))),
    };
    let mut report = Report { policy: given.file(), statements: program.len(), on: None };
    let mut page = title(&report, &program);
    if let Some(file) = &arguments.snapshot {
        let on = examine(file, &given, arguments)?;
        page.push_str(&on.page());
        report.on = Some(on.figures);
    }
    print(&match arguments.output {
        Output::Table => page,
        Output::Json => json(&report),
        Output::Yaml => yaml(&report),
    })?;
    Ok(Outcome::Done)
}

/// Each fault with its place, the line that it is in, and a mark under where it begins.
fn told(given: &PolicyFile, text: &str, faults: &[Fault]) -> String {
    let style = Style::of_stderr();
    let key = if given.is_program { "" } else { "program.lp:" };
    let lines: Vec<&str> = text.lines().collect();
    let one = |fault: &Fault| {
        let place = format!("{}:{key}{}:{}", given.file(), fault.line(), fault.column());
        let line = lines.get(fault.line() - 1).copied().unwrap_or_default().replace('\t', " ");
        let indent = " ".repeat(fault.column() - 1);
        let mark = style.paint(Tone::Bad, "^");
        format!("{}: {}\n  {line}\n  {indent}{mark}", style.paint(Tone::Heading, &place), fault.problem())
    };
    let faults: Vec<String> = faults.iter().map(one).collect();
    faults.join("\nerror: ")
}

fn title(report: &Report, program: &Program) -> String {
    let kind = if program.depends_on_placement() {
        "depends on where actors are"
    } else {
        "follows from facts alone"
    };
    let statements = match report.statements {
        1 => "1 rule".to_owned(),
        many => format!("{many} rules"),
    };
    format!("{}: sound · {statements} · {kind}\n", report.policy)
}

/// What is told to programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    policy: String,
    /// Rules, constraints and weak constraints.
    statements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<Figures>,
}

/// What the program takes on a snapshot, and what it changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
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
    /// Actors that are elsewhere with the program: name, unit without it, unit with it.
    changes: Vec<(String, String, String)>,
    unplaced_without: usize,
    unplaced_with: usize,
    objective_without: String,
    objective_with: String,
}

struct On {
    figures: Figures,
}

fn examine(file: &Path, given: &PolicyFile, arguments: &CheckArguments) -> Result<On, CliError> {
    let refused = |source| CliError::Snapshot { file: read::name(file), source };
    let before = Snapshot::read(&read::text(file)?).map_err(refused)?;
    let mut plain = before.file().clone();
    if let Some(policy) = &mut plain.policy {
        policy.program = None;
    }
    let plain = Snapshot::new(plain).map_err(refused)?;
    let with = with_program(&plain, &given.policy).map_err(refused)?;
    let search = Search {
        strategy: arguments.strategy.clone(),
        wall: arguments.budget.or_else(|| {
            let own = Duration::from_millis(given.policy.wall_milliseconds);
            arguments.effort.is_none().then_some(own)
        }),
        effort: arguments.effort,
        seed: arguments.seed,
        memory_mib: given.policy.memory_mib,
        // What the program changes is asked, not whether it is worth the moves.
        least_gain: 0.0,
    };
    let judge = search.judge();
    let started = Instant::now();
    let failed = |source: placement::PlanError| CliError::Plan { subject: given.file(), source };
    let (_, size) = judge.examine(&with).map_err(|problem| failed(problem.into()))?;
    let took = started.elapsed();
    let without_it = search.plan(&plain, false).map_err(failed)?.plan;
    let with_it = search.plan(&with, false).map_err(failed)?.plan;
    let name = plain.file().name.clone().unwrap_or_else(|| read::name(file));
    Ok(On { figures: figures(name, (&plain, &without_it), (&with, &with_it), size, judge.budget(), took) })
}

fn figures(
    snapshot: String,
    (plain, without_it): (&Snapshot, &Plan),
    (with, with_it): (&Snapshot, &Plan),
    size: GroundSize,
    budget: GroundBudget,
    took: Duration,
) -> Figures {
    let unit =
        |place: Option<UnitIx>| place.map_or("no place".to_owned(), |unit| plain.unit_id(unit).to_owned());
    let both = without_it.assignment.iter().zip(&with_it.assignment);
    let places = ActorIx::first(plain.actors()).zip(both);
    let changes = places.filter(|(_, (before, after))| before != after);
    Figures {
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
        unplaced_without: without_it.unplaced.len(),
        unplaced_with: with_it.unplaced.len(),
        objective_without: objective(plain, &without_it.cost),
        objective_with: objective(with, &with_it.cost),
    }
}

impl On {
    fn page(&self) -> String {
        let f = &self.figures;
        let share = |part: u64, whole: u64| format!("{:.1} %", 100.0 * ratio(part, whole));
        let left_out = |unplaced: usize| match unplaced {
            0 => String::new(),
            some => format!("{some} without a place · "),
        };
        let mut lines = vec![
            format!("on {} ({} actors, {} units)", f.snapshot, count(f.actors), count(f.units)),
            format!(
                "written out   {} conclusions, {} ground rules, {} cases of constraints, {} of penalties",
                count(f.conclusions),
                count(f.ground_rules),
                count(f.constraint_cases),
                count(f.penalty_cases)
            ),
            format!(
                "takes         {} of its steps, {} of its memory, {} ms",
                share(f.steps, f.steps_allowed),
                share(f.kept, f.kept_allowed),
                f.milliseconds
            ),
            format!("without it    {}{}", left_out(f.unplaced_without), f.objective_without),
            format!("with it       {}{}", left_out(f.unplaced_with), f.objective_with),
            match f.changes.len() {
                0 => "changes       nothing: every actor is where it would be without it".to_owned(),
                some => format!("changes       {} of {} actors are elsewhere", count(some), count(f.actors)),
            },
        ];
        for (actor, before, after) in f.changes.iter().take(MOST_SHOWN) {
            lines.push(format!("              {actor}: {after} instead of {before}"));
        }
        if f.changes.len() > MOST_SHOWN {
            lines.push(format!("              and {} more", count(f.changes.len() - MOST_SHOWN)));
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
