//! Running actors and manifests, to which measured load is joined.

use std::collections::BTreeMap;
use std::sync::Arc;

use counters::MeasuredNumbers;
use crds::MeasuredServiceTime;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use world::{
    ApplicationKey, Index, MeasuredDemand, Policy, group_profiles, last_change, measured_service_times,
    members, running_actors,
};

/// The scene, with the pods of `web` in these states: phase, since when ready, and whether it is being deleted.
fn world(states: [(&str, Option<&str>, bool); 2]) -> Index {
    let mut all = crate::scene::everything();
    for (pod, (phase, ready, is_deleted)) in ["web-s-0", "web-s-1"].iter().zip(states) {
        let at = all.pods.iter().position(|it| it.metadata.name.as_deref() == Some(pod)).unwrap();
        let mut value = serde_json::to_value(&*all.pods[at]).unwrap();
        let since = |since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
        value["status"] =
            json!({"phase": phase, "conditions": ready.map(since).into_iter().collect::<Vec<_>>()});
        if is_deleted {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        all.pods[at] = Arc::new(serde_json::from_value::<Pod>(value).unwrap());
    }
    for pool in &mut all.pools {
        let speed = if pool.spec.kind == "gpu" { "2" } else { "1/2" };
        let mut changed = (**pool).clone();
        speed.clone_into(&mut changed.spec.speed);
        *pool = Arc::new(changed);
    }
    Index::of(&all)
}

const READY: (&str, Option<&str>, bool) = ("Running", Some("2026-01-01T00:00:10Z"), false);

fn web() -> ApplicationKey {
    ApplicationKey { namespace: "ns".to_owned(), name: "web".to_owned() }
}

#[test]
fn running_actors_have_the_kind_and_speed_of_their_pool() {
    for (second, expected) in [
        (READY, vec!["s-0 s web-s-0 gpu 2 1000", "s-1 s web-s-1 cpu 0.5 9000"]),
        (("Pending", None, false), vec!["s-0 s web-s-0 gpu 2 1000"]),
        (("Running", None, true), vec!["s-0 s web-s-0 gpu 2 1000"]),
    ] {
        let index = world([READY, second]);
        let roster = running_actors(&index, index.application(&web()).unwrap());
        let actors = roster.actors.iter().map(|it| {
            format!(
                "{} {} {} {} {} {}",
                it.name, it.group, it.pod, it.kind, it.speed, it.service_microseconds
            )
        });
        assert_eq!(actors.collect::<Vec<_>>(), expected);
        assert_eq!((roster.namespace.as_str(), roster.name.as_str()), ("ns", "web"));
    }
}

#[test]
fn starts_restarts_and_ends_change_the_members() {
    let seen = |states| {
        let index = world(states);
        let application = index.application(&web()).unwrap();
        (members(&index, application), last_change(&index, application).map(|it| it.to_string()))
    };
    let (before, changed) = seen([READY, READY]);
    assert_eq!((before.len(), changed.as_deref()), (2, Some("2026-01-01T00:00:10Z")));
    assert_eq!(seen([READY, READY]).0, before);
    for other in [
        ("Running", Some("2026-01-01T00:00:11Z"), false),
        ("Running", Some("2026-01-01T00:00:10Z"), true),
        ("Succeeded", Some("2026-01-01T00:00:10Z"), false),
        ("Running", None, false),
    ] {
        let (members, changed) = seen([READY, other]);
        assert_ne!(members, before, "{other:?}");
        assert_eq!(changed.as_deref(), other.1.map(|since| since.max("2026-01-01T00:00:10Z")));
    }
}

#[test]
fn profiles_state_the_manifests_work() {
    let index = world([READY, READY]);
    let profiles = group_profiles(&index, index.application(&web()).unwrap(), &Policy::builtin("p")).unwrap();
    let profile = &profiles["s"];
    assert_eq!(profile.actors, ["s-0", "s-1"]);
    assert_eq!(profile.receivers, Vec::<String>::new());
    // One message a second in 30 s.
    let kinds = profile
        .kinds
        .iter()
        .map(|(kind, it)| format!("{kind} {} {}", it.work_microseconds, it.service_microseconds));
    assert_eq!(kinds.collect::<Vec<_>>(), ["cpu 270000 9000", "gpu 30000 1000"]);
}

#[test]
fn service_times_of_a_kind_that_was_left_are_remembered_by_the_decision() {
    let time = |group: &str, kind: &str, time: &str| MeasuredServiceTime {
        group: group.to_owned(),
        kind: kind.to_owned(),
        service_time: time.to_owned(),
    };
    let mut all = crate::scene::everything();
    let at = all.placements.iter().position(|it| it.metadata.name.as_deref() == Some("web")).unwrap();
    let mut decision = (*all.placements[at]).clone();
    decision.spec.measured = vec![
        time("s", "cpu", "8.5ms"),
        time("s", "gpu", "2ms"),
        time("s", "fpga", "1ms"),
        time("gone", "cpu", "1ms"),
    ];
    all.placements[at] = Arc::new(decision.clone());
    let mut index = Index::of(&all);
    let (web, policy) = (web(), Policy::builtin("p"));
    let application = index.application(&web).unwrap().clone();
    let profiles = group_profiles(&index, &application, &policy).unwrap();
    let measured =
        profiles["s"].kinds.iter().map(|(kind, it)| (kind.as_str(), it.measured_service_microseconds));
    assert_eq!(measured.collect::<Vec<_>>(), [("cpu", Some(8500.0)), ("gpu", Some(2000.0))]);

    let services = BTreeMap::from([(("s".to_owned(), "gpu".to_owned()), 1_234.567_89)]);
    let numbers = MeasuredNumbers { services, ..MeasuredNumbers::default() };
    let demand = MeasuredDemand { window: policy.window, numbers };
    index.set_measured(&web, Some(Arc::new(demand)));
    let next = |before| measured_service_times(&index, &application, &policy, before);
    assert_eq!(next(Some(&decision)), [time("s", "cpu", "8500us"), time("s", "gpu", "1234.568us")]);
    assert_eq!(next(None), [time("s", "gpu", "1234.568us")]);
}
