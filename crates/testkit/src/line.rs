//! Snapshots from a line of text, and random ones.
//!
//! A unit is `id:kind:capacity`, an actor `id:kind=work,kind=work`. After another colon follow `name=value` pairs,
//! separated by commas: `node zone numa pool slots power idle` of a unit, `at move fixed arriving group` of an actor. Other
//! names are resources; `node.memory` is a resource of the node. Rules are statements that end with `;`.

use placement::file::{
    Actor, CapScope, Constraint, Drag, ExchangeCost, Levels, Message, Node, Places, RunsOn, Scope,
    SnapshotFile, Unit, VERSION,
};
use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Criterion, GroundConstraint, GroundRule, Rules, Snapshot};
use proptest::prelude::*;

use crate::random::shared_links;

/// A validated snapshot of units and actors.
pub fn world(units: &str, actors: &str, rules: &str) -> Snapshot {
    Snapshot::new(file(units, actors, rules)).unwrap()
}

/// The same as a file, before validation.
pub fn file(units: &str, actors: &str, rules: &str) -> SnapshotFile {
    let mut file = SnapshotFile {
        version: VERSION,
        units: units.split_whitespace().map(unit).collect(),
        actors: actors.split_whitespace().map(actor).collect(),
        exchange_cost: table_two(),
        ..SnapshotFile::default()
    };
    for statement in rules.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        rule(&mut file, statement);
    }
    file
}

/// Table II of the APO paper, and 30 each for another node and another zone.
pub fn table_two() -> ExchangeCost {
    let row = |row: &[(&str, u64)]| row.iter().map(|(kind, cost)| ((*kind).to_owned(), *cost)).collect();
    ExchangeCost {
        kinds: [
            ("cpu".to_owned(), row(&[("cpu", 1), ("gpu", 5), ("fpga", 10)])),
            ("gpu".to_owned(), row(&[("gpu", 1), ("fpga", 20)])),
            ("fpga".to_owned(), row(&[("fpga", 1)])),
        ]
        .into(),
        other_kind: Some(20),
        other_node: 30,
        other_zone: 30,
        ..ExchangeCost::default()
    }
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn unit(text: &str) -> Unit {
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let mut unit = Unit {
        id: next().to_owned(),
        kind: next().to_owned(),
        capacity: next().parse().unwrap(),
        node: "n".to_owned(),
        ..Unit::default()
    };
    for (name, value) in pairs(next()) {
        match name {
            "node" => value.clone_into(&mut unit.node),
            "zone" => unit.zone = Some(value.to_owned()),
            "numa" => unit.numa = Some(value.to_owned()),
            "pool" => unit.pool = Some(value.to_owned()),
            "slots" => unit.slots = Some(value.parse().unwrap()),
            "power" => unit.power_watts = Some(value.parse().unwrap()),
            "idle" => unit.idle_watts = Some(value.parse().unwrap()),
            resource => _ = unit.provides.insert(resource.to_owned(), value.parse().unwrap()),
        }
    }
    unit
}

fn actor(text: &str) -> Actor {
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let mut actor = Actor { id: next().to_owned(), ..Actor::default() };
    for (kind, work) in pairs(next()) {
        let work = work.parse().unwrap();
        actor.runs_on.insert(kind.to_owned(), RunsOn { work, ..RunsOn::default() });
    }
    for (name, value) in pairs(next()) {
        match name {
            "at" => actor.current = Some(value.to_owned()),
            "group" => actor.group = Some(value.to_owned()),
            "move" => actor.move_cost = value.parse().unwrap(),
            "fixed" => actor.fixed = true,
            "arriving" => actor.arriving = true,
            resource => match resource.strip_prefix("node.") {
                Some(resource) => actor.runs_on.values_mut().for_each(|needs| {
                    needs.node_requires.insert(resource.to_owned(), value.parse().unwrap());
                }),
                None => _ = actor.requires.insert(resource.to_owned(), value.parse().unwrap()),
            },
        }
    }
    actor
}

fn rule(file: &mut SnapshotFile, statement: &str) {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let own = |word: &str| word.to_owned();
    let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let scope = |word: &str| match word {
        "unit" => Scope::Unit,
        "numa" => Scope::Numa,
        "node" => Scope::Node,
        "zone" => Scope::Zone,
        other => panic!("no scope {other}"),
    };
    let list = |word: &str| word.split(',').map(str::to_owned).collect::<Vec<_>>();
    let places = |kind: &str, which: &str| match kind {
        "units" => Places::Units(list(which)),
        "nodes" => Places::Nodes(list(which)),
        "zones" => Places::Zones(list(which)),
        other => panic!("no places {other}"),
    };
    let reason = None;
    match words.as_slice() {
        ["licence", node, cost] => file.nodes.push(Node {
            id: own(node),
            licence_cost: Some(cost.parse().unwrap()),
            ..Node::default()
        }),
        ["node", id, provides @ ..] => file.nodes.push(Node {
            id: own(id),
            provides: provides
                .iter()
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(resource, quantity)| (own(resource), quantity.parse().unwrap()))
                .collect(),
            ..Node::default()
        }),
        [from, "to", to, count] => {
            file.messages.push(Message { from: own(from), to: own(to), count: count.parse().unwrap() });
        }
        [a, "annoys", b, drag] => {
            file.annoyance.push(Drag { a: own(a), b: own(b), drag: drag.parse().unwrap() });
        }
        [a, "disturbs", b, drag] => {
            file.interference.push(Drag { a: own(a), b: own(b), drag: drag.parse().unwrap() });
        }
        ["objectives", levels] => file.objectives = levels.parse().unwrap(),
        ["apart", on, actors @ ..] => {
            file.constraints.push(Constraint::Apart { on: scope(on), actors: all(actors), reason });
        }
        ["together", on, actors @ ..] => {
            file.constraints.push(Constraint::Together { on: scope(on), actors: all(actors), reason });
        }
        ["pin", actor, unit] => {
            file.constraints.push(Constraint::Pin { actor: own(actor), unit: own(unit), reason });
        }
        ["only", actors, kind, which] => {
            let places = places(kind, which);
            file.constraints.push(Constraint::Only { actors: list(actors), places, reason });
        }
        ["never", actors, kind, which, except @ ..] => file.constraints.push(Constraint::Never {
            actors: list(actors),
            places: places(kind, which),
            except_current: !except.is_empty(),
            reason,
        }),
        ["avoid", actors, kind, which] => {
            let places = places(kind, which);
            file.constraints.push(Constraint::Avoid { actors: list(actors), places, reason });
        }
        ["prefer", actor, unit, weight] => {
            let weight = weight.parse().unwrap();
            file.constraints.push(Constraint::Prefer { actor: own(actor), unit: own(unit), weight });
        }
        ["reserve", unit, resource, quantity] => {
            let quantity = quantity.parse().unwrap();
            file.constraints.push(Constraint::Reserve { unit: own(unit), resource: own(resource), quantity });
        }
        ["quota", actors, max, rest @ ..] => file.constraints.push(Constraint::Quota {
            actors: list(actors),
            max: max.parse().unwrap(),
            pool: rest.iter().find_map(|word| word.strip_prefix("pool=")).map(own),
            pools: rest.iter().find_map(|word| word.strip_prefix("pools=")).map(list),
            numa: rest.iter().find_map(|word| word.strip_prefix("numa=")).map(own),
            units: rest.iter().find_map(|word| word.strip_prefix("units=")).map(|all| {
                let pairs = all.split(',').map(|pair| pair.rsplit_once(':').unwrap());
                pairs.map(|(unit, amount)| (unit.to_owned(), amount.parse().unwrap())).collect()
            }),
            resource: rest.iter().find_map(|word| word.strip_prefix("of=")).map(own),
            reason,
        }),
        ["powerCap", on, max] => {
            let on = match *on {
                "node" => CapScope::Node,
                "zone" => CapScope::Zone,
                "all" => CapScope::All,
                other => panic!("no scope {other}"),
            };
            file.constraints.push(Constraint::PowerCap { on, max: max.parse().unwrap(), reason });
        }
        _ => panic!("no rule `{statement}`"),
    }
}

/// `cam=gpu0 log=cpu0` as an assignment. Fixed actors stay on their unit; other actors that are not named are unplaced.
pub fn assignment(snapshot: &Snapshot, text: &str) -> Assignment {
    let home = |actor: ActorIx| snapshot.current(actor).filter(|_| snapshot.is_fixed(actor));
    let mut assignment: Assignment = ActorIx::first(snapshot.actors()).map(home).collect();
    for pair in text.split_whitespace() {
        let (actor, unit) = pair.split_once('=').unwrap();
        assignment[snapshot.actor(actor).unwrap()] = Some(snapshot.unit(unit).unwrap());
    }
    assignment
}

/// A small random file with all features: kinds, topology, limits, rules, fixed actors, and a current placement.
pub fn any_file() -> impl Strategy<Value = SnapshotFile> {
    (1..=6usize, 0..=8usize, 0..=5usize, any::<u64>())
        .prop_map(|(units, actors, rules, seed)| random_file(units, actors, rules, seed))
}

/// The same as a validated snapshot.
pub fn any_world() -> impl Strategy<Value = Snapshot> {
    any_file().prop_map(|file| Snapshot::new(file).unwrap())
}

fn random_file(units: usize, actors: usize, rules: usize, seed: u64) -> SnapshotFile {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let units: Vec<String> = (0..units).map(|i| random_unit(rng, i)).collect();
    let people: Vec<String> = (0..actors).map(|i| random_actor(rng, i, &units)).collect();
    let mut said: Vec<String> = (0..3).map(|i| format!("node n{i} cores={}", rng.u64(3..12))).collect();
    if actors > 0 {
        said.extend((0..actors * 2).map(|_| {
            let (a, b, how_much) = (rng.usize(..actors), rng.usize(..actors), rng.u64(..20));
            format!("a{a} {} a{b} {how_much}", ["to", "to", "annoys", "disturbs"][rng.usize(..4)])
        }));
        said.extend((0..rules).map(|_| random_rule(rng, units.len(), actors)));
    }
    said.extend(random_objectives(rng));
    let mut file = file(&units.join(" "), &people.join(" "), &said.join(";"));
    file.shared_links = shared_links(seed, &file.units);
    if matches!(&file.objectives, Levels::InOrder(levels) if levels.iter().flatten().any(|c| *c == Criterion::Latency))
    {
        without_cycles(&mut file);
    }
    file
}

/// The default objectives, the default criteria in another order, `adaptive`, or some criteria in random order.
fn random_objectives(rng: &mut fastrand::Rng) -> Option<String> {
    match rng.u8(..4) {
        0 => None,
        1 => Some("objectives communication+migration,overload,interference".to_owned()),
        2 => Some("objectives adaptive".to_owned()),
        _ => {
            let mut names: Vec<&str> = Criterion::named().map(Into::into).collect();
            rng.shuffle(&mut names);
            let mut levels = names[0].to_owned();
            for name in &names[1..rng.usize(1..=names.len())] {
                levels = format!("{levels}{}{name}", [",", ",", "+"][rng.usize(..3)]);
            }
            Some(format!("objectives {levels}"))
        }
    }
}

/// Reverses messages from a later actor to an earlier one.
fn without_cycles(file: &mut SnapshotFile) {
    let position = |id: &str| file.actors.iter().position(|actor| actor.id == id);
    for message in &mut file.messages {
        if position(&message.from) > position(&message.to) {
            std::mem::swap(&mut message.from, &mut message.to);
        }
    }
}

const KINDS: [&str; 3] = ["cpu", "gpu", "fpga"];

fn random_unit(rng: &mut fastrand::Rng, i: usize) -> String {
    let kind = KINDS[rng.usize(..3).min(rng.usize(..3))];
    let node = rng.usize(..3);
    let zone = ["", ",zone=z0", ",zone=z1"][node];
    let numa = ["", ",numa=0", ",numa=1"][rng.usize(..3)];
    let slots = ["", "", ",slots=1", ",slots=3"][rng.usize(..4)];
    let (capacity, memory) = (rng.u64(4..20), rng.u64(2..9));
    let (power, idle) = (rng.u64(..30), rng.u64(..10));
    format!("u{i}:{kind}:{capacity}:node=n{node},mem={memory},power={power},idle={idle}{zone}{numa}{slots}")
}

fn random_actor(rng: &mut fastrand::Rng, i: usize, units: &[String]) -> String {
    let home = rng.usize(..units.len());
    let kind = units[home].split(':').nth(1).unwrap();
    let mut runs_on = vec![format!("{kind}={}", rng.u64(0..9))];
    for other in KINDS.iter().filter(|other| **other != kind) {
        if rng.bool() {
            runs_on.push(format!("{other}={}", rng.u64(1..9)));
        }
    }
    let place = match rng.usize(..6) {
        0 => format!(",at=u{home},fixed"),
        1 | 2 => format!(",at=u{}", rng.usize(..units.len())),
        _ => String::new(),
    };
    let (memory, cores, price) = (rng.u64(..3), rng.u64(..3), rng.u64(..9));
    let group = ["", ",group=g", ",group=h"][rng.usize(..3)];
    format!("a{i}:{}:mem={memory},node.cores={cores},move={price}{group}{place}", runs_on.join(","))
}

fn random_rule(rng: &mut fastrand::Rng, units: usize, actors: usize) -> String {
    let scope = ["unit", "numa", "node", "zone"][rng.usize(..4)];
    let mut actor = || format!("a{}", rng.usize(..actors));
    let [one, two, three] = [actor(), actor(), actor()];
    let (unit, other) = (rng.usize(..units), rng.usize(..units));
    match rng.usize(..10) {
        9 => format!(
            "quota {one},{two},{three} {}{}",
            rng.u64(..4),
            ["", " of=mem", " of=cores"][rng.usize(..3)]
        ),
        8 => format!("powerCap {} {}", ["node", "zone", "all"][rng.usize(..3)], rng.u64(5..60)),
        0 => format!("apart {scope} {one} {two}"),
        1 => format!("apart {scope} {one} {two} {three}"),
        2 => format!("together {scope} {one} {two}"),
        3 => format!("together {scope} {one} {two} {three}"),
        4 => format!("only {one},{two} units u{unit},u{other}"),
        5 => format!("never {one},{two} units u{unit} {}", ["", "exceptCurrent"][rng.usize(..2)]),
        6 => format!("prefer {one} u{unit} {}", rng.u64(..9)),
        _ => format!("reserve u{unit} mem {}", rng.u64(..3)),
    }
}

/// Number of actors in the ground rules of tests.
pub const RULED_ACTORS: usize = 4;
/// Number of units in these rules.
pub const RULED_UNITS: usize = 3;

/// The atom of an actor on a unit.
pub fn on(actor: usize, unit: usize) -> u32 {
    u32::try_from(1 + actor * RULED_UNITS + unit).unwrap()
}

/// The input atoms: every actor on every unit.
pub fn inputs() -> Vec<(ActorIx, UnitIx, u32)> {
    let of = |a, u| (ActorIx::new(a), UnitIx::new(u), on(a, u));
    (0..RULED_ACTORS).flat_map(|a| (0..RULED_UNITS).map(move |u| of(a, u))).collect()
}

/// The rule against more than two actors on unit 0: atom 20 counts, atom 21 is the violation.
pub fn at_most_two() -> Rules {
    let body = (0..RULED_ACTORS).map(|actor| (i32::try_from(on(actor, 0)).unwrap(), 1)).collect();
    let rule = |head, lower, body| GroundRule { head, lower, body, any: false };
    let ground = vec![rule(20, 3, body), rule(21, 1, vec![(20, 1)])];
    let demands = vec![GroundConstraint {
        atom: 21,
        rule: "policy p line 1".into(),
        says: "more than two on u".into(),
        limit: None,
    }];
    Rules::new(RULED_ACTORS, ground, &inputs(), demands, vec![]).unwrap()
}

/// An assignment from unit positions.
pub fn places(units: impl IntoIterator<Item = Option<usize>>) -> Assignment {
    units.into_iter().map(|unit| unit.map(UnitIx::new)).collect()
}
