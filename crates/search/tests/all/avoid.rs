//! Places that plans avoid.

use placement::ix::UnitIx;
use placement::{Budget, NoPolicy, Snapshot, plan};
use search::Greedy;
use testkit::line::world;

/// Places of the actors in a plan, in order.
fn places(snapshot: &Snapshot) -> String {
    let plan = plan(snapshot, &Greedy, &NoPolicy, &Budget::effort(None, 1)).unwrap();
    let place = |unit: &Option<UnitIx>| unit.map_or("-", |unit| snapshot.unit_id(unit)).to_owned();
    plan.assignment.iter().map(place).collect::<Vec<_>>().join(" ")
}

#[test]
fn places_to_avoid_are_used_only_if_actors_stay_unplaced_otherwise() {
    for (units, actors, rules, expected) in [
        // a talks to c on u, which it avoids
        ("u:cpu:9 v:cpu:9", "a:cpu=1 c:cpu=1:at=u,fixed", "a to c 9; avoid a units u", "v"),
        ("u:cpu:9 v:cpu:9", "a:cpu=1 c:cpu=1:at=u,fixed", "a to c 9", "u"),
        // one that is there stays
        ("u:cpu:9 v:cpu:9", "a:cpu=1:at=u c:cpu=1:at=u,fixed", "a to c 9; avoid a units u", "u"),
        ("u:cpu:9 v:cpu:9:slots=1", "a:cpu=1 b:cpu=1", "apart unit a b; avoid a,b units u", "u v"),
        ("u:cpu:9 v:cpu:9", "a:cpu=1 b:gpu=1", "avoid a units u", "v -"),
        ("u:cpu:9:node=n v:cpu:9:node=m", "a:cpu=1", "avoid a nodes n,m", "u"),
    ] {
        let found = places(&world(units, actors, rules));
        let found = found.split(' ').take(expected.split(' ').count()).collect::<Vec<_>>();
        let (mut found, mut expected) = (found, expected.split(' ').collect::<Vec<_>>());
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{units}; {actors}; {rules}");
    }
}
