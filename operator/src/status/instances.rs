//! Statuses of Instances. Pure.

use std::time::Duration;

use control::BlockedOn;
use crds::{AllocatedDevices, Instance, InstanceOrigin, InstancePhase, InstanceStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use world::{ActorName, OwnedObjects, RejectedRequest, is_ready, object_name, unit_of};

use crate::status::readiness::{crash_loop, not_ready_reason, not_set_up};
use crate::status::report::{Finding, conditions};

/// The message of an unplaced actor whose reasons did not fit into the Placement.
const REASONS_LEFT_OUT: &str = "unplaced; the reasons are left out of the Placement";

/// What is known about an Instance's actor besides its pod.
pub struct InstanceContext<'a> {
    /// Its assigned unit.
    pub place: Option<&'a str>,
    /// Why it is unplaced, if that is decided; reasons beyond the size limit are missing.
    pub reasons: Option<&'a [String]>,
    /// What blocks it.
    pub wait: Option<&'a BlockedOn>,
    /// Why it cannot be an actor.
    pub unfit: Option<&'a RejectedRequest>,
    /// Why its claim does not hold the device of its unit.
    pub wrong_device: Option<&'a str>,
    /// Whether other applications are starting actors.
    pub others_starting: bool,
    /// Now.
    pub now: Timestamp,
}

fn findings(pod: Option<&Pod>, context: &InstanceContext) -> Vec<Finding> {
    let finding = |type_, holds, reason, message| Finding { type_, holds, reason, message };
    if let Some(RejectedRequest { reason, message }) = context.unfit {
        return ["Ready", "Placed"].map(|type_| finding(type_, false, *reason, message.clone())).into();
    }
    let unit = pod.and_then(unit_of);
    let (ready, reason, message) = match (pod, context.place) {
        (Some(pod), Some(place)) if unit == Some(place) && is_ready(pod) => {
            let but = context.wrong_device.map_or(String::new(), |why| format!(", but {why}"));
            (true, "Ready", format!("the pod is ready on {place}{but}"))
        }
        (Some(_), Some(place)) if unit != Some(place) => (
            false,
            "Moves",
            format!("the pod runs on {}; the actor moves to {place}", unit.unwrap_or("no known unit")),
        ),
        (Some(pod), _) => {
            let why = not_ready_reason(pod)
                .or_else(|| not_set_up(pod))
                .map_or(String::new(), |why| format!(": {why}"));
            (false, "NotReady", format!("the pod is not ready{why}"))
        }
        (None, _) => {
            let waits = context.wait.map_or(String::new(), |wait| format!(": {wait}"));
            (false, "NoPod", format!("no pod exists{waits}"))
        }
    };
    let placed = match (context.place, context.reasons) {
        (Some(place), _) => finding("Placed", true, "Placed", format!("on {place}")),
        (None, None) => finding("Placed", false, "Undecided", "not placed yet".to_owned()),
        (None, Some([])) => finding("Placed", false, "Unplaced", REASONS_LEFT_OUT.to_owned()),
        (None, Some(reasons)) => finding("Placed", false, "Unplaced", reasons.join("; ")),
    };
    let mut findings = vec![finding("Ready", ready, reason, message), placed];
    if let Some(BlockedOn::Backoff(why)) = context.wait {
        findings.push(finding("BackOff", true, "BackOff", why.clone()));
    } else if let Some(why) = pod.and_then(crash_loop) {
        findings.push(finding("BackOff", true, "CrashLoop", why));
    }
    findings
}

/// The root Instance of an application: it stays root until it is deleted, then the oldest follows.
///
/// While Instances are being created it is that of the first actor, even if it does not exist yet.
pub fn root_of(actors: &[ActorName], own: &OwnedObjects) -> Option<String> {
    let wanted: Vec<String> = actors.iter().map(object_name).collect();
    let oldest = |among: &dyn Fn(&Instance) -> bool| {
        let age = |name: &String, instance: &Instance| {
            let made = instance.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let place = wanted.iter().position(|wanted| wanted == name).unwrap_or(usize::MAX);
            (made, place)
        };
        // A requested Instance that cannot be an actor is never root.
        let is_actor = |name: &String, instance: &Instance| {
            instance.spec.origin == InstanceOrigin::Spec || wanted.contains(name)
        };
        let those = own.iter().filter(|(name, (instance, _))| among(instance) && is_actor(name, instance));
        those.min_by_key(|(name, (instance, _))| age(name, instance)).map(|(name, _)| name.clone())
    };
    let is_root = |instance: &Instance| instance.status.as_ref().is_some_and(|status| status.root);
    let complete = wanted.iter().all(|name| own.contains_key(name));
    let by_age = || if complete { oldest(&|_| true) } else { wanted.first().cloned() };
    oldest(&is_root).or_else(by_age)
}

/// How long an actor may take to start before its status says so.
const START_REPORT_DELAY: Duration = Duration::from_secs(5);
/// The same while other applications start actors, when starts take longer.
const BUSY_REPORT_DELAY: Duration = Duration::from_mins(1);
/// Requeue delay while others start actors.
const BUSY_REQUEUE: Duration = Duration::from_secs(1);

/// When to requeue an Instance whose status can wait: its actor is starting normally on its unit, or runs while other
/// applications start theirs.
///
/// A start is reported once, when the actor runs, unless it takes long. That saves status writes when thousands start together,
/// in favour of pod creation. A requested Instance is reported at once, as its requester waits.
pub fn defer_report(
    instance: &Instance,
    pod: Option<&Pod>,
    context: &InstanceContext,
    status: &InstanceStatus,
) -> Option<Duration> {
    let starts = |phase| matches!(phase, None | Some(InstancePhase::Pending | InstancePhase::Starting));
    let reported = instance.status.as_ref();
    let is_new = reported.is_none_or(|reported| starts(reported.phase) && reported.root == status.root);
    let made = pod.map_or(&instance.metadata, |pod| &pod.metadata).creation_timestamp.as_ref();
    let age = made.map(|made| context.now.duration_since(made.0));
    let (patience, again) = match status.phase {
        phase if starts(phase) && context.others_starting => (BUSY_REPORT_DELAY, START_REPORT_DELAY),
        phase if starts(phase) => (START_REPORT_DELAY, START_REPORT_DELAY),
        // Reported as soon as the others have started.
        Some(InstancePhase::Running) if context.others_starting => (START_REPORT_DELAY, BUSY_REQUEUE),
        _ => return None,
    };
    // A creation time in the future comes from another clock.
    let is_young = age.is_some_and(|age| age.unsigned_abs() < patience);
    let nothing_is_wrong = context.unfit.is_none()
        && context.wait.is_none()
        && context.place.is_some()
        && pod.and_then(not_ready_reason).is_none();
    let asked = instance.spec.origin == InstanceOrigin::Runtime;
    (nothing_is_wrong && is_young && is_new && !asked).then_some(again)
}

/// The status of an Instance.
pub fn instance_status(
    instance: &Instance,
    pod: Option<&Pod>,
    devices: Vec<AllocatedDevices>,
    root: bool,
    context: &InstanceContext,
) -> InstanceStatus {
    let before = instance.status.clone().unwrap_or_default();
    let phase = match pod {
        None if context.unfit.is_some_and(|unfit| unfit.reason == "Unsupported") => InstancePhase::Failed,
        None => InstancePhase::Pending,
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => InstancePhase::Stopping,
        Some(pod) => match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => InstancePhase::Running,
            Some("Succeeded") => InstancePhase::Succeeded,
            Some("Failed") => InstancePhase::Failed,
            _ => InstancePhase::Starting,
        },
    };
    let unit = pod.and_then(unit_of).map(str::to_owned);
    InstanceStatus {
        observed_generation: instance.metadata.generation,
        phase: Some(phase),
        node: unit.as_ref().and_then(|unit| unit.rsplit_once('/')).map(|(node, _)| node.to_owned()),
        unit,
        pod: pod.map(ResourceExt::name_any),
        devices,
        endpoint: pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.pod_ip.clone()),
        root,
        conditions: conditions(
            &before.conditions,
            findings(pod, context),
            instance.metadata.generation,
            context.now,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::ActorApplication;
    use serde_json::json;
    use std::sync::Arc;

    /// The root among Instances `actor@second`; `*` marks previous roots.
    fn root(actors: &[(&str, i32)], instances: &str) -> String {
        let way = json!({"kind": "cpu", "serviceTime": "1ms", "template": {"spec": {"containers": [{"name": "main"}]}}});
        let group = |(name, replicas): &(&str, i32)| json!({"name": name, "replicas": replicas, "implementations": [way]});
        let groups: Vec<_> = actors.iter().map(group).collect();
        let application =
            ActorApplication::new("app", serde_json::from_value(json!({"actors": groups})).unwrap());
        let instance = |text: &str| {
            let (actor, rest) = text.split_once('@').unwrap();
            let mut instance = Instance::new(&format!("app-{actor}"), crds::InstanceSpec::default());
            let second = rest.trim_end_matches('*').parse().unwrap();
            instance.metadata.creation_timestamp =
                Some(crds::Time(jiff::Timestamp::from_second(second).unwrap()));
            instance.status = Some(InstanceStatus { root: rest.ends_with('*'), ..InstanceStatus::default() });
            (instance.name_any(), (Arc::new(instance), None))
        };
        let own = instances.split_whitespace().map(instance).collect();
        root_of(&world::manifest_actors(&application), &own).unwrap_or_default()
    }

    /// Conditions of an Instance: `unit=` of its pod, `ready`, `crash=` its exit code, `place=`, `wrong=` device, `back=`.
    fn reported(world: &str) -> String {
        let field = |name: &str| world.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let pod = field("unit").map(|unit| {
            let status = if world.contains("ready") { "True" } else { "False" };
            let how = |code: &str| json!({"terminated": {"exitCode": code.parse::<i32>().unwrap(), "reason": "Error"}});
            let crashed = field("crash").map(|code| {
                json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 1, "lastState": how(code)})
            });
            let crashed = crashed.as_slice();
            serde_json::from_value::<Pod>(json!({"metadata": {"annotations": {"cairn.dev/unit": unit}},
                "status": {"conditions": [{"type": "Ready", "status": status}], "containerStatuses": crashed}}))
            .unwrap()
        });
        let wait = field("back").map(|why| BlockedOn::Backoff(why.to_owned()));
        let unfit =
            field("unfit").map(|why| RejectedRequest { reason: "Unsupported", message: why.to_owned() });
        let reasons = ["no room".to_owned()];
        let reasons = if world.contains("without-reasons") { &reasons[..0] } else { &reasons[..] };
        let context = InstanceContext {
            place: field("place"),
            reasons: world.contains("unplaced").then_some(reasons),
            wait: wait.as_ref(),
            unfit: unfit.as_ref(),
            wrong_device: field("wrong"),
            others_starting: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let findings = findings(pod.as_ref(), &context);
        let reported = findings.iter().map(|it| format!("{}={} {}", it.type_, it.holds, it.message));
        reported.collect::<Vec<_>>().join(", ")
    }

    /// Whether the status of an Instance at second 10 is deferred: `made=` creation of it or its pod, `was=` reported phase,
    /// `is=` present phase, `root` if that changes, `says=` waiting reason of its container, `busy` while others start.
    fn is_passing(world: &str) -> bool {
        let field = |name: &str| world.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let at = |second: &str| crds::Time(Timestamp::from_second(second.parse().unwrap()).unwrap());
        let phase = |name: &str| field(name).map(|phase| serde_json::from_value(phase.into()).unwrap());
        let mut instance = Instance::new("app-a-0", crds::InstanceSpec::default());
        if world.contains("asked") {
            instance.spec.origin = InstanceOrigin::Runtime;
        }
        instance.metadata.creation_timestamp = field("made").map(at);
        instance.status =
            field("was").map(|_| InstanceStatus { phase: phase("was"), ..InstanceStatus::default() });
        let mut pod = Pod::default();
        pod.metadata.creation_timestamp = field("pod").map(at);
        pod.status = field("says").map(|why| {
            let waits = json!([{"name": "main", "ready": false, "restartCount": 0, "image": "i", "imageID": "i",
                "state": {"waiting": {"reason": why}}}]);
            serde_json::from_value(json!({"containerStatuses": waits})).unwrap()
        });
        let wait = field("back").map(|why| BlockedOn::Backoff(why.to_owned()));
        let context = InstanceContext {
            place: field("place"),
            reasons: None,
            wait: wait.as_ref(),
            unfit: None,
            wrong_device: None,
            others_starting: world.contains("busy"),
            now: Timestamp::from_second(10).unwrap(),
        };
        let status =
            InstanceStatus { phase: phase("is"), root: world.contains("root"), ..InstanceStatus::default() };
        defer_report(&instance, field("pod").map(|_| &pod), &context, &status).is_some()
    }

    #[test]
    fn a_starting_actor_is_reported_when_it_runs_or_takes_long() {
        for (world, expected) in [
            ("made=8 place=n/a-0 is=Pending", true),
            ("made=8 place=n/a-0 is=Pending root", true),
            ("made=1 pod=8 place=n/a-0 was=Pending is=Starting", true),
            // running
            ("made=8 pod=8 place=n/a-0 is=Running", false),
            // running while others start: deferred briefly, unless it failed or was requested
            ("made=8 pod=8 place=n/a-0 is=Running busy", true),
            ("made=4 pod=4 place=n/a-0 is=Running busy", false),
            ("made=8 pod=8 place=n/a-0 was=Running is=Running busy", false),
            ("made=8 pod=8 place=n/a-0 is=Failed busy", false),
            ("made=8 pod=8 place=n/a-0 is=Running busy asked", false),
            // takes long
            ("made=4 place=n/a-0 is=Pending", false),
            ("made=1 pod=4 place=n/a-0 is=Starting", false),
            // expected while others start
            ("made=1 pod=4 place=n/a-0 is=Starting busy", true),
            ("made=-50 pod=-50 place=n/a-0 is=Starting busy", false),
            // the kubelet reports a problem
            ("made=8 pod=8 place=n/a-0 is=Starting busy says=ContainerCreating", true),
            ("made=8 pod=8 place=n/a-0 is=Starting busy says=ErrImagePull", false),
            // unplaced, blocked, running before, or a new root
            ("made=8 is=Pending", false),
            ("made=8 place=n/a-0 back=ended is=Pending", false),
            ("made=1 pod=8 place=n/a-0 was=Running is=Starting", false),
            ("made=8 place=n/a-0 was=Pending is=Pending root", false),
            // requested at runtime
            ("made=8 place=n/a-0 is=Pending asked", false),
            // a clock that is hours ahead
            ("made=9999 place=n/a-0 is=Pending", false),
        ] {
            assert_eq!(is_passing(world), expected, "{world}");
        }
    }

    #[test]
    fn an_instance_is_ready_if_its_pod_is_on_the_assigned_unit() {
        for (world, expected) in [
            ("unit=n/a-0 ready place=n/a-0", "Ready=true the pod is ready on n/a-0, Placed=true on n/a-0"),
            (
                "unit=n/a-0 ready place=n/a-0 wrong=other",
                "Ready=true the pod is ready on n/a-0, but other, Placed=true on n/a-0",
            ),
            ("unit=n/a-0 place=n/a-0", "Ready=false the pod is not ready, Placed=true on n/a-0"),
            (
                "unit=n/a-0 crash=3 place=n/a-0",
                "Ready=false the pod is not ready: container main: restarted after exit code 3 (Error), \
                 Placed=true on n/a-0, BackOff=true container main is in a crash loop \
                 (Error, exit code 3); the kubelet restarts it with backoff; see kubectl logs --previous",
            ),
            (
                "unit=n/a-0 ready place=m/a-0",
                "Ready=false the pod runs on n/a-0; the actor moves to m/a-0, Placed=true on m/a-0",
            ),
            ("unplaced", "Ready=false no pod exists, Placed=false no room"),
            (
                "unplaced without-reasons",
                "Ready=false no pod exists, Placed=false unplaced; the reasons are left out of the Placement",
            ),
            ("", "Ready=false no pod exists, Placed=false not placed yet"),
            ("unfit=two", "Ready=false two, Placed=false two"),
            (
                "place=n/a-0 back=ended",
                "Ready=false no pod exists: ended; retrying with backoff, \
                 Placed=true on n/a-0, BackOff=true ended",
            ),
        ] {
            assert_eq!(reported(world), expected, "{world}");
        }
    }

    #[test]
    fn there_is_one_root_and_it_stays() {
        let two = [("b", 1), ("a", 2)];
        for (instances, expected) in [
            ("", "app-b-0"),
            ("a-0@5", "app-b-0"),
            ("a-0@5 a-1@5 b-0@5", "app-b-0"),
            ("a-0@5 a-1@4 b-0@5", "app-a-1"),
            ("a-0@5 a-1@4 b-0@5*", "app-b-0"),
            ("a-0@5 a-1@7*", "app-a-1"),
            ("a-0@5* a-1@4 b-0@5*", "app-b-0"),
        ] {
            assert_eq!(root(&two, instances), expected, "{instances}");
        }
    }
}
