//! Snapshots of one application in a few words.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{
    Actor, Constraint, Domain, ExchangeCost, Join, Message, RunsOn, Scope, SnapshotFile, Unit, VERSION,
};
use placement::{Budget, NoPolicy, Plan, Snapshot, plan};
use search::Greedy;

/// `units=NODE/NAME:slots[:capacity]` `own=NAME[@UNIT]` `others=NAME@UNIT` `apart=A+B` `near=A+B` `talk=A+B:count` `quota=A+B:MAX`.
///
/// Actors run on units of every kind, with work 1, and cost 5 to move; a unit's kind is its name without the number.
pub fn snapshot(text: &str) -> Snapshot {
    let exchange_cost = ExchangeCost { other_kind: Some(1), other_node: 30, ..ExchangeCost::default() };
    let mut file = SnapshotFile { version: VERSION, exchange_cost, ..SnapshotFile::default() };
    let kinds: [&str; 2] = ["cpu", "gpu"];
    for (what, items) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
        for item in items.split(',') {
            let fields: Vec<&str> = item.split([':', '@', '+']).collect();
            let runs_on = kinds.map(|kind| (kind.to_owned(), RunsOn { work: 1, ..RunsOn::default() }));
            match what {
                "units" => {
                    let (node, name) = fields[0].split_once('/').unwrap();
                    file.units.push(Unit {
                        id: fields[0].to_owned(),
                        node: node.to_owned(),
                        kind: name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
                        slots: Some(fields[1].parse().unwrap()),
                        capacity: fields.get(2).map_or(100, |capacity| capacity.parse().unwrap()),
                        ..Unit::default()
                    });
                }
                "own" | "others" => file.actors.push(Actor {
                    id: format!("ns/{}/{}", if what == "own" { "app" } else { "other" }, fields[0]),
                    group: Some(fields[0].split('-').next().unwrap().to_owned()),
                    runs_on: BTreeMap::from(runs_on),
                    move_cost: 5,
                    fixed: what == "others",
                    current: fields.get(1).map(|unit| (*unit).to_owned()),
                    ..Actor::default()
                }),
                "apart" => {
                    let actors = fields.iter().map(|name| format!("ns/app/{name}")).collect();
                    file.constraints.push(Constraint::Apart { on: Scope::Node, actors, reason: None });
                }
                // The first needs the second on its node.
                "near" => {
                    let [actors, peers] = [0, 1].map(|at| vec![format!("ns/app/{}", fields[at])]);
                    let nodes: BTreeSet<String> = file.units.iter().map(|unit| unit.node.clone()).collect();
                    let domain = |node| Domain { nodes: vec![node], ..Domain::default() };
                    file.constraints.push(Constraint::Peers {
                        actors,
                        peers,
                        domains: nodes.into_iter().map(domain).collect(),
                        actor_kinds: None,
                        peer_kinds: None,
                        max: None,
                        skew: None,
                        join: Some(Join::Peer),
                        reason: None,
                    });
                }
                "quota" => {
                    let (max, names) = fields.split_last().unwrap();
                    file.constraints.push(Constraint::Quota {
                        actors: names.iter().map(|name| format!("ns/app/{name}")).collect(),
                        pool: None,
                        pools: None,
                        numa: None,
                        units: None,
                        resource: None,
                        max: max.parse().unwrap(),
                        reason: None,
                    });
                }
                "talk" => file.messages.push(Message {
                    from: format!("ns/app/{}", fields[0]),
                    to: format!("ns/app/{}", fields[1]),
                    count: fields[2].parse().unwrap(),
                }),
                other => panic!("{other}"),
            }
        }
    }
    Snapshot::new(file).unwrap()
}

/// The plan of the greedy strategy.
#[allow(dead_code, reason = "not every test plans")]
pub fn planned(snapshot: &Snapshot) -> Plan {
    let budget = Budget { effort: Some(1), seed: 1, stop: &|| false, left: None };
    plan(snapshot, &Greedy, &NoPolicy, &budget).unwrap()
}
