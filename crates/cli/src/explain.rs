//! `explain`: why the actors of an application are where they are, and why some have no place.

use std::sync::Arc;

use explain::{Origin, REASONS_EFFORT};
use placement::ix::ActorIx;
use placement::{Assignment, Cost, Plan, Snapshot, Unplaced};
use serde::Serialize;
use world::ApplicationKey;

use crate::arguments::{ExplainArguments, Output};
use crate::decide::{Preferred, Search};
use crate::error::CliError;
use crate::explained::{Explained, ExplanationReport};
use crate::in_order::InOrder;
use crate::report::{self, UnplacedReport};
use crate::style::{Style, Tone};
use crate::summary::{self, without_a_place};
use crate::text::{joined, section};
use crate::{Outcome, cluster, plan, print};

/// What is explained: where things are, and what that costs.
struct Subject {
    application: ApplicationKey,
    policy: String,
    snapshot: Snapshot,
    assignment: Assignment,
    cost: Cost,
    unplaced: Vec<Unplaced>,
    explained: Explained,
    notes: Vec<String>,
}

/// The explanation as programs read it.
#[derive(Serialize)]
struct Report {
    application: String,
    objective: InOrder,
    unplaced: Vec<UnplacedReport>,
    explanation: ExplanationReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Explains what is decided now, and prints it.
pub fn run(arguments: &ExplainArguments) -> Result<Outcome, CliError> {
    let subject = subject(arguments, key(arguments)?)?;
    print(&match arguments.output {
        Output::Json => plan::json(&report(&subject)),
        Output::Yaml => plan::yaml(&report(&subject)),
        Output::Table => render(&subject, Style::of_stdout()),
    })?;
    Ok(if subject.unplaced.is_empty() { Outcome::Done } else { Outcome::Unplaced })
}

fn key(arguments: &ExplainArguments) -> Result<ApplicationKey, CliError> {
    if arguments.name.contains('/') {
        let key: ApplicationKey = arguments.name.parse().map_err(CliError::Usage)?;
        return match &arguments.namespace {
            Some(other) if *other != key.namespace => {
                Err(CliError::Usage(format!("{key} is not in the namespace {other}; give one of them")))
            }
            _ => Ok(key),
        };
    }
    let namespace = match &arguments.namespace {
        Some(namespace) => namespace.clone(),
        None if arguments.files.is_empty() => cluster::namespace(&arguments.cluster)?,
        None => "default".to_owned(),
    };
    format!("{namespace}/{}", arguments.name).parse().map_err(CliError::Usage)
}

fn subject(arguments: &ExplainArguments, key: ApplicationKey) -> Result<Subject, CliError> {
    let asked = arguments.as_plan(key.clone());
    let (objects, now) = plan::objects(&asked)?;
    let (world, policy, mut notes) = plan::world_of(&objects, &key, &asked, None, now)?;
    let snapshot = Arc::unwrap_or_clone(world.snapshot);
    let search = Search::new(&asked.search, &Preferred::from(&policy));
    // What runs is explained under whatever policy; the operator keeps the last one that could be evaluated.
    let world = search.world(&snapshot).unwrap_or_else(|error| {
        notes.push(format!("the policy's own rules are left out: {error}"));
        snapshot.clone()
    });
    let only = arguments.actor.as_ref().map(|name| find(&snapshot, &key, name)).transpose()?;
    let runs = snapshot.incumbent();
    let broken = world.violations(&runs);
    let (explained, world, assignment, unplaced) = if is_decided(&snapshot) && broken.is_empty() {
        let judge = search.judge();
        let asked = explain::open_to_questions(&world, &snapshot, &judge, &runs);
        let unplaced = explain::reasons(&asked, &runs, REASONS_EFFORT);
        let origin = Origin { bare: &snapshot, judge: &judge };
        (Explained::new(world.clone(), origin, &runs, None, only), world, runs, unplaced)
    } else {
        notes.push(match broken.first() {
            Some(first) => {
                format!("what runs now cannot stay ({first}): this is what would be decided instead")
            }
            None => "nothing is decided yet: this is what would be".to_owned(),
        });
        let found = plan::search(&objects, &snapshot, &key, &asked, &policy)?;
        let explained = Explained::of(&snapshot, &found, only);
        let Plan { assignment, unplaced, .. } = found.plan.clone();
        (explained, found.plan.world(&snapshot).into_owned(), assignment, unplaced)
    };
    Ok(Subject {
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

/// Whether any actor of the application has a place.
fn is_decided(snapshot: &Snapshot) -> bool {
    ActorIx::first(snapshot.actors())
        .any(|actor| !snapshot.is_fixed(actor) && snapshot.current(actor).is_some())
}

fn find(snapshot: &Snapshot, key: &ApplicationKey, name: &str) -> Result<ActorIx, CliError> {
    let own = || ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
    own().find(|&actor| snapshot.short_name(actor) == name || snapshot.actor_id(actor) == name).ok_or_else(
        || {
            let known: Vec<&str> = own().map(|actor| snapshot.short_name(actor)).collect();
            CliError::Usage(format!("{key} has no actor {name}; it has {}", world::offered(&known, name)))
        },
    )
}

fn report(subject: &Subject) -> Report {
    Report {
        application: subject.application.to_string(),
        objective: report::objective(&subject.snapshot, &subject.cost),
        unplaced: UnplacedReport::new(&subject.snapshot, &subject.unplaced),
        explanation: ExplanationReport::new(&subject.explained),
        notes: subject.notes.clone(),
    }
}

fn render(subject: &Subject, style: Style) -> String {
    let Subject { snapshot, assignment, unplaced, .. } = subject;
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
        without_a_place(snapshot, unplaced, style),
        section("Notes", Tone::Change, &subject.notes, style),
        format!("{count} · {}\n", summary::objective(snapshot, &subject.cost)),
    ]);
    joined(sections)
}
