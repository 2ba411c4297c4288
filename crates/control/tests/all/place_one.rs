//! Actors requested at run time: one line of cluster, one of placements.

#[allow(dead_code, reason = "other tests plan with it")]
use std::collections::{BTreeMap, BTreeSet};

use crate::worlds::snapshot;
use control::{Decision, DesiredActor, DesiredState, only_requests_changed, place_one};
use placement::ix::ActorIx;
use placement::{Assignment, Snapshot};
use proptest::prelude::*;

/// Placements of the application's actors, or that a search is needed.
fn placed(world: &str, waited: &str) -> String {
    let snapshot = snapshot(world);
    let waited = waited.split_whitespace().map(str::to_owned).collect();
    let Some(plan) = place_one(&snapshot, &waited) else { return "search".to_owned() };
    let place = |actor: ActorIx| {
        let name = snapshot.actor_id(actor).rsplit('/').next().unwrap();
        let unit = plan.assignment[actor].map_or("-", |unit| snapshot.unit_id(unit));
        (!snapshot.is_fixed(actor)).then(|| format!("{name}@{unit}"))
    };
    ActorIx::first(snapshot.actors()).filter_map(place).collect::<Vec<_>>().join(" ")
}

#[test]
fn requested_actors_get_the_cheapest_unit_and_the_others_stay() {
    let three = "units=n0/gpu0:1,n1/gpu0:1,n1/gpu1:1 own=a-0@n1/gpu0";
    for (world, waited, expected) in [
        // near its partner
        (format!("{three},inst-x talk=a-0+inst-x:9"), "", "a-0@n1/gpu0 inst-x@n1/gpu1"),
        // nothing moves, even if both together would be better off
        (
            "units=n0/gpu0:1,n1/gpu0:1,n1/gpu1:1 own=a-0@n0/gpu0,inst-x talk=a-0+inst-x:900".to_owned(),
            "",
            "a-0@n0/gpu0 inst-x@n1/gpu0",
        ),
        // several, one after the other
        (format!("{three},inst-x,inst-y"), "", "a-0@n1/gpu0 inst-x@n0/gpu0 inst-y@n1/gpu1"),
        // limits count
        (format!("{three},inst-x talk=a-0+inst-x:9 apart=a-0+inst-x"), "", "a-0@n1/gpu0 inst-x@n0/gpu0"),
        // one was released: the others stay
        (three.to_owned(), "", "a-0@n1/gpu0"),
        // others' places are taken
        ("units=n0/gpu0:1,n1/gpu0:1 others=b-0@n0/gpu0 own=inst-x".to_owned(), "", "inst-x@n1/gpu0"),
        // no place without a search, unless it has waited before
        ("units=n0/gpu0:1 own=a-0@n0/gpu0,inst-x".to_owned(), "", "search"),
        ("units=n0/gpu0:1 own=a-0@n0/gpu0,inst-x".to_owned(), "inst-x", "a-0@n0/gpu0 inst-x@-"),
        // a violated limit needs a search
        (
            "units=n0/gpu0:1,n0/gpu1:1,n1/gpu0:1 own=a-0@n0/gpu0,a-1@n0/gpu1,inst-x apart=a-0+a-1".to_owned(),
            "",
            "search",
        ),
    ] {
        assert_eq!(placed(&world, waited), expected, "{world}");
    }
}

#[test]
fn only_requested_actors_changed() {
    for (decided, unplaced, wanted, expected) in [
        ("a-0", "", "a-0", false),
        ("a-0", "", "a-0 inst-x", true),
        ("a-0 inst-x", "", "a-0", true),
        ("a-0 inst-x", "", "a-0 inst-y", true),
        ("a-0", "inst-x", "a-0 inst-x", false),
        ("a-0", "", "a-0 a-1 inst-x", false),
        ("a-0 a-1", "", "a-0 inst-x", false),
    ] {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let actors = words(wanted).into_iter().map(|name| DesiredActor { name, group: 0 }).collect();
        let wanted_now = DesiredState { generation: 3, actors, ..DesiredState::default() };
        let places: BTreeMap<_, _> = words(decided).into_iter().map(|name| (name, "u".to_owned())).collect();
        let unplaced: BTreeSet<_> = words(unplaced).into_iter().collect();
        let decision = Decision { generation: 3, places, unplaced, ..Decision::default() };
        let is_asked = |name: &str| name.starts_with("inst-");
        assert_eq!(only_requests_changed(&wanted_now, &decision, is_asked), expected, "{decided} | {wanted}");
        let older = Decision { generation: 2, ..decision };
        assert!(
            !only_requests_changed(&wanted_now, &older, is_asked),
            "another manifest is planned as a whole"
        );
    }
}

/// What any feasible place for the one actor without one would cost, by trying each.
fn cheapest(snapshot: &Snapshot) -> Option<Vec<i64>> {
    let runs = snapshot.incumbent();
    let asked = ActorIx::first(snapshot.actors()).find(|&actor| runs[actor].is_none()).unwrap();
    let tried = snapshot.candidates(asked).iter().map(|&unit| {
        let mut assignment: Assignment = runs.clone();
        assignment[asked] = Some(unit);
        assignment
    });
    let feasible = tried.filter(|assignment| snapshot.violations(assignment).is_empty());
    feasible.map(|assignment| snapshot.cost(&assignment).vector(snapshot)).min()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The unit is feasible and no other is cheaper, wherever the other actors are.
    #[test]
    fn no_other_unit_is_cheaper(
        places in proptest::collection::vec(0_usize..6, 1..5),
        talks in proptest::collection::vec((0_usize..5, 1_u32..99), 0..5),
    ) {
        let units = ["n0/gpu0", "n0/cpu0", "n1/gpu0", "n1/cpu0", "n2/gpu0", "n2/cpu0"];
        let taken: BTreeSet<usize> = places.into_iter().collect();
        let own: Vec<_> =
            taken.iter().enumerate().map(|(index, &unit)| format!("a-{index}@{}", units[unit])).collect();
        let talks: BTreeMap<usize, u32> =
            talks.into_iter().filter(|(with, _)| *with < own.len()).collect();
        let talk: Vec<_> = talks.iter().map(|(with, count)| format!("talk=a-{with}+inst-x:{count}")).collect();
        let slots: Vec<_> = units.iter().map(|unit| format!("{unit}:1")).collect();
        let world = snapshot(&format!("units={} own={},inst-x {}", slots.join(","), own.join(","), talk.join(" ")));
        let plan = place_one(&world, &BTreeSet::new());
        let cost = plan.map(|plan| world.cost(&plan.assignment).vector(&world));
        prop_assert_eq!(cost, cheapest(&world));
    }
}
