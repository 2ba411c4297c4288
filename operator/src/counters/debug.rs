//! What `/debug/load/NAMESPACE/NAME` shows.

use std::collections::BTreeMap;

use counters::{MeasuredNumbers, Windows};
use serde_json::{Value, json};
use world::LoadRecord;

/// The windows of an application, as `WindowsFile`, the numbers that they give, and the last search, which
/// `kubectl cairn plan --windows` repeats.
pub fn shown(windows: &Windows, measured: Option<&MeasuredNumbers>, search: Option<&LoadRecord>) -> Value {
    json!({"windows": windows.file(), "measured": measured.map(numbers), "search": search})
}

fn numbers(measured: &MeasuredNumbers) -> Value {
    let pairs = |all: &BTreeMap<(String, String), u64>| -> Vec<Value> {
        all.iter().map(|((from, to), count)| json!({"from": from, "to": to, "count": count})).collect()
    };
    let groups: BTreeMap<&String, Value> = measured
        .groups
        .iter()
        .map(|(name, group)| {
            let measured = json!({"wanted": group.wanted, "windows": group.windows, "messages": group.messages,
                "work": group.work, "annoyance": group.annoyance});
            (name, measured)
        })
        .collect();
    let services = measured.services.iter().map(
        |((group, kind), microseconds)| json!({"group": group, "kind": kind, "microseconds": microseconds}),
    );
    let (covered, wanted) = measured.coverage();
    json!({
        "covered": covered,
        "wanted": wanted,
        "groups": groups,
        "messages": pairs(&measured.pairs),
        "groupMessages": pairs(&measured.group_messages),
        "work": measured.work,
        "annoyance": pairs(&measured.annoyance),
        "services": services.collect::<Vec<_>>(),
    })
}
