//! An application's share of the cost of an assignment.

use placement::file::{Node, SharedLink};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, Snapshot};
use proptest::prelude::*;
use serde_json::json;
use strum::IntoEnumIterator as _;
use testkit::line::{any_world, assignment, file, world};

const ALL: [&str; 12] = [
    "overload",
    "communication",
    "annoyance",
    "interference",
    "migration",
    "bottleneck",
    "consolidate",
    "energy",
    "spread",
    "licence",
    "busiest",
    "congestion",
];

/// The total cost, and the share of `a` and `b`; `x` and `y` belong to another application.
fn parts(places: &str) -> (Vec<String>, Vec<String>) {
    let units =
        "u:cpu:10:node=n,power=10,idle=5 v:cpu:10:node=m,power=10,idle=5 w:cpu:10:node=o,power=10,idle=5";
    let actors = "a:cpu=4 b:cpu=8 x:cpu=9:at=v,fixed y:cpu=12:at=w,fixed";
    let mut file = file(units, actors, "a to b 2; b to x 3; x to y 50");
    file.objectives = serde_json::from_value(json!(ALL)).unwrap();
    let node = |id: &str| Node { id: id.to_owned(), licence_cost: Some(7), ..Node::default() };
    file.nodes = ["m", "n", "o"].map(node).into();
    let link = |units: &[&str], capacity| SharedLink {
        id: units.concat(),
        units: units.iter().map(|unit| (*unit).to_owned()).collect(),
        capacity,
        ..SharedLink::default()
    };
    // The first link carries messages of `a` and `b`, the second only those from `x` to `y`.
    file.shared_links = vec![link(&["u"], 1), link(&["w"], 40)];
    let snapshot = Snapshot::new(file).unwrap();
    let assignment = assignment(&snapshot, places);
    let whole = snapshot.cost(&assignment);
    let own = snapshot.own_part(&assignment, &whole);
    let values = |cost: &placement::Cost| {
        let named = ALL.iter().map(|name| (name, cost.of(name.parse().unwrap())));
        named.filter(|(_, value)| *value != 0).map(|(name, value)| format!("{name} {value}")).collect()
    };
    (values(&whole), values(&own))
}

#[test]
fn costs_between_other_actors_are_not_in_the_share() {
    let (whole, own) = parts("a=u b=v");
    assert_eq!(
        whole.join(", "),
        "overload 7, communication 3172, bottleneck 1700, consolidate 3, energy 48, licence 21, busiest 306700, congestion 11"
    );
    assert_eq!(
        own.join(", "),
        "overload 7, communication 122, bottleneck 1700, consolidate 2, energy 31, licence 14, busiest 306700, congestion 1"
    );
}

proptest! {
    /// Without other applications the share is the total; it never exceeds the total.
    #[test]
    fn without_others_the_share_is_the_total(snapshot in any_world(), at in proptest::collection::vec(0..100_usize, 40)) {
        let units = snapshot.units();
        let place = |actor: ActorIx| {
            let free = (units > 0).then(|| UnitIx::new(at[actor.at() % at.len()] % units));
            if snapshot.is_fixed(actor) { snapshot.current(actor) } else { free }
        };
        let assignment: Assignment = ActorIx::first(snapshot.actors()).map(place).collect();
        let whole = snapshot.cost(&assignment);
        let own = snapshot.own_part(&assignment, &whole);
        let is_alone = ActorIx::first(snapshot.actors()).all(|actor| !snapshot.is_fixed(actor));
        for criterion in Criterion::iter().filter(|criterion| *criterion != Criterion::Overload) {
            prop_assert!(own.of(criterion) <= whole.of(criterion), "{criterion}");
            prop_assert!(!is_alone || own.of(criterion) == whole.of(criterion), "{criterion}");
        }
    }
}

#[test]
fn own_overload_compares_only_units_with_own_actors() {
    let world = world("u:cpu:5 v:cpu:5", "a:cpu=9", "");
    let all = assignment(&world, "a=u");
    let whole = world.cost(&all);
    assert_eq!(whole.of(Criterion::Overload), 4);
    assert_eq!(world.own_part(&all, &whole).of(Criterion::Overload), 0);
}
