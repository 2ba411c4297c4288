//! The fields of an operator's snapshot that the demo uses.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use crds::Assignment;
use serde::Deserialize;

/// A snapshot file, reduced to the used fields; its format is described in docs/reference/snapshot.md.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    window_microseconds: u64,
    units: Vec<Unit>,
    actors: Vec<Actor>,
    #[serde(default)]
    messages: Vec<Message>,
    /// From each actor of a group to each of another, or to all others of its own.
    #[serde(default)]
    group_messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Unit {
    id: String,
    kind: String,
    capacity: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Actor {
    id: String,
    runs_on: BTreeMap<String, Work>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Work {
    Alone(u64),
    With { work: u64 },
}

#[derive(Debug, Deserialize)]
struct Message {
    from: String,
    to: String,
    count: u64,
}

impl Facts {
    /// Parses the response of `/debug/snapshot/NAMESPACE/NAME`.
    pub fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("the operator's snapshot does not read")
    }

    /// The kind of a unit; empty if there is no such unit.
    pub fn kind(&self, unit: &str) -> &str {
        self.unit(unit).map_or("", |unit| &unit.kind)
    }

    /// The reasons for an assignment: less work than on other kinds, and local messages.
    pub fn why(&self, actor: &str, unit: &str, places: &[Assignment]) -> String {
        let kind = self.kind(unit);
        let works = self.works(actor);
        let here = works.get(kind).copied().unwrap_or_default();
        let mut why = format!("{} of work", seconds(here));
        let elsewhere = works.iter().filter(|(other, _)| **other != kind);
        let elsewhere: Vec<_> =
            elsewhere.map(|(other, work)| format!("{} on {other}", seconds(*work))).collect();
        if !elsewhere.is_empty() {
            why = format!("{why} ({})", elsewhere.join(", "));
        }
        let (mut all, mut stay) = (0, 0);
        for (from, to, count) in self.sent() {
            if from == actor || to == actor {
                all += count;
                let other = if from == actor { to } else { from };
                let beside = places.iter().any(|place| place.actor == other && place.unit == unit);
                stay += if beside { count } else { 0 };
            }
        }
        why + &match stay {
            _ if all == 0 => String::new(),
            0 => ", all messages to other units".to_owned(),
            stay if stay == all => ", all messages within the unit".to_owned(),
            stay => format!(", {} % of the messages within the unit", 100 * stay / all),
        }
    }

    /// For each unit: its load, its capacity, and its actors.
    pub fn loads(&self, places: &[Assignment]) -> Vec<[String; 3]> {
        let row = |unit: &Unit| {
            let actors: Vec<_> =
                places.iter().filter(|place| place.unit == unit.id).map(|place| &*place.actor).collect();
            let work = |actor: &&str| self.works(actor).get(&*unit.kind).copied().unwrap_or_default();
            let load: u64 = actors.iter().map(work).sum();
            let load = format!("{:>6} of {:>7}", seconds(load), seconds(unit.capacity));
            let idle = if actors.is_empty() { "-".to_owned() } else { actors.join(", ") };
            [unit.id.clone(), load, idle]
        };
        self.units.iter().map(row).collect()
    }

    /// The window over which work is counted.
    pub fn window(&self) -> String {
        seconds(self.window_microseconds)
    }

    /// Senders, receivers and message counts.
    fn sent(&self) -> Vec<(&str, &str, u64)> {
        let members = |group: &str| {
            let is_member = |id: &&str| id.rsplit_once('-').is_some_and(|(prefix, _)| prefix == group);
            self.actors.iter().map(|actor| actor.id.as_str()).filter(is_member).collect::<Vec<_>>()
        };
        let single = self.messages.iter().map(|one| (short(&one.from), short(&one.to), one.count));
        let mut sent: Vec<_> = single.collect();
        for channel in &self.group_messages {
            for from in members(&channel.from) {
                let others = members(&channel.to).into_iter().filter(|to| *to != from);
                sent.extend(others.map(|to| (short(from), short(to), channel.count)));
            }
        }
        sent
    }

    fn unit(&self, id: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.id == id)
    }

    /// The work per window of an actor, by kind.
    fn works(&self, actor: &str) -> BTreeMap<&str, u64> {
        let found = self.actors.iter().find(|other| short(&other.id) == actor);
        let works = found.iter().flat_map(|actor| &actor.runs_on);
        works
            .map(|(kind, work)| match work {
                Work::Alone(work) | Work::With { work } => (kind.as_str(), *work),
            })
            .collect()
    }
}

/// The name of an actor within its application.
fn short(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Microseconds as seconds, with one digit after the point.
fn seconds(microseconds: u64) -> String {
    let tenths = (microseconds + 50_000) / 100_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::Facts;
    use crds::Assignment;

    #[test]
    fn placements_are_explained_by_work_and_local_messages() {
        let text = r#"{"windowMicroseconds": 30000000, "units": [{"id": "n/c-0", "kind": "cpu", "capacity": 108000000}],
            "actors": [{"id": "a/b/x-0", "runsOn": {"cpu": {"work": 25200000, "nodeRequires": {}}, "gpu": 2160000}},
                {"id": "a/b/y-0", "runsOn": {"cpu": 1}}],
            "groupMessages": [{"from": "a/b/x", "to": "a/b/y", "count": 5}],
            "messages": [{"from": "a/b/z-0", "to": "a/b/x-0", "count": 2}]}"#;
        let facts = Facts::read(text).unwrap();
        let at = |actor: &str, unit: &str| Assignment {
            actor: actor.into(),
            unit: unit.into(),
            ..Assignment::default()
        };
        let places = [at("x-0", "n/c-0"), at("y-0", "n/c-0"), at("z-0", "m/c-0")];
        assert_eq!(
            facts.why("x-0", "n/c-0", &places),
            "25.2 s of work (2.2 s on gpu), 71 % of the messages within the unit"
        );
        assert_eq!(facts.loads(&places[..1]), [["n/c-0", "25.2 s of 108.0 s", "x-0"].map(str::to_owned)]);
    }
}
