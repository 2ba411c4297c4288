//! Reasons to plan again: one line of changes, one reason.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::worlds::snapshot;
use control::{
    BACKGROUND_INTERVAL, Decision, DesiredActor, DesiredState, Opening, PlanInputs, RESYNC_PERIOD, Refusal,
    RefusalKey, RefusalScope, RefusalTracker, ResumeSearch, background_slots, is_record_outdated, openings,
    plan_reason, pressure, requeue_after,
};

const NOW: Duration = Duration::from_secs(1000);

/// The plan reason of an application of two actors. `changes` are the differences from a quiet cluster with both
/// placed: `unplaced` (`cam-1`), `silent` (`cam-1` is missing in the decision), `infeasible`, `generation`, `policy`,
/// `undecided`, `others` (the digest), `demand`, `opening=UNIT…` now and `opened=UNIT…` before, `look=SECONDS` (a
/// search to resume), `freed` (capacity), `turn` (a background slot), `broke=LIMIT` now and `broken=LIMIT`
/// before, `over=AMOUNT` now and `was=AMOUNT` before, `restart` (no earlier state), `paused`, `proposed` (for the
/// changed manifest).
fn why(changes: &str) -> String {
    let named = |index: u32| DesiredActor { name: format!("cam-{index}"), group: 0 };
    let mut wanted = DesiredState {
        generation: 3,
        policy: "p".into(),
        actors: (0..2).map(named).collect(),
        ..DesiredState::default()
    };
    let places = ["cam-0", "cam-1"].map(|actor| (actor.to_owned(), "n0/gpu0".to_owned()));
    let decision = Decision {
        generation: 3,
        policy: "p".into(),
        demand: Some("sha256:d".into()),
        places: places.into(),
        ..Decision::default()
    };
    let mut decision = Some(decision);
    let world = PlanInputs { demand: "sha256:d".into(), digest: "w".into(), ..PlanInputs::default() };
    let (mut before, mut now) = (world.clone(), world);
    let mut is_known = true;
    let on_unit = |value: &str| ("n0/gpu0".to_owned(), value.parse().unwrap());
    let mut infeasible = BTreeSet::new();
    for change in changes.split_whitespace() {
        let (what, value) = change.split_once('=').unwrap_or((change, ""));
        let opening =
            |unit: &str| Opening { actor: "cam-1".to_owned(), unit: unit.to_owned(), with_peers: false };
        let units = || value.split(',').map(opening).collect();
        match what {
            "undecided" => decision = None,
            "unplaced" | "silent" => {
                let decision = decision.as_mut().unwrap();
                decision.places.remove("cam-1");
                decision.unplaced.extend((what == "unplaced").then(|| "cam-1".to_owned()));
            }
            "infeasible" => drop(infeasible.insert("cam-1".to_owned())),
            "generation" => wanted.generation = 4,
            "paused" => wanted.paused = true,
            "proposed" => before.generation = 4,
            "policy" => wanted.policy = "q".into(),
            "demand" => now.demand = "sha256:e".into(),
            "upgraded" => now.demand = "v2:d".into(),
            "freed" => now.freed_counter = 8,
            "turn" => now.background_slot = true,
            "broke" => drop(now.pressure.violated.insert(value.to_owned())),
            "broken" => drop(before.pressure.violated.insert(value.to_owned())),
            "over" => now.pressure.overload.extend([on_unit(value)]),
            "was" => before.pressure.overload.extend([on_unit(value)]),
            "restart" => is_known = false,
            "opening" => now.openings = units(),
            "opened" => before.openings = units(),
            "look" => {
                let at = Duration::from_secs(value.parse().unwrap());
                before.resume_search = Some(ResumeSearch { at, attempt: 1 });
            }
            "others" => {}
            other => panic!("{other}"),
        }
        if !matches!(
            what,
            "look"
                | "generation"
                | "paused"
                | "proposed"
                | "policy"
                | "undecided"
                | "unplaced"
                | "freed"
                | "turn"
                | "restart"
        ) {
            now.digest = "v".into();
        }
    }
    plan_reason(is_known.then_some(&before), &now, &wanted, decision.as_ref(), &infeasible, NOW)
        .map_or("-".to_owned(), |due| due.to_string())
}

#[test]
fn plan_reasons() {
    let table = [
        // Nothing changed.
        ("", "-"),
        ("unplaced", "-"),
        ("undecided", "undecided"),
        ("undecided others", "undecided"),
        // An edit that changes no demand is only rolled out.
        ("generation", "-"),
        ("generation restart", "-"),
        ("generation infeasible others", "infeasible"),
        ("generation demand", "manifest"),
        ("generation demand restart", "manifest"),
        ("policy", "policy"),
        ("generation policy", "policy"),
        ("generation demand policy", "manifest"),
        // After an upgrade that computes the digest otherwise, the first one is accepted.
        ("restart upgraded", "-"),
        ("upgraded", "-"),
        ("restart upgraded generation", "manifest"),
        ("restart upgraded policy", "policy"),
        // A paused application is planned once per change, as a proposal.
        ("generation paused", "-"),
        ("generation demand paused", "manifest"),
        ("generation paused proposed", "-"),
        ("generation paused proposed others silent", "-"),
        ("generation paused proposed others infeasible", "-"),
        ("generation paused proposed demand", "demand"),
        ("generation demand proposed", "manifest"),
        ("generation demand paused restart", "manifest"),
        // Changes of other applications trigger no plan.
        ("others", "-"),
        ("others look=2000", "-"),
        ("demand", "demand"),
        // At the current placement a limit is newly violated, or overload grew.
        ("broke=slots", "limit"),
        ("broke=slots broken=slots", "-"),
        ("broke=slots broken=power", "limit"),
        ("others broken=slots", "-"),
        ("over=5", "overload"),
        ("over=5 was=4", "overload"),
        ("over=5 was=5", "-"),
        ("others was=5", "-"),
        ("over=5 broke=slots", "limit"),
        // Freed capacity alone waits for a background slot.
        ("freed", "-"),
        ("turn", "-"),
        ("freed turn", "capacity-freed"),
        ("freed turn others", "capacity-freed"),
        ("freed others", "-"),
        ("freed turn demand", "demand"),
        // A restart of the operator triggers no search.
        ("restart", "-"),
        ("restart others over=5 broke=slots", "-"),
        ("restart unplaced", "-"),
        // Openings may predate the restart.
        ("restart unplaced opening=n0/gpu1", "opening"),
        ("restart opening=n0/gpu1", "-"),
        ("restart demand", "demand"),
        ("restart infeasible", "infeasible"),
        ("restart silent", "incomplete"),
        ("restart undecided", "undecided"),
        // A decided place is infeasible, or the decision lacks an actor.
        ("infeasible", "infeasible"),
        ("infeasible unplaced", "infeasible"),
        ("silent", "incomplete"),
        ("silent infeasible", "incomplete"),
        // Unplaced actors need an opening.
        ("unplaced others", "-"),
        ("unplaced opening=n0/gpu1", "opening"),
        ("unplaced opening=n0/gpu1 opened=n0/gpu1", "-"),
        ("unplaced opening=n0/gpu1 opened=n0/gpu2", "opening"),
        ("unplaced opening=n0/gpu1,n0/gpu2 opened=n0/gpu1", "opening"),
        ("unplaced others opened=n0/gpu1", "-"),
        ("opening=n0/gpu1", "-"),
        // The search reached its deadline.
        ("look=999", "resume"),
        ("look=1000", "resume"),
        ("look=1001", "-"),
        ("look=999 unplaced", "resume"),
        // It is not resumed for another snapshot.
        ("look=999 others", "-"),
        ("look=999 demand", "demand"),
    ];
    for (changes, expected) in table {
        assert_eq!(why(changes), expected, "{changes}");
    }
}

#[test]
fn a_decision_is_recorded_for_the_newest_manifest_and_digest() {
    for (generation, demand, now, paused, expected) in [
        (3, Some("v2:a"), "v2:a", false, false),
        (2, Some("v2:a"), "v2:a", false, true),
        (2, Some("v2:a"), "v2:a", true, false),
        (3, Some("sha256:a"), "v2:a", false, true),
        (3, None, "v2:a", false, true),
        // The demand changed without a plan reason, for example by nodes that a policy reads.
        (3, Some("v2:a"), "v2:b", false, false),
    ] {
        let decision = Decision { generation, demand: demand.map(str::to_owned), ..Decision::default() };
        let desired = DesiredState { generation: 3, paused, ..DesiredState::default() };
        assert_eq!(is_record_outdated(&decision, &desired, now), expected, "{decision:?} {now} {paused}");
    }
}

/// Foreign pods that start and end beside an unplaced actor trigger no search.
#[test]
fn unusable_churn_triggers_no_plan() {
    let wanted = DesiredState {
        actors: vec![DesiredActor { name: "big-0".into(), group: 0 }],
        ..DesiredState::default()
    };
    let decision = Decision { unplaced: ["big-0".to_owned()].into(), ..Decision::default() };
    let room = openings(&snapshot("units=n0/gpu0:1,n0/fpga0:9 own=big-0 others=x@n0/gpu0"));
    let mut before = PlanInputs { openings: room, ..PlanInputs::default() };
    let mut searches = 0;
    for round in 0..100 {
        // The only GPU is taken; the node's other capacity fluctuates.
        let world =
            snapshot(&format!("units=n0/gpu0:1:{},n0/fpga0:9 own=big-0 others=x@n0/gpu0", 10 + round % 7));
        let now = PlanInputs { digest: world.write(), openings: openings(&world), ..PlanInputs::default() };
        let is_due = plan_reason(Some(&before), &now, &wanted, Some(&decision), &BTreeSet::new(), NOW);
        searches += u32::from(is_due.is_some());
        before = now;
    }
    assert_eq!(searches, 0);
}

/// A day of foreign pods that start and end: only a pod that overloads the application triggers a search, and only
/// once.
#[test]
fn harmless_foreign_load_triggers_no_plan() {
    let world = |capacity: u64| {
        snapshot(&format!("units=n0/cpu0:9:{capacity},n1/cpu0:9:3 own=a-0@n0/cpu0,a-1@n0/cpu0"))
    };
    let wanted = DesiredState {
        actors: (0..2).map(|i| DesiredActor { name: format!("a-{i}"), group: 0 }).collect(),
        ..DesiredState::default()
    };
    let places = ["a-0", "a-1"].map(|actor| (actor.to_owned(), "n0/cpu0".to_owned()));
    let decision = Decision { places: places.into(), ..Decision::default() };
    let mut before: Option<PlanInputs> = None;
    let mut searches = Vec::new();
    for (minute, capacity) in [9, 8, 5, 2, 9, 1, 9, 1, 2, 1, 9, 1].into_iter().enumerate() {
        let world = world(capacity);
        let facts = PlanInputs {
            digest: world.write(),
            pressure: pressure(&world, &world.incumbent()),
            openings: openings(&world),
            ..PlanInputs::default()
        };
        let why = plan_reason(before.as_ref(), &facts, &wanted, Some(&decision), &BTreeSet::new(), NOW);
        // A restarted operator has no previous demand.
        searches.extend(why.filter(|_| minute > 0).map(|why| format!("{minute} {why}")));
        before = Some(match (why, &before) {
            (None, Some(before)) => facts.merge_pressure(before),
            _ => facts,
        });
    }
    assert_eq!(searches, ["5 overload"]);
}

#[test]
fn openings_are_units_with_room_for_an_unplaced_actor() {
    let shown = |world: &str| {
        let found = openings(&snapshot(world));
        found
            .iter()
            .map(|Opening { actor, unit, with_peers }| {
                let peers = if *with_peers { " with peers" } else { "" };
                format!("{}@{unit}{peers}", actor.rsplit('/').next().unwrap())
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let table = [
        ("units=n0/gpu0:1 own=a-0", "a-0@n0/gpu0"),
        ("units=n0/gpu0:1,n0/cpu0:1 own=a-0", "a-0@n0/cpu0 a-0@n0/gpu0"),
        ("units=n0/gpu0:1 own=a-0@n0/gpu0", ""),
        ("units=n0/gpu0:1 own=a-0 others=x@n0/gpu0", ""),
        ("units=n0/gpu0:2 own=a-0 others=x@n0/gpu0", "a-0@n0/gpu0"),
        ("units=n0/gpu0:2 own=a-0,a-1@n0/gpu0 others=x@n0/gpu0", ""),
        ("units=n0/fpga0:1 own=a-0", ""),
        // One actor represents all identical ones.
        ("units=n0/gpu0:9 own=a-0,a-1,b-0", "a-0@n0/gpu0 b-0@n0/gpu0"),
        ("units=n0/gpu0:9 others=x@n0/gpu0", ""),
        ("units=n0/gpu0:9 own=a-0,a-1@n0/gpu0 quota=a-0+a-1:1", ""),
        ("units=n0/gpu0:9 own=a-0,a-1@n0/gpu0 quota=a-0+a-1:2", "a-0@n0/gpu0"),
        ("units=n0/gpu0:9 own=a-0,b-0@n0/gpu0 quota=b-0:0", "a-0@n0/gpu0"),
        // Another opening once the peer is there.
        ("units=n0/gpu0:9 own=a-0,b-0 near=a-0+b-0", "a-0@n0/gpu0 b-0@n0/gpu0 b-0@n0/gpu0 with peers"),
        ("units=n0/gpu0:9 own=a-0,b-0@n0/gpu0 near=a-0+b-0", "a-0@n0/gpu0 a-0@n0/gpu0 with peers"),
    ];
    for (world, expected) in table {
        assert_eq!(shown(world), expected, "{world}");
    }
}

#[test]
fn unfinished_searches_are_resumed_three_times_in_the_background() {
    let mut look = None;
    let mut at = NOW;
    let mut waits = Vec::new();
    while let Some(next) = ResumeSearch::after(look, at) {
        assert!(!next.is_due(at) && next.is_due(next.at));
        waits.push(next.at.saturating_sub(at).as_secs());
        (at, look) = (next.at, Some(next));
    }
    assert_eq!(waits, [BACKGROUND_INTERVAL.as_secs(); 3]);
}

fn refusal(actor: &str, node: &str, until: u64) -> Refusal {
    let about = RefusalKey { scope: RefusalScope::Node(node.into()), ..RefusalKey::default() };
    Refusal {
        key: about,
        actor: actor.into(),
        reason: "full".into(),
        count: 1,
        until: Duration::from_secs(until),
        cause: None,
    }
}

#[test]
fn applications_are_requeued_at_the_next_expiry() {
    let look = |at: u64| Some(ResumeSearch { at: Duration::from_secs(at), attempt: 1 });
    let check = |refusals: &[u64], resume_search, failed| {
        let refusals: Vec<Refusal> = refusals.iter().map(|&until| refusal("a", "n", until)).collect();
        requeue_after(NOW, &refusals, resume_search, failed).as_secs()
    };
    let most = RESYNC_PERIOD.as_secs();
    assert_eq!(check(&[], None, false), most);
    assert_eq!(check(&[], None, true), most);
    assert_eq!(check(&[1020, 1010], None, false), 10);
    assert_eq!(check(&[], look(1030), false), 30);
    assert_eq!(check(&[1020], look(1030), false), 20);
    assert_eq!(check(&[], look(2000), false), most, "no later than that");
    assert_eq!(check(&[], look(1), false), 1, "no sooner than that");
    assert_eq!(check(&[999], None, false), most, "an expired one holds until its cause changes");
    assert_eq!(check(&[], look(1001), true), most, "what failed is not taken up");
}

#[test]
fn background_slots_rotate() {
    let at = |seconds| Some(Duration::from_secs(seconds));
    let wait = [("a", at(500)), ("b", at(399)), ("c", None), ("d", at(400)), ("e", None)];
    assert_eq!(
        background_slots(wait, NOW, 9),
        ["c", "e", "b", "d"],
        "every {BACKGROUND_INTERVAL:?} at most, who waits longest first"
    );
    assert_eq!(background_slots(wait, NOW, 3), ["c", "e", "b"]);
}

/// Consecutive refusals as `ACTOR/NODE@SECONDS`; the active ones at a time, with count and remaining duration.
fn summary(refused: &str, now: u64, longest: u64) -> String {
    let (mut refusals, at) = (RefusalTracker::default(), Duration::from_secs);
    for one in refused.split_whitespace() {
        let (who, when) = one.split_once('@').unwrap();
        let (actor, node) = who.split_once('/').unwrap();
        let scope = if node == "any" { RefusalScope::Template } else { RefusalScope::Node(node.into()) };
        let about = RefusalKey { scope, group: "cam".into(), kind: "gpu".into() };
        refusals.record(&about, (actor.into(), "full", None), at(longest), at(when.parse().unwrap()));
    }
    let active = refusals.active(at(now), |_| false).into_iter().map(|it| {
        let node = if let RefusalScope::Node(node) = &it.key.scope { node } else { "any" };
        format!("{}/{node} x{} {}s", it.actor, it.count, it.until.as_secs() - now)
    });
    active.collect::<Vec<_>>().join(", ")
}

#[test]
fn refusals_prevent_restarts_of_the_same_group() {
    let at = Duration::from_secs;
    let refusal = |scope: &RefusalScope, group: &str, kind: &str| {
        let about = RefusalKey { scope: scope.clone(), group: group.into(), kind: kind.into() };
        Refusal {
            key: about,
            actor: "cam-1".into(),
            reason: "full".into(),
            count: 1,
            until: at(100),
            cause: None,
        }
    };
    let on = |node: &str| RefusalScope::Node(node.into());
    for (scope, group, kind, now, expected) in [
        (on("n0"), "cam", "gpu", 99, true),
        (on("n0"), "cam", "gpu", 100, false),
        (on("n1"), "cam", "gpu", 99, false),
        (on("n0"), "log", "gpu", 99, false),
        (on("n0"), "cam", "cpu", 99, false),
        (on("n0"), "cam", "", 99, true),
        // Without a group a refusal applies to its actor only.
        (on("n0"), "", "gpu", 99, false),
        (RefusalScope::Template, "cam", "gpu", 99, true),
        (RefusalScope::Namespace, "", "", 99, false),
    ] {
        let found = refusal(&scope, group, kind).prevents_restart(("cam-0", "cam"), ("n0", "gpu"), at(now));
        assert_eq!(found, expected, "{scope:?} {group} {kind} {now}");
    }
}

#[test]
fn refusals_double_in_duration() {
    let table = [
        ("a/n0@100", 100, "a/n0 x1 10s"),
        ("a/n0@100", 110, ""),
        // simultaneous refusals of a group are joined
        ("a/n0@100 b/n0@101 c/n0@102", 102, "c/n0 x3 8s"),
        ("a/n0@100 a/n0@110", 110, "a/n0 x1 20s"),
        ("a/n0@100 a/n0@110 a/n0@130 a/n0@170 a/n0@250 a/n0@410", 410, "a/n0 x1 300s"),
        ("a/n0@100 a/n0@110 a/n0@729", 729, "a/n0 x1 40s"),
        ("a/n0@100 a/n0@110 a/n0@730", 730, "a/n0 x1 10s"),
        // every node is tried once before any is tried again
        ("a/n0@100 a/n1@130", 130, "a/n0 x1 10s, a/n1 x1 10s"),
        ("a/n0@100 a/n1@130 a/n2@160", 160, "a/n0 x1 10s, a/n1 x1 10s, a/n2 x1 10s"),
        ("a/n0@100 a/n1@130 a/n0@160", 160, "a/n0 x1 20s, a/n1 x1 10s"),
        // a refusal for all nodes is not attributed to single nodes
        ("a/n0@100 a/any@130", 130, "a/any x1 10s"),
    ];
    for (refused, now, expected) in table {
        assert_eq!(summary(refused, now, 300), expected, "{refused} at {now}");
    }
    assert_eq!(summary("a/n0@100 a/n0@110 a/n0@130", 130, 15), "a/n0 x1 15s", "no longer than is asked for");
}

#[test]
fn refusals_are_bounded_and_restored() {
    let mut refusals = RefusalTracker::default();
    for node in 0..100 {
        let about = RefusalKey { scope: RefusalScope::Node(format!("n{node:03}")), ..RefusalKey::default() };
        let (reason, cause) = ("ä".repeat(5000), (node == 7).then(|| "c".to_owned()));
        refusals.record(&about, ("a".into(), &reason, cause), Duration::from_mins(5), NOW);
    }
    let changed = |_: &Refusal| false;
    let active_now = refusals.active(NOW, changed);
    assert_eq!((active_now.len(), active_now[0].reason.chars().count()), (64, 1000));
    let later = NOW + Duration::from_secs(10);
    assert_eq!(refusals.active(later, changed), []);
    let unchanged = refusals.active(later, |_| true);
    assert_eq!(unchanged.iter().map(|it| it.cause.as_deref()).collect::<Vec<_>>(), [Some("c")]);
    let longest = Duration::from_mins(5);
    let mut recalled = RefusalTracker::default();
    recalled.restore(active_now.clone(), longest, NOW);
    assert_eq!(recalled.active(NOW, changed), active_now);
    // The clock was set back by an hour.
    let mut recalled = RefusalTracker::default();
    let later = active_now.into_iter().map(|it| Refusal { until: it.until + Duration::from_hours(1), ..it });
    recalled.restore(later.collect(), longest, NOW);
    let recalled = recalled.active(NOW, changed);
    assert!(recalled.len() == 64 && recalled.iter().all(|it| it.until == NOW + longest));
}
