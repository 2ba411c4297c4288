//! Concurrent plans: one line describes the planned snapshot, one the latest one, one the committed plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::worlds::{planned, snapshot};
use control::{
    Decision, Instance, KeepRunning, ObservedState, Pod, Verdict, infeasible, repair_plan, revalidate_plan,
};
use placement::ix::{ActorIx, UnitIx};
use placement::{Budget, GroundConstraint, GroundRule, NoPolicy, Plan, Rules, Snapshot, plan};
use proptest::prelude::*;
use search::Greedy;

fn places(snapshot: &Snapshot, plan: &Plan) -> String {
    let place = |actor: ActorIx| {
        let name = snapshot.actor_id(actor).rsplit('/').next().unwrap();
        let unit = plan.assignment[actor].map_or("-", |unit| snapshot.unit_id(unit));
        (!snapshot.is_fixed(actor)).then(|| format!("{name}@{unit}"))
    };
    ActorIx::first(snapshot.actors()).filter_map(place).collect::<Vec<_>>().join(" ")
}

/// The verdict on the plan for `before` in `after`.
fn committed(before: &str, after: &str, keep_partial: bool) -> String {
    let (before, after) = (snapshot(before), snapshot(after));
    match revalidate_plan(&before, &planned(&before), &after, keep_partial) {
        Verdict::Valid(plan) => places(&after, &plan),
        Verdict::Partial(plan) => format!("partly {}", places(&after, &plan)),
        Verdict::Repaired(_) => "mended".to_owned(),
        Verdict::Stale => "overtaken".to_owned(),
    }
}

#[track_caller]
fn check(table: &[(&str, &str, &str, &str)]) {
    for (before, after, expected, settled) in table {
        assert_eq!(committed(before, after, false), *expected, "{before} | {after}");
        assert_eq!(committed(before, after, true), *settled, "settled: {before} | {after}");
    }
}

#[test]
fn plans_for_an_unchanged_snapshot_are_valid() {
    let world = "units=n0/gpu0:1,n0/gpu1:1 own=a-0,a-1";
    check(&[(world, world, "a-0@n0/gpu0 a-1@n0/gpu1", "a-0@n0/gpu0 a-1@n0/gpu1")]);
}

#[test]
fn missing_decisions_are_rebuilt_from_running_actors() {
    let table = [
        // Communicating actors would be better off together, but stay.
        (
            "units=n0/gpu0:1,n0/gpu1:1,n1/gpu0:1 own=a-0@n0/gpu0,a-1@n1/gpu0 talk=a-0+a-1:9000",
            "a-0@n0/gpu0 a-1@n1/gpu0",
        ),
        // New actors are placed around running ones.
        ("units=n0/gpu0:1,n1/gpu0:1 own=a-0,a-1@n0/gpu0", "a-0@n1/gpu0 a-1@n0/gpu0"),
        ("units=n0/gpu0:1 own=a-0,a-1@n0/gpu0", "a-0@- a-1@n0/gpu0"),
        // An exceeded limit is grandfathered until a search finds room.
        ("units=n0/gpu0:1,n1/gpu0:1 own=a-0@n0/gpu0,a-1@n0/gpu0", "a-0@n0/gpu0 a-1@n0/gpu0"),
        // An actor on an infeasible unit moves.
        ("units=n0/fpga0:1,n1/gpu0:2 own=a-0@n0/fpga0,a-1@n1/gpu0", "a-0@n1/gpu0 a-1@n1/gpu0"),
    ];
    for (world, expected) in table {
        assert_eq!(observed(&snapshot(world)), expected, "{world}");
    }
}

/// Placements of all actors without a decision.
fn observed(snapshot: &Snapshot) -> String {
    let strategy = KeepRunning(Box::new(Greedy));
    let plan = plan(snapshot, &strategy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    assert_eq!(plan.strategy, "observed");
    places(snapshot, &plan)
}

/// Placements of all actors by a search.
fn searched(snapshot: &Snapshot) -> String {
    places(snapshot, &plan(snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap())
}

#[test]
fn running_actors_stay_under_any_rules() {
    type Rule = fn(&Snapshot) -> Snapshot;
    let together = "talk=a-0+b-0:9000";
    let table: [(Rule, String, &str); 5] = [
        // A grandfathered violation becomes rules: running actors stay and no new ones are added.
        (
            Snapshot::clone,
            format!("units=n0/gpu0:1,n1/gpu0:3 own=a-0@n0/gpu0,a-1@n0/gpu0,b-0@n1/gpu0 {together}"),
            "a-0@n0/gpu0 a-1@n0/gpu0 b-0@n1/gpu0",
        ),
        (
            Snapshot::clone,
            format!("units=n0/gpu0:1,n1/gpu0:3 own=a-0@n0/gpu0,a-1@n0/gpu0,b-0 {together}"),
            "a-0@n0/gpu0 a-1@n0/gpu0 b-0@n1/gpu0",
        ),
        // A satisfied policy rule, and a violated one.
        (
            ruled,
            format!(
                "units=n0/gpu0:1,n0/gpu1:1,n1/gpu0:1,n1/gpu1:1 own=a-0@n0/gpu0,a-1@n0/gpu1,b-0@n1/gpu0 {together}"
            ),
            "a-0@n0/gpu0 a-1@n0/gpu1 b-0@n1/gpu0",
        ),
        (
            ruled,
            format!("units=n0/gpu0:2,n1/gpu0:3 own=a-0@n0/gpu0,a-1@n0/gpu0,b-0@n1/gpu0 {together}"),
            "a-0@n0/gpu0 a-1@n0/gpu0 b-0@n1/gpu0",
        ),
        // Violated by the running actors until another one is placed.
        (
            asking_for_all,
            format!("units=n0/gpu0:1,n0/gpu1:2,n1/gpu0:1 own=a-0@n0/gpu0,a-1,b-0@n1/gpu0 {together}"),
            "a-0@n0/gpu0 a-1@n0/gpu1 b-0@n1/gpu0",
        ),
    ];
    for (rule, world, expected) in table {
        let ruled = rule(&snapshot(&world));
        assert_eq!(observed(&ruled), expected, "{world}");
        assert_ne!(searched(&ruled), expected, "{world}: a search moves no actor, so this shows nothing");
    }
}

#[test]
fn new_actors_satisfy_the_rules_that_running_actors_satisfy() {
    for (world, expected) in [
        // Communicating actors that must not share a unit.
        ("units=n0/gpu0:2,n0/gpu1:1 own=a-0@n0/gpu0,a-1 talk=a-0+a-1:9", "a-0@n0/gpu0 a-1@n0/gpu1"),
        // The only free slot violates the rule.
        ("units=n0/gpu0:2 own=a-0@n0/gpu0,a-1", "a-0@n0/gpu0 a-1@-"),
    ] {
        assert_eq!(observed(&ruled(&snapshot(world))), expected, "{world}");
    }
}

/// All actors must be placed, which is impossible while the running ones stay.
#[test]
fn all_actors_are_searched_if_the_rules_forbid_the_running_ones() {
    let world = "units=n0/gpu0:1,n0/gpu1:1,n1/gpu0:1 own=a-0@n0/gpu0,a-1,b-0@n1/gpu0 apart=a-0+a-1";
    let world = asking_for_all(&snapshot(world));
    let found = observed(&world);
    assert_eq!(found, searched(&world));
    assert!(!found.contains("@-"), "{found}");
}

#[test]
fn unplaced_actors_and_foreign_churn_block_no_commit() {
    let (one, noise) = ("units=n0/gpu0:1 own=a-0,a-1", "units=n0/gpu0:1:99 own=a-0,a-1");
    check(&[
        (one, noise, "a-0@n0/gpu0 a-1@-", "a-0@n0/gpu0 a-1@-"),
        (noise, one, "a-0@n0/gpu0 a-1@-", "a-0@n0/gpu0 a-1@-"),
        // Other actors changed elsewhere.
        (
            one,
            "units=n0/gpu0:1,n1/gpu0:1 own=a-0,a-1 others=x@n1/gpu0",
            "a-0@n0/gpu0 a-1@-",
            "a-0@n0/gpu0 a-1@-",
        ),
    ]);
}

#[test]
fn conflicting_plans_are_stale_and_finally_committed_in_part() {
    let two = "units=n0/gpu0:1,n0/gpu1:1 own=a-0,a-1";
    check(&[
        // The first unit was taken or no longer exists.
        (two, &format!("{two} others=x@n0/gpu0"), "overtaken", "partly a-0@- a-1@n0/gpu1"),
        (two, "units=n0/gpu1:1 own=a-0,a-1", "overtaken", "partly a-0@- a-1@n0/gpu1"),
        // No placement of the plan remains feasible.
        (two, &format!("{two} others=x@n0/gpu0,y@n0/gpu1"), "overtaken", "overtaken"),
        // Running actors continue and are no reason to wait.
        (
            "units=n0/gpu0:1,n0/gpu1:1 own=a-0@n0/gpu0,a-1",
            "units=n0/gpu0:1,n0/gpu1:1 own=a-0@n0/gpu0,a-1 others=x@n0/gpu1",
            "overtaken",
            "overtaken",
        ),
    ]);
}

#[test]
fn overloaded_units_make_a_plan_stale_until_it_settles() {
    let free = "units=n0/cpu0:9:2,n1/fpga0:1 own=a-0";
    let busy = "units=n0/cpu0:9:2,n1/fpga0:1 own=a-0 others=x@n0/cpu0,y@n0/cpu0";
    check(&[(free, busy, "overtaken", "a-0@n0/cpu0")]);
}

#[test]
fn moves_without_gain_are_dropped() {
    // The actors must share a node; at commit time one of them is bound elsewhere.
    let world = |b: &str| {
        format!("units=n0/cpu0:1,n0/cpu1:1,n1/cpu0:1,n1/cpu1:1 own=a-0@n0/cpu0,b-0@{b} talk=a-0+b-0:9")
    };
    check(&[
        (&world("n1/cpu0"), &world("n1/cpu0"), "a-0@n1/cpu1 b-0@n1/cpu0", "a-0@n1/cpu1 b-0@n1/cpu0"),
        (&world("n1/cpu0"), &world("n0/cpu1"), "overtaken", "overtaken"),
    ]);
}

/// Actors whose decided place is infeasible: `decided` and `runs` as `NAME@UNIT`.
fn refused(world: &str, decided: &str, runs: &str) -> String {
    let pairs = |text: &str| -> BTreeMap<String, String> {
        let pair = |item: &str| item.split_once('@').map(|(a, unit)| (a.to_owned(), unit.to_owned()));
        text.split_whitespace().filter_map(pair).collect()
    };
    let decision = Decision { places: pairs(decided), ..Decision::default() };
    let instance = |(actor, unit): (String, String)| {
        (actor, Instance { pod: Some(Pod { unit: Some(unit), ..Pod::default() }), ..Instance::default() })
    };
    let seen = ObservedState {
        instances: pairs(runs).into_iter().map(instance).collect(),
        ..ObservedState::default()
    };
    infeasible(&snapshot(world), &decision, &seen).into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn decided_places_are_used_only_if_feasible() {
    let table = [
        ("units=n0/gpu0:1 own=a-0@n0/gpu0", "a-0@n0/gpu0", "", ""),
        // Two actors on one slot: one of them is infeasible.
        ("units=n0/gpu0:1 own=a-0@n0/gpu0,a-1@n0/gpu0", "a-0@n0/gpu0 a-1@n0/gpu0", "", "a-1"),
        // The running actor has precedence.
        ("units=n0/gpu0:1 own=a-0@n0/gpu0,a-1@n0/gpu0", "a-0@n0/gpu0 a-1@n0/gpu0", "a-1@n0/gpu0", "a-0"),
        ("units=n0/gpu0:1 own=a-0@n0/gpu0 others=x@n0/gpu0", "a-0@n0/gpu0", "", "a-0"),
        ("units=n0/gpu0:1 own=a-0@n0/gpu0 others=x@n0/gpu0", "a-0@n0/gpu0", "a-0@n0/gpu0", ""),
        // A unit that does not exist, and an actor that is not in the snapshot.
        ("units=n0/gpu0:1 own=a-0", "a-0@n9/gpu0", "", "a-0"),
        ("units=n0/gpu0:1 own=a-0", "a-0@n9/gpu0", "a-0@n9/gpu0", "a-0"),
        // No implementation for the kind.
        ("units=n0/fpga0:1 own=a-0@n0/fpga0", "a-0@n0/fpga0", "", "a-0"),
        // Rules between actors.
        ("units=n0/gpu0:2 own=a-0@n0/gpu0,b-0@n0/gpu0 apart=a-0+b-0", "a-0@n0/gpu0 b-0@n0/gpu0", "", "b-0"),
        (
            "units=n0/gpu0:2 own=a-0@n0/gpu0,b-0@n0/gpu0 apart=a-0+b-0",
            "a-0@n0/gpu0 b-0@n0/gpu0",
            "a-0@n0/gpu0 b-0@n0/gpu0",
            "",
        ),
        // Decided actors that do not run grandfather nothing; running ones do.
        (
            "units=n0/gpu0:1 own=a-0@n0/gpu0,a-1@n0/gpu0,a-2@n0/gpu0",
            "a-0@n0/gpu0 a-1@n0/gpu0 a-2@n0/gpu0",
            "a-0@n0/gpu0 a-1@n0/gpu0",
            "a-2",
        ),
        // An unplaced actor is not infeasible.
        ("units=n0/gpu0:1 own=a-0@n0/gpu0,a-1", "a-0@n0/gpu0", "", ""),
    ];
    for (world, decided, runs, expected) in table {
        assert_eq!(refused(world, decided, runs), expected, "{world} | {decided} | {runs}");
    }
}

prop_compose! {
    /// Up to five own actors and some of others on four units of one or two slots.
    fn any_world()(slots in prop::collection::vec(1..3_u64, 4), own in 1..6_usize, others in prop::collection::vec(0..4_usize, 0..4)) -> String {
        let units: Vec<String> = slots.iter().enumerate().map(|(i, slots)| format!("n{}/gpu{i}:{slots}", i / 2)).collect();
        let own: Vec<String> = (0..own).map(|i| format!("a-{i}")).collect();
        let mut text = format!("units={} own={} apart=a-0+a-1", units.join(","), own.join(","));
        for (i, unit) in others.iter().enumerate() {
            write!(text, " others=x-{i}@n{}/gpu{unit}", unit / 2).unwrap();
        }
        if own.len() < 2 { text.replace(" apart=a-0+a-1", "") } else { text }
    }
}

proptest! {
    /// Whatever changes between planning and commit: the committed plan is feasible and complete.
    #[test]
    fn committed_plans_are_feasible((before, after) in (any_world(), any_world())) {
        let (before, after) = (snapshot(&before), snapshot(&after));
        let plan = planned(&before);
        for keep_partial in [false, true] {
            let (Verdict::Valid(plan_kept) | Verdict::Partial(plan_kept)) = revalidate_plan(&before, &plan, &after, keep_partial) else {
                continue;
            };
            prop_assert_eq!(after.violations(&plan_kept.assignment), vec![]);
            let without: Vec<ActorIx> = plan_kept.unplaced.iter().map(|unplaced| unplaced.actor).collect();
            let expected: Vec<ActorIx> =
                ActorIx::first(after.actors()).filter(|&a| !after.is_fixed(a) && plan_kept.assignment[a].is_none()).collect();
            prop_assert_eq!(without, expected);
        }
    }
}

/// A budget without a deadline.
fn no_clock() -> Budget<'static> {
    Budget::effort(None, 0)
}

/// The plan for `before`, repaired in `after`.
fn mended(before: &str, after: &str) -> String {
    let (before, after) = (snapshot(before), snapshot(after));
    let plan = repair_plan(&before, &planned(&before), &after, &Greedy, &no_clock()).unwrap();
    places(&after, &plan)
}

#[test]
fn conflicting_actors_are_placed_again_and_the_rest_stays() {
    let three = "units=n0/gpu0:1,n0/gpu1:1,n0/gpu2:1 own=a-0,a-1";
    let table = [
        (three, three.to_owned(), "a-0@n0/gpu0 a-1@n0/gpu1"),
        // The first unit was taken or no longer exists: one actor is placed elsewhere.
        (three, format!("{three} others=x@n0/gpu0"), "a-0@n0/gpu2 a-1@n0/gpu1"),
        (three, "units=n0/gpu1:1,n0/gpu2:1 own=a-0,a-1".to_owned(), "a-0@n0/gpu2 a-1@n0/gpu1"),
        // No running actor is displaced for a new one.
        (three, format!("{three} others=x@n0/gpu0,y@n0/gpu2"), "a-0@- a-1@n0/gpu1"),
        (three, format!("{three} others=x@n0/gpu0,y@n0/gpu1,z@n0/gpu2"), "a-0@- a-1@-"),
        // If others added load, a new actor is placed where there is less.
        (
            "units=n0/cpu0:9:1,n0/cpu1:9:1 own=a-0",
            "units=n0/cpu0:9:1,n0/cpu1:9:1 own=a-0 others=x@n0/cpu0".to_owned(),
            "a-0@n0/cpu1",
        ),
        // Each actor's partner counts, not only the first one's.
        (
            "units=n1/gpu0:1,n1/gpu1:1,n1/gpu2:1 own=a-0,a-1,a-2@n1/gpu0 talk=a-0+a-2:9000,a-1+a-2:9000",
            "units=n0/gpu0:1,n0/gpu1:1,n1/gpu0:1,n1/gpu1:1,n1/gpu2:1,n1/gpu3:1,n1/gpu4:1 own=a-0,a-1,a-2@n1/gpu0 \
             talk=a-0+a-2:9000,a-1+a-2:9000 others=x@n1/gpu1,y@n1/gpu2"
                .to_owned(),
            "a-0@n1/gpu3 a-1@n1/gpu4 a-2@n1/gpu0",
        ),
    ];
    for (before, after, expected) in table {
        assert_eq!(mended(before, &after), expected, "{before} | {after}");
    }
}

/// The snapshot with a policy rule that `a-0` and `a-1` never share a unit.
fn ruled(snapshot: &Snapshot) -> Snapshot {
    let own: Vec<ActorIx> = ActorIx::first(snapshot.actors()).filter(|&a| !snapshot.is_fixed(a)).collect();
    let units = UnitIx::first(snapshot.units());
    let at = |actor: usize, unit: UnitIx| u32::try_from(1 + actor + 3 * unit.at()).unwrap();
    let both = |unit: UnitIx| GroundRule {
        head: at(2, unit),
        lower: 2,
        body: vec![(at(0, unit).cast_signed(), 1), (at(1, unit).cast_signed(), 1)],
        any: false,
    };
    let demand = |unit: UnitIx| GroundConstraint {
        atom: at(2, unit),
        rule: "policy p line 1".to_owned(),
        says: format!("a-0 and a-1 are on unit {}", unit.at()),
        limit: None,
    };
    let inputs: Vec<_> =
        units.clone().flat_map(|unit| [0, 1].map(|actor| (own[actor], unit, at(actor, unit)))).collect();
    let ground = units.clone().map(both).collect();
    let rules = Rules::new(snapshot.actors(), ground, &inputs, units.map(demand).collect(), vec![]);
    snapshot.clone().with_rules(Some(rules.unwrap()))
}

/// The snapshot with a policy rule that all actors are placed.
fn asking_for_all(snapshot: &Snapshot) -> Snapshot {
    let own: Vec<ActorIx> = ActorIx::first(snapshot.actors()).filter(|&a| !snapshot.is_fixed(a)).collect();
    let units = snapshot.units();
    let at = |actor: usize, unit: usize| u32::try_from(1 + actor + own.len() * unit).unwrap();
    // Atoms after those of the last unit: the actor is placed, or it is not.
    let (placed, missing) = (|actor| at(actor, units), |actor| at(actor, units + 1));
    let rules = (0..own.len()).flat_map(|actor| {
        let anywhere = (0..units).map(|unit| (at(actor, unit).cast_signed(), 1)).collect();
        let nowhere = vec![(-placed(actor).cast_signed(), 1)];
        [
            GroundRule { head: placed(actor), lower: 1, body: anywhere, any: true },
            GroundRule { head: missing(actor), lower: 1, body: nowhere, any: false },
        ]
    });
    let demand = |actor: usize| GroundConstraint {
        atom: missing(actor),
        rule: "policy p line 1".to_owned(),
        says: format!("{} has no place", snapshot.actor_id(own[actor])),
        limit: None,
    };
    let inputs: Vec<_> = (0..own.len())
        .flat_map(|actor| (0..units).map(move |unit| (actor, unit)))
        .map(|(actor, unit)| (own[actor], UnitIx::new(unit), at(actor, unit)))
        .collect();
    let demands = (0..own.len()).map(demand).collect();
    let rules = Rules::new(snapshot.actors(), rules.collect(), &inputs, demands, vec![]);
    snapshot.clone().with_rules(Some(rules.unwrap()))
}

#[test]
fn repairs_satisfy_the_policys_rules() {
    let two = "own=a-0,a-1 talk=a-0+a-1:9";
    let before = &format!("units=n0/gpu0:1,n0/gpu1:1,n1/gpu2:1 {two}");
    let taken = format!("{two} others=x@n0/gpu0");
    for (after, without_rules, expected) in [
        // Communicating actors that must not share a unit.
        (
            format!("units=n0/gpu0:1,n0/gpu1:2,n1/gpu2:1 {taken}"),
            "a-0@n0/gpu1 a-1@n0/gpu1",
            "a-0@n1/gpu2 a-1@n0/gpu1",
        ),
        // The only free slot violates the rule.
        (format!("units=n0/gpu0:1,n0/gpu1:2 {taken}"), "a-0@n0/gpu1 a-1@n0/gpu1", "a-0@- a-1@n0/gpu1"),
        (before.clone(), "a-0@n0/gpu0 a-1@n0/gpu1", "a-0@n0/gpu0 a-1@n0/gpu1"),
    ] {
        assert_eq!(mended(before, &after), without_rules, "{after}");
        let (world, newest) = (snapshot(before), ruled(&snapshot(&after)));
        let plan = repair_plan(&world, &planned(&world), &newest, &Greedy, &no_clock()).unwrap();
        assert_eq!(places(&newest, &plan), expected, "{after}");
        assert_eq!(newest.violations(&plan.assignment), vec![], "{after}");
        // Valid in its snapshot without a search.
        let Verdict::Valid(_) = revalidate_plan(&newest, &plan, &newest, false) else { panic!("{after}") };
    }
}

/// Each conflict takes some checks to find; at the deadline, placed actors stay placed and the others are left out.
#[test]
fn repairs_stop_at_the_deadline_with_a_partial_result() {
    let units: Vec<String> = (0..24).map(|unit| format!("n{unit}/gpu0:1")).collect();
    let own: Vec<String> = (0..16).map(|actor| format!("a-{actor:02}")).collect();
    let world = format!("units={} own={}", units.join(","), own.join(","));
    let before = snapshot(&world);
    let plan = planned(&before);
    let places_of = |snapshot: &Snapshot, plan: &Plan| {
        let own = ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor));
        own.filter(|&actor| plan.assignment[actor].is_some()).count()
    };
    assert_eq!(places_of(&before, &plan), 16);
    // Other applications take every third unit.
    let taken = plan.assignment.iter().flatten().step_by(3).enumerate();
    let others: Vec<String> =
        taken.map(|(other, unit)| format!("x{other}@{}", before.unit_id(*unit))).collect();
    let after = snapshot(&format!("{world} others={}", others.join(",")));
    let until = |looks: u64| {
        let asked = AtomicU64::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) >= looks;
        let budget = Budget { stop: &stop, ..no_clock() };
        (repair_plan(&before, &plan, &after, &Greedy, &budget), asked.load(Ordering::Relaxed))
    };
    let (whole, all) = until(u64::MAX);
    assert_eq!(places_of(&after, &whole.unwrap()), 16);
    let mut found = Vec::new();
    for looks in 0..all {
        let (mended, asked) = until(looks);
        assert!(asked <= looks + 8, "{asked} looks where {looks} said stop");
        if let Some(mended) = &mended {
            assert_eq!(after.violations(&mended.assignment), [], "{looks}");
        }
        found.push(mended.map_or(0, |mended| places_of(&after, &mended)));
    }
    assert_eq!(found.first(), Some(&0), "nothing was looked at");
    assert!(found.iter().any(|places| (1..16).contains(places)), "{found:?}");
    assert_eq!(found.last(), Some(&16));
}

/// Communicating actors attract each other; at commit time the peer has moved, so the move gains nothing.
#[test]
fn repairs_make_no_moves_without_gain() {
    let world = |b: &str| {
        format!("units=n0/cpu0:1,n0/cpu1:1,n1/cpu0:1,n1/cpu1:1 own=a-0@n0/cpu0,b-0@{b} talk=a-0+b-0:9")
    };
    assert_eq!(mended(&world("n1/cpu0"), &world("n0/cpu1")), "a-0@n0/cpu0 b-0@n0/cpu1");
}

proptest! {
    /// Whatever changes between planning and commit: the repaired plan is feasible and displaces no running actor.
    #[test]
    fn repaired_plans_are_feasible((before, after) in (any_world(), any_world())) {
        let (before, after) = (snapshot(&before), snapshot(&after));
        let plan = planned(&before);
        let plan_kept = repair_plan(&before, &plan, &after, &Greedy, &no_clock()).unwrap();
        prop_assert_eq!(after.violations(&plan_kept.assignment), vec![]);
        for actor in ActorIx::first(after.actors()).filter(|&actor| after.is_fixed(actor)) {
            prop_assert_eq!(plan_kept.assignment[actor], after.current(actor));
        }
        let without = |assignment: &placement::Assignment| {
            ActorIx::first(after.actors()).filter(|&a| !after.is_fixed(a) && assignment[a].is_none()).count()
        };
        if let control::Verdict::Partial(kept) = revalidate_plan(&before, &plan, &after, true) {
            prop_assert!(without(&plan_kept.assignment) <= without(&kept.assignment));
        }
    }
}
