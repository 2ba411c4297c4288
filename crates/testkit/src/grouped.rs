//! Snapshots with channels between groups, and the same snapshots with every pair of actors listed.

use std::collections::BTreeMap;

use fastrand::Rng;
use placement::file::{
    Actor, Constraint, Drag, ExchangeCost, GroupMessage, Levels, Message, PairCost, RunsOn, Scope,
    SnapshotFile, Unit,
};
use placement::{Criterion, Snapshot};

/// The application of all actors of this module.
const APPLICATION: &str = "ns/app";

/// Up to 12 actors in three groups or none, some fixed and some colocated, on up to 6 units. Channels connect groups in
/// either direction and within one; single messages and drags are added.
pub fn grouped(seed: u64) -> SnapshotFile {
    use Criterion::{Annoyance, Communication, Interference, Migration, Overload};
    let rng = &mut Rng::with_seed(seed);
    let units = rng.usize(2..=6);
    let kind = |at: usize| ["cpu", "gpu"][at % 2].to_owned();
    let unit = |at: usize| Unit {
        id: format!("u{at}"),
        kind: kind(at),
        node: format!("n{}", at / 2),
        zone: (at < 4).then(|| "east".to_owned()),
        numa: (!at.is_multiple_of(3)).then(|| format!("numa-{}", at % 2)),
        capacity: 30,
        ..Unit::default()
    };
    let units: Vec<Unit> = (0..units).map(unit).collect();
    let actors = (0..rng.usize(4..=12)).map(|at| {
        let home = rng.bool().then(|| rng.usize(..units.len()));
        Actor {
            id: format!("{APPLICATION}/a{at}"),
            group: (rng.u8(..6) > 0).then(|| format!("g{}", rng.u8(..3))),
            runs_on: ["cpu", "gpu"]
                .map(|kind| (kind.to_owned(), RunsOn { work: rng.u64(1..9), ..RunsOn::default() }))
                .into(),
            move_cost: rng.u64(..5),
            fixed: home.is_some() && rng.u8(..4) == 0,
            current: home.map(|home| units[home].id.clone()),
            ..Actor::default()
        }
    });
    let actors: Vec<Actor> = actors.collect();
    let mut file = SnapshotFile { version: placement::file::VERSION, actors, ..SnapshotFile::default() };
    let mut groups: Vec<String> = file.actors.iter().filter_map(|actor| actor.group.clone()).collect();
    groups.sort_unstable();
    groups.dedup();
    let any = |rng: &mut Rng| file.actors[rng.usize(..file.actors.len())].id.clone();
    for _ in 0..if groups.is_empty() { 0 } else { rng.usize(1..6) } {
        let mut name = || format!("{APPLICATION}/{}", groups[rng.usize(..groups.len())]);
        let (from, to) = (name(), name());
        file.group_messages.push(GroupMessage { from, to, count: rng.u64(..9), drag: rng.u64(..4) });
    }
    for _ in 0..rng.usize(..6) {
        file.messages.push(Message { from: any(rng), to: any(rng), count: rng.u64(1..30) });
        file.annoyance.push(Drag { a: any(rng), b: any(rng), drag: rng.u64(1..9) });
        file.interference.push(Drag { a: any(rng), b: any(rng), drag: rng.u64(1..9) });
    }
    let free: Vec<String> =
        file.actors.iter().filter(|actor| !actor.fixed).map(|actor| actor.id.clone()).collect();
    if free.len() > 4 && rng.bool() {
        let actors = free[..rng.usize(2..4)].to_vec();
        file.constraints.push(Constraint::Together { on: Scope::Unit, actors, reason: None });
    }
    let pair = PairCost { a: units[0].id.clone(), b: units[1].id.clone(), cost: rng.u64(..40) };
    file.units = units;
    file.exchange_cost = ExchangeCost {
        kinds: BTreeMap::from([("cpu".to_owned(), BTreeMap::from([("gpu".to_owned(), 5)]))]),
        other_kind: Some(2),
        other_numa: rng.u64(..4),
        other_node: rng.u64(..30),
        other_zone: 7,
        pairs: vec![pair],
    };
    file.objectives = match rng.u8(..3) {
        0 => Levels::default(),
        1 => Levels::Adaptive,
        _ => Levels::InOrder(vec![vec![Communication, Annoyance, Interference], vec![Overload, Migration]]),
    };
    file
}

/// The same snapshot with every pair of every channel listed, by the definition of channels.
#[must_use]
pub fn written_out(file: &SnapshotFile) -> SnapshotFile {
    let mut file = file.clone();
    let members = |name: &str| -> Vec<String> {
        let (application, group) = name.rsplit_once('/').unwrap();
        let is_of = |actor: &&Actor| {
            let of = actor.id.rsplit_once('/').map(|(application, _)| application);
            actor.group.as_deref() == Some(group) && of == Some(application)
        };
        file.actors.iter().filter(is_of).map(|actor| actor.id.clone()).collect()
    };
    let (mut messages, mut drags) = (Vec::new(), Vec::new());
    for channel in &file.group_messages {
        for from in members(&channel.from) {
            for to in members(&channel.to).into_iter().filter(|to| *to != from) {
                messages.push(Message { from: from.clone(), to: to.clone(), count: channel.count });
                if channel.from != channel.to || from < to {
                    drags.push(Drag { a: from.clone(), b: to, drag: channel.drag });
                }
            }
        }
    }
    file.messages.append(&mut messages);
    file.annoyance.append(&mut drags);
    file.group_messages.clear();
    file
}

/// A pipeline with stages of these sizes; each actor sends to every actor of the next stage by channels. Nodes have
/// four units, zones 64, at half of their capacity; work varies between actors.
pub fn stages(sizes: &[usize], units: usize, seed: u64) -> Snapshot {
    let mut rng = Rng::with_seed(seed);
    let mut file = SnapshotFile { version: placement::file::VERSION, ..SnapshotFile::default() };
    for (stage, size) in sizes.iter().enumerate() {
        for at in 0..*size {
            let way = |work| RunsOn { work, ..RunsOn::default() };
            file.actors.push(Actor {
                id: format!("{APPLICATION}/s{stage}-{at}"),
                group: Some(format!("s{stage}")),
                runs_on: [("cpu".to_owned(), way(rng.u64(10..=100)))].into(),
                move_cost: 10,
                ..Actor::default()
            });
        }
    }
    for stage in 1..sizes.len() {
        let [from, to] = [stage - 1, stage].map(|stage| format!("{APPLICATION}/s{stage}"));
        file.group_messages.push(GroupMessage { from, to, count: rng.u64(1..=20), drag: 1 });
    }
    let work: u64 = file.actors.iter().flat_map(|actor| actor.runs_on.values()).map(|way| way.work).sum();
    let unit = |at: usize| Unit {
        id: format!("node-{}/cpu-{at}", at / 4),
        kind: "cpu".into(),
        node: format!("node-{}", at / 4),
        zone: Some(format!("zone-{}", at / 64)),
        capacity: 2 * work / units as u64 + 100,
        ..Unit::default()
    };
    file.units = (0..units).map(unit).collect();
    file.exchange_cost.other_kind = Some(5);
    (file.exchange_cost.other_node, file.exchange_cost.other_zone) = (30, 30);
    Snapshot::new(file).unwrap()
}
