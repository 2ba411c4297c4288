//! Statuses and events of applications. Pure; `reconcile` writes them.

use std::collections::{BTreeMap, BTreeSet};

use control::BlockedOn;
use crds::{
    ActorApplication, ActorApplicationStatus, ActorCounts, ApplicationPhase, Condition, CounterCoverage,
    Instance, InstancePhase, MoveOutcome, Placement, PlacementSpec, Time,
};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::events::{Event, EventType};
use world::{ActorName, SnapshotWarning, object_name};

use crate::error::TOO_LARGE;

/// Most names or reasons in an event, whose note holds 1 kB.
const LISTED: usize = 6;
/// The longest note of an event, in bytes.
const LONGEST_NOTE: usize = 1000;

/// The key of problems with owned resources among blocked actors; no actor has this name.
pub const PEERS: &str = "peers";

/// A condition without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub type_: &'static str,
    pub holds: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Conditions from findings; the transition time changes with the status.
pub fn conditions(
    before: &[Condition],
    findings: Vec<Finding>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let dated = |finding: Finding| {
        let status = if finding.holds { "True" } else { "False" };
        let same = before.iter().find(|old| old.type_ == finding.type_ && old.status == status);
        Condition {
            last_transition_time: same.map_or(Time(now), |old| old.last_transition_time.clone()),
            message: finding.message,
            observed_generation: generation,
            reason: finding.reason.to_owned(),
            status: status.to_owned(),
            type_: finding.type_.to_owned(),
        }
    };
    findings.into_iter().map(dated).collect()
}

/// Progress of the actors, and the revisions in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub ready: usize,
    pub updated: usize,
    /// The first actor that is not ready, and why.
    pub not_ready: Option<(String, String)>,
    pub revisions: crds::Revisions,
}

/// The result of a reconcile.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The current Placement.
    pub decision: Option<Placement>,
    /// Why planning failed; the current Placement stays in force.
    pub failure: Option<(&'static str, String)>,
    /// Notes for the conditions.
    pub notes: Vec<SnapshotWarning>,
    /// The problem of the policy's newest version, and what is in force instead.
    pub policy_problem: Option<String>,
    /// The effect of unpausing the application.
    pub proposed: Option<String>,
    /// The API server's objections to pods of the newest templates.
    pub template_problem: Option<String>,
    /// Progress of the rollout.
    pub progress: Progress,
    /// Blocked actors, and what blocks each.
    pub waiting: BTreeMap<String, BlockedOn>,
    /// Actors whose assigned unit is infeasible; none if unknown.
    pub infeasible: Option<BTreeSet<String>>,
    /// When to requeue without a change.
    pub requeue_at: Option<control::Moment>,
    /// Conditions of measured load: what it would change.
    pub load: Vec<Finding>,
    /// How many actors are measured.
    pub counters: Option<CounterCoverage>,
    /// The outcome of the last moves that were made for a gain.
    pub judged: Option<MoveOutcome>,
    /// Whether a search is running.
    pub searching: bool,
    /// Whether an actor moved.
    pub moved: bool,
    /// Whether the Placement was just written, so that events are due.
    pub placement_written: bool,
}

/// The status of an application.
pub fn application_status(
    application: &ActorApplication,
    wanted: &[ActorName],
    outcome: &Outcome,
    instances: &BTreeMap<String, &Instance>,
    now: Timestamp,
) -> ActorApplicationStatus {
    let before = application.status.clone().unwrap_or_default();
    let spec = outcome.decision.as_ref().map(|decision| &decision.spec);
    let units: BTreeMap<&str, &str> =
        spec.iter().flat_map(|spec| &spec.assignments).map(|a| (a.actor.as_str(), a.unit.as_str())).collect();
    let placed = wanted.iter().filter(|actor| units.contains_key(actor.short().as_str())).count();
    let runs = |actor: &&ActorName| {
        let status = instances.get(&object_name(actor)).and_then(|instance| instance.status.as_ref());
        status.is_some_and(|status| {
            status.phase == Some(InstancePhase::Running)
                && status.unit.as_deref() == units.get(actor.short().as_str()).copied()
        })
    };
    let running = wanted.iter().filter(runs).count();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    // Of a manifest with too many actors only some are listed.
    let all = wanted.len().max(world::manifest_size(application));
    let complete = placed == all;
    let phase = match (&outcome.failure, application.spec.paused) {
        (_, true) => ApplicationPhase::Paused,
        (Some(_), _) if outcome.decision.is_none() => ApplicationPhase::Failed,
        _ if running == all => ApplicationPhase::Running,
        _ if running == placed && !complete => ApplicationPhase::Degraded,
        _ => ApplicationPhase::Placing,
    };
    let findings = findings(application, outcome, (all, placed, running));
    ActorApplicationStatus {
        observed_generation: application.metadata.generation,
        phase: Some(phase),
        placement: outcome.decision.as_ref().map(ResourceExt::name_any),
        actors: Some(ActorCounts {
            ready: count(outcome.progress.ready),
            updated: count(outcome.progress.updated),
            ..ActorCounts::new(count(all), count(placed), count(running))
        }),
        revision: Some(outcome.progress.revisions.clone())
            .filter(|revision| *revision != crds::Revisions::default()),
        objective: spec.map(|spec| own_objective(spec).clone()).unwrap_or_default(),
        counters: outcome.counters,
        optimal: spec.map(|spec| spec.optimal),
        gap_percent: spec.and_then(|spec| spec.gap_percent),
        last_moved: if outcome.moved { Some(Time(now)) } else { before.last_moved },
        conditions: conditions(&before.conditions, findings, application.metadata.generation, now),
    }
}

/// Whether only counts of actors and messages changed.
pub fn only_counts(before: &ActorApplicationStatus, now: &ActorApplicationStatus) -> bool {
    let rest = |status: &ActorApplicationStatus| {
        let mut status = status.clone();
        if let Some(actors) = &mut status.actors {
            (actors.running, actors.ready, actors.updated) = (0, 0, 0);
        }
        status.conditions.iter_mut().for_each(|condition| condition.message.clear());
        status
    };
    rest(before) == rest(now)
}

/// The condition `Ready`: all actors run on their units and are ready, or the first that is not and why.
fn ready(outcome: &Outcome, all_placed: bool, (wanted, running): (usize, usize)) -> Finding {
    let is_lost = outcome.waiting.values().any(|wait| matches!(wait, BlockedOn::NodeLost { .. }));
    let Progress { ready, not_ready, .. } = &outcome.progress;
    let all_run = all_placed && running == wanted && outcome.failure.is_none() && !is_lost;
    let holds = all_run && *ready == wanted;
    let not_ready =
        not_ready.as_ref().map(|(actor, why)| format!("; {actor} is not ready: {why}")).unwrap_or_default();
    let message = if holds {
        format!("all {wanted} actors run on their units")
    } else if let Some((_, message)) = &outcome.failure {
        message.clone()
    } else if let Some((actor, waits_for)) = outcome.waiting.first_key_value() {
        format!("{running} of {wanted} actors run; {actor} waits: {waits_for}")
    } else if all_run {
        let are = if *ready == 1 { "is" } else { "are" };
        format!("{wanted} of {wanted} actors run, {ready} {are} ready{not_ready}")
    } else {
        format!("{running} of {wanted} actors run on their units{not_ready}")
    };
    let reason = match () {
        () if holds => "AllRunning",
        () if outcome.failure.is_some() => "NotAccepted",
        () if !all_placed => "Unplaced",
        () if is_lost => "NodeLost",
        () if all_run => "NotReady",
        () => "Starting",
    };
    Finding { type_: "Ready", holds, reason, message }
}

fn findings(
    application: &ActorApplication,
    outcome: &Outcome,
    (wanted, placed, running): (usize, usize, usize),
) -> Vec<Finding> {
    let finding = |type_, holds, reason, message| Finding { type_, holds, reason, message };
    let mut findings = Vec::new();
    let accepted = match &outcome.failure {
        Some((reason, message)) => finding("Accepted", false, reason, message.clone()),
        None => finding("Accepted", true, "Valid", "the manifest can be planned".to_owned()),
    };
    let spec = outcome.decision.as_ref().map(|decision| &decision.spec);
    let placed_message = match spec {
        None => "no placement has been decided yet".to_owned(),
        Some(spec) if spec.unplaced.is_empty() => {
            format!("all {wanted} actors are placed: {}{}", describe_objective(spec), describe_left(spec))
        }
        Some(spec) => describe_unplaced(spec) + &describe_left(spec),
    };
    let all_placed = spec.is_some() && placed == wanted;
    findings.push(ready(outcome, all_placed, (wanted, running)));
    findings.push(finding(
        "Placed",
        all_placed,
        if all_placed { "AllPlaced" } else { "Unplaced" },
        placed_message,
    ));
    findings.push(accepted);
    findings.extend(outcome.load.iter().cloned());
    if let Some((TOO_LARGE, message)) = &outcome.failure {
        findings.push(finding(TOO_LARGE, true, TOO_LARGE, message.clone()));
    }
    if let Some(problem) = &outcome.policy_problem {
        findings.push(finding("PolicyRefused", true, "LastGoodInForce", problem.clone()));
    }
    if let Some(problem) = &outcome.template_problem {
        findings.push(finding(
            "TemplateInvalid",
            true,
            "Refused",
            format!(
                "{problem}; the rollout is stopped and the previous template stays in use; correct the template"
            ),
        ));
    }
    if application.spec.paused {
        let message = outcome.proposed.clone().unwrap_or_else(|| "nothing would change".to_owned());
        findings.push(finding("Paused", true, "Paused", message));
    }
    let is_taken = |(actor, wait): (&String, &BlockedOn)| match wait {
        BlockedOn::NameConflict(_) => Some(format!("{actor}: {wait}")),
        _ => None,
    };
    let of_all = outcome.failure.iter().filter(|(reason, _)| *reason == "NameTaken");
    let taken: Vec<String> = of_all
        .map(|(_, message)| message.clone())
        .chain(outcome.waiting.iter().filter_map(is_taken))
        .collect();
    if !taken.is_empty() {
        let message = listed(taken.iter().cloned(), "; ", taken.len());
        findings.push(finding("NameTaken", true, "NameTaken", message));
    }
    if let Some(wait @ BlockedOn::Backoff(_)) = outcome.waiting.get(PEERS) {
        findings.push(finding("Refused", true, "Refused", format!("{PEERS}: {wait}")));
    }
    let is_lost = |(actor, wait): (&String, &BlockedOn)| match wait {
        BlockedOn::NodeLost { .. } => Some(format!("{actor}: {wait}")),
        _ => None,
    };
    let lost: Vec<String> = outcome.waiting.iter().filter_map(is_lost).collect();
    if !lost.is_empty() {
        let message = listed(lost.iter().cloned(), "; ", lost.len());
        findings.push(finding("NodeLost", true, "NodeLost", message));
    }
    for note in &outcome.notes {
        match findings.iter_mut().find(|finding| finding.type_ == note.condition) {
            Some(finding) => finding.message = format!("{}; {}", finding.message, note.message),
            None => findings.push(finding(note.condition, true, note.condition, note.message.clone())),
        }
    }
    findings
}

/// The application's own part of the objective; all of it if an old Placement has none.
fn own_objective(spec: &PlacementSpec) -> &BTreeMap<String, i64> {
    if spec.own_objective.is_empty() { &spec.objective } else { &spec.own_objective }
}

/// The application's own value of every level.
pub fn describe_objective(spec: &PlacementSpec) -> String {
    let own = own_objective(spec);
    let value = |level: &String| -> i64 { level.split('+').map(|c| own.get(c).copied().unwrap_or(0)).sum() };
    let values: Vec<String> = spec.levels.iter().map(|level| format!("{level} {}", value(level))).collect();
    let proof = match (spec.optimal, spec.gap_percent) {
        (true, _) if spec.left_to_scheduler.is_empty() => ", proven optimal".to_owned(),
        (true, _) => ", proven optimal under the rules that Cairn models".to_owned(),
        (false, Some(gap)) => format!(", optimality gap at most {gap} %"),
        (false, None) => String::new(),
    };
    format!("{}{proof}", values.join(", "))
}

/// The rules that the plan does not model.
fn describe_left(spec: &PlacementSpec) -> String {
    match spec.left_to_scheduler.as_slice() {
        [] => String::new(),
        left => format!("; left to the scheduler: {}", left.join("; ")),
    }
}

fn describe_unplaced(spec: &PlacementSpec) -> String {
    let why = |unplaced: &crds::UnplacedActor| match unplaced.reasons.as_slice() {
        [] => unplaced.actor.clone(),
        reasons => format!("{} ({})", unplaced.actor, reasons.join("; ")),
    };
    let names = listed(spec.unplaced.iter().map(why), ", ", spec.unplaced.len());
    match spec.unplaced.len() {
        1 => format!("1 actor is unplaced: {names}"),
        many => format!("{many} actors are unplaced: {names}"),
    }
}

/// The first few, and how many more.
pub fn listed(items: impl Iterator<Item = String>, separator: &str, all: usize) -> String {
    let mut text = items.take(LISTED).collect::<Vec<_>>().join(separator);
    if all > LISTED {
        text = format!("{text}{separator}and {} more", all - LISTED);
    }
    text
}

/// The events of a new Placement.
pub fn decision_events(spec: &PlacementSpec) -> Vec<Event> {
    let mut events = Vec::new();
    let all = spec.assignments.len() + spec.unplaced.len();
    let placed = format!(
        "{} of {all} actors are placed: {} ({})",
        spec.assignments.len(),
        describe_objective(spec),
        spec.strategy
    );
    events.push(event(EventType::Normal, "Planned", "Plan", placed));
    // Elective moves have events of their own.
    let necessary = spec.moves.iter().filter(|it| it.gain_percent.is_none());
    let (moved, started): (Vec<_>, Vec<_>) = necessary.partition(|it| it.from.is_some());
    let describe = |m: &&crds::Move| {
        let why = if m.reason.is_empty() { String::new() } else { format!(": {}", m.reason) };
        let from = m.from.as_ref().map_or("on".to_owned(), |from| format!("from {from} to"));
        format!("{} {from} {}{why}", m.actor, m.to)
    };
    for (necessary, reason, action) in [(moved, "Moved", "Move"), (started, "Placed", "Place")] {
        if !necessary.is_empty() {
            let text = listed(necessary.iter().map(describe), "; ", necessary.len());
            events.push(event(EventType::Normal, reason, action, text));
        }
    }
    if !spec.unplaced.is_empty() {
        events.push(event(EventType::Warning, "Unplaced", "Plan", describe_unplaced(spec)));
    }
    events
}

/// An event; a long note is cut to the API's limit.
pub fn event(type_: EventType, reason: &str, action: &str, note: String) -> Event {
    let mut note = note;
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    Event { type_, reason: reason.to_owned(), note: Some(note), action: action.to_owned(), secondary: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The condition `Ready`: `wanted/placed/running/ready`, `hangs=`, `refused`.
    fn ready(world: &str) -> String {
        let (counts, rest) = world.split_once(' ').unwrap_or((world, ""));
        let counts: Vec<usize> = counts.split('/').map(|count| count.parse().unwrap()).collect();
        let mut outcome = Outcome {
            decision: Some(Placement::new("app", PlacementSpec::default())),
            progress: Progress { ready: counts[3], ..Progress::default() },
            ..Outcome::default()
        };
        outcome.progress.not_ready =
            rest.strip_prefix("hangs=").map(|why| ("a-0".to_owned(), why.to_owned()));
        if rest == "refused" {
            outcome.failure = Some(("Policy", "there is no policy x".to_owned()));
        }
        let spec = serde_json::from_value(serde_json::json!({"actors": []})).unwrap();
        let findings =
            findings(&ActorApplication::new("app", spec), &outcome, (counts[0], counts[1], counts[2]));
        let it = findings.iter().find(|it| it.type_ == "Ready").unwrap();
        format!("{} {}: {}", it.holds, it.reason, it.message)
    }

    #[test]
    fn an_application_is_ready_when_all_its_actors_are() {
        for (world, expected) in [
            ("2/2/2/2", "true AllRunning: all 2 actors run on their units"),
            ("2/2/1/1", "false Starting: 1 of 2 actors run on their units"),
            (
                "2/2/1/1 hangs=container actor: ImagePullBackOff",
                "false Starting: 1 of 2 actors run on their units; a-0 is not ready: container actor: ImagePullBackOff",
            ),
            ("2/2/2/1", "false NotReady: 2 of 2 actors run, 1 is ready"),
            (
                "2/2/2/0 hangs=container actor: CrashLoopBackOff",
                "false NotReady: 2 of 2 actors run, 0 are ready; \
                 a-0 is not ready: container actor: CrashLoopBackOff",
            ),
            ("2/1/1/1", "false Unplaced: 1 of 2 actors run on their units"),
            ("2/2/2/2 refused", "false NotAccepted: there is no policy x"),
        ] {
            assert_eq!(ready(world), expected, "{world}");
        }
    }

    #[test]
    fn the_condition_placed_names_what_is_left_to_the_scheduler() {
        let rules = ["a: preferred node affinity", "ResourceQuota q: its scopes"];
        let (placed, unplaced) = ("all 1 actors are placed: overload 0", "1 actor is unplaced: a-0");
        let left = "; left to the scheduler: a: preferred node affinity; ResourceQuota q: its scopes";
        let proven = ", proven optimal under the rules that Cairn models";
        for (optimal, gap_percent, rules, surplus, expected) in [
            (true, None, &rules[..0], 0, format!("{placed}, proven optimal")),
            (true, None, &rules[..], 0, format!("{placed}{proven}{left}")),
            (false, Some(7), &rules[..], 0, format!("{placed}, optimality gap at most 7 %{left}")),
            (true, None, &rules[..], 1, format!("{unplaced}{left}")),
        ] {
            let surplus = vec![crds::UnplacedActor { actor: "a-0".to_owned(), reasons: Vec::new() }; surplus];
            let decided = PlacementSpec {
                levels: vec!["overload".to_owned()],
                left_to_scheduler: rules.iter().map(|rule| (*rule).to_owned()).collect(),
                unplaced: surplus,
                optimal,
                gap_percent,
                ..PlacementSpec::default()
            };
            let outcome = Outcome { decision: Some(Placement::new("app", decided)), ..Outcome::default() };
            let spec = serde_json::from_value(serde_json::json!({"actors": []})).unwrap();
            let findings = findings(&ActorApplication::new("app", spec), &outcome, (1, 1, 1));
            assert_eq!(findings.iter().find(|it| it.type_ == "Placed").unwrap().message, expected);
        }
    }

    #[test]
    fn events_without_a_reason_end_with_the_object() {
        let notes_of = |from: Option<&str>, reason: &str| {
            let reasons: Vec<String> = reason.split_whitespace().map(str::to_owned).collect();
            let (actor, to, reason) = ("a-0".to_owned(), "n/u".to_owned(), reason.to_owned());
            let spec = PlacementSpec {
                unplaced: vec![crds::UnplacedActor { actor: "a-1".to_owned(), reasons }],
                moves: vec![crds::Move {
                    actor,
                    from: from.map(str::to_owned),
                    to,
                    reason,
                    ..crds::Move::default()
                }],
                ..PlacementSpec::default()
            };
            let notes = decision_events(&spec)
                .into_iter()
                .skip(1)
                .filter_map(|event| Some(format!("{} {}", event.reason, event.note?)));
            notes.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            notes_of(None, "full"),
            "Placed a-0 on n/u: full, Unplaced 1 actor is unplaced: a-1 (full)"
        );
        assert_eq!(notes_of(Some("m/u"), ""), "Moved a-0 from m/u to n/u, Unplaced 1 actor is unplaced: a-1");
    }

    #[test]
    fn messages_of_conditions_have_at_most_forty_words() {
        let node = || "worker-1".to_owned();
        for wait in [
            BlockedOn::NodeLost { node: node(), forced: true },
            BlockedOn::MoveTurn(control::TurnLimit::Rollout),
            BlockedOn::Infeasible("worker-1/gpus-0".to_owned()),
            BlockedOn::Resource { resource: "memoryMiB".to_owned(), node: node() },
        ] {
            let unplaced =
                crds::UnplacedActor { actor: "web-1".to_owned(), reasons: vec!["no room".to_owned()] };
            let spec = PlacementSpec { unplaced: vec![unplaced], ..PlacementSpec::default() };
            let outcome = Outcome {
                decision: Some(Placement::new("app", spec)),
                waiting: [("web-0".to_owned(), wait)].into(),
                ..Outcome::default()
            };
            let spec = serde_json::from_value(serde_json::json!({"actors": [], "paused": true})).unwrap();
            for finding in findings(&ActorApplication::new("app", spec), &outcome, (2, 1, 0)) {
                assert!(finding.message.split_whitespace().count() <= 40, "{}", finding.message);
            }
        }
    }
}
