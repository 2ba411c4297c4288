//! Naive implementations of the definitions, by position: all assignments, their feasibility and their cost. They share
//! only the types of the snapshot file with the crates under test.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{
    Actor, CapScope, Constraint, Join, Levels, Message, Places, Scope, SharedLink, SnapshotFile, Unit,
};
use placement::ix::UnitIx;
use placement::{Assignment, Criterion};

use crate::limits::{self, ExceededLimits};
use crate::naive::goes_round;
pub use crate::positions::Assigned;
use crate::positions::{load, on, position, same, watts};

/// An assignment as unit positions.
pub fn plain(assignment: &Assignment) -> Assigned {
    assignment.iter().map(|place| place.map(UnitIx::at)).collect()
}

/// The smallest vector of a feasible assignment, and that assignment. The vector begins with the unplaced actors.
pub fn optimum(file: &SnapshotFile) -> (Vec<i64>, Assigned) {
    let mut best: Option<(Vec<i64>, Assigned)> = None;
    let passed = ExceededLimits::now(file);
    every(file, &mut |places| {
        if feasible_beside(file, passed.as_ref(), places) {
            let vector = vector_beside(file, passed.as_ref(), places);
            if best.as_ref().is_none_or(|(least, _)| vector < *least) {
                best = Some((vector, places.clone()));
            }
        }
    });
    best.unwrap()
}

/// Visits every assignment in which fixed actors stay and the others are on units of a kind that they run on.
pub fn every(file: &SnapshotFile, visit: &mut dyn FnMut(&Assigned)) {
    let home = |actor: &Actor| file.units.iter().position(|unit| Some(&unit.id) == actor.current.as_ref());
    let choices: Vec<Vec<Option<usize>>> = file
        .actors
        .iter()
        .map(|actor| {
            let runs = |unit: &usize| actor.runs_on.contains_key(&file.units[*unit].kind);
            let anywhere = (0..file.units.len()).filter(runs).map(Some).chain([None]);
            if actor.fixed { vec![home(actor)] } else { anywhere.collect() }
        })
        .collect();
    let mut turn = vec![0; choices.len()];
    loop {
        visit(&turn.iter().zip(&choices).map(|(&at, units)| units[at]).collect());
        let Some(next) = (0..turn.len()).find(|&actor| turn[actor] + 1 < choices[actor].len()) else {
            return;
        };
        turn[next] += 1;
        turn[..next].fill(0);
    }
}

/// Unplaced actors, then grandfathered ones if there can be any, then the sum of each level.
pub fn vector(file: &SnapshotFile, places: &Assigned) -> Vec<i64> {
    vector_beside(file, ExceededLimits::now(file).as_ref(), places)
}

/// The same, given the amounts by which the current placement exceeds limits.
pub fn vector_beside(file: &SnapshotFile, passed: Option<&ExceededLimits>, places: &Assigned) -> Vec<i64> {
    let unplaced = places.iter().filter(|place| place.is_none()).count();
    let mut levels = match &file.objectives {
        Levels::InOrder(levels) => levels.clone(),
        Levels::Adaptive => adaptive(file),
    };
    let prefers = file.constraints.iter().any(|constraint| matches!(constraint, Constraint::Prefer { .. }));
    if prefers && !levels.iter().flatten().any(|criterion| *criterion == Criterion::Policy) {
        levels.push(vec![Criterion::Policy]);
    }
    let sums = levels.iter().map(|level| level.iter().map(|criterion| value(file, places, *criterion)).sum());
    let excused =
        passed.map(|passed| limits::excused(file, passed, places).map_or(0, |excused| excused.len()));
    let counts = std::iter::once(unplaced).chain(excused).map(|count| i64::try_from(count).unwrap());
    counts.chain(sums).collect()
}

fn value(file: &SnapshotFile, places: &Assigned, criterion: Criterion) -> i64 {
    let at = |id: &str| places[position(file, id)];
    let both = |a: &str, b: &str| Some((at(a)?, at(b)?));
    let apart = |a: &str, b: &str| both(a, b).filter(|(u, v)| u != v);
    let sum = |values: &mut dyn Iterator<Item = u64>| i64::try_from(values.sum::<u64>()).unwrap();
    match criterion {
        // Files have no ground rules, and their objectives cannot name it.
        Criterion::Excused => 0,
        Criterion::Overload => {
            let all = overloads(file, places);
            all.iter().max().unwrap_or(&0) - all.iter().min().unwrap_or(&0)
        }
        Criterion::Communication => sum(&mut file.messages.iter().map(|message| {
            apart(&message.from, &message.to).map_or(0, |(u, v)| message.count * exchange(file, u, v))
        })),
        Criterion::Annoyance => sum(&mut file
            .annoyance
            .iter()
            .filter(|pair| apart(&pair.a, &pair.b).is_some())
            .map(|pair| pair.drag)),
        Criterion::Interference => sum(&mut file
            .interference
            .iter()
            .filter(|pair| pair.a != pair.b && both(&pair.a, &pair.b).is_some_and(|(u, v)| u == v))
            .map(|pair| pair.drag)),
        Criterion::Migration => sum(&mut file.actors.iter().zip(places).map(|(actor, place)| {
            let stays = place.map(|unit| &file.units[unit].id) == actor.current.as_ref();
            if actor.current.is_none() || stays { 0 } else { actor.move_cost }
        })),
        Criterion::Policy => sum(&mut file.constraints.iter().map(|constraint| match constraint {
            Constraint::Prefer { actor, unit, weight } => {
                at(actor).map_or(0, |place| if file.units[place].id == *unit { 0 } else { *weight })
            }
            _ => 0,
        })),
        Criterion::Bottleneck => {
            let full = |unit: usize| {
                let capacity = i64::try_from(file.units[unit].capacity).unwrap();
                load(file, places, unit) * 1000 / capacity
                    + i64::from(load(file, places, unit) * 1000 % capacity > 0)
            };
            (0..file.units.len()).map(full).max().unwrap_or(0)
        }
        Criterion::Busiest => {
            let mut most = 0;
            for (unit, given) in file.units.iter().enumerate() {
                let mut busy = load(file, places, unit);
                for message in &file.messages {
                    if let (Some(u), Some(v)) = (at(&message.from), at(&message.to))
                        && u == unit
                        && v != unit
                    {
                        busy += i64::try_from(message.count * exchange(file, u, v)).unwrap();
                    }
                }
                let capacity = i64::try_from(given.capacity).unwrap();
                most = most.max(busy * 1000 / capacity + i64::from(busy * 1000 % capacity > 0));
            }
            most
        }
        Criterion::Consolidate => {
            let used = (0..file.units.len()).filter(|unit| places.contains(&Some(*unit)));
            i64::try_from(used.count()).unwrap()
        }
        Criterion::Energy => (0..file.units.len()).map(|unit| watts(file, places, unit)).sum(),
        Criterion::Licence => {
            let hosts = |id: &String| places.iter().flatten().any(|unit| file.units[*unit].node == *id);
            sum(&mut file.nodes.iter().filter(|node| hosts(&node.id)).filter_map(|node| node.licence_cost))
        }
        Criterion::Congestion => file.shared_links.iter().map(|link| congestion(file, places, link)).sum(),
        Criterion::Spread => {
            let mut groups: BTreeMap<&String, Vec<&Unit>> = BTreeMap::new();
            for (actor, place) in file.actors.iter().zip(places) {
                if let (Some(group), Some(unit)) = (&actor.group, place) {
                    groups.entry(group).or_default().push(&file.units[*unit]);
                }
            }
            let most = |units: &Vec<&Unit>| {
                let with = |u: &&Unit| units.iter().filter(|v| same(Scope::Zone, u, v)).count();
                i64::try_from(units.iter().map(with).max().unwrap_or(0)).unwrap()
            };
            groups.values().map(most).sum()
        }
        Criterion::Latency => {
            file.actors.iter().map(|actor| costliest_from(file, places, &actor.id)).max().unwrap_or(0)
        }
    }
}

/// The messages above the capacity of a shared link, in both directions.
fn congestion(file: &SnapshotFile, places: &Assigned, link: &SharedLink) -> i64 {
    let (mut out, mut into) = (0, 0);
    for message in &file.messages {
        let [from, to] = [&message.from, &message.to].map(|id| places[position(file, id)]);
        let (Some(from), Some(to)) = (from, to) else { continue };
        let [from, to] = [from, to].map(|unit| &file.units[unit].id);
        let takes = |a: &String, b: &String| {
            let is_other = link.to.as_ref().map_or(!link.units.contains(b), |to| to.contains(b));
            link.units.contains(a) && is_other
        };
        let pairs = [(from.clone(), to.clone()), (to.clone(), from.clone())];
        if pairs.iter().any(|pair| link.direct.contains(pair)) {
            continue;
        }
        out += if takes(from, to) { message.count } else { 0 };
        into += if takes(to, from) { message.count } else { 0 };
    }
    i64::try_from(out.saturating_sub(link.capacity) + into.saturating_sub(link.capacity)).unwrap()
}

/// Messages or drags are relevant if their sum over pairs with a movable actor is at least 1000 per squared number of
/// movable actors.
fn adaptive(file: &SnapshotFile) -> Vec<Vec<Criterion>> {
    use Criterion::{Annoyance, Communication, Migration, Overload};
    let fixed = |id: &str| file.actors[position(file, id)].fixed;
    let free = file.actors.iter().filter(|actor| !actor.fixed).count() as u64;
    let relevant = |sum: u64| free > 0 && sum >= 1000 * free * free;
    let open = |a: &str, b: &str| a != b && !(fixed(a) && fixed(b));
    let messages = file.messages.iter().filter(|m| open(&m.from, &m.to)).map(|m| m.count);
    let drags = file.annoyance.iter().filter(|pair| open(&pair.a, &pair.b)).map(|pair| pair.drag);
    match (relevant(messages.sum()), relevant(drags.sum())) {
        (true, false) => vec![vec![Overload], vec![Communication, Migration], vec![Annoyance]],
        (false, true) => vec![vec![Overload], vec![Annoyance], vec![Communication, Migration]],
        _ => vec![vec![Overload], vec![Communication, Migration, Annoyance]],
    }
}

/// The cost of the most expensive path of messages that begins at an actor.
fn costliest_from(file: &SnapshotFile, places: &Assigned, from: &str) -> i64 {
    let place = |id: &str| places[position(file, id)];
    let counts = |m: &&Message| m.from == from && m.to != from && m.count > 0 && !goes_round(file, m);
    let steps = file.messages.iter().filter(counts);
    let beyond = steps.filter_map(|message| {
        let (u, v) = (place(from)?, place(&message.to)?);
        let step = if u == v { 0 } else { i64::try_from(exchange(file, u, v)).unwrap() };
        Some(step + costliest_from(file, places, &message.to))
    });
    beyond.max().unwrap_or(0)
}

/// Overload by unit.
pub fn overloads(file: &SnapshotFile, places: &Assigned) -> Vec<i64> {
    let over =
        |unit: usize| (load(file, places, unit) - i64::try_from(file.units[unit].capacity).unwrap()).max(0);
    (0..file.units.len()).map(over).collect()
}

fn exchange(file: &SnapshotFile, u: usize, v: usize) -> u64 {
    let (u, v) = (&file.units[u], &file.units[v]);
    let cost = &file.exchange_cost;
    let is_pair = |a: &String, b: &String| (a, b) == (&u.id, &v.id) || (a, b) == (&v.id, &u.id);
    if let Some(pair) = cost.pairs.iter().find(|pair| is_pair(&pair.a, &pair.b)) {
        return pair.cost;
    }
    let listed = |a: &Unit, b: &Unit| cost.kinds.get(&a.kind)?.get(&b.kind).copied();
    let unlisted = || if u.kind == v.kind { 1 } else { cost.other_kind.unwrap() };
    let kinds = listed(u, v).or_else(|| listed(v, u)).unwrap_or_else(unlisted);
    let numa = if u.node == v.node && !same(Scope::Numa, u, v) { cost.other_numa } else { 0 };
    let node = if u.node == v.node { 0 } else { cost.other_node };
    let zone = if u.node == v.node || same(Scope::Zone, u, v) { 0 } else { cost.other_zone };
    kinds + numa + node + zone
}

/// Whether no movable actor takes part in a violation that is not grandfathered.
pub fn feasible(file: &SnapshotFile, places: &Assigned) -> bool {
    feasible_beside(file, ExceededLimits::now(file).as_ref(), places)
}

/// The same, given the amounts by which the current placement exceeds limits.
pub fn feasible_beside(file: &SnapshotFile, passed: Option<&ExceededLimits>, places: &Assigned) -> bool {
    if let Some(passed) = passed {
        // Violations of these constraints are never grandfathered.
        let binds = |given: &&Constraint| {
            matches!(
                given,
                Constraint::Pin { .. }
                    | Constraint::Only { .. }
                    | Constraint::Never { .. }
                    | Constraint::Peers { .. }
            )
        };
        return file.constraints.iter().filter(binds).all(|given| is_obeyed(file, places, given))
            && limits::excused(file, passed, places).is_some();
    }
    let units = (0..file.units.len()).all(|unit| unit_is_feasible(file, places, unit));
    let mut nodes: Vec<&String> = file.units.iter().map(|unit| &unit.node).collect();
    nodes.dedup();
    units
        && nodes.into_iter().all(|node| node_is_feasible(file, places, node))
        && file.constraints.iter().all(|constraint| is_obeyed(file, places, constraint))
}

fn unit_is_feasible(file: &SnapshotFile, places: &Assigned, unit: usize) -> bool {
    let given = &file.units[unit];
    let here: Vec<&Actor> = on(file, places, unit).collect();
    let fits = given.slots.is_none_or(|slots| here.len() as u64 <= slots);
    let mut provides = given.provides.iter().map(|(name, there)| (name, i128::from(*there))).collect();
    for constraint in &file.constraints {
        if let Constraint::Reserve { unit, resource, quantity } = constraint
            && *unit == given.id
        {
            *BTreeMap::entry(&mut provides, resource).or_default() -= i128::from(*quantity);
        }
    }
    let needs = |actor: &Actor| {
        let of_kind = &actor.runs_on[&given.kind].requires;
        actor.requires.iter().chain(of_kind).map(|(name, need)| (name.clone(), *need)).collect()
    };
    (fits || here.iter().all(|actor| actor.fixed)) && is_enough(&provides, &here, needs)
}

fn node_is_feasible(file: &SnapshotFile, places: &Assigned, node: &str) -> bool {
    let given = file.nodes.iter().find(|given| given.id == node);
    let provides = given.map(|given| given.provides.iter().map(|(name, there)| (name, i128::from(*there))));
    let unit = |actor: &Actor| places[position(file, &actor.id)].map(|unit| &file.units[unit]);
    let here: Vec<&Actor> =
        file.actors.iter().filter(|actor| unit(actor).is_some_and(|unit| unit.node == node)).collect();
    let needs = |actor: &Actor| {
        let kind = &unit(actor).unwrap().kind;
        actor.runs_on[kind].node_requires.iter().map(|(name, need)| (name.clone(), *need)).collect()
    };
    is_enough(&provides.into_iter().flatten().collect(), &here, needs)
}

fn is_enough(
    provides: &BTreeMap<&String, i128>,
    here: &[&Actor],
    needs: impl Fn(&Actor) -> Vec<(String, u64)>,
) -> bool {
    let mut wanted: BTreeMap<String, (i128, bool)> = BTreeMap::new();
    for actor in here {
        for (name, need) in needs(actor).into_iter().filter(|(_, need)| *need > 0) {
            let (sum, takes_part) = wanted.entry(name).or_default();
            *sum += i128::from(need);
            *takes_part |= !actor.fixed;
        }
    }
    wanted.iter().all(|(name, (sum, takes_part))| {
        !takes_part || *sum <= provides.get(name).copied().unwrap_or_default()
    })
}

fn is_obeyed(file: &SnapshotFile, places: &Assigned, constraint: &Constraint) -> bool {
    let fixed = |id: &str| file.actors[position(file, id)].fixed;
    let at = |id: &str| places[position(file, id)].map(|unit| &file.units[unit]);
    let inside = |places: &Places, unit: &Unit| match places {
        Places::Units(units) => units.contains(&unit.id),
        Places::Nodes(nodes) => nodes.contains(&unit.node),
        Places::Zones(zones) => unit.zone.as_ref().is_some_and(|zone| zones.contains(zone)),
    };
    let pairwise = |actors: &[String], fine: &dyn Fn(&Unit, &Unit) -> bool| {
        actors.iter().all(|a| {
            actors.iter().filter(|b| a != *b && !(fixed(a) && fixed(b))).all(|b| match (at(a), at(b)) {
                (Some(u), Some(v)) => fine(u, v),
                _ => true,
            })
        })
    };
    let each = |actors: &[String], fine: &dyn Fn(&str, &Unit) -> bool| {
        actors.iter().all(|actor| fixed(actor) || at(actor).is_none_or(|unit| fine(actor, unit)))
    };
    match constraint {
        Constraint::Apart { on, actors, .. } => pairwise(actors, &|u, v| !same(*on, u, v)),
        Constraint::Together { on, actors, .. } => pairwise(actors, &|u, v| same(*on, u, v)),
        Constraint::Pin { actor, unit, .. } => {
            each(std::slice::from_ref(actor), &|_, there| there.id == *unit)
        }
        Constraint::Only { actors, places, .. } => each(actors, &|_, there| inside(places, there)),
        Constraint::Never { actors, places, except_current, .. } => each(actors, &|actor, there| {
            let running = file.actors[position(file, actor)].running();
            !inside(places, there) || (*except_current && running == Some(there.id.as_str()))
        }),
        Constraint::PowerCap { on, max, .. } => {
            let alone: Assigned =
                file.actors.iter().zip(places).map(|(actor, place)| place.filter(|_| actor.fixed)).collect();
            file.units.iter().all(|one| {
                let in_place = |unit: &usize| match on {
                    CapScope::Node => file.units[*unit].node == one.node,
                    CapScope::Zone => same(Scope::Zone, &file.units[*unit], one),
                    CapScope::All => true,
                };
                let drawn = |places: &Assigned| -> i64 {
                    (0..file.units.len()).filter(in_place).map(|unit| watts(file, places, unit)).sum()
                };
                drawn(places) <= i64::try_from(*max).unwrap() || drawn(places) == drawn(&alone)
            })
        }
        Constraint::Quota { actors, pool, pools, numa, units, resource, max, .. } => {
            let mut used = [0_u64; 2];
            for id in actors {
                let (actor, Some(unit)) = (&file.actors[position(file, id)], at(id)) else { continue };
                if !actor.runs_on.contains_key(&unit.kind) || (pool.is_some() && *pool != unit.pool) {
                    continue;
                }
                let of_pools =
                    pools.as_ref().is_none_or(|of| unit.pool.as_ref().is_some_and(|pool| of.contains(pool)));
                if !of_pools || (numa.is_some() && *numa != unit.numa) {
                    continue;
                }
                let mut amount = 1;
                if let Some(resource) = resource {
                    let way = &actor.runs_on[&unit.kind];
                    let of = |map: &BTreeMap<String, u64>| map.get(resource).copied().unwrap_or(0);
                    amount = of(&actor.requires) + of(&way.requires) + of(&way.node_requires);
                }
                if let Some(weights) = units {
                    amount *= weights.get(&unit.id).copied().unwrap_or(0);
                }
                used[usize::from(fixed(id))] += amount;
            }
            used[0] == 0 || used[0] + used[1] <= *max
        }
        Constraint::Peers { actors, peers, domains, actor_kinds, peer_kinds, max, skew, join, .. } => {
            let mut counts: Vec<u64> = domains.iter().map(|domain| domain.others).collect();
            let (mut seeds, mut arrivals) = (counts.clone(), vec![false; domains.len()]);
            let mut bound = Vec::new();
            for (actor, unit) in file.actors.iter().zip(places) {
                let Some(unit) = unit.map(|unit| &file.units[unit]) else { continue };
                let Some(domain) = domains.iter().position(|it| it.nodes.contains(&unit.node)) else {
                    continue;
                };
                let [is_bound, is_peer] = [(actors, actor_kinds), (peers, peer_kinds)]
                    .map(|(ids, kinds)| takes_part(ids, kinds.as_ref(), actor, unit));
                let is_new = !actor.fixed && actor.running() != Some(unit.id.as_str());
                counts[domain] += u64::from(is_peer);
                seeds[domain] += u64::from(is_peer && !(is_bound && is_new));
                arrivals[domain] |= is_new && (is_bound || is_peer);
                if is_bound {
                    bound.push((domain, u64::from(is_peer), is_new));
                }
            }
            let fewest = counts.iter().min().copied().unwrap_or(0);
            let new: BTreeSet<usize> = bound.iter().filter(|it| it.2).map(|(domain, ..)| *domain).collect();
            let is_first = *join == Some(Join::First) && seeds.iter().all(|seeds| *seeds == 0);
            bound.iter().all(|&(domain, own, is_new)| match (max, skew) {
                (Some(max), _) => !arrivals[domain] || counts[domain] - own <= *max,
                (_, Some(skew)) => !is_new || counts[domain] - fewest <= *skew,
                _ if is_first => new.len() <= 1,
                _ => !is_new || seeds[domain] > 0,
            })
        }
        Constraint::Avoid { .. } | Constraint::Prefer { .. } | Constraint::Reserve { .. } => true,
    }
}

/// Whether an actor is listed, and the unit is of one of its kinds.
fn takes_part(
    ids: &[String],
    kinds: Option<&BTreeMap<String, Vec<String>>>,
    actor: &Actor,
    unit: &Unit,
) -> bool {
    let kinds = kinds.and_then(|kinds| kinds.get(&actor.id));
    ids.contains(&actor.id) && kinds.is_none_or(|kinds| kinds.contains(&unit.kind))
}
