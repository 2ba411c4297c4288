//! Units that summarise the actors of other applications.

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, LARGEST, Snapshot};
use serde_json::{Value, json};

/// Two units; the first has this summary of other actors and these slots.
fn world(others: &Value, slots: &Value) -> Value {
    json!({
        "version": 1,
        "units": [
            {"id": "n/c0", "kind": "cpu", "node": "n", "capacity": 10, "slots": slots, "others": others},
            {"id": "n/c1", "kind": "cpu", "node": "n", "capacity": 10},
        ],
        "actors": [{"id": "v/s/a", "runsOn": {"cpu": 4}}, {"id": "v/s/b", "runsOn": {"cpu": 4}}],
        "exchangeCost": {"otherKind": 1},
    })
}

/// Overload and violations with both actors on the first unit.
fn both(world: &Value) -> String {
    let snapshot = Snapshot::read(&world.to_string()).unwrap();
    let home = |actor: ActorIx| Some(snapshot.current(actor).unwrap_or(UnitIx::new(0)));
    let places: Assignment = ActorIx::first(snapshot.actors()).map(home).collect();
    let broken: Vec<String> = snapshot.violations(&places).iter().map(ToString::to_string).collect();
    let summed_up = snapshot.file().summed_up.len();
    format!(
        "{summed_up} summed up, overload {}; {}",
        snapshot.cost(&places).of(Criterion::Overload),
        broken.join("; ")
    )
}

#[test]
fn summarised_actors_use_capacity_and_slots_but_violate_nothing() {
    let table = [
        (json!(null), json!(null), "0 summed up, overload 0; "),
        (json!({"work": 5, "count": 1}), json!(null), "1 summed up, overload 3; "),
        (json!({"work": 5, "count": 1}), json!(3), "1 summed up, overload 3; "),
        (
            json!({"work": 5, "count": 2}),
            json!(3),
            "1 summed up, overload 3; n/c0 hosts 3 actors and has 2 slots",
        ),
        (
            json!({"work": 0, "count": 9}),
            json!(3),
            "1 summed up, overload 0; n/c0 hosts 3 actors and has 1 slots",
        ),
        (json!({"work": 5, "count": 0}), json!(2), "1 summed up, overload 3; "),
        (json!({"work": 0, "count": 0}), json!(2), "0 summed up, overload 0; "),
        (json!({"work": 5, "count": 0}), json!(LARGEST), "1 summed up, overload 3; "),
    ];
    for (others, slots, expected) in table {
        assert_eq!(both(&world(&others, &slots)), expected, "{others} {slots}");
    }
}

#[test]
fn invalid_summaries_are_rejected_with_their_path() {
    let refused =
        |others: Value| Snapshot::read(&world(&others, &json!(null)).to_string()).unwrap_err().to_string();
    let above =
        "units[0].others.work: 9007199254740993 is above 2^53; use a smaller number or a coarser unit";
    assert_eq!(refused(json!({"work": 9_007_199_254_740_993_u64, "count": 1})), above);
    assert!(refused(json!({"work": 5})).starts_with("units[0].others: missing field `count`"));
    assert!(refused(json!({"work": 5, "count": 1, "watts": 3})).starts_with("units[0].others"));
    let named = |id: &str| {
        let mut world = world(&json!({"work": 5, "count": 1}), &json!(null));
        world["actors"][1]["id"] = json!(id);
        Snapshot::read(&world.to_string()).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    };
    assert_eq!(
        named("*/n/c0"),
        "actors[1].id: `*/n/c0` stands for the `others` of unit n/c0; give the actor another name"
    );
    assert_eq!(named("*/n/c1"), "accepted");
    let beside =
        |slots: u64| Snapshot::read(&world(&json!({"work": 1, "count": 0}), &json!(slots)).to_string());
    assert_eq!(
        beside(u64::MAX).unwrap_err().to_string(),
        "units[0].slots: 18446744073709551615 is above 2^53; use a smaller number or a coarser unit"
    );
    let most = beside(LARGEST).unwrap();
    assert_eq!(Snapshot::read(&most.write()).unwrap().file(), most.file());
}
