//! `plan`: from a snapshot, from manifests, or from a cluster to a decision that is printed and not applied.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crds::{ActorApplication, Assignment, Placement, PlacementSpec, StartPolicy};
use jiff::Timestamp;
use placement::file::Levels;
use placement::{MOST_PAIRS, Plan, Snapshot, SnapshotError};
use portfolio::Use;
use world::{ApplicationKey, Index, Objects, Policy};

use crate::arguments::{PlanArguments, PlanOutput};
use crate::decide::{self, Found, Preferred, Search};
use crate::error::CliError;
use crate::explained::Explained;
use crate::policy::{self, PolicyFile};
use crate::report::Report;
use crate::style::Style;
use crate::summary::{self, Title};
use crate::{Outcome, cluster, complain, print, read};

/// A decision, and what it was made from.
struct Decision {
    /// The application, or the name of the snapshot.
    subject: String,
    policy: Option<String>,
    snapshot: Snapshot,
    plan: Plan,
    took: Option<Duration>,
    /// Only where it was asked for.
    explained: Option<Explained>,
    notes: Vec<String>,
}

/// Plans and prints.
pub fn run(arguments: &PlanArguments) -> Result<Outcome, CliError> {
    if arguments.search.strategy.as_deref() == Some("list") {
        print(&decide::list())?;
        return Ok(Outcome::Done);
    }
    // Before anything is read: a slip of the pen should not cost a listing of the cluster.
    if let Some(name) = &arguments.search.strategy {
        decide::check(name, Use::Desk, "--strategy")?;
    }
    if let Some(levels) = &arguments.search.objectives {
        levels.check().map_err(|e| CliError::Usage(format!("--objectives: {e}")))?;
    }
    let given = arguments.search.policy.as_deref().map(PolicyFile::read).transpose()?;
    if let Some(given) = &given {
        decide::check(&given.policy.strategy, Use::Production, &format!("{}: strategy", given.file()))?;
    }
    match &arguments.subject.snapshot {
        Some(file) => from_snapshot(file, arguments, given.as_ref()),
        None => from_objects(arguments, given.as_ref()),
    }
}

fn from_snapshot(
    file: &Path,
    arguments: &PlanArguments,
    given: Option<&PolicyFile>,
) -> Result<Outcome, CliError> {
    let refused = |source| CliError::Snapshot { file: read::name(file), source };
    let mut snapshot = Snapshot::read(&read::text(file)?).map_err(refused)?;
    if let Some(given) = given {
        given.check_for_snapshot()?;
    }
    if let Some(given) = given.filter(|given| given.policy.program.is_some()) {
        snapshot = with_program(&snapshot, &given.policy).map_err(refused)?;
    }
    let of_policy = given.filter(|given| given.names("objectives")).map(|given| &given.policy.objectives);
    if let Some(levels) = arguments.search.objectives.as_ref().or(of_policy) {
        snapshot = with_objectives(&snapshot, levels).map_err(refused)?;
    }
    if arguments.output == PlanOutput::Snapshot {
        print(&snapshot.write())?;
        return Ok(Outcome::Done);
    }
    let preferred =
        given.map_or_else(|| Preferred::from(&Policy::builtin("throughput")), |g| (&g.policy).into());
    let search = Search::new(&arguments.search, &preferred);
    let name = snapshot.file().name.clone().or_else(|| snapshot.file().application.clone());
    let subject = name.unwrap_or_else(|| read::name(file));
    let found = search
        .plan(&snapshot, false)
        .map_err(|source| CliError::Plan { subject: read::name(file), source })?;
    let policy = snapshot.file().policy.as_ref().map(|policy| policy.name.clone());
    let explained = explained(arguments, &snapshot, &found);
    let notes = stood_aside(&snapshot).into_iter().collect();
    let Found { plan, took, .. } = found;
    let decision = Decision { subject, policy, snapshot, plan, took, explained, notes };
    show_one(&decision, arguments.output)?;
    Ok(outcome([&decision]))
}

fn explained(arguments: &PlanArguments, snapshot: &Snapshot, found: &Found) -> Option<Explained> {
    arguments.explain.then(|| Explained::of(snapshot, found, None))
}

/// What had no part in a plan for the number of pairs of actors, in plain words; nothing where everything had.
fn stood_aside(snapshot: &Snapshot) -> Option<String> {
    let channels = &snapshot.problem().channels;
    channels.are_whole().then(|| {
        format!(
            "the channels between groups make {} pairs of actors, above {MOST_PAIRS}: they were planned whole; proofs and bounds of \
             what pairs cost stood aside",
            channels.pairs
        )
    })
}

/// The same world under another policy's program.
pub fn with_program(snapshot: &Snapshot, policy: &Policy) -> Result<Snapshot, SnapshotError> {
    let mut file = snapshot.file().clone();
    let (name, program) = (policy.name.clone(), policy.program.clone());
    file.policy = Some(placement::file::Policy { name, program });
    Snapshot::new(file)
}

fn with_objectives(snapshot: &Snapshot, levels: &Levels) -> Result<Snapshot, SnapshotError> {
    let mut file = snapshot.file().clone();
    file.objectives = levels.clone();
    Snapshot::new(file)
}

fn from_objects(arguments: &PlanArguments, given: Option<&PolicyFile>) -> Result<Outcome, CliError> {
    let (mut objects, now) = objects(arguments)?;
    let keys = applications(&objects, arguments)?;
    if arguments.output == PlanOutput::Snapshot {
        return print_snapshot(&objects, &keys, arguments, given, now);
    }
    let mut decisions = Vec::new();
    let mut failed = None;
    for key in &keys {
        match decide(&objects, key, arguments, given, now) {
            Ok(decision) => {
                remember(&mut objects, key, &decision);
                decisions.push(decision);
            }
            // The others are planned all the same; the last one to fail ends the command.
            Err(error) => failed.replace(error).iter().for_each(complain),
        }
    }
    // One application that was asked for by name is printed like a snapshot's plan; else there may be any number.
    match (&arguments.subject.application, decisions.as_slice()) {
        (Some(_), [decision]) => show_one(decision, arguments.output)?,
        (Some(_), _) => {}
        (None, decisions) => show_all(decisions, arguments.output)?,
    }
    failed.map_or_else(|| Ok(outcome(&decisions)), Err)
}

/// What the cluster or the files hold, and the time that it is judged at.
pub fn objects(arguments: &PlanArguments) -> Result<(Objects, Timestamp), CliError> {
    let files = &arguments.subject.files;
    if files.is_empty() {
        return Ok((cluster::objects(&arguments.cluster)?, Timestamp::now()));
    }
    let (objects, newest) = read::manifests(files)?;
    // Without any time nothing has run out yet.
    Ok((objects, arguments.subject.now.or(newest).unwrap_or(Timestamp::UNIX_EPOCH)))
}

/// The applications that are asked about, by name.
fn applications(objects: &Objects, arguments: &PlanArguments) -> Result<Vec<ApplicationKey>, CliError> {
    if let Some(key) = &arguments.subject.application {
        return Ok(vec![key.clone()]);
    }
    let mut keys: Vec<ApplicationKey> = objects
        .applications
        .iter()
        .filter(|application| application.metadata.deletion_timestamp.is_none())
        .map(|application| ApplicationKey::of(application))
        .collect();
    keys.sort_unstable();
    if let Some((twice, _)) = keys.iter().zip(keys.iter().skip(1)).find(|(key, next)| key == next) {
        return Err(CliError::Usage(format!("{twice} is given twice; keep one of them")));
    }
    if keys.is_empty() {
        let place = if arguments.subject.files.is_empty() { "on the cluster" } else { "in the files" };
        return Err(CliError::Usage(format!("there is no ActorApplication {place}; nothing to plan")));
    }
    Ok(keys)
}

/// The world of one application under its policy, and what people should know of it.
pub fn world_of(
    objects: &Objects,
    key: &ApplicationKey,
    arguments: &PlanArguments,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<(world::World, Policy, Vec<String>), CliError> {
    let refused = |source| CliError::World { application: key.clone(), source };
    let on_files = !arguments.subject.files.is_empty();
    let (mut policy, note) = match (given, objects.application(key)) {
        // A program alone goes with the parameters of the application's own policy.
        (Some(given), Some(application)) if given.is_program => {
            let default = &arguments.subject.default_policy;
            let (own, note) = policy::of_application(objects, application, default, on_files)?;
            (Policy { program: given.policy.program.clone(), ..own }, note)
        }
        (Some(given), _) => (given.policy.clone(), None),
        (None, Some(application)) => {
            policy::of_application(objects, application, &arguments.subject.default_policy, on_files)?
        }
        // What is not there has no policy; the world says which there are.
        (None, None) => (Policy::builtin("throughput"), None),
    };
    if let Some(levels) = &arguments.search.objectives {
        policy.objectives = levels.clone();
    }
    let world = world::snapshot(&Index::of(objects), key, &policy, now).map_err(refused)?;
    let mut notes: Vec<String> = note.into_iter().collect();
    notes.extend(world.notes.iter().map(|note| format!("{}: {}", note.condition, note.message)));
    for (pool, report) in &world.pools {
        let problems = report.problems.iter();
        notes.extend(problems.map(|(condition, problem)| format!("pool {pool}: {condition}: {problem}")));
    }
    Ok((world, policy, notes))
}

fn decide(
    objects: &Objects,
    key: &ApplicationKey,
    arguments: &PlanArguments,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<Decision, CliError> {
    let (world, policy, mut notes) = world_of(objects, key, arguments, given, now)?;
    notes.extend(stood_aside(&world.snapshot));
    let found = search(objects, &world.snapshot, key, arguments, &policy)?;
    Ok(Decision {
        explained: explained(arguments, &world.snapshot, &found),
        subject: key.to_string(),
        policy: Some(policy.name),
        snapshot: Arc::unwrap_or_clone(world.snapshot),
        plan: found.plan,
        took: found.took,
        notes,
    })
}

/// Whether none of an application's actors may start before all have a place: as long as none of its pods is there.
fn starts_together(objects: &Objects, key: &ApplicationKey) -> bool {
    let is_together = |application: &&Arc<ActorApplication>| application.spec.start == StartPolicy::AllOrNothing;
    objects.application(key).filter(is_together).is_some_and(|application| {
        world::own(&Index::of(objects), application).values().all(|(_, pod)| pod.is_none())
    })
}

/// Searches as the command line and the policy say.
pub fn search(
    objects: &Objects,
    snapshot: &Snapshot,
    key: &ApplicationKey,
    arguments: &PlanArguments,
    policy: &Policy,
) -> Result<Found, CliError> {
    let search = Search::new(&arguments.search, &Preferred::from(policy));
    if arguments.search.strategy.is_none() {
        let named_by = format!("{key}: policy {}: strategy", policy.name);
        decide::check(&search.strategy, Use::Production, &named_by)?;
    }
    search
        .plan(snapshot, starts_together(objects, key))
        .map_err(|source| CliError::Plan { subject: key.to_string(), source })
}

/// Lets the next application see what was decided for this one.
fn remember(objects: &mut Objects, key: &ApplicationKey, decision: &Decision) {
    let prefix = format!("{key}/");
    let file = decision.snapshot.file();
    let assignments = decision.plan.assignment.iter().enumerate().filter_map(|(actor, place)| {
        let (actor, unit) = (file.actors[actor].id.strip_prefix(&prefix)?, &file.units[(*place)?.at()]);
        Some(Assignment {
            actor: actor.to_owned(),
            unit: unit.id.clone(),
            node: unit.node.clone(),
            pool: unit.pool.clone().unwrap_or_default(),
        })
    });
    let spec = PlacementSpec {
        application: key.name.clone(),
        assignments: assignments.collect(),
        ..PlacementSpec::default()
    };
    let mut placement = Placement::new(&key.name, spec);
    placement.metadata.namespace = Some(key.namespace.clone());
    let earlier = objects.placement(key).cloned();
    objects.placements.retain(|other| earlier.as_ref().is_none_or(|earlier| !Arc::ptr_eq(earlier, other)));
    objects.placements.push(Arc::new(placement));
}

fn print_snapshot(
    objects: &Objects,
    keys: &[ApplicationKey],
    arguments: &PlanArguments,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<Outcome, CliError> {
    let [key] = keys else {
        let problem =
            format!("there are {} applications and a snapshot is about one; add --application", keys.len());
        return Err(CliError::Usage(problem));
    };
    let (world, _, _) = world_of(objects, key, arguments, given, now)?;
    // Not even a line end more than the operator's /debug/snapshot gives.
    print(&world.snapshot.write())?;
    Ok(Outcome::Done)
}

fn outcome<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Outcome {
    let all_placed = decisions.into_iter().all(|decision| decision.plan.unplaced.is_empty());
    if all_placed { Outcome::Done } else { Outcome::Unplaced }
}

fn report(decision: &Decision) -> Report {
    let Decision { snapshot, plan, took, explained, notes, .. } = decision;
    Report::new(snapshot, plan, *took, explained.as_ref(), notes)
}

fn page(decision: &Decision) -> String {
    let title = Title { subject: &decision.subject, policy: decision.policy.as_deref(), took: decision.took };
    let Decision { snapshot, plan, explained, notes, .. } = decision;
    summary::render(snapshot, plan, &title, explained.as_ref(), notes, Style::of_stdout())
}

fn show_one(decision: &Decision, output: PlanOutput) -> Result<(), CliError> {
    print(&match output {
        PlanOutput::Json => json(&report(decision)),
        PlanOutput::Yaml => yaml(&report(decision)),
        _ => page(decision),
    })
}

fn show_all(decisions: &[Decision], output: PlanOutput) -> Result<(), CliError> {
    let by_name = || {
        let reports: BTreeMap<&str, Report> =
            decisions.iter().map(|decision| (decision.subject.as_str(), report(decision))).collect();
        BTreeMap::from([("applications", reports)])
    };
    print(&match output {
        PlanOutput::Json => json(&by_name()),
        PlanOutput::Yaml => yaml(&by_name()),
        _ => decisions.iter().map(page).collect::<Vec<_>>().join("\n"),
    })
}

/// Indented JSON with a line end.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data with text keys always serializes") + "\n"
}

/// YAML.
pub fn yaml(value: &impl serde::Serialize) -> String {
    serde_yaml::to_string(value).expect("plain data with text keys always serializes")
}
