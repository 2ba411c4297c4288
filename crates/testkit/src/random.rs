//! Small random snapshots by seed, with all features of snapshot files.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use placement::Criterion;
use placement::file::{
    Actor, CapScope, Constraint, Domain, Drag, ExchangeCost, Join, Levels, Message, Node, PairCost, Places,
    RunsOn, Scope, SharedLink, SnapshotFile, Unit,
};

const KINDS: [&str; 3] = ["cpu", "gpu", "fpga"];

/// A random snapshot with at most 7 actors and 4 units.
pub fn world(seed: u64) -> SnapshotFile {
    let rng = &mut Rng::with_seed(seed);
    let nodes = rng.usize(1..=3);
    let mut file = SnapshotFile { version: placement::file::VERSION, ..SnapshotFile::default() };
    // With room for all actors the criteria are decisive, otherwise the constraints.
    let roomy = rng.u8(..5) > 1;
    file.nodes = (0..nodes).map(|node| self::node(rng, node, roomy)).collect();
    file.units = (0..rng.usize(2..=4)).map(|number| unit(rng, number, nodes, roomy)).collect();
    // Units are identical only without a current placement.
    let fresh = rng.bool();
    if fresh {
        repeat_units(rng, &mut file);
    }
    file.actors = (0..rng.usize(3..=7).min(rng.usize(3..=7)))
        .map(|number| actor(rng, number, &file.units, fresh, roomy))
        .collect();
    edges(rng, &mut file);
    file.exchange_cost = exchange_cost(rng, &file.units);
    file.shared_links = shared_links(seed, &file.units);
    for _ in 0..rng.usize(..=if roomy { 3 } else { 5 }) {
        let constraint = constraint(rng, &file);
        file.constraints.extend(constraint);
    }
    for _ in 0..rng.usize(1..4) {
        let unit = file.units[rng.usize(..file.units.len())].id.clone();
        let actor = file.actors[rng.usize(..file.actors.len())].id.clone();
        file.constraints.push(Constraint::Prefer { actor, unit, weight: rng.u64(1..9) });
    }
    file.objectives = objectives(rng);
    if matches!(&file.objectives, Levels::InOrder(levels) if levels.concat().contains(&Criterion::Latency)) {
        without_cycles(&mut file);
    }
    file
}

/// The same with a current placement of all actors, most on one unit, and a few limits that it exceeds.
pub fn over_full(seed: u64) -> SnapshotFile {
    let rng = &mut Rng::with_seed(!seed);
    let mut file = world(seed);
    let first = rng.usize(..file.units.len());
    for actor in &mut file.actors {
        let runs = |unit: &&Unit| actor.runs_on.contains_key(&unit.kind);
        let together = file.units.iter().skip(first).find(runs).filter(|_| rng.u8(..4) > 0);
        let anywhere: Vec<&Unit> = file.units.iter().filter(runs).collect();
        let unit = together.or_else(|| rng.choice(&anywhere).copied());
        if let Some(unit) = unit.filter(|_| !actor.fixed && rng.u8(..8) > 0) {
            actor.current = Some(unit.id.clone());
        }
    }
    let names = |rng: &mut Rng| -> Vec<String> {
        file.actors.iter().filter(|_| rng.u8(..4) > 0).map(|actor| actor.id.clone()).collect()
    };
    let (some, others) = (names(rng), names(rng));
    for _ in 0..rng.usize(1..=3) {
        match rng.u8(..6) {
            0 => file.units[first].slots = Some(rng.u64(..3)),
            1 => file.units.iter_mut().for_each(|unit| unit.slots = Some(rng.u64(1..4))),
            2 => file.nodes.iter_mut().for_each(|node| _ = node.provides.insert("pods".into(), rng.u64(..3))),
            3 => {
                let on = [CapScope::Node, CapScope::Zone, CapScope::All][rng.usize(..3)];
                file.constraints.push(Constraint::PowerCap { on, max: rng.u64(..9), reason: None });
            }
            4 => {
                let (actors, max) = (some.clone(), rng.u64(..4));
                file.constraints.push(Constraint::Quota {
                    actors,
                    pool: None,
                    pools: None,
                    numa: None,
                    units: None,
                    resource: None,
                    max,
                    reason: None,
                });
            }
            _ => {
                let on = [Scope::Unit, Scope::Node, Scope::Zone][rng.usize(..3)];
                let actors = others.clone();
                file.constraints.push(if rng.u8(..3) > 0 {
                    Constraint::Apart { on, actors, reason: None }
                } else {
                    Constraint::Together { on, actors, reason: None }
                });
            }
        }
    }
    file
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

/// Repeats the first unit, which random generation would not do: on one node, or each copy on its own node.
fn repeat_units(rng: &mut Rng, file: &mut SnapshotFile) {
    let (first, lonely) = (file.units[0].clone(), rng.bool());
    for number in 1..file.units.len() {
        if rng.u8(..4) > 0 {
            let node = if lonely { format!("twin-{number}") } else { first.node.clone() };
            let id = format!("{node}/{}-{number}", first.kind);
            let mut twin = Unit { id, node: node.clone(), ..first.clone() };
            // Sometimes the copy differs in one property.
            match rng.u8(..8) {
                0 => twin.zone = Some("zone-2".into()),
                1 => twin.numa = Some("numa-2".into()),
                2 => twin.capacity += 1,
                3 => twin.idle_watts = Some(4),
                4 => twin.pool = Some("pool-2".into()),
                _ => {}
            }
            file.units[number] = twin;
            if lonely {
                let provides = file.nodes[0].provides.clone();
                file.nodes.push(Node { id: node, provides, ..Node::default() });
            }
        }
    }
    if lonely {
        file.units[0].node = "twin-0".into();
        file.nodes.push(Node { id: "twin-0".into(), ..file.nodes[0].clone() });
    }
}

fn node(rng: &mut Rng, number: usize, roomy: bool) -> Node {
    let mut provides = BTreeMap::new();
    if roomy {
        provides.insert("cores".to_owned(), rng.u64(6..20));
        provides.insert("pods".to_owned(), 7);
    } else if rng.u8(..3) > 0 {
        provides.insert("cores".to_owned(), rng.u64(3..12));
        provides.insert("pods".to_owned(), rng.u64(2..7));
    }
    let licence_cost = (rng.u8(..3) > 0).then(|| rng.u64(..9));
    Node { id: format!("node-{number}"), provides, licence_cost, ..Node::default() }
}

fn unit(rng: &mut Rng, number: usize, nodes: usize, roomy: bool) -> Unit {
    let node = rng.usize(..nodes);
    let kind = KINDS[rng.usize(..3).min(rng.usize(..3))];
    let mut provides = BTreeMap::new();
    if roomy {
        provides.insert("memory".to_owned(), rng.u64(5..20));
    } else if rng.u8(..4) > 0 {
        provides.insert("memory".to_owned(), rng.u64(2..9));
    }
    Unit {
        id: format!("node-{node}/{kind}-{number}"),
        kind: kind.into(),
        node: format!("node-{node}"),
        zone: (rng.u8(..3) > 0).then(|| format!("zone-{}", rng.u8(..2))),
        numa: (rng.u8(..3) > 0).then(|| format!("numa-{}", rng.u8(..2))),
        pool: (rng.u8(..3) > 0).then(|| format!("pool-{}", rng.u8(..2))),
        // Overload is as likely with headroom as without: it is not a limit.
        capacity: if rng.bool() { rng.u64(10..30) } else { rng.u64(1..10) },
        slots: (rng.u8(..4) == 0).then(|| if roomy { rng.u64(2..5) } else { rng.u64(..5) }),
        provides,
        power_watts: (rng.u8(..3) > 0).then(|| rng.u64(..12)),
        idle_watts: (rng.u8(..3) > 0).then(|| rng.u64(..5)),
        ..Unit::default()
    }
}

fn actor(rng: &mut Rng, number: usize, units: &[Unit], fresh: bool, roomy: bool) -> Actor {
    let home = &units[rng.usize(..units.len())];
    let fixed = rng.u8(..if fresh { 10 } else { 5 }) == 0;
    let mut runs_on = BTreeMap::new();
    for kind in KINDS {
        let often = rng.u8(..3) < 1 + u8::from(roomy);
        if often || (kind == home.kind && (fixed || roomy || rng.u8(..10) > 0)) {
            let mut runs = RunsOn { work: rng.u64(..10), ..RunsOn::default() };
            if rng.u8(..4) == 0 {
                runs.requires.insert("memory".into(), rng.u64(..3));
            }
            if rng.u8(..3) == 0 {
                runs.node_requires.insert("cores".into(), rng.u64(..4));
                runs.node_requires.insert("pods".into(), 1);
            }
            runs_on.insert(kind.to_owned(), runs);
        }
    }
    let mut requires = BTreeMap::new();
    if rng.u8(..4) == 0 {
        requires.insert("memory".to_owned(), rng.u64(1..4));
    }
    Actor {
        id: format!("bench/app/a-{number}"),
        runs_on,
        requires,
        move_cost: rng.u64(..8),
        fixed,
        group: (rng.u8(..3) > 0).then(|| format!("group-{}", rng.u8(..2))),
        current: (fixed || (!fresh && rng.u8(..4) > 0)).then(|| home.id.clone()),
        ..Actor::default()
    }
}

fn edges(rng: &mut Rng, file: &mut SnapshotFile) {
    let ids: Vec<String> = file.actors.iter().map(|actor| actor.id.clone()).collect();
    let mut pair = || (rng.choice(&ids).unwrap().clone(), rng.choice(&ids).unwrap().clone(), rng.u64(..10));
    for _ in 0..ids.len() * 2 {
        let (from, to, count) = pair();
        file.messages.push(Message { from, to, count });
    }
    for _ in 0..ids.len() {
        let (a, b, drag) = pair();
        file.annoyance.push(Drag { a, b, drag });
        let (a, b, drag) = pair();
        file.interference.push(Drag { a, b, drag });
    }
}

fn exchange_cost(rng: &mut Rng, units: &[Unit]) -> ExchangeCost {
    let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let listed = rng.bool();
    for (position, a) in KINDS.iter().enumerate() {
        for b in &KINDS[position..] {
            if listed || rng.bool() {
                kinds.entry((*a).into()).or_default().insert((*b).into(), rng.u64(..12));
            }
        }
    }
    let mut some = |most: u64| if rng.bool() { rng.u64(..most) } else { 0 };
    let (other_numa, other_node, other_zone) = (some(5), some(10), some(10));
    let mut pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for _ in 0..rng.usize(..4) {
        let (a, b) = (rng.usize(..units.len()), rng.usize(..units.len()));
        if a != b {
            pairs.insert((a.min(b), a.max(b)), rng.u64(..30));
        }
    }
    let pair = |((a, b), cost): ((usize, usize), u64)| PairCost {
        a: units[b].id.clone(),
        b: units[a].id.clone(),
        cost,
    };
    ExchangeCost {
        kinds,
        other_kind: (!listed).then(|| rng.u64(..15)),
        other_numa,
        other_node,
        other_zone,
        pairs: pairs.into_iter().map(pair).collect(),
    }
}

/// Up to two shared links from some units to some or all others, with direct connections for some pairs.
pub(crate) fn shared_links(seed: u64, units: &[Unit]) -> Vec<SharedLink> {
    // A separate generator, so that the rest of the snapshot does not depend on links.
    let rng = &mut Rng::with_seed(seed.rotate_left(32));
    let link = |number: usize, rng: &mut Rng| {
        let mut ids: Vec<String> = units.iter().map(|unit| unit.id.clone()).collect();
        rng.shuffle(&mut ids);
        let others = ids.split_off(rng.usize(..=ids.len()));
        let pairs = ids.iter().flat_map(|id| others.iter().map(move |other| (id.clone(), other.clone())));
        let mut direct: Vec<(String, String)> = pairs.collect();
        direct.retain(|_| rng.u8(..4) == 0);
        for (a, b) in &mut direct {
            if rng.bool() {
                std::mem::swap(a, b);
            }
        }
        let mut to = others;
        to.retain(|_| rng.u8(..4) > 0);
        let to = Some(to).filter(|_| rng.bool());
        SharedLink { id: format!("link-{number}"), units: ids, to, direct, capacity: rng.u64(..20) }
    };
    (0..rng.usize(..=2)).map(|number| link(number, rng)).collect()
}

fn constraint(rng: &mut Rng, file: &SnapshotFile) -> Option<Constraint> {
    let unit = file.units[rng.usize(..file.units.len())].clone();
    let actor = file.actors[rng.usize(..file.actors.len())].id.clone();
    let actors: Vec<String> =
        file.actors.iter().filter(|_| rng.u8(..3) > 0).map(|actor| actor.id.clone()).collect();
    let on = [Scope::Unit, Scope::Numa, Scope::Node, Scope::Zone][rng.usize(..4)];
    let places = match rng.u8(..3) {
        0 => Places::Units(vec![unit.id.clone()]),
        1 => Places::Nodes(vec![unit.node.clone()]),
        _ => unit.zone.clone().map_or(Places::Units(vec![unit.id.clone()]), |zone| Places::Zones(vec![zone])),
    };
    Some(match rng.u8(..20) {
        0 | 8 => Constraint::Apart { on, actors, reason: None },
        1 | 9 => Constraint::Together { on, actors, reason: None },
        2 => {
            let taken =
                |other: &Constraint| matches!(other, Constraint::Pin { actor: of, .. } if *of == actor);
            if file.constraints.iter().any(taken) {
                return None;
            }
            Constraint::Pin { actor, unit: unit.id, reason: None }
        }
        3 => Constraint::Only { actors, places, reason: None },
        4 => Constraint::Never { actors, places, except_current: false, reason: None },
        5 => Constraint::Never { actors, places, except_current: true, reason: None },
        6 => Constraint::Prefer { actor, unit: unit.id, weight: rng.u64(..9) },
        10 | 11 => {
            let on = [CapScope::Node, CapScope::Zone, CapScope::All][rng.usize(..3)];
            Constraint::PowerCap { on, max: rng.u64(1..24), reason: None }
        }
        15 | 16 => {
            let resource = ["memory", "cores"][rng.usize(..2)].to_owned();
            let pool = unit.pool.filter(|_| rng.bool());
            let resource = rng.bool().then_some(resource);
            let (max, numa) = (rng.u64(..5), None);
            // `pools` with one pool is equivalent to `pool`.
            let (pool, pools) = if max % 2 == 0 { (pool, None) } else { (None, pool.map(|pool| vec![pool])) };
            let weight = |unit: &placement::file::Unit| (unit.id.clone(), max % 3);
            let units = (max == 4).then(|| file.units.iter().map(weight).collect());
            Constraint::Quota { actors, pool, pools, numa, units, resource, max, reason: None }
        }
        17..=19 => peers(rng, file, actors),
        _ => Constraint::Reserve { unit: unit.id, resource: "memory".into(), quantity: rng.u64(2..9) },
    })
}

/// A `peers` constraint with domains of one or two nodes; domains may be empty, and nodes may be in no domain. Some actors take part
/// on some kinds of units only.
fn peers(rng: &mut Rng, file: &SnapshotFile, actors: Vec<String>) -> Constraint {
    let mut peers = actors.clone();
    if rng.u8(..3) == 0 {
        peers = file.actors.iter().filter(|_| rng.bool()).map(|actor| actor.id.clone()).collect();
    }
    let nodes: BTreeSet<&String> = file.units.iter().map(|unit| &unit.node).collect();
    let mut domains: Vec<Domain> = Vec::new();
    for node in nodes {
        let (is_outside, joins) = (rng.u8(..8) == 0, rng.u8(..3) == 0);
        match domains.last_mut() {
            _ if is_outside => {}
            Some(last) if joins => last.nodes.push(node.clone()),
            _ => domains.push(Domain { nodes: vec![node.clone()], others: rng.u64(..8).saturating_sub(5) }),
        }
    }
    if rng.u8(..6) == 0 {
        domains.push(Domain::default());
    }
    let (max, skew, join) = match rng.u8(..4) {
        0 => (Some(rng.u64(..2)), None, None),
        1 => (None, Some(rng.u64(..3)), None),
        2 => (None, None, Some(Join::Peer)),
        _ => (None, None, Some(Join::First)),
    };
    let mut kinds = |ids: &[String]| {
        if rng.u8(..3) > 0 {
            return None;
        }
        let mut of = BTreeMap::new();
        for id in ids {
            if rng.bool() {
                continue;
            }
            of.insert(
                id.clone(),
                KINDS.iter().filter(|_| rng.bool()).map(|kind| (*kind).to_owned()).collect(),
            );
        }
        Some(of)
    };
    let (actor_kinds, peer_kinds) = (kinds(&actors), kinds(&peers));
    Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, max, skew, join, reason: None }
}

/// Sometimes the default or `adaptive`; otherwise some criteria in random order, some of them summed.
fn objectives(rng: &mut Rng) -> Levels {
    use Criterion::{
        Annoyance, Bottleneck, Busiest, Communication, Congestion, Consolidate, Energy, Interference,
        Latency, Licence, Migration, Overload, Policy, Spread,
    };
    match rng.u8(..16) {
        0 => return Levels::default(),
        1 => return Levels::Adaptive,
        _ => {}
    }
    let mut criteria: Vec<Criterion> = Criterion::named().collect();
    rng.shuffle(&mut criteria);
    // Rarely decisive criteria often come first, followed by a conflicting one.
    if rng.u8(..8) > 0 {
        let [first, second] = [
            [Consolidate, Bottleneck],
            [Spread, Communication],
            [Latency, Spread],
            [Annoyance, Interference],
            [Energy, Overload],
            [Spread, Bottleneck],
            [Migration, Bottleneck],
            [Policy, Annoyance],
            [Migration, Overload],
            [Interference, Consolidate],
            [Policy, Communication],
            [Licence, Overload],
            [Busiest, Annoyance],
            [Congestion, Communication],
            [Congestion, Bottleneck],
        ][rng.usize(..15)];
        criteria.retain(|criterion| ![first, second].contains(criterion));
        criteria.splice(0..0, [first, second]);
    }
    criteria.truncate(rng.usize(1..=7));
    let mut levels: Vec<Vec<Criterion>> = Vec::new();
    for criterion in criteria {
        match levels.last_mut() {
            Some(level) if rng.u8(..3) == 0 => level.push(criterion),
            _ => levels.push(vec![criterion]),
        }
    }
    Levels::InOrder(levels)
}
