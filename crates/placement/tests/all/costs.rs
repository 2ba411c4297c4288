//! The cost of an assignment: values computed by hand, comparison with a naive implementation, and invariance under
//! renaming and reordering.

use std::collections::BTreeMap;

use placement::file::{Constraint, Node, PairCost, Places, SharedLink, SnapshotFile};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Cost, Criterion, Judge as _, NoPolicy, Snapshot};
use proptest::prelude::*;

use testkit::line::{self, any_world, assignment, file, world};
use testkit::naive;

/// Overload, communication, annoyance, interference, migration.
fn cost(snapshot: &Snapshot, places: &str) -> [i64; 5] {
    use Criterion::{Annoyance, Communication, Interference, Migration, Overload};
    let cost = snapshot.cost(&assignment(snapshot, places));
    [Overload, Communication, Annoyance, Interference, Migration].map(|criterion| cost.of(criterion))
}

#[test]
fn overload_is_the_largest_minus_the_smallest_and_counts_empty_units() {
    let two = world("u:cpu:5 v:cpu:9", "a:cpu=7 b:cpu=11", "");
    assert_eq!(cost(&two, ""), [0; 5]);
    assert_eq!(cost(&two, "a=u"), [2, 0, 0, 0, 0], "v is empty and not overloaded");
    assert_eq!(cost(&two, "a=u b=v"), [0; 5], "both 2 over: no difference");
    assert_eq!(cost(&two, "a=u b=u"), [13, 0, 0, 0, 0]);
    assert_eq!(cost(&two, "a=v b=u"), [6, 0, 0, 0, 0]);
    let one = world("u:cpu:5", "a:cpu=7", "");
    assert_eq!(cost(&one, "a=u"), [0; 5], "a single unit is both the largest and the smallest");
    assert_eq!(cost(&world("", "a:cpu=7", ""), ""), [0; 5]);
}

#[test]
fn communication_is_count_times_exchange_cost() {
    let units = "c:cpu:9:node=n,zone=z,numa=0 d:cpu:9:node=n,zone=z,numa=1 e:cpu:9:node=n,zone=z \
                 g:gpu:9:node=n,zone=z,numa=0 h:cpu:9:node=m,zone=z i:cpu:9:node=o k:npu:9:node=n,zone=z,numa=0";
    let mut file = file(units, "a:cpu=1,npu=1 b:cpu=1,gpu=1", "a to b 7; b to a 3; a to a 100");
    file.exchange_cost.other_numa = 4;
    let snapshot = Snapshot::new(file.clone()).unwrap();
    let between = |snapshot: &Snapshot, places| cost(snapshot, places)[1];
    assert_eq!(between(&snapshot, "a=c"), 0, "b has no place");
    assert_eq!(between(&snapshot, "a=c b=c"), 0, "the same unit");
    assert_eq!(between(&snapshot, "a=c b=d"), 10 * (1 + 4), "another NUMA domain");
    assert_eq!(
        between(&snapshot, "a=c b=e"),
        10 * (1 + 4),
        "an unknown NUMA domain differs from every other"
    );
    assert_eq!(between(&snapshot, "a=c b=g"), 10 * 5, "another kind in the same domain");
    assert_eq!(between(&snapshot, "a=d b=h"), 10 * (1 + 30), "another node; NUMA counts inside one only");
    assert_eq!(between(&snapshot, "a=d b=i"), 10 * (1 + 30 + 30), "an unknown zone differs from every other");
    assert_eq!(between(&snapshot, "a=k b=c"), 10 * 20, "a pair of kinds that is not listed");
    file.exchange_cost.pairs = vec![PairCost { a: "h".into(), b: "d".into(), cost: 2 }];
    let linked = Snapshot::new(file).unwrap();
    assert_eq!(between(&linked, "a=d b=h"), 10 * 2, "a link replaces all of it, in either order");
    assert_eq!(between(&linked, "a=c b=h"), 10 * 31);
}

#[test]
fn a_unit_without_a_zone_is_in_the_zone_of_its_node() {
    let node = |id: &str, zone: &str| Node { id: id.into(), zone: Some(zone.into()), ..Node::default() };
    let units = "u:cpu:9:node=n v:cpu:9:node=m w:cpu:9:node=o";
    let mut file = file(units, "a:cpu=1 b:cpu=1", "a to b 1; apart zone a b");
    file.nodes = vec![node("n", "z"), node("m", "z"), Node { id: "o".into(), ..Node::default() }];
    file.constraints.push(Constraint::Only {
        actors: vec!["a".into()],
        places: Places::Zones(vec!["z".into()]),
        reason: None,
    });
    let written = serde_json::to_string(&file).unwrap();
    let snapshot = Snapshot::read(&written).unwrap();
    assert_eq!(snapshot.write(), written);
    let judged = |places: &str| {
        let found = snapshot.violations(&assignment(&snapshot, places)).len();
        (cost(&snapshot, places)[1], found)
    };
    assert_eq!(judged("a=u b=v"), (31, 1), "both zones are known");
    assert_eq!(judged("a=u b=w"), (61, 0), "neither the unit nor its node has a zone");
    assert_eq!(judged("a=w b=u"), (61, 1), "a is not in z");
}

#[test]
fn annoyance_counts_apart_and_interference_together() {
    let rules = "a annoys b 3; b annoys a 4; a disturbs b 5; b disturbs a 6; a annoys a 9; a disturbs a 9";
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", rules);
    assert_eq!(cost(&snapshot, "a=u b=v"), [0, 0, 7, 0, 0]);
    assert_eq!(cost(&snapshot, "a=u b=u"), [0, 0, 0, 11, 0]);
    assert_eq!(cost(&snapshot, "a=u"), [0; 5]);
}

#[test]
fn migration_is_the_move_cost_of_actors_that_leave_their_unit() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1:at=u,move=5 b:cpu=1:move=7 c:cpu=1:at=v,move=11", "");
    assert_eq!(cost(&snapshot, "a=u b=v c=v"), [0; 5], "b runs nowhere: to start it is no move");
    assert_eq!(cost(&snapshot, "a=v b=v c=v"), [0, 0, 0, 0, 5]);
    assert_eq!(cost(&snapshot, "a=v b=v c=u"), [0, 0, 0, 0, 16]);
    assert_eq!(cost(&snapshot, "a=u b=v"), [0, 0, 0, 0, 11], "to lose its place is to leave its unit");
}

#[test]
fn missed_preferences_are_penalties() {
    let snapshot = world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", "prefer a u 5; prefer a v 3; prefer b u 2");
    let penalty = |places| NoPolicy.judge(&snapshot, &assignment(&snapshot, places)).unwrap().penalty;
    assert_eq!([penalty(""), penalty("a=u b=u"), penalty("a=v b=u"), penalty("a=v b=v")], [0, 3, 5, 7]);
}

/// The value of a criterion that is the only objective.
fn alone(criterion: Criterion, units: &str, actors: &str, rules: &str, places: &str) -> i64 {
    let snapshot = world(units, actors, &format!("{rules}; objectives {criterion}"));
    let cost = snapshot.cost(&assignment(&snapshot, places));
    assert_eq!(cost.vector(&snapshot)[1], cost.of(criterion));
    cost.of(criterion)
}

#[test]
fn the_bottleneck_is_the_fullest_unit_in_thousandths_rounded_up() {
    let bottleneck =
        |places| alone(Criterion::Bottleneck, "u:cpu:3 v:cpu:7", "a:cpu=1 b:cpu=5 c:cpu=0", "", places);
    assert_eq!(bottleneck(""), 0);
    assert_eq!(bottleneck("c=u"), 0);
    assert_eq!(bottleneck("a=u"), 334, "a third");
    assert_eq!(bottleneck("a=u b=v"), 715, "five sevenths");
    assert_eq!(bottleneck("a=u b=u"), 2000, "more than is there");
    assert_eq!(alone(Criterion::Bottleneck, "", "a:cpu=1", "", ""), 0);
}

#[test]
fn the_busiest_unit_includes_the_cost_of_sent_messages() {
    let busiest = |rules, places| {
        alone(Criterion::Busiest, "u:cpu:10 v:cpu:10 w:gpu:10", "a:cpu=1,gpu=1 b:cpu=2,gpu=1", rules, places)
    };
    let sends = "a to b 3; b to a 1; a to a 9";
    assert_eq!(busiest(sends, ""), 0);
    assert_eq!(busiest(sends, "a=u b=u"), 300, "together nothing is sent");
    assert_eq!(busiest(sends, "a=u b=v"), 400, "1 to do and 3 messages at 1");
    assert_eq!(busiest(sends, "a=u b=w"), 1600, "3 messages at 5; the other end pays for its own");
    assert_eq!(busiest(sends, "a=u"), 100, "to nowhere nothing is sent");
}

#[test]
fn consolidation_counts_used_units() {
    let used = |places| alone(Criterion::Consolidate, "u:cpu:3 v:cpu:7", "a:cpu=0 b:cpu=5", "", places);
    assert_eq!([used(""), used("a=u"), used("a=u b=u"), used("a=u b=v")], [0, 1, 1, 2], "without work too");
    let fixed = alone(Criterion::Consolidate, "u:cpu:3 v:cpu:7", "a:cpu=1:at=u,fixed b:cpu=1", "", "b=v");
    assert_eq!(fixed, 2, "those of others are in use");
}

#[test]
fn energy_is_idle_power_plus_a_share_of_full_power_rounded_up() {
    let units = "u:cpu:3:idle=10,power=100 v:cpu:7:power=5 w:cpu:9:idle=1000,power=1000";
    let watts = |places| alone(Criterion::Energy, units, "a:cpu=1 b:cpu=5 c:cpu=0", "", places);
    assert_eq!(watts(""), 0, "what hosts nothing is off");
    assert_eq!(watts("c=u"), 10);
    assert_eq!(watts("a=u"), 10 + 34);
    assert_eq!(watts("a=u b=v"), 10 + 34 + 4);
    assert_eq!(watts("a=u b=u"), 10 + 200, "one more than capacity has a price");
}

#[test]
fn licences_are_paid_once_per_used_node() {
    let units = "u:cpu:9:node=m v:cpu:9:node=m w:cpu:9:node=n x:cpu:9:node=o";
    let cost = |actors, places| alone(Criterion::Licence, units, actors, "licence m 5; licence n 7", places);
    let paid = |places| cost("a:cpu=1 b:cpu=0", places);
    assert_eq!([paid(""), paid("a=u"), paid("a=u b=v"), paid("a=u b=w"), paid("a=x")], [0, 5, 5, 12, 0]);
    assert_eq!(cost("a:cpu=1:at=w,fixed b:cpu=1", "b=v"), 12, "those of others are paid for too");
}

#[test]
fn congestion_is_the_excess_over_shared_links_in_each_direction() {
    let link = |id: &str, units: &[&str], capacity| SharedLink {
        id: id.to_owned(),
        units: units.iter().map(|unit| (*unit).to_owned()).collect(),
        capacity,
        ..SharedLink::default()
    };
    let congestion = |links: &[SharedLink], places| {
        let units = "u:gpu:9 v:gpu:9 w:gpu:9 x:gpu:9:node=m";
        let rules = "a to b 7; b to a 2; a to c 4; a to a 100; objectives congestion";
        let mut file = file(units, "a:gpu=1 b:gpu=1 c:gpu=1", rules);
        file.shared_links = links.to_vec();
        let snapshot = Snapshot::new(file).unwrap();
        snapshot.cost(&assignment(&snapshot, places)).of(Criterion::Congestion)
    };
    let shared = link("l", &["u", "v"], 5);
    let alone = |places| congestion(std::slice::from_ref(&shared), places);
    assert_eq!(congestion(&[], "a=u b=w c=x"), 0, "no link is known");
    assert_eq!(alone("a=u"), 0, "b and c have no place");
    assert_eq!(alone("a=u b=v"), 0, "both are behind the link");
    assert_eq!(alone("a=w b=x c=w"), 0, "none is");
    assert_eq!(alone("a=u b=w"), 7 - 5, "the other direction has 2, which fit");
    assert_eq!(alone("a=w b=u"), 7 - 5, "in the other direction");
    assert_eq!(alone("a=u b=w c=x"), 7 + 4 - 5, "any two units on both sides");
    assert_eq!(alone("a=u b=v c=x"), 0);
    let two = [shared.clone(), link("m", &["w"], 3)];
    assert_eq!(congestion(&two, "a=u b=w"), (7 - 5) + (7 - 3), "every link on the way");
    let direct = SharedLink { direct: vec![("w".into(), "u".into())], ..shared.clone() };
    let beside = |places| congestion(std::slice::from_ref(&direct), places);
    assert_eq!([beside("a=u b=w c=x"), beside("a=v b=w")], [0, 2], "4 to c fit; another pair");
    let to = SharedLink { to: Some(vec!["x".into()]), ..shared };
    let towards = |places| congestion(std::slice::from_ref(&to), places);
    assert_eq!([towards("a=u b=w"), towards("a=u b=x")], [0, 2]);
}

#[test]
fn spread_is_the_largest_count_of_a_group_in_one_zone() {
    let units = "u:cpu:9:zone=y v:cpu:9:zone=y w:cpu:9:zone=z x:cpu:9 y:cpu:9";
    let actors = "a:cpu=1:group=g b:cpu=1:group=g c:cpu=1:group=g d:cpu=1:group=h e:cpu=1";
    let spread = |places| alone(Criterion::Spread, units, actors, "", places);
    assert_eq!(spread(""), 0);
    assert_eq!(spread("a=u b=v c=w"), 2, "two in y");
    assert_eq!(spread("a=u b=w c=x"), 1, "a zone that is not known differs from every other");
    assert_eq!(spread("a=x b=y c=y"), 2);
    assert_eq!(spread("a=u b=v c=v d=v e=v"), 3 + 1, "each group separately, without actors of no group");
    let others = "p/x/a:cpu=1:group=g p/x/b:cpu=1:group=g p/y/a:cpu=1:group=g";
    let spread = |places| alone(Criterion::Spread, units, others, "", places);
    assert_eq!(spread("p/x/a=u p/x/b=w p/y/a=v"), 2, "another application's group is another group");
}

#[test]
fn latency_is_the_longest_path() {
    let units = "u:cpu:9 v:cpu:9 w:cpu:9:node=m g:gpu:9";
    let actors = "a:cpu=1 b:cpu=1,gpu=1 c:cpu=1 d:cpu=1";
    let rules = "a to b 1000; b to c 1; a to c 1; d to c 1; d to d 7; c to a 0";
    let latency = |places| alone(Criterion::Latency, units, actors, rules, places);
    assert_eq!(latency(""), 0);
    assert_eq!(latency("a=u b=u c=u d=u"), 0);
    assert_eq!(latency("a=u b=v c=u d=u"), 2, "there and back, however often");
    assert_eq!(latency("a=u b=g c=w d=u"), 5 + (5 + 60));
    assert_eq!(latency("a=u c=v d=w"), 61, "the most expensive, not the longest");
    assert_eq!(latency("b=v c=u"), 1, "what has no place passes nothing on");
}

/// Request cycles of other applications are accepted and ignored; paths between their actors count.
#[test]
fn request_cycles_of_other_applications_do_not_count_for_latency() {
    let units = "u:cpu:9 v:cpu:9 w:cpu:9:node=m g:gpu:9";
    let actors = "a:cpu=1 b:cpu=1,gpu=1 x:cpu=1:at=u,fixed y:cpu=1:at=w,fixed z:cpu=1:at=v,fixed";
    let rules = "x to y 1; y to x 1; a to x 1; y to b 1; z to y 1";
    let latency = |places| alone(Criterion::Latency, units, actors, rules, places);
    assert_eq!(latency(""), 61, "from z to y");
    assert_eq!(latency("a=v b=u"), 61 + 61, "from z to y to b");
    assert_eq!(latency("a=w b=w"), 61, "from a to x, and no further");
    let all = world(units, actors, &format!("objectives latency; {rules}"));
    let sends: Vec<usize> = ActorIx::first(5).map(|actor| all.sends_to(actor).len()).collect();
    assert_eq!(sends, [1, 0, 0, 1, 1]);
    // A cycle through an own actor is rejected.
    let mut round = file(units, actors, "objectives latency; a to x 1; x to y 1; y to a 1");
    assert!(
        Snapshot::new(round.clone()).unwrap_err().to_string().contains("without a cycle, and these 3 actors")
    );
    round.messages.pop();
    assert!(Snapshot::new(round).is_ok());
}

#[test]
fn criteria_outside_the_objectives_are_not_computed() {
    let snapshot = world("u:cpu:9:idle=7,power=7", "a:cpu=1:group=g b:cpu=1", "a to b 1; b to a 1");
    let cost = snapshot.cost(&assignment(&snapshot, "a=u b=u"));
    for criterion in Criterion::named().filter(|criterion| !criterion.is_always_reported()) {
        assert_eq!(cost.of(criterion), 0, "{criterion}");
    }
}

#[test]
fn adaptive_objectives_order_levels_by_relevance() {
    let order = |rules: &str| {
        let world =
            world("u:cpu:9", "a:cpu=1 b:cpu=1 c:cpu=1:at=u,fixed", &format!("objectives adaptive; {rules}"));
        world.objectives().to_string()
    };
    let (all, communication, annoyance) = (
        "overload, communication+migration+annoyance",
        "overload, communication+migration, annoyance",
        "overload, annoyance, communication+migration",
    );
    assert_eq!(order(""), all, "neither");
    assert_eq!(order("a to b 3999"), all);
    assert_eq!(order("a to b 4000"), communication, "a thousand for each ordered pair of a and b");
    assert_eq!(order("a to b 3000; b to a 1000; a annoys b 3999"), communication, "both directions");
    assert_eq!(order("a annoys b 4000"), annoyance);
    assert_eq!(order("a annoys b 4000; a to b 4000"), all, "both");
    assert_eq!(order("a to a 4000; a annoys a 4000; c to c 4000"), all, "to oneself is nothing");
    assert_eq!(order("a to c 4000"), communication, "a can leave c");
    assert_eq!(order("prefer a u 1; a to b 4000"), format!("{communication}, policy"));
    let empty = world("u:cpu:9", "", "objectives adaptive");
    assert_eq!(empty.objectives().to_string(), all);
}

#[test]
fn the_vector_follows_the_objectives() {
    let values = [
        (Criterion::Overload, 2),
        (Criterion::Communication, 3),
        (Criterion::Annoyance, 4),
        (Criterion::Interference, 5),
        (Criterion::Migration, 6),
        (Criterion::Policy, 7),
        (Criterion::Bottleneck, 8),
    ];
    let nothing = Cost { unplaced: 1, ..Cost::default() };
    let cost = values.into_iter().fold(nothing, |cost, (criterion, value)| cost.with(criterion, value));
    let vector = |rules| cost.vector(&world("u:cpu:9", "a:cpu=1", rules));
    assert_eq!(vector(""), [1, 2, 9, 4]);
    assert_eq!(vector("prefer a u 1"), [1, 2, 9, 4, 7], "penalties come last unless named");
    assert_eq!(vector("prefer a u 1; objectives policy,overload"), [1, 7, 2]);
    assert_eq!(vector("objectives annoyance+overload+interference"), [1, 11]);
    assert_eq!(vector("objectives bottleneck,annoyance"), [1, 8, 4]);
}

#[test]
fn costs_by_name_are_the_five_and_the_objectives() {
    let names = |rules| {
        let by_name = Cost::default().by_name(&world("u:cpu:9", "a:cpu=1", rules));
        by_name.into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("objectives overload"), "annoyance communication interference migration overload");
    assert_eq!(names("prefer a u 1"), "annoyance communication interference migration overload policy");
    let all_five = "annoyance communication energy interference latency migration overload";
    assert_eq!(names("objectives energy,latency"), all_five);
}

#[test]
fn a_level_has_the_names_of_its_criteria() {
    let snapshot = world("", "", "");
    assert_eq!(snapshot.objectives().to_string(), "overload, communication+migration, annoyance");
    assert!(snapshot.objectives().names(Criterion::Migration));
}

/// A random assignment, feasible or not.
pub fn anywhere(snapshot: &Snapshot, seed: u64) -> Assignment {
    let mut rng = fastrand::Rng::with_seed(seed);
    let place = |_| Some(rng.usize(..=snapshot.units())).filter(|unit| *unit < snapshot.units());
    line::places((0..snapshot.actors()).map(place))
}

/// The units of all placed actors, by actor.
pub fn by_name<'a>(snapshot: &'a Snapshot, assignment: &Assignment) -> naive::Placed<'a> {
    let name = |(actor, place): (ActorIx, &Option<UnitIx>)| {
        Some((snapshot.actor_id(actor), &snapshot.file().units[(*place)?.at()]))
    };
    assignment.enumerate().filter_map(name).collect::<BTreeMap<_, _>>()
}

/// All criteria of a cost; those outside the objectives come from the naive implementation.
fn all(snapshot: &Snapshot, assignment: &Assignment) -> [i128; 15] {
    let cost = snapshot.cost(assignment);
    let naive = naive::cost(snapshot.file(), &by_name(snapshot, assignment));
    let named = |criterion, position: usize| {
        if snapshot.objectives().names(criterion) { cost.of(criterion).into() } else { naive[position] }
    };
    [
        cost.of(Criterion::Overload).into(),
        cost.of(Criterion::Communication).into(),
        cost.of(Criterion::Annoyance).into(),
        cost.of(Criterion::Interference).into(),
        cost.of(Criterion::Migration).into(),
        cost.unplaced.into(),
        snapshot.penalty(assignment).into(),
        named(Criterion::Bottleneck, 7),
        named(Criterion::Consolidate, 8),
        named(Criterion::Energy, 9),
        named(Criterion::Spread, 10),
        named(Criterion::Latency, 11),
        named(Criterion::Licence, 12),
        named(Criterion::Busiest, 13),
        named(Criterion::Congestion, 14),
    ]
}

/// The file with renamed actors and reversed lists.
fn turned_round(mut file: SnapshotFile) -> SnapshotFile {
    let text = serde_json::to_string(&file).unwrap();
    let text = (0..9).fold(text, |text, i| text.replace(&format!("\"a{i}\""), &format!("\"z{}\"", 9 - i)));
    file = Snapshot::read(&text).unwrap().file().clone();
    file.actors.reverse();
    file.units.reverse();
    file.messages.reverse();
    file
}

proptest! {
    #[test]
    fn the_cost_agrees_with_the_naive_implementation(snapshot in any_world(), seed: u64) {
        let assignment = anywhere(&snapshot, seed);
        prop_assert_eq!(all(&snapshot, &assignment), naive::cost(snapshot.file(), &by_name(&snapshot, &assignment)));
    }

    #[test]
    fn names_and_order_do_not_matter(snapshot in any_world(), seed: u64) {
        let assignment = anywhere(&snapshot, seed);
        let turned = Snapshot::new(turned_round(snapshot.file().clone())).unwrap();
        let last = snapshot.units();
        let turn = |unit: UnitIx| last - 1 - unit.at();
        let same = line::places(assignment.iter().rev().map(|place| place.map(turn)));
        prop_assert_eq!(all(&turned, &same), all(&snapshot, &assignment));
        prop_assert_eq!(turned.violations(&same).is_empty(), snapshot.violations(&assignment).is_empty());
    }

    #[test]
    fn duplicate_messages_add_up(snapshot in any_world(), seed: u64) {
        let assignment = anywhere(&snapshot, seed);
        let (mut twice, mut doubled) = (snapshot.file().clone(), snapshot.file().clone());
        twice.messages.extend(snapshot.file().messages.clone());
        doubled.messages.iter_mut().for_each(|message| message.count *= 2);
        let [twice, doubled] = [twice, doubled].map(|file| Snapshot::new(file).unwrap().cost(&assignment));
        prop_assert_eq!(twice, doubled);
    }
}
