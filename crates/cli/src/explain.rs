//! `explain`: explains the placement of an application, and why actors are unplaced.

use std::collections::BTreeSet;
use std::sync::Arc;

use explain::{REASONS_EFFORT, Rebuild};
use placement::ix::ActorIx;
use placement::{Assignment, Cost, Plan, Snapshot, Unplaced};
use serde::Serialize;
use world::{ApplicationKey, Index};

use crate::args::{ExplainArgs, Output};
use crate::error::CliError;
use crate::explanation::{ExplainedPlan, ExplanationReport};
use crate::ordered::OrderedMap;
use crate::report::{self, UnplacedReport};
use crate::search::{PolicyDefaults, Search};
use crate::style::{Style, Tone};
use crate::summary::{self, unplaced_section};
use crate::text::{joined, section};
use crate::{Outcome, cluster, plan, print};

/// The explained assignment with its cost.
struct ExplainedAssignment {
    application: ApplicationKey,
    policy: String,
    snapshot: Snapshot,
    assignment: Assignment,
    cost: Cost,
    unplaced: Vec<Unplaced>,
    explained: ExplainedPlan,
    notes: Vec<String>,
}

/// The machine-readable explanation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainReport {
    application: String,
    objective: OrderedMap,
    unplaced: Vec<UnplacedReport>,
    explanation: ExplanationReport,
    /// Rules of pod templates that only kube-scheduler evaluates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_to_scheduler: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Runs the command.
pub fn run(args: &ExplainArgs) -> Result<Outcome, CliError> {
    let subject = subject(args, key(args)?)?;
    print(&match args.output {
        Output::Json => plan::json(&report(&subject)),
        Output::Yaml => plan::yaml(&report(&subject)),
        Output::Table => render(&subject, Style::of_stdout()),
    })?;
    Ok(if subject.unplaced.is_empty() { Outcome::Ok } else { Outcome::Unplaced })
}

fn key(args: &ExplainArgs) -> Result<ApplicationKey, CliError> {
    let connection = args.files.is_empty().then_some(&args.cluster);
    cluster::application_key(&args.name, args.namespace.as_deref(), connection)
}

fn subject(args: &ExplainArgs, key: ApplicationKey) -> Result<ExplainedAssignment, CliError> {
    let plan_args = args.as_plan(key.clone());
    let (objects, now) = plan::objects(&plan_args)?;
    let (world, policy, mut notes) = plan::snapshot_of(&objects, &key, &plan_args, None, now)?;
    let snapshot = Arc::unwrap_or_clone(world.snapshot);
    let search = Search::new(&plan_args.search, &PolicyDefaults::from(&policy));
    // Explain even if the policy cannot be evaluated; the operator keeps using its last valid version.
    let world = search.with_derived(&snapshot).unwrap_or_else(|error| {
        notes.push(format!("the program of the policy is ignored: {error}"));
        snapshot.clone()
    });
    let only = args.actor.as_ref().map(|name| find_actor(&snapshot, &key, name)).transpose()?;
    let current = snapshot.incumbent();
    let violations = world.violations(&current);
    let (explained, world, assignment, unplaced) = if is_decided(&snapshot) && violations.is_empty() {
        let judge = search.judge();
        let open = explain::with_open_rules(&world, &snapshot, &judge, &current);
        let unplaced = explain::reasons(&open, &current, REASONS_EFFORT);
        let origin = Rebuild { bare: &snapshot, judge: &judge };
        (ExplainedPlan::new(world.clone(), origin, &current, None, only), world, current, unplaced)
    } else {
        notes.push(match violations.first() {
            Some(first) => {
                format!("the current placement is infeasible ({first}); this explains a new plan")
            }
            None => "there is no placement yet; this explains a new plan".to_owned(),
        });
        let result = plan::search(&objects, &snapshot, &key, &plan_args, &policy)?;
        let explained = ExplainedPlan::of(&snapshot, &result, only);
        let Plan { assignment, unplaced, .. } = result.plan.clone();
        (explained, result.plan.world(&snapshot).into_owned(), assignment, unplaced)
    };
    notes.extend(unavailable_devices(&Index::of(&objects), &snapshot, &unplaced));
    Ok(ExplainedAssignment {
        application: key,
        policy: policy.name,
        cost: Cost { policy: world.penalty(&assignment), ..world.cost(&assignment) },
        explained,
        snapshot,
        assignment,
        unplaced,
        notes,
    })
}

/// How many devices are named for each kind.
const DEVICES: usize = 8;

/// Devices of claims that unplaced actors could use and that take none.
fn unavailable_devices(index: &Index, snapshot: &Snapshot, unplaced: &[Unplaced]) -> Vec<String> {
    let kinds = |it: &Unplaced| snapshot.file().actors[it.actor.at()].runs_on.keys();
    let kinds: BTreeSet<&String> = unplaced.iter().flat_map(kinds).collect();
    let mut notes = Vec::new();
    for kind in kinds {
        let devices = index.unavailable_devices(kind);
        notes.extend(devices.iter().take(DEVICES).map(|device| format!("{kind}: {device}")));
        if devices.len() > DEVICES {
            notes.push(format!("{kind}: and {} more devices", devices.len() - DEVICES));
        }
    }
    notes
}

/// Whether any actor of the application is placed.
fn is_decided(snapshot: &Snapshot) -> bool {
    ActorIx::first(snapshot.actors())
        .any(|actor| !snapshot.is_fixed(actor) && snapshot.current(actor).is_some())
}

fn find_actor(snapshot: &Snapshot, key: &ApplicationKey, name: &str) -> Result<ActorIx, CliError> {
    let own = || ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
    own().find(|&actor| snapshot.short_name(actor) == name || snapshot.actor_id(actor) == name).ok_or_else(
        || {
            let known: Vec<&str> = own().map(|actor| snapshot.short_name(actor)).collect();
            CliError::Usage(format!(
                "{key} has no actor {name}; its actors are {}",
                world::suggestions(&known, name)
            ))
        },
    )
}

fn report(subject: &ExplainedAssignment) -> ExplainReport {
    ExplainReport {
        application: subject.application.to_string(),
        objective: report::objective(&subject.snapshot, &subject.cost),
        unplaced: UnplacedReport::new(&subject.snapshot, &subject.unplaced),
        explanation: ExplanationReport::new(&subject.explained),
        left_to_scheduler: subject.snapshot.file().left_to_scheduler.clone(),
        notes: subject.notes.clone(),
    }
}

fn render(subject: &ExplainedAssignment, style: Style) -> String {
    let ExplainedAssignment { snapshot, assignment, unplaced, .. } = subject;
    let title = style.paint(Tone::Heading, &subject.application.to_string());
    let about = style.paint(Tone::Faint, &format!("policy {}", subject.policy));
    let mut sections = vec![format!("{title}  {about}\n")];
    sections.extend(subject.explained.render(style));
    let placed = ActorIx::first(snapshot.actors())
        .filter(|&a| !snapshot.is_fixed(a) && assignment[a].is_some())
        .count();
    let all = placed + unplaced.len();
    let tone = if placed == all { Tone::Good } else { Tone::Bad };
    let count = style.paint(tone, &format!("{placed}/{all} actors placed"));
    sections.extend([
        unplaced_section(snapshot, unplaced, style),
        section("Left to the scheduler", Tone::Change, &snapshot.file().left_to_scheduler, style),
        section("Notes", Tone::Change, &subject.notes, style),
        format!("{count} · {}\n", summary::objective(snapshot, &subject.cost)),
    ]);
    joined(sections)
}
