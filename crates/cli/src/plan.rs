//! `plan`: plans from a snapshot, manifests or a cluster, and prints the decision without applying it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crds::{ActorApplication, Assignment, Placement, PlacementSpec, StartPolicy};
use jiff::Timestamp;
use kube::Resource as _;
use placement::file::Levels;
use placement::{MOST_PAIRS, Plan, Snapshot, SnapshotError};
use portfolio::Purpose;
use world::{ApplicationKey, Index, LoadRecord, Objects, Policy};

use crate::args::{PlanArgs, PlanOutput};
use crate::error::CliError;
use crate::explanation::ExplainedPlan;
use crate::load::{self, LoadReport};
use crate::policy::{self, PolicyFile};
use crate::report::PlanReport;
use crate::search::{self, PolicyDefaults, Search, SearchResult};
use crate::style::Style;
use crate::summary::{self, Title};
use crate::{Outcome, access, print, print_error, print_raw, read};

/// A decision with its input.
struct Decision {
    /// The application, or the name of the snapshot.
    subject: String,
    policy: Option<String>,
    snapshot: Snapshot,
    plan: Plan,
    took: Option<Duration>,
    /// Set with `--explain`.
    explained: Option<ExplainedPlan>,
    /// Set with `--windows`.
    load: Option<LoadReport>,
    notes: Vec<String>,
}

/// Runs the command.
pub fn run(args: &PlanArgs) -> Result<Outcome, CliError> {
    if args.search.strategy.as_deref() == Some("list") {
        print(&search::list_strategies())?;
        return Ok(Outcome::Ok);
    }
    // Validate the arguments before listing the cluster.
    if let Some(name) = &args.search.strategy {
        search::check_strategy(name, Purpose::Offline, "--strategy")?;
    }
    if let Some(levels) = &args.search.objectives {
        levels.check().map_err(|e| CliError::Usage(format!("--objectives: {e}")))?;
    }
    let given = args.search.policy.as_deref().map(PolicyFile::read).transpose()?;
    if let Some(given) = &given {
        let source = format!("{}: strategy", given.file());
        search::check_strategy(&given.policy.strategy, Purpose::Production, &source)?;
    }
    match &args.input.snapshot {
        Some(file) => from_snapshot(file, args, given.as_ref()),
        None => from_objects(args, given.as_ref()),
    }
}

fn from_snapshot(file: &Path, args: &PlanArgs, given: Option<&PolicyFile>) -> Result<Outcome, CliError> {
    let invalid = |source| CliError::Snapshot { file: read::name(file), source };
    let mut snapshot = read::snapshot(file)?;
    if let Some(given) = given {
        given.check_for_snapshot()?;
    }
    if let Some(given) = given {
        let own = snapshot.file().policy.as_ref().and_then(|policy| policy.program.as_deref());
        let policy = given.with_enforced(&Policy::enforced_in(own.unwrap_or_default()));
        snapshot = with_program(&snapshot, &policy).map_err(invalid)?;
    }
    let of_policy = given.filter(|given| given.sets("objectives")).map(|given| &given.policy.objectives);
    if let Some(levels) = args.search.objectives.as_ref().or(of_policy) {
        snapshot = with_objectives(&snapshot, levels).map_err(invalid)?;
    }
    let record = args.windows.as_deref().map(load::read).transpose()?;
    let base = snapshot.clone();
    if let Some(record) = &record {
        snapshot = record.facts.planned(&base).map_err(invalid)?;
    }
    if args.output == PlanOutput::Snapshot {
        print_raw(&snapshot.write())?;
        return Ok(Outcome::Ok);
    }
    let defaults =
        given.map_or_else(|| PolicyDefaults::from(&Policy::builtin("throughput")), |g| (&g.policy).into());
    let search = match &record {
        Some(record) => Search::of_record(record, &defaults)?,
        None => Search::new(&args.search, &defaults),
    };
    let name = snapshot.file().name.clone().or_else(|| snapshot.file().application.clone());
    let subject = name.unwrap_or_else(|| read::name(file));
    let result = search
        .plan(&snapshot, false)
        .map_err(|source| CliError::Plan { subject: read::name(file), source })?;
    let policy = snapshot.file().policy.as_ref().map(|policy| policy.name.clone());
    let explained = explained(args, &snapshot, &result);
    let mut notes: Vec<String> = pair_limit_note(&snapshot).into_iter().collect();
    let SearchResult { plan, took, .. } = result;
    let of_record = |record: &LoadRecord| LoadReport::new(record, &base, &snapshot, &plan).map_err(invalid);
    let load = record.as_ref().map(of_record).transpose()?;
    notes.extend(record.as_ref().and_then(|record| load::snapshot_note(record, &base)));
    notes.extend(load.as_ref().map(LoadReport::note));
    let decision = Decision { subject, policy, snapshot, plan, took, explained, load, notes };
    print_one(&decision, args.output)?;
    Ok(outcome([&decision]))
}

fn explained(args: &PlanArgs, snapshot: &Snapshot, result: &SearchResult) -> Option<ExplainedPlan> {
    args.explain.then(|| ExplainedPlan::of(snapshot, result, None))
}

/// A note if channels have too many pairs of actors to be expanded.
fn pair_limit_note(snapshot: &Snapshot) -> Option<String> {
    let channels = &snapshot.problem().channels;
    channels.are_whole().then(|| {
        format!(
            "the channels between groups have {} pairs of actors, above the limit of {MOST_PAIRS}: they are planned as groups, \
             without proofs and bounds for the cost of pairs",
            channels.pairs
        )
    })
}

/// A note if the operator plans the application with measured load, which the command does not read.
fn measured_note(application: &ActorApplication) -> Option<String> {
    let counters = application.status.as_ref()?.counters.filter(|counters| counters.covered > 0)?;
    Some(format!(
        "{} of {} actors are measured: the operator plans with their measured load, this plan has the manifest's numbers",
        counters.covered, counters.wanted
    ))
}

/// The snapshot with the name and rules of another policy.
pub fn with_program(snapshot: &Snapshot, policy: &Policy) -> Result<Snapshot, SnapshotError> {
    let mut file = snapshot.file().clone();
    let (name, program) = (policy.name.clone(), policy.rules());
    file.policy = Some(placement::file::Policy { name, program });
    Snapshot::new(file)
}

fn with_objectives(snapshot: &Snapshot, levels: &Levels) -> Result<Snapshot, SnapshotError> {
    let mut file = snapshot.file().clone();
    file.objectives = levels.clone();
    Snapshot::new(file)
}

fn from_objects(args: &PlanArgs, given: Option<&PolicyFile>) -> Result<Outcome, CliError> {
    let (mut objects, now) = objects(args)?;
    let keys = applications(&objects, args)?;
    if args.output == PlanOutput::Snapshot {
        return print_snapshot(&objects, &keys, args, given, now);
    }
    let mut decisions = Vec::new();
    let mut failed = None;
    for key in &keys {
        match decide(&objects, key, args, given, now) {
            Ok(decision) => {
                record_placement(&mut objects, key, &decision);
                decisions.push(decision);
            }
            // Continue with the other applications, and return the last error.
            Err(error) => failed.replace(error).iter().for_each(print_error),
        }
    }
    // With --application, print a single plan as for a snapshot; otherwise a map of plans.
    match (&args.input.application, decisions.as_slice()) {
        (Some(_), [decision]) => print_one(decision, args.output)?,
        (Some(_), _) => {}
        (None, decisions) => print_all(decisions, args.output)?,
    }
    failed.map_or_else(|| Ok(outcome(&decisions)), Err)
}

/// The objects of the cluster or the files, and the time at which refusals are evaluated.
pub fn objects(args: &PlanArgs) -> Result<(Objects, Timestamp), CliError> {
    let files = &args.input.files;
    let (mut objects, now) = if files.is_empty() {
        (access::required(&args.cluster)?, Timestamp::now())
    } else {
        let (objects, newest) = read::manifests(files)?;
        // Without any timestamp nothing has expired.
        (objects, args.input.now.or(newest).unwrap_or(Timestamp::UNIX_EPOCH))
    };
    if args.input.extended_resource_toleration {
        objects.scheduling.tolerate_extended_resources();
    }
    Ok((objects, now))
}

/// The applications to plan, sorted by name.
fn applications(objects: &Objects, args: &PlanArgs) -> Result<Vec<ApplicationKey>, CliError> {
    if let Some(key) = &args.input.application {
        return Ok(vec![key.clone()]);
    }
    let mut keys: Vec<ApplicationKey> = objects
        .applications
        .iter()
        .filter(|application| application.metadata.deletion_timestamp.is_none())
        .map(|application| ApplicationKey::of(application))
        .collect();
    keys.sort_unstable();
    if let Some((duplicate, _)) = keys.iter().zip(keys.iter().skip(1)).find(|(key, next)| key == next) {
        return Err(CliError::Usage(format!("{duplicate} is defined more than once; remove the duplicates")));
    }
    if keys.is_empty() {
        let place = if args.input.files.is_empty() { "on the cluster" } else { "in the files" };
        return Err(CliError::Usage(format!("there is no ActorApplication {place}")));
    }
    Ok(keys)
}

/// The planning snapshot of one application under its policy, with notes.
pub fn snapshot_of(
    objects: &Objects,
    key: &ApplicationKey,
    args: &PlanArgs,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<(world::AssembledSnapshot, Policy, Vec<String>), CliError> {
    let invalid = |source| CliError::World { application: key.clone(), source };
    let on_files = !args.input.files.is_empty();
    let is_program = given.is_some_and(|given| given.is_program);
    let (mut policy, note) = match (given, objects.application(key)) {
        (Some(given), Some(application)) => {
            let enforced = policy::enforced(objects, application)?;
            let given = given.with_enforced(&enforced);
            if is_program {
                // A program without parameters keeps the parameters of the application's policy.
                let default = &args.input.default_policy;
                let (own, note) = policy::of_application(objects, application, default, on_files)?;
                (Policy { program: given.program, enforced: given.enforced, ..own }, note)
            } else {
                (given, None)
            }
        }
        (None, Some(application)) => {
            policy::of_application(objects, application, &args.input.default_policy, on_files)?
        }
        (_, None) => {
            let known: Vec<String> =
                objects.applications.iter().map(|it| ApplicationKey::of(it).to_string()).collect();
            let known = match world::suggestions(&known, &key.to_string()) {
                none if none.is_empty() => "there are none".to_owned(),
                known => format!("known: {known}"),
            };
            return Err(CliError::Usage(format!("there is no ActorApplication {key}; {known}")));
        }
    };
    if let Some(levels) = &args.search.objectives {
        policy.objectives = levels.clone();
    }
    let world = world::assemble(&Index::of(objects), key, &policy, now).map_err(invalid)?;
    let mut notes: Vec<String> = note.into_iter().collect();
    let application = objects.application(key);
    if application.is_some_and(|application| application.metadata.deletion_timestamp.is_some()) {
        notes.push(format!("ActorApplication {key} is being deleted: no pods are created for it"));
    }
    notes.extend(world.warnings.iter().map(|note| format!("{}: {}", note.condition, note.message)));
    for (pool, report) in &world.pools {
        let problems = report.problems.iter().chain(&report.notes);
        notes.extend(problems.map(|(condition, problem)| format!("pool {pool}: {condition}: {problem}")));
    }
    Ok((world, policy, notes))
}

fn decide(
    objects: &Objects,
    key: &ApplicationKey,
    args: &PlanArgs,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<Decision, CliError> {
    let (world, policy, mut notes) = snapshot_of(objects, key, args, given, now)?;
    notes.extend(pair_limit_note(&world.snapshot));
    notes.extend(objects.application(key).and_then(|application| measured_note(application)));
    if objects.pools.is_empty() {
        let place = if args.input.files.is_empty() { "on the cluster" } else { "in the files" };
        notes.push(format!(
            "there is no DevicePool {place}, so no actor has a place; examples/pools.yaml is an example"
        ));
    }
    let result = search(objects, &world.snapshot, key, args, &policy)?;
    Ok(Decision {
        explained: explained(args, &world.snapshot, &result),
        subject: key.to_string(),
        policy: Some(policy.name),
        snapshot: Arc::unwrap_or_clone(world.snapshot),
        plan: result.plan,
        took: result.took,
        load: None,
        notes,
    })
}

/// Whether the application must be placed completely or not at all: `AllOrNothing`, and it has no pods.
fn is_all_or_nothing(objects: &Objects, key: &ApplicationKey) -> bool {
    let has_policy =
        |application: &&Arc<ActorApplication>| application.spec.start == StartPolicy::AllOrNothing;
    objects.application(key).filter(has_policy).is_some_and(|application| {
        world::owned_objects(&Index::of(objects), application).values().all(|(_, pod)| pod.is_none())
    })
}

/// Searches with the settings of the command line and the policy.
pub fn search(
    objects: &Objects,
    snapshot: &Snapshot,
    key: &ApplicationKey,
    args: &PlanArgs,
    policy: &Policy,
) -> Result<SearchResult, CliError> {
    let search = Search::new(&args.search, &PolicyDefaults::from(policy));
    if args.search.strategy.is_none() {
        let source = format!("{key}: policy {}: strategy", policy.name);
        search::check_strategy(&search.strategy, Purpose::Production, &source)?;
    }
    search
        .plan(snapshot, is_all_or_nothing(objects, key))
        .map_err(|source| CliError::Plan { subject: key.to_string(), source })
}

/// Records the decision as a Placement, so that the next applications are planned with it.
fn record_placement(objects: &mut Objects, key: &ApplicationKey, decision: &Decision) {
    let prefix = format!("{key}/");
    let file = decision.snapshot.file();
    let assignments = decision.plan.assignment.iter().enumerate().filter_map(|(actor, unit)| {
        let (actor, unit) = (file.actors[actor].id.strip_prefix(&prefix)?, &file.units[(*unit)?.at()]);
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
    // The index accepts only a Placement that the application controls: with its uid, and in its namespace as the file has it.
    if let Some(application) = objects.application(key) {
        placement.metadata.namespace.clone_from(&application.metadata.namespace);
        placement.metadata.owner_references = application.controller_owner_ref(&()).map(|owner| vec![owner]);
    }
    let earlier = objects.placement(key).cloned();
    objects.placements.retain(|other| earlier.as_ref().is_none_or(|earlier| !Arc::ptr_eq(earlier, other)));
    objects.placements.push(Arc::new(placement));
}

fn print_snapshot(
    objects: &Objects,
    keys: &[ApplicationKey],
    args: &PlanArgs,
    given: Option<&PolicyFile>,
    now: Timestamp,
) -> Result<Outcome, CliError> {
    let [key] = keys else {
        let problem = format!("a snapshot is for one of the {} applications; set --application", keys.len());
        return Err(CliError::Usage(problem));
    };
    let (world, _, _) = snapshot_of(objects, key, args, given, now)?;
    // Exactly the bytes of the operator's /debug/snapshot/NAMESPACE/NAME/manifest.
    print_raw(&world.snapshot.write())?;
    Ok(Outcome::Ok)
}

fn outcome<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Outcome {
    let all_placed = decisions.into_iter().all(|decision| decision.plan.unplaced.is_empty());
    if all_placed { Outcome::Ok } else { Outcome::Unplaced }
}

fn report(decision: &Decision) -> PlanReport {
    let Decision { snapshot, plan, took, explained, load, notes, .. } = decision;
    PlanReport::new(snapshot, plan, *took, explained.as_ref(), notes).with_load(load.clone())
}

fn page(decision: &Decision) -> String {
    let title = Title { subject: &decision.subject, policy: decision.policy.as_deref(), took: decision.took };
    let Decision { snapshot, plan, explained, notes, .. } = decision;
    summary::render(snapshot, plan, &title, explained.as_ref(), notes, Style::of_stdout())
}

fn print_one(decision: &Decision, output: PlanOutput) -> Result<(), CliError> {
    print(&match output {
        PlanOutput::Json => json(&report(decision)),
        PlanOutput::Yaml => yaml(&report(decision)),
        _ => page(decision),
    })
}

fn print_all(decisions: &[Decision], output: PlanOutput) -> Result<(), CliError> {
    let by_name = || {
        let reports: BTreeMap<&str, PlanReport> =
            decisions.iter().map(|decision| (decision.subject.as_str(), report(decision))).collect();
        BTreeMap::from([("applications", reports)])
    };
    print(&match output {
        PlanOutput::Json => json(&by_name()),
        PlanOutput::Yaml => yaml(&by_name()),
        _ => decisions.iter().map(page).collect::<Vec<_>>().join("\n"),
    })
}

/// Pretty-printed JSON.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data with text keys always serializes") + "\n"
}

/// YAML.
pub fn yaml(value: &impl serde::Serialize) -> String {
    serde_yaml::to_string(value).expect("plain data with text keys always serializes")
}
