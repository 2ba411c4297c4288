//! Channels between whole groups.

use placement::Snapshot;
use placement::file::SnapshotFile;
use serde_json::{Value, json};

/// Three actors of a group, two of another, one of a third application's, and one that is of none.
fn world(channels: &Value) -> Result<Snapshot, placement::SnapshotError> {
    let actor = |id: &str, group: Value| json!({"id": id, "group": group, "runsOn": {"cpu": 1}});
    let of = |name: &'static str, many: usize| {
        (0..many).map(move |at| (format!("v/s/{name}-{at}"), name.to_owned()))
    };
    let mut actors: Vec<Value> =
        of("a", 3).chain(of("b", 2)).map(|(id, group)| actor(&id, group.into())).collect();
    actors.extend([actor("v/t/a-0", "a".into()), actor("v/s/none", Value::Null)]);
    let units = json!([{"id": "n/c", "kind": "cpu", "node": "n", "capacity": 10}]);
    let costs = json!({"otherKind": 1});
    let file = json!({"version": 1, "units": units, "actors": actors, "groupMessages": channels, "exchangeCost": costs});
    Snapshot::read(&file.to_string())
}

/// `a-0>b-0 3` and `a-0~b-0 1`, in order.
fn pairs(file: &SnapshotFile) -> String {
    let short = |id: &str| id.strip_prefix("v/s/").unwrap_or(id).to_owned();
    let messages = file.messages.iter().map(|m| format!("{}>{} {}", short(&m.from), short(&m.to), m.count));
    let drags = file.annoyance.iter().map(|d| format!("{}~{} {}", short(&d.a), short(&d.b), d.drag));
    messages.chain(drags).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_channel_is_each_to_each() {
    let table = [
        (json!([]), ""),
        (json!([{"from": "v/s/b", "to": "v/t/a", "count": 3}]), "b-0>v/t/a-0 3, b-1>v/t/a-0 3"),
        (
            json!([{"from": "v/s/b", "to": "v/t/a", "count": 3, "drag": 2}]),
            "b-0>v/t/a-0 3, b-1>v/t/a-0 3, b-0~v/t/a-0 2, b-1~v/t/a-0 2",
        ),
        (json!([{"from": "v/s/b", "to": "v/s/b", "count": 1, "drag": 5}]), "b-0>b-1 1, b-1>b-0 1, b-0~b-1 5"),
        (
            json!([{"from": "v/t/a", "to": "v/s/b", "count": 1}, {"from": "v/s/b", "to": "v/t/a", "count": 1}]),
            "v/t/a-0>b-0 1, v/t/a-0>b-1 1, b-0>v/t/a-0 1, b-1>v/t/a-0 1",
        ),
    ];
    for (channels, expected) in table {
        let snapshot = world(&channels).unwrap();
        assert_eq!(pairs(snapshot.file()), expected, "{channels}");
        assert_eq!(snapshot.file().edges(), 0, "pairs of channels are no edges that are named");
    }
}

#[test]
fn what_is_wrong_with_them_is_said_where_it_stands() {
    let refused = |channels: Value| world(&channels).unwrap_err().to_string();
    assert_eq!(
        refused(json!([{"from": "v/s/a", "to": "v/s/c", "count": 1}])),
        "groupMessages[0].to: no actor is of `v/s/c`; it is written namespace/application/group"
    );
    assert!(
        refused(json!([{"from": "v/s/a", "count": 1}])).starts_with("groupMessages[0]: missing field `to`")
    );
    let many = vec![json!({"from": "v/s/a", "to": "v/s/b", "count": 1}); 166_667];
    assert_eq!(
        refused(json!(many)),
        "groupMessages[166666]: 1000002 pairs with those before it; at most 1000000 can be planned at once"
    );
    let large = 9_007_199_254_740_993_u64;
    assert!(
        refused(json!([{"from": "v/s/a", "to": "v/s/b", "count": large}]))
            .starts_with("groupMessages[0].count: 9")
    );
}
