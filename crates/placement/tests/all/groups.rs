//! Channels between whole groups.

use placement::file::SnapshotFile;
use placement::ix::{ActorIx, UnitIx};
use placement::weighted::Weighted;
use placement::{Assignment, Criterion, LARGEST, MOST_EDGES, Snapshot, SnapshotError, State};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{grouped, written_out};

/// Three actors of group `v/s/a`, two of `v/s/b`, one of `v/t/a` in another application, and one without a group.
fn world(channels: &Value, objectives: &Value, most_pairs: usize) -> Result<Snapshot, SnapshotError> {
    let actor = |id: &str, group: Value| json!({"id": id, "group": group, "runsOn": {"cpu": 1}});
    let of = |name: &'static str, many: usize| {
        (0..many).map(move |at| (format!("v/s/{name}-{at}"), name.to_owned()))
    };
    let mut actors: Vec<Value> =
        of("a", 3).chain(of("b", 2)).map(|(id, group)| actor(&id, group.into())).collect();
    actors.extend([actor("v/t/a-0", "a".into()), actor("v/s/none", Value::Null)]);
    let units = json!([{"id": "n/c", "kind": "cpu", "node": "n", "capacity": 10}]);
    let costs = json!({"otherKind": 1});
    let file = json!({"version": 1, "units": units, "actors": actors, "groupMessages": channels, "exchangeCost": costs,
        "objectives": objectives});
    let file: SnapshotFile = serde_json::from_value(file)
        .map_err(|e| SnapshotError { path: String::new(), problem: e.to_string() })?;
    Snapshot::with_most_pairs(file, most_pairs)
}

/// `a-0>b-0 3` for messages sent, and `a-0~b-0 1` for drag.
fn pairs(snapshot: &Snapshot) -> String {
    let short = |actor: ActorIx| {
        let id = snapshot.actor_id(actor);
        id.strip_prefix("v/s/").unwrap_or(id).to_owned()
    };
    let mut lines = Vec::new();
    for actor in ActorIx::first(snapshot.actors()) {
        for edge in snapshot.edges(actor) {
            if edge.sent > 0 {
                lines.push(format!("{}>{} {}", short(actor), short(edge.peer), edge.sent));
            }
            if edge.annoyance > 0 && actor < edge.peer {
                lines.push(format!("{}~{} {}", short(actor), short(edge.peer), edge.annoyance));
            }
        }
    }
    lines.join(", ")
}

#[test]
fn a_channel_connects_every_pair() {
    let table = [
        (json!([]), ""),
        (json!([{"from": "v/s/b", "to": "v/t/a", "count": 3}]), "b-0>v/t/a-0 3, b-1>v/t/a-0 3"),
        (
            json!([{"from": "v/s/b", "to": "v/t/a", "count": 3, "drag": 2}]),
            "b-0>v/t/a-0 3, b-0~v/t/a-0 2, b-1>v/t/a-0 3, b-1~v/t/a-0 2",
        ),
        (json!([{"from": "v/s/b", "to": "v/s/b", "count": 1, "drag": 5}]), "b-0>b-1 1, b-0~b-1 5, b-1>b-0 1"),
        (
            json!([{"from": "v/t/a", "to": "v/s/b", "count": 1}, {"from": "v/s/b", "to": "v/t/a", "count": 1}]),
            "b-0>v/t/a-0 1, b-1>v/t/a-0 1, v/t/a-0>b-0 1, v/t/a-0>b-1 1",
        ),
    ];
    for (channels, expected) in table {
        let snapshot = world(&channels, &json!(["communication"]), 100).unwrap();
        assert_eq!(pairs(&snapshot), expected, "{channels}");
        assert_eq!(snapshot.file().edges(), channels.as_array().unwrap().len(), "a channel is an edge");
        assert_eq!(
            Snapshot::read(&snapshot.write()).unwrap().write(),
            snapshot.write(),
            "it stays a channel"
        );
        let whole = world(&channels, &json!(["communication"]), 0).unwrap();
        assert_eq!(
            (pairs(&whole).as_str(), whole.problem().channels.is_written_out),
            ("", expected.is_empty())
        );
    }
}

#[test]
fn invalid_channels_are_rejected_with_their_path() {
    let of = |channels: Value, objective: &str, most: usize| {
        world(&channels, &json!([objective]), most).unwrap_err().to_string()
    };
    let refused = |channels: Value| of(channels, "communication", 100);
    assert_eq!(
        refused(json!([{"from": "v/s/a", "to": "v/s/c", "count": 1}])),
        "groupMessages[0].to: no actor is of `v/s/c`; it is written namespace/application/group"
    );
    assert!(refused(json!([{"from": "v/s/a", "count": 1}])).contains("missing field `to`"));
    let large = 9_007_199_254_740_993_u64;
    assert!(
        refused(json!([{"from": "v/s/a", "to": "v/s/b", "count": large}]))
            .starts_with("groupMessages[0].count: 9")
    );
    assert!(
        refused(json!([{"from": "v/s/a", "to": "v/s/b", "count": large / 4}]))
            .starts_with("messages: communication can add up to 13510798882111488, above 2^53"),
        "six pairs"
    );
    let one = json!([{"from": "v/s/a", "to": "v/s/b", "count": 1}]);
    assert!(world(&one, &json!(["busiest"]), 6).is_ok());
    assert_eq!(
        of(one.clone(), "busiest", 5),
        "groupMessages: 6 pairs of actors, and `busiest` looks at each; at most 5 then: take `busiest` out of the objectives, or \
         make the groups smaller"
    );
    assert_eq!(
        of(json!(vec![one[0].clone(); MOST_EDGES + 1]), "communication", 5),
        "messages: 200001 edges; at most 200000 can be planned at once"
    );
}

/// Two groups of another application exchange messages, and an own actor sends to one of them. Above the limit of
/// pairs, `latency` leaves out the messages between these groups, while `busiest` is rejected.
#[test]
fn channels_of_other_applications_do_not_count_as_own_pairs() {
    let other = |group: &str, at: usize| {
        let id = format!("o/t/{group}-{at}");
        json!({"id": id, "group": group, "runsOn": {"cpu": 1}, "fixed": true, "current": "n/c"})
    };
    let mut actors: Vec<Value> =
        ["x", "y"].into_iter().flat_map(|group| (0..4).map(move |at| other(group, at))).collect();
    actors.push(json!({"id": "v/s/a-0", "group": "a", "runsOn": {"cpu": 1}}));
    let channel = |from: &str, to: &str| json!({"from": from, "to": to, "count": 1});
    // Requests and replies between the groups, and requests of the own actor.
    let channels = [channel("o/t/x", "o/t/y"), channel("o/t/y", "o/t/x"), channel("v/s/a", "o/t/x")];
    let unit = |node: &str| json!({"id": format!("{node}/c"), "kind": "cpu", "node": node, "capacity": 9});
    let file = |objective: &str| -> SnapshotFile {
        let file = json!({"version": 1, "units": [unit("n"), unit("m")], "actors": actors, "groupMessages": channels,
            "exchangeCost": {"otherKind": 1, "otherNode": 6}, "objectives": [objective]});
        serde_json::from_value(file).unwrap()
    };
    for most in [4, 20] {
        let snapshot = Snapshot::with_most_pairs(file("latency"), most).unwrap();
        assert_eq!((snapshot.problem().channels.pairs, snapshot.problem().channels.open_pairs), (20, 4));
        let (own, away) = (ActorIx::new(8), UnitIx::new(1));
        let there: Assignment =
            ActorIx::first(9).map(|actor| Some(if actor == own { away } else { UnitIx::new(0) })).collect();
        assert_eq!(snapshot.cost(&there).of(Criterion::Latency), 7);
        let sent: Vec<usize> = ActorIx::first(9).map(|actor| snapshot.sends_to(actor).len()).collect();
        assert_eq!(sent, [0, 0, 0, 0, 0, 0, 0, 0, 4], "{most}");
    }
    let refused =
        |objective: &str, most| Snapshot::with_most_pairs(file(objective), most).unwrap_err().to_string();
    assert!(
        refused("latency", 3).starts_with("groupMessages: 4 pairs of actors, and `latency` looks at each")
    );
    assert!(
        refused("busiest", 19).starts_with("groupMessages: 20 pairs of actors, and `busiest` looks at each")
    );
}

/// Channels without messages cost nothing, however expensive a message would be: forty actors with drag only, and a
/// channel within a group of one actor.
#[test]
fn channels_without_messages_cost_nothing() {
    let actor = |id: String, group: &str| json!({"id": id, "group": group, "runsOn": {"cpu": 1}});
    let mut actors: Vec<Value> = (0..40).map(|at| actor(format!("v/s/a-{at}"), "a")).collect();
    actors.push(actor("v/s/b-0".to_owned(), "b"));
    let unit = |node: &str| json!({"id": format!("{node}/c"), "kind": "cpu", "node": node, "capacity": 100});
    let channels = json!([{"from": "v/s/a", "to": "v/s/a", "count": 0, "drag": 1},
        {"from": "v/s/b", "to": "v/s/b", "count": LARGEST}, {"from": "v/s/b", "to": "v/s/b", "count": LARGEST}]);
    let file = json!({"version": 1, "units": [unit("n"), unit("m")], "actors": actors, "groupMessages": channels,
        "exchangeCost": {"kinds": {"cpu": {"cpu": LARGEST}}}, "objectives": ["communication", "annoyance"]});
    let whole = Snapshot::with_most_pairs(serde_json::from_value(file).unwrap(), 0).unwrap();
    let halves: Assignment = ActorIx::first(41).map(|actor| Some(UnitIx::new(actor.at() % 2))).collect();
    let cost = whole.cost(&halves);
    assert_eq!([Criterion::Communication, Criterion::Annoyance].map(|of| cost.of(of)), [0, 20 * 20]);
    let state = State::of(&whole, &halves);
    let prices = [0, 1].map(|unit| state.price(ActorIx::new(40), UnitIx::new(unit)));
    assert_eq!(prices, [vec![0, 0], vec![0, 0]]);
    assert!(Weighted::new(&whole).groups.is_some());
}

/// An assignment with units from a cyclic list of numbers; fixed actors stay.
fn somewhere(snapshot: &Snapshot, numbers: &[usize]) -> Assignment {
    let place = |actor: ActorIx| match snapshot.current(actor) {
        Some(home) if snapshot.is_fixed(actor) => Some(home),
        _ => {
            let at = numbers[actor.at() % numbers.len()] % (snapshot.units() + 1);
            (at < snapshot.units()).then(|| UnitIx::new(at))
        }
    };
    ActorIx::first(snapshot.actors()).map(place).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The cost is the same for a channel, its expansion by the model, and a file that lists all pairs.
    #[test]
    fn a_channel_costs_what_its_pairs_cost(seed: u64, numbers in prop::collection::vec(0..1000_usize, 1..12)) {
        let file = grouped(seed);
        let listed = Snapshot::new(written_out(&file)).unwrap();
        let by_model = Snapshot::new(file.clone()).unwrap();
        let whole = Snapshot::with_most_pairs(file, 0).unwrap();
        prop_assert_eq!(&listed.problem().edges, &by_model.problem().edges);
        let assignment = somewhere(&whole, &numbers);
        let state = State::of(&whole, &assignment);
        let expected = State::of(&listed, &assignment);
        for world in [&by_model, &whole] {
            prop_assert_eq!(world.objectives(), listed.objectives());
            let cost = listed.cost(&assignment);
            prop_assert_eq!(&world.cost(&assignment), &cost);
            prop_assert_eq!(world.own_part(&assignment, &cost), listed.own_part(&assignment, &cost));
        }
        for actor in ActorIx::first(whole.actors()) {
            for unit in UnitIx::first(whole.units()) {
                prop_assert_eq!(state.price(actor, unit), expected.price(actor, unit));
            }
        }
    }
}
